"""The second reader: syntax newer than the running Python, put so that the standard parser takes it.

LibCST reads the file. Where it finds syntax that an older parser refuses (type parameters, `type X = ...`, quotes
inside an f-string, `except*`), the text is replaced by older syntax of the same length, so that every position stays;
edits are made in the text as it was. What means a value is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from precpatch.languages.source import SourceFile

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeRange

Replacement = tuple[int, int, str]
"""Index of the first character and after the last one, and text of the same length."""

_STRING = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_BRACKET = re.compile(r"[(\[{]|[)\]}]")
_LINK = re.compile(r"[.(\[+*/~-]|\b(?:and|await|if|lambda|not|or)\b")
_ELIF = re.compile(r"(?m)^[ \t]*elif\b")

_MOST_BRACKETS = 200
"""Python itself takes no more brackets inside each other."""

_MOST_LINKS = 1000
"""A chain of more operators, names and calls than this is deeper than any parser here follows."""


def as_older(source: SourceFile) -> str | None:
    """The text of the file in older syntax, character for character; None where LibCST cannot read it either."""
    if _is_too_deep(source.text):
        return None
    import libcst as cst
    from libcst.metadata import MetadataWrapper, PositionProvider

    try:
        wrapper = MetadataWrapper(cst.parse_module(source.text), unsafe_skip_copy=True)
        positions = wrapper.resolve(PositionProvider)
    except (cst.ParserSyntaxError, RecursionError, ValueError):
        return None
    pieces, done = [], 0
    for start, end, new in sorted(_replacements(source, positions)):
        if start < done:
            continue  # inside one that is replaced already
        pieces += [source.text[done:start], new]
        done = end
    return "".join((*pieces, source.text[done:]))


def _is_too_deep(text: str) -> bool:
    """Whether an expression may be so deep that LibCST, which is native code, ends the process; rather once too often.

    Strings over several lines count as code.
    """
    bare = _STRING.sub("", text)
    depth = 0
    for bracket in _BRACKET.finditer(bare):
        depth = depth + 1 if bracket[0] in "([{" else max(depth - 1, 0)
        if depth > _MOST_BRACKETS:
            return True
    pieces = re.split(r"[,;\n]", bare)
    if any(len(piece) > _MOST_LINKS and len(_LINK.findall(piece)) > _MOST_LINKS for piece in pieces):
        return True
    return len(_ELIF.findall(bare)) > _MOST_LINKS


def _replacements(source: SourceFile, positions: object) -> Iterator[Replacement]:
    import libcst as cst

    found: dict[cst.CSTNode, CodeRange] = dict(positions)  # type: ignore[call-overload]
    for node, place in found.items():
        start = source.line_starts[place.start.line - 1] + place.start.column
        end = source.line_starts[place.end.line - 1] + place.end.column
        text = source.text[start:end]
        if isinstance(node, cst.TypeParameters):
            yield start, end, _blank(text)
        elif isinstance(node, cst.TypeAlias):
            head = text.index(node.name.value, len("type")) + len(node.name.value)
            yield start, start + head, node.name.value.ljust(head)
        elif isinstance(node, cst.ExceptStarHandler):
            star = text.index("*")
            yield start + star, start + star + 1, " "
        elif isinstance(node, cst.FormattedString):
            yield start, end, _with_other_quotes(node, text)
        elif type(node).__name__ == "TemplatedString":
            yield start, end, "f" + text[1:] if text[:1] in "tT" else _plain(text)


def _with_other_quotes(node: cst.FormattedString, text: str) -> str:
    """An f-string whose fields hold other quotes than itself; a plain string where that is not enough."""
    import libcst as cst

    whole = cst.Module([])
    fields = [whole.code_for_node(part) for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
    quote, marks = node.quote, "\\\n\r#"
    if not any(quote in field or not set(marks).isdisjoint(field) for field in fields):
        return text
    other = "'" if quote == '"' else '"'
    inner = text[len(node.start) : -len(quote)]
    if len(quote) == 3 or other in inner or any(not set(marks).isdisjoint(field) for field in fields):
        return _plain(text)
    return f"{text[: len(node.start)]}{inner.replace(quote, other)}{quote}"


def _plain(text: str) -> str:
    """A plain string of the same length and lines."""
    if "\n" in text or "\r" in text:
        return f'"""{_blank(text[3:-3])}"""' if len(text) >= 6 else text
    return f'"{"_" * (len(text) - 2)}"'


def _blank(text: str) -> str:
    return "".join(character if character in "\r\n" else " " for character in text)
