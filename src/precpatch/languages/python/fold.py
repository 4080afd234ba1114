"""Texts that are put together: ``"bfloat" + "16"``, ``f"a.dtype={DTYPE}"``, ``"dtype=%s" % name``, ``"{}".format(x)``.

A text is folded into its parts, each with the literal that says it. What is not known counts as one word.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from precpatch.languages.python.tree import Ancestors, string

_FIELD = re.compile(r"\{(\w*)\}")
_CONVERSION = re.compile(r"%[sdr]")
_UNKNOWN = "x"
_MOST_STEPS = 30
"""A text of more nested parts than this was written by a program."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text, and the literal that says it; None where it is known at run time only."""

    text: str
    node: ast.Constant | None


Resolve = Callable[[ast.expr], ast.Constant | None]
"""The literal that a name stands for, where that is certain."""


def is_composed(node: ast.AST) -> bool:
    """Whether an expression puts a text together."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) or (isinstance(node.op, ast.Mod) and _is_text(node.left))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "format" and _is_text(node.func.value)
    return isinstance(node, ast.JoinedStr)


def is_inside(ancestors: Ancestors) -> bool:
    """Whether what stands under these is itself only a part of a text that is put together."""
    return any(is_composed(parent) or isinstance(parent, ast.FormattedValue) for parent in ancestors[-2:])


def _is_text(node: ast.expr) -> bool:
    return string(node) is not None


def parts_of(node: ast.expr, resolve: Resolve, steps: int = _MOST_STEPS) -> list[Part] | None:
    """The parts of a text; None where the expression is no text, or nothing of it is known."""
    if not steps:
        return None
    if isinstance(node, ast.Constant):
        plain = isinstance(node.value, (str, int, bool))
        return [Part(str(node.value), node)] if plain else None
    if isinstance(node, ast.JoinedStr):
        return [part for value in node.values for part in _field(value, resolve, steps)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _added(node, resolve, steps)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return _filled(node.left, _CONVERSION, dict(enumerate(values)), resolve, steps)
    if is_composed(node) and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        fields: dict[int | str, ast.expr] = dict(enumerate(node.args))
        fields |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        return _filled(node.func.value, _FIELD, fields, resolve, steps)
    found = resolve(node)
    return [Part(str(found.value), found)] if found is not None else None


def _field(node: ast.expr, resolve: Resolve, steps: int) -> list[Part]:
    if not isinstance(node, ast.FormattedValue):
        return parts_of(node, resolve, steps - 1) or [Part(_UNKNOWN, None)]
    if node.format_spec is not None:
        return [Part(_UNKNOWN, None)]
    return parts_of(node.value, resolve, steps - 1) or [Part(_UNKNOWN, None)]


def _added(node: ast.BinOp, resolve: Resolve, steps: int) -> list[Part] | None:
    """``a + b``, which is a text where one of them is."""
    left, right = parts_of(node.left, resolve, steps - 1), parts_of(node.right, resolve, steps - 1)
    texts = [part.node.value for part in (*(left or ()), *(right or ())) if part.node is not None]
    if not any(isinstance(text, str) for text in texts):
        return None
    return [*(left or [Part(_UNKNOWN, None)]), *(right or [Part(_UNKNOWN, None)])]


def _filled(
    pattern: ast.expr, marks: re.Pattern[str], values: dict[int | str, ast.expr], resolve: Resolve, steps: int
) -> list[Part] | None:
    """A text with marks, each of which a value takes the place of: by its name, its number, or in turn."""
    if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
        return None
    parts: list[Part] = []
    done = 0
    for at, mark in enumerate(marks.finditer(pattern.value)):
        name = mark[1] if marks is _FIELD else ""
        value = values.get(int(name) if name.isdigit() else name or at)
        parts.append(Part(pattern.value[done : mark.start()], pattern))
        parts += (parts_of(value, resolve, steps - 1) if value is not None else None) or [Part(_UNKNOWN, None)]
        done = mark.end()
    return [*parts, Part(pattern.value[done:], pattern)]


def text_of(parts: list[Part]) -> str:
    """The whole text."""
    return "".join(part.text for part in parts)


def part_with(parts: list[Part], start: int, end: int) -> Part | None:
    """The part that holds all of the characters ``start`` to ``end`` of the text."""
    at = 0
    for part in parts:
        if at <= start and end <= at + len(part.text) and part.text:
            return part
        at += len(part.text)
    return None
