"""Where a value goes that is given a name first: ``DTYPE = "bfloat16"``, and later ``load(torch_dtype=DTYPE)``.

A definition counts where its name is given one value only in its scope: a variable, a parameter's default, or an
attribute of a class. What its uses say of it becomes the role of the literal that is there.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from precpatch.languages.python.roles import Role
from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, string
from precpatch.vocabulary.needles import Needles

_MOST_NAMES = 300
"""A file with more names that may hold a value was written by a program."""

_READS = frozenset({"get", "getenv", "getattr", "pop", "setdefault"})

Place = tuple[ast.AST, Ancestors]
Use = Callable[[ast.expr, Ancestors], Role | None]
"""What a use of a name says of the value, None where it decides nothing."""


@dataclass(frozen=True)
class Definition:
    """A name with the literal that it stands for, in its scope: the module, a function or a class."""

    name: str
    literal: ast.Constant
    ancestors: Ancestors
    scope: ast.AST


class Flows:
    """The definitions of one file with what their uses say."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.roles: dict[int, Role] = {}
        self.places: list[Place] = []
        self._definitions: dict[tuple[int, str], Definition] = {}
        self._stored: Counter[tuple[int, str]] = Counter()
        self._set: Counter[str] = Counter()
        self._classes: dict[str, list[Definition]] = defaultdict(list)

    def look_up(self, names: Iterable[str]) -> None:
        """Find the definitions and the uses of these names."""
        wanted = sorted(set(names))[:_MOST_NAMES]
        if not wanted:
            return
        lines = self.tree.lines_with(Needles(), [name.encode() for name in wanted])
        known = frozenset(wanted)
        self.places = list(self.tree.walk(lines))
        for node, ancestors in self.places:
            self._count(node, ancestors)
            for definition in _definitions(node, ancestors):
                if definition.name in known:
                    self._definitions[id(definition.scope), definition.name] = definition
        for definition in self._definitions.values():
            if isinstance(definition.scope, ast.ClassDef):
                self._classes[definition.name].append(definition)

    def _count(self, node: ast.AST, ancestors: Ancestors) -> None:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self._stored[id(_scope(ancestors)), node.id] += 1
        elif isinstance(node, ast.arg):
            self._stored[id(ancestors[-2]), node.arg] += 1
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            self._set[node.attr] += 1
        elif isinstance(node, ast.Global):
            self._set.update(node.names)

    def take(self, use: Use) -> None:
        """Ask every use of a definition; the first that says something gives the literal its role."""
        for node, ancestors in self.places:
            if isinstance(node, (ast.Name, ast.Attribute)) and (definition := self.definition(node, ancestors)):
                role = use(node, ancestors) if id(definition.literal) not in self.roles else None
                if role is not None:
                    self.give(definition.literal, role)

    def give(self, literal: ast.Constant, role: Role) -> None:
        """A literal of a definition has the role of one of its uses."""
        facts = role.facts | {"flows"}
        self.roles.setdefault(id(literal), replace(role, facts=facts, siblings=None, container=None, test=None))

    def literals(self) -> Iterator[tuple[ast.Constant, Ancestors]]:
        """The literals of the definitions that have a role."""
        for definition in self._definitions.values():
            if id(definition.literal) in self.roles:
                yield definition.literal, definition.ancestors

    def literal(self, node: ast.AST, ancestors: Ancestors) -> ast.Constant | None:
        """The literal that a name stands for."""
        definition = self.definition(node, ancestors)
        return definition.literal if definition else None

    def definition(self, node: ast.AST, ancestors: Ancestors) -> Definition | None:
        """The definition that a use of a name goes back to, where that is certain."""
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name):
            return self._attribute(node, node.value.id, ancestors)
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or self._set[node.id]:
            return None
        scopes = [each for each in reversed(ancestors) if isinstance(each, (ast.Module, *FUNCTIONS))]
        bound = next((scope for scope in scopes if self._stored[id(scope), node.id]), None)
        if bound is None or self._stored[id(bound), node.id] != 1:
            return None
        return self._definitions.get((id(bound), node.id))

    def _attribute(self, node: ast.Attribute, owner: str, ancestors: Ancestors) -> Definition | None:
        """``self.NAME``, ``cls.NAME`` and ``Class.NAME``."""
        if self._set[node.attr]:
            return None
        for definition in self._classes.get(node.attr, ()):
            scope = definition.scope
            if not isinstance(scope, ast.ClassDef) or self._stored[id(scope), node.attr] != 1:
                continue
            if owner == scope.name or (owner in {"self", "cls"} and any(each is scope for each in ancestors)):
                return definition
        return None


def _scope(ancestors: Ancestors) -> ast.AST:
    return next(each for each in reversed(ancestors) if isinstance(each, (ast.Module, ast.ClassDef, *FUNCTIONS)))


def _definitions(node: ast.AST, ancestors: Ancestors) -> Iterator[Definition]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            for name, value, above in _pairs(target, node.value, (*ancestors, node)):
                yield from _defined(name, value, above, _scope(ancestors))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield from _defined(node.target.id, node.value, (*ancestors, node), _scope(ancestors))
    elif isinstance(node, ast.arguments) and ancestors:
        named = [*node.posonlyargs, *node.args]
        pairs = [*zip(named[len(named) - len(node.defaults) :], node.defaults, strict=True)]
        pairs += [(each, default) for each, default in zip(node.kwonlyargs, node.kw_defaults, strict=True) if default]
        for argument, default in pairs:
            yield from _defined(argument.arg, default, (*ancestors, node), ancestors[-1])


def _pairs(target: ast.expr, value: ast.expr, above: Ancestors) -> Iterator[tuple[str, ast.expr, Ancestors]]:
    if isinstance(target, ast.Name):
        yield target.id, value, above
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for each, of in zip(target.elts, value.elts, strict=True):
            yield from _pairs(each, of, (*above, value))


def _defined(name: str, value: ast.expr, ancestors: Ancestors, scope: ast.AST) -> Iterator[Definition]:
    found = _literal(value, ancestors)
    if found is not None:
        yield Definition(name, *found, scope)


def _literal(value: ast.expr, ancestors: Ancestors) -> tuple[ast.Constant, Ancestors] | None:
    """The literal of ``"x"``, ``os.getenv("X", "x")``, ``given or "x"``."""
    if isinstance(value, ast.Constant):
        return (value, ancestors) if isinstance(value.value, (str, bool, int)) else None
    if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
        return _literal(value.values[-1], (*ancestors, value))
    if isinstance(value, ast.Call) and len(value.args) > 1 and string(value.args[-2]) is not None:
        name = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return _literal(value.args[-1], (*ancestors, value)) if name in _READS else None
    return None
