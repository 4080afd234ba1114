"""The syntax tree of one Python file: parsing it, walking only where a word was found, and positions.

Built on the standard library's ``ast`` (fast, byte-exact positions). A walk hands out each node together with
its ancestors, and does not descend into statements that hold no line of interest.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property

from precpatch.languages.base import ReadError
from precpatch.languages.source import SourceFile

Ancestors = tuple[ast.AST, ...]

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def parse(source: SourceFile) -> ast.Module:
    """The syntax tree of the file.

    Raises:
        ReadError: the file is not Python that the running interpreter can parse.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.text)
    except SyntaxError as error:
        raise ReadError(f"line {error.lineno or 1}: {error.msg}: not parsed, so left alone") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ReadError(f"not parsed, so left alone: {error or type(error).__name__}") from None


class Tree:
    """A parsed file with the positions of its nodes as character indexes of the text."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.module = parse(source)

    def start(self, node: ast.AST) -> int:
        """Character index at which the node starts."""
        return self._index(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Character index after the node's last character."""
        return self._index(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """The source text of the node."""
        return self.source.text[self.start(node) : self.end(node)]

    def _index(self, line: int, column: int) -> int:
        """The character index of an ``ast`` position: line from 1, column in UTF-8 bytes from 0."""
        start = self.source.line_starts[line - 1]
        if self._ascii:
            return start + column
        text = self.source.line_text(line)
        return start + len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))

    @cached_property
    def _ascii(self) -> bool:
        return self.source.text.isascii()

    def walk(self, lines: frozenset[int]) -> Iterator[tuple[ast.AST, Ancestors]]:
        """Every node that touches one of ``lines`` (from 1), parents before children, with its ancestors."""
        stack: list[tuple[ast.AST, Ancestors]] = [(self.module, ())]
        while stack:
            node, above = stack.pop()
            yield node, above
            inside = (*above, node)
            children = [child for child in ast.iter_child_nodes(node) if touches(child, lines)]
            stack.extend((child, inside) for child in reversed(children))


def touches(node: ast.AST, lines: frozenset[int]) -> bool:
    """Whether the node's source, decorators included, touches one of ``lines``; nodes without a place always do."""
    first = getattr(node, "lineno", None)
    if first is None:
        return True
    for decorator in getattr(node, "decorator_list", ()):
        first = min(first, decorator.lineno)
    last: int = getattr(node, "end_lineno", first)
    if last - first < len(lines):
        return any(line in lines for line in range(first, last + 1))
    return any(first <= line <= last for line in lines)


def dotted(node: ast.AST | None) -> str | None:
    """``a.b.c`` for a chain of names and attributes, ``f().c`` as ``().c``; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif parts and node is not None:
        parts.append("()")
    return ".".join(reversed(parts)) if parts else None


def last_name(node: ast.AST | None) -> str | None:
    """The name that a target or an expression goes by: ``dtype`` of ``self.cfg["dtype"]``, ``a.dtype``, ``dtype``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return string(node.slice) or last_name(node.value)
    if isinstance(node, ast.Starred):
        return last_name(node.value)
    if isinstance(node, ast.Call):
        return _name_asked_for(node)
    return None


def _name_asked_for(call: ast.Call) -> str | None:
    """``dtype`` of ``cfg.get("dtype")``, else the name of the function called."""
    for argument in call.args:
        name = string(argument)
        if name is not None:
            return name.rpartition(".")[2]
    return last_name(call.func)


def string(node: ast.AST | None) -> str | None:
    """The value of a string literal, else None."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def scope_of(ancestors: Ancestors) -> str:
    """Qualified name of the classes and functions around a node."""
    return ".".join(node.name for node in ancestors if isinstance(node, SCOPES))
