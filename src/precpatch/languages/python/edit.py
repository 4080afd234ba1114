"""Rewrites of Python source, each made by LibCST on the smallest piece of code that holds the mention.

LibCST is imported when the first rewrite is asked for, not before: a scan that finds nothing never pays for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

_WORD = r"(?<![\w.-])(?:torch\.)?{word}(?![\w-])"


def replace_name(expression: str, name: str) -> str:
    """``torch.bfloat16`` -> ``torch.NAME``; ``bf`` -> ``NAME``: the last name of a dotted expression."""
    import libcst as cst

    node, unwrap = _parse(expression)
    if isinstance(node, cst.Attribute):
        return unwrap(node.with_changes(attr=node.attr.with_changes(value=name)))
    if isinstance(node, cst.Name):
        return unwrap(node.with_changes(value=name))
    raise ValueError(f"not a dotted name: {expression!r}")


def replace_method(call: str, name: str) -> str:
    """``.bfloat16()`` -> ``.NAME()``, whatever stands between the dot and the brackets."""
    import libcst as cst

    node, unwrap = _parse("_" + call)
    function = node.func if isinstance(node, cst.Call) else node
    if not isinstance(function, cst.Attribute):
        raise ValueError(f"not a method: {call!r}")
    renamed = function.with_changes(attr=function.attr.with_changes(value=name))
    return unwrap(node.with_changes(func=renamed) if isinstance(node, cst.Call) else renamed)[1:]


def replace_in_string(expression: str, old: str, new: str) -> str:
    """Replace the last whole word ``old`` in a string literal: plain, raw, concatenated or an f-string.

    Prefix, quotes and every other character stay. A word that is split over two literals is not found.

    Raises:
        ValueError: the word does not stand in one piece in the literal.
    """
    import libcst as cst

    pattern = re.compile(_WORD.format(word=re.escape(old)))

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
        raise ValueError(f"{old!r} does not stand in one piece in {expression!r}")
    return unwrap(changed)


def replace_literal(expression: str, new: str) -> str:
    """``True`` -> ``False`` and the like: a name or number, whole."""
    import libcst as cst

    _, unwrap = _parse(expression)
    return unwrap(cst.parse_expression(new))


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

    line = cst.ensure_type(cst.parse_statement(statement), cst.SimpleStatementLine)
    imported = cst.ensure_type(line.body[0], cst.ImportFrom)
    name = cst.parse_expression(module.lstrip("."))
    if not isinstance(name, (cst.Name, cst.Attribute)):
        raise ValueError(f"not a module: {module!r}")
    dots = [cst.Dot()] * (len(module) - len(module.lstrip(".")))
    newline = "\r\n" if "\r\n" in statement else "\n"
    return cst.Module([], default_newline=newline).code_for_node(imported.with_changes(module=name, relative=dots))


def extend_container(expression: str, like: str, new: str) -> str:
    """``["bfloat16", "float16"]`` -> ``["bfloat16", "float16", "float32"]``: one more element, written like ``like``.

    ``like`` is the source text of an element whose quotes or module prefix the new one takes.
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
    outer = cst.parse_module(f"(\n{expression}\n)" if many_lines else expression)
    newline = "\r\n" if "\r\n" in expression else "\n"
    statement = outer.body[0]
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Expr):
        raise ValueError(f"not an expression: {expression!r}")
    node = statement.body[0].value

    def unwrap(changed: cst.BaseExpression) -> str:
        code = cst.Module([], default_newline=newline).code_for_node(changed)
        return code[2:-2] if many_lines else code

    return node, unwrap
