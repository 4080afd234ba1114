"""Rewrites of Python that change more than a name: imports, lists that grow, literals of several parts.

Names and words are spliced by their place, see ``spans``. LibCST is imported for the rarest of them only: a scan that
finds none never pays for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

_NAME = re.compile(r"[^\W\d]\w*")
_FROM = re.compile(r"from(?:\s|\\\r?\n)+(?P<module>[^\s\\]+)(?:\s|\\\r?\n)+import\b")
_COMMENT = re.compile(r"[ \t]*\#[^\n\r]*")
_SIGN = re.compile(r"\#[^\n\r]*|[(),]")
"""What stands between the elements of a list, blanks aside; a comment is one sign, whatever it holds."""

Span = tuple[int, int]
"""Index of the first character and after the last one."""


def replace_in_literals(expression: str, pattern: re.Pattern[str], new: str) -> str:
    """Replace the last match of ``pattern`` in a string literal of several parts; comments between them stay.

    Raises:
        ValueError: none of the parts holds it.
    """
    import libcst as cst

    class Replace(cst.CSTTransformer):
        done = False

        def _sub(self, text: str) -> str:
            found = list(pattern.finditer(text))
            if self.done or not found:
                return text
            self.done = True
            return text[: found[-1].start()] + new + text[found[-1].end() :]

        def leave_SimpleString(  # noqa: N802
            self, original_node: cst.SimpleString, updated_node: cst.SimpleString
        ) -> cst.SimpleString:
            return updated_node.with_changes(value=self._sub(updated_node.value))

        def leave_FormattedStringText(  # noqa: N802
            self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
        ) -> cst.FormattedStringText:
            return updated_node.with_changes(value=self._sub(updated_node.value))

    node, unwrap = _parse(expression)
    replace = Replace()
    changed = node.visit(replace)
    if not replace.done or not isinstance(changed, cst.BaseExpression):
        raise ValueError(f"the word does not stand in one piece in {expression!r}")
    return unwrap(changed)


def replace_import(alias: str, old: str, new: str) -> str:
    """``bfloat16 as bf`` -> ``float32 as bf``; ``bfloat16`` -> ``float32``.

    Raises:
        ValueError: it is not the name ``old`` that is imported.
    """
    match = _NAME.match(alias)
    if match is None or match[0] != old:
        raise ValueError(f"not an import of {old}: {alias!r}")
    return new + alias[match.end() :]


def replace_module(statement: str, module: str) -> str:
    """``from flash_attn.bert_padding import unpad_input`` -> ``from MODULE import unpad_input``.

    Raises:
        ValueError: the statement is no import from a module, or ``module`` is the name of none.
    """
    match = _FROM.match(statement)
    if match is None or not _is_import(statement):
        raise ValueError(f"not an import: {statement!r}")
    changed = statement[: match.start("module")] + module + statement[match.end("module") :]
    if not _is_import(changed):
        raise ValueError(f"not a module: {module!r}")
    return changed


def _is_import(statement: str) -> bool:
    try:
        return [type(each) for each in ast.parse(statement).body] == [ast.ImportFrom]
    except (SyntaxError, ValueError):
        return False


def extend_container(text: str, elements: Sequence[Span], new: str) -> str:
    """``["bfloat16", "float16"]`` -> ``["bfloat16", "float16", "float32"]``: one more element.

    It is set off from the last one as that is from the one before, comments left out, and keeps the comma at the end
    where there is one.

    Args:
        text: a list, tuple or set.
        elements: where its elements stand in the text, at least one; the brackets around one may be left out.
        new: the element to add.
    """
    end = elements[-1][1]
    if len(elements) > 1:
        start, stop = _between(text, elements[-2][1], elements[-1][0])
        between = _COMMENT.sub("", text[start:stop])
        opened = sum(match[0] == "(" for match in _SIGN.finditer(text, stop, elements[-1][0]))
        closed = [match.end() for match in _SIGN.finditer(text, end) if match[0] == ")"]
        end = closed[opened - 1] if opened else end
        return text[:end] + between + new + text[end:]
    for match in _SIGN.finditer(text, end):
        if match[0] == ",":
            return f"{text[: match.end()]} {new}{text[match.end() :]}"
        end = match.end() if match[0] == ")" else end
    return f"{text[:end]}, {new}{text[end:]}"


def _between(text: str, end: int, start: int) -> Span:
    """The comma between two elements with all around it, from the brackets of one to those of the other."""
    signs = list(_SIGN.finditer(text, end, start))
    closed = [match.end() for match in signs if match[0] == ")"]
    opened = [match.start() for match in signs if match[0] == "("]
    return max(closed, default=end), min(opened, default=start)


def _parse(expression: str) -> tuple[cst.BaseExpression, Callable[[cst.BaseExpression], str]]:
    """Parse an expression, over several lines too; the second value writes a changed one back."""
    import libcst as cst

    many_lines = "\n" in expression or "\r" in expression
    newline = "\r\n" if "\r\n" in expression else "\n" if "\n" in expression else "\r"
    try:
        outer = cst.parse_module(f"({newline}{expression}{newline})" if many_lines else expression)
    except cst.ParserSyntaxError as error:
        raise ValueError(f"not an expression: {expression!r}") from error
    statement = outer.body[0]
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Expr):
        raise ValueError(f"not an expression: {expression!r}")
    node = statement.body[0].value

    def unwrap(changed: cst.BaseExpression) -> str:
        code = cst.Module([], default_newline=newline).code_for_node(changed)
        return code[1 + len(newline) : -1 - len(newline)] if many_lines else code

    return node, unwrap
