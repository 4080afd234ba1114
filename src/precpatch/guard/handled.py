"""Whether the program expects an import to fail: ``try: import flash_attn`` with a fallback is no defect."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}
_ALL_ERRORS = {"Exception", "BaseException"}


def is_handled(stack: Sequence[tuple[str, int, str]]) -> bool:
    """Whether a frame stands inside a handler of ImportError, or the innermost one inside a handler of everything."""
    places = [_handlers(path, line) for path, line, _ in stack]
    return bool(places) and (bool(places[0] & _ALL_ERRORS) or any(names & _IMPORT_ERRORS for names in places))


def _handlers(path: str, line: int) -> set[str]:
    """The names of the errors that are caught around a line."""
    return {name for first, last, names in _regions(path) if first <= line <= last for name in names}


@cache
def _regions(path: str) -> tuple[tuple[int, int, frozenset[str]], ...]:
    """The lines of a file in which errors are caught, and which."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(region for node in ast.walk(tree) for region in _of(node))


def _of(node: ast.AST) -> Iterator[tuple[int, int, frozenset[str]]]:
    if isinstance(node, ast.Try):
        caught = [_names(handler.type) if handler.type else _ALL_ERRORS for handler in node.handlers]
        names = frozenset[str]().union(*caught)
    elif isinstance(node, ast.With):
        calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        suppressed = [call for call in calls if "suppress" in _names(call.func)]
        names = frozenset(name for call in suppressed for argument in call.args for name in _names(argument))
    else:
        return
    yield node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno, names


def _names(node: ast.expr) -> set[str]:
    """The last words of a name or of a tuple of names."""
    if isinstance(node, ast.Tuple):
        return {name for element in node.elts for name in _names(element)}
    if isinstance(node, ast.Attribute):
        return {node.attr}
    return {node.id} if isinstance(node, ast.Name) else set()
