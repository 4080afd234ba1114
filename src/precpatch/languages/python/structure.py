"""Rewrites of Python that change more than a name: imports, and lists that grow. LibCST makes them.

LibCST is imported when the first such rewrite is asked for: a scan that finds none never pays for it. Names and words
are spliced by their place, see ``spans``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst


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
    """``bfloat16 as bf`` -> ``float32 as bf``; ``bfloat16`` -> ``float32``."""
    import libcst as cst

    statement = cst.ensure_type(cst.parse_statement(f"from _ import {alias}"), cst.SimpleStatementLine)
    imported = cst.ensure_type(statement.body[0], cst.ImportFrom)
    if isinstance(imported.names, cst.ImportStar):
        raise ValueError(f"not an imported name: {alias!r}")
    name = imported.names[0]
    changed = name.with_changes(name=cst.Name(new)) if name.evaluated_name == old else name
    return cst.Module([]).code_for_node(imported.with_changes(names=[changed])).partition("import ")[2]


def replace_module(statement: str, module: str) -> str:
    """``from flash_attn.bert_padding import unpad_input`` -> ``from MODULE import unpad_input``."""
    import libcst as cst

    try:
        line = cst.ensure_type(cst.parse_statement(statement), cst.SimpleStatementLine)
    except cst.ParserSyntaxError as error:
        raise ValueError(f"not an import: {statement!r}") from error
    imported = cst.ensure_type(line.body[0], cst.ImportFrom)
    name = cst.parse_expression(module.lstrip("."))
    if not isinstance(name, (cst.Name, cst.Attribute)):
        raise ValueError(f"not a module: {module!r}")
    dots = [cst.Dot()] * (len(module) - len(module.lstrip(".")))
    newline = "\r\n" if "\r\n" in statement else "\n"
    return cst.Module([], default_newline=newline).code_for_node(imported.with_changes(module=name, relative=dots))


def extend_container(expression: str, new: str) -> str:
    """``["bfloat16", "float16"]`` -> ``["bfloat16", "float16", "float32"]``: one more element.

    Raises:
        ValueError: it is no list, tuple or set.
    """
    import libcst as cst

    node, unwrap = _parse(expression)
    if not isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        raise ValueError(f"not a list, tuple or set: {expression!r}")
    elements = list(node.elements)
    added = cst.Element(cst.parse_expression(new))
    if len(elements) > 1:
        added = added.with_changes(comma=elements[-1].comma)
        elements[-1] = elements[-1].with_changes(comma=elements[-2].comma)
    else:
        elements[-1] = elements[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return unwrap(node.with_changes(elements=[*elements, added]))


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
