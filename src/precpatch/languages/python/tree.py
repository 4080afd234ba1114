"""The syntax tree of one Python file: parsing it, walking only where a word was found, and positions.

Built on the standard library's ``ast`` (fast, byte-exact positions). A walk hands out each node together with its
ancestors. It looks at whole statements: where a word stands in a simple statement, or in the head of a compound one,
every node of that statement or head is handed out, so that a value on one line and its key on another are both seen.
"""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from precpatch.languages.source import ReadError, SourceFile, starts_of_lines
from precpatch.vocabulary.needles import Needles, places_of

Ancestors = tuple[ast.AST, ...]

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_HOLD_STATEMENTS = frozenset(
    {
        *(ast.Module, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Match, ast.match_case),
        *(ast.Try, getattr(ast, "TryStar", ast.Try), ast.ExceptHandler, *SCOPES),
    }
)
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""The fields of a compound statement that hold statements, or clauses with statements."""


def parse(source: SourceFile) -> ast.Module:
    """The syntax tree of the file; LibCST helps with syntax that is newer than the running interpreter.

    Raises:
        ReadError: the file is not Python that one of them can parse.
    """
    try:
        return _parse(source.text)
    except SyntaxError as error:
        from precpatch.languages.python.newer import as_older

        older = as_older(source)
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            if older is not None:
                return _parse(older)
        raise ReadError(f"line {error.lineno or 1}: {error.msg}: not parsed, so left alone") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ReadError(f"not parsed, so left alone: {error or type(error).__name__}") from None


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


class Tree:
    """A parsed file with the positions of its nodes as character indexes of the text."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.module = parse(source)
        self._places: dict[int, dict[int, int]] = {}

    def start(self, node: ast.AST) -> int:
        """Character index at which the node starts."""
        return self._index(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        """Character index after the node's last character."""
        return self._index(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """The source text of the node."""
        return self.source.text[self.start(node) : self.end(node)]

    def place_of(self, child: ast.AST, among: Sequence[ast.AST | None]) -> int | None:
        """Which of ``among``, a list of the tree itself, the node is."""
        places = self._places.get(id(among))
        if places is None:
            places = self._places[id(among)] = {id(each): at for at, each in enumerate(among)}
        return places.get(id(child))

    def _index(self, line: int, column: int) -> int:
        """The character index of an ``ast`` position: line from 1, column in UTF-8 bytes from 0."""
        if self.source.text.isascii():
            return self.source.line_starts[line - 1] + column
        return self._utf8.index(self._utf8_lines[line - 1] + column)

    @cached_property
    def _utf8(self) -> SourceFile:
        """The text in UTF-8 without a byte order mark, as ``ast`` counts it."""
        return SourceFile(self.source.path, self.source.text.encode("utf-8", "surrogatepass"))

    @cached_property
    def _utf8_lines(self) -> list[int]:
        return starts_of_lines(self._utf8.data)

    def lines_with(self, needles: Needles, more: Sequence[bytes] = ()) -> list[int]:
        """The lines (from 1, sorted) on which a needle, or one of ``more``, begins or ends."""
        starts = self._utf8_lines
        found = {bisect_right(starts, at) for at in needles.places(self._utf8.data)} if needles else set()
        found.update(bisect_right(starts, at) for at in places_of(self._utf8.data, more))
        return sorted(found)

    def walk(self, lines: Sequence[int]) -> Iterator[tuple[ast.AST, Ancestors]]:
        """Every node of the statements and heads that touch one of ``lines``, parents first, with its ancestors."""
        stack: list[tuple[ast.AST, Ancestors, bool]] = [(self.module, (), False)]
        while stack:
            node, above, whole = stack.pop()
            if whole or type(node) not in _HOLD_STATEMENTS:
                yield node, above
                if children := children_of(node):
                    inside = (*above, node)
                    stack += [(child, inside, whole) for child in reversed(children)]
                continue
            inside = (*above, node)
            blocks = [each for name in BLOCKS for each in getattr(node, name, ())]
            first = blocks[0] if blocks else None
            nexts: list[tuple[ast.AST, Ancestors, bool]] = []
            if _touches(*_head(node, first), lines):
                yield node, above
                held = {id(each) for each in blocks}
                nexts += [(child, inside, True) for child in children_of(node) if id(child) not in held]
            nexts += [(each, inside, False) for each in _touched(blocks, lines)]
            stack += reversed(nexts)


def children_of(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node, in order, but for contexts and operators, which have no place."""
    children: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if isinstance(value, list):
            children += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST):
            children.append(value)
    return children


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each type of node that can hold nodes with a place."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = self[kind] = tuple(name for name in kind._fields if name not in _HOLD_NONE)
        return fields


_HOLD_NONE = frozenset({"ctx", "op", "ops", "id", "attr", "arg", "module", "level", "kind", "type_comment"})
_FIELDS = _Fields()
_FIELDS[ast.Constant] = ()


def _head(node: ast.AST, first: ast.AST | None) -> tuple[int, int]:
    """The lines of what stands before the block of a compound statement; ``first`` is the first statement in it."""
    start = _span(node)[0] if hasattr(node, "lineno") else 1
    body = _span(first)[0] if first is not None else start
    if isinstance(node, ast.Module):
        return 0, 0
    return start, max(start, body - 1)


def _span(node: ast.AST) -> tuple[int, int]:
    """The first and the last line of a statement or a clause, decorators included."""
    if isinstance(node, ast.match_case):
        return node.pattern.lineno, _span(node.body[-1])[1]
    first: int = node.lineno  # type: ignore[attr-defined]
    for decorator in getattr(node, "decorator_list", ()):
        first = min(first, decorator.lineno)
    return first, getattr(node, "end_lineno", None) or first


def _touched(blocks: list[ast.AST], lines: Sequence[int]) -> list[ast.AST]:
    """Those of the statements and clauses of a compound statement that touch one of ``lines``, which are sorted."""
    touched, most = [], len(lines)
    for each in blocks:
        if type(each) in _SPANS_MORE:
            first, last = _span(each)
        else:
            first, last = each.lineno, each.end_lineno  # type: ignore[attr-defined]
        at = bisect_left(lines, first)
        if at < most and lines[at] <= last:
            touched.append(each)
    return touched


_SPANS_MORE = frozenset({*SCOPES, ast.match_case})
"""What begins before its own first line, with a decorator, or has none."""


def _touches(first: int, last: int, lines: Sequence[int]) -> bool:
    """Whether one of ``lines``, which are sorted, is from ``first`` to ``last``."""
    at = bisect_left(lines, first)
    return at < len(lines) and lines[at] <= last


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
    for _ in range(_MOST_STEPS):
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Attribute):
            return node.attr
        if isinstance(node, ast.Subscript):
            name = string(node.slice)
            if name is not None:
                return name
            node = node.value
        elif isinstance(node, ast.Starred):
            node = node.value
        elif isinstance(node, ast.Call):
            names = [name for argument in node.args if (name := string(argument)) is not None]
            if names:
                return names[0].rpartition(".")[2]
            node = node.func
        else:
            return None
    return None


_MOST_STEPS = 50
"""A chain such as ``x[0][0]()()`` of more steps than this goes by no name."""


def string(node: ast.AST | None) -> str | None:
    """The value of a string literal, else None."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def scope_of(ancestors: Ancestors) -> str:
    """Qualified name of the classes and functions around a node."""
    return ".".join(node.name for node in ancestors if isinstance(node, SCOPES))
