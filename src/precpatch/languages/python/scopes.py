"""Which import of a dtype a name goes back to: the scopes of a file that takes dtypes from torch by their names.

An import and its uses are one group in every scope: each function that imports the name for itself has its own.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, children_of
from precpatch.vocabulary.needles import Needles


@dataclass(frozen=True, eq=False)
class ImportedDtype:
    """``from torch import NAME [as LOCAL]``: the statement, its alias node and the local name.

    Attributes:
        scope: the function, class or module that the import binds the name in.
    """

    statement: ast.ImportFrom
    alias: ast.alias
    local: str
    value: str
    scope: ast.AST


class Scopes:
    """The imports of dtypes of one file, and what else binds their names."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._by_scope: dict[tuple[int, str], list[ImportedDtype]] = defaultdict(list)
        self._others: dict[int, frozenset[str]] = {}
        self.dtypes: dict[str, list[ImportedDtype]] = defaultdict(list)

    def add(self, node: ast.ImportFrom, alias: ast.alias, value: str, ancestors: Ancestors) -> None:
        """Take note of an import of a dtype; ``ancestors`` are those of the statement."""
        local = alias.asname or alias.name
        scope = next((each for each in reversed(ancestors) if isinstance(each, _SCOPES)), self._tree.module)
        imported = ImportedDtype(node, alias, local, value, scope)
        self.dtypes[local].append(imported)
        self._by_scope[id(scope), local].append(imported)

    def group_of(self, imported: ImportedDtype) -> int:
        """A number that the imports which bind one name in one scope share."""
        return id(self._by_scope[id(imported.scope), imported.local][0])

    def imported(self, node: ast.Name, ancestors: Ancestors) -> ImportedDtype | None:
        """The first of the imports that a name goes back to, seen from under ``ancestors``."""
        if node.id not in self.dtypes:
            return None
        for scope in self._seen_from(node, ancestors):
            found = self._by_scope.get((id(scope), node.id))
            if found:
                return found[0]
            if node.id in self._bound_otherwise(scope):
                return None
        return None

    def is_rebound(self, imported: ImportedDtype) -> bool:
        """Whether something else binds the name in the same scope, or a function binds it for another scope."""
        return imported.local in self._bound_otherwise(imported.scope) or imported.local in self._declared

    def means_another(self, name: str) -> bool:
        """Whether an import gives the name to another dtype."""
        return any(each.value != name for each in self.dtypes.get(name, ()))

    def _seen_from(self, node: ast.AST, ancestors: Ancestors) -> Iterator[ast.AST]:
        """The scopes in which a name is looked up, innermost first; a class is seen from its own body only."""
        inside_function = False
        child = node
        for parent in reversed(ancestors):
            if isinstance(parent, ast.ClassDef):
                if not inside_function and _is_in_body(parent, child):
                    yield parent
            elif isinstance(parent, FUNCTIONS) and _is_in_body(parent, child):
                inside_function = True
                yield parent
            elif isinstance(parent, ast.Module):
                yield parent
            child = parent

    def _bound_otherwise(self, scope: ast.AST) -> frozenset[str]:
        key = id(scope)
        if key not in self._others:
            names, aliases = bindings_of(scope)
            self._others[key] = names | bound_by(alias for alias in aliases if id(alias) not in self._aliases)
        return self._others[key]

    @cached_property
    def _aliases(self) -> frozenset[int]:
        return frozenset(id(each.alias) for group in self.dtypes.values() for each in group)

    @cached_property
    def _declared(self) -> frozenset[str]:
        """What ``global`` and ``nonlocal`` name."""
        lines = self._tree.lines_with(_DECLARES)
        found = (node for node, _ in self._tree.walk(lines) if isinstance(node, (ast.Global, ast.Nonlocal)))
        return frozenset(name for node in found for name in node.names)


_SCOPES = (*FUNCTIONS, ast.ClassDef)
_DECLARES = Needles((b"global", b"nonlocal"))


def _is_in_body(scope: ast.AST, child: ast.AST) -> bool:
    """Whether a child of a function or a class is evaluated inside it: no decorator, default, annotation or base."""
    if isinstance(scope, ast.Lambda):
        return child is scope.body
    outside: Iterable[ast.AST | None] = getattr(scope, "decorator_list", ())
    if isinstance(scope, ast.ClassDef):
        outside = [*outside, *scope.bases, *scope.keywords]
    elif isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        outside = [*outside, scope.args, scope.returns]
    return not any(child is each for each in outside)


def bindings_of(scope: ast.AST) -> tuple[frozenset[str], tuple[ast.alias, ...]]:
    """The names that a function, class or module binds itself, in whatever way but by imports; and its imports.

    What a comprehension binds is taken for a name of the scope around it.
    """
    names: set[str] = set()
    aliases: list[ast.alias] = []
    arguments = getattr(scope, "args", None)
    if isinstance(arguments, ast.arguments):
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        names.update(argument.arg for argument in every if argument)
    body = scope.body if isinstance(scope.body, list) else [scope.body]  # type: ignore[attr-defined]
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, ast.alias):
            aliases.append(node)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        stack.extend(children_of(node))
    return frozenset(names), tuple(aliases)


def bound_by(aliases: Iterable[ast.alias]) -> frozenset[str]:
    """The names that imports bind: ``a`` for ``import a.b``."""
    return frozenset((alias.asname or alias.name).partition(".")[0] for alias in aliases)
