"""Words that decide nothing: in comments, docstrings, messages and identifiers. Only listed with --show-kept."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterable
from io import BytesIO

from precpatch.languages.mention import Mention, place
from precpatch.languages.python.find import Finder, named_value
from precpatch.languages.python.roles import Climb
from precpatch.languages.source import SourceFile

_NAMES = re.compile(r"(?i)(?<![A-Za-z0-9])(bfloat16|bf16|flash_attention_[234])(?![A-Za-z0-9])")

Span = tuple[int, int]
"""Character indexes of the first character and after the last."""


def leftover_words(finder: Finder, mentions: Iterable[Mention]) -> list[Mention]:
    """A mention for each name that none of ``mentions`` covers."""
    source = finder.source
    taken = [(mention.start, mention.end) for mention in mentions]
    strings = _strings(finder)
    comments = _comments(source)
    words = []
    for match in _NAMES.finditer(source.text):
        if not _inside(source.offset(match.start()), taken):
            words.append(_mention(source, match, _role(match.start(), strings, comments)))
    return words


def _role(at: int, strings: list[tuple[Span, str]], comments: list[Span]) -> str:
    for span, role in strings:
        if span[0] <= at < span[1]:
            return role
    return "comment" if _inside(at, comments) else "key"


def _strings(finder: Finder) -> list[tuple[Span, str]]:
    """The spans of the string literals, with what they are for."""
    found = []
    for node, ancestors in finder.nodes:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            role = Climb(finder.names, node, ancestors).run().name
            span = finder.tree.start(node), finder.tree.end(node)
            found.append((span, role if role in {"docstring", "message"} else "text"))
    return found


def _comments(source: SourceFile) -> list[Span]:
    readline = BytesIO(source.text.encode("utf-8", "surrogatepass")).readline
    spans = []
    try:
        for token in tokenize.tokenize(readline):
            if token.type == tokenize.COMMENT:
                first = source.line_starts[token.start[0] - 1] + token.start[1]
                spans.append((first, first + len(token.string)))
    except (tokenize.TokenError, SyntaxError):
        # The tokenizer refuses some files that the parser takes; the words after that place count as names.
        return spans
    return spans


def _inside(at: int, spans: Iterable[Span]) -> bool:
    return any(first <= at < last for first, last in spans)


def _mention(source: SourceFile, match: re.Match[str], role: str) -> Mention:
    kind, value, spelling = named_value(match[1]) or ("dtype", "bfloat16", "long")
    return Mention(
        language="python",
        kind=kind,
        value=value,
        spelling=spelling,
        role=role,
        **place(source, match.start(1), match.end(1)),
    )
