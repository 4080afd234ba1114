"""Slots: under which key a value stands, where that key is written, and what stands above it."""

from __future__ import annotations

import ast
import re

from precpatch.languages.python.tree import Ancestors, Tree, last_name, string
from precpatch.languages.site import Slot

_PASSES_ON = (ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Starred)
_MOST_ABOVE = 3
"""So many keys above a value are looked for."""

_SUFFIXES = re.compile(r"_(?:config|configs|args|arguments|settings|options|params|cfg)$")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Slots:
    """The slots of one file."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._boxes: dict[int, ast.Call | ast.Dict] = {}

    def of(self, node: ast.AST, ancestors: Ancestors, depth: int = _MOST_ABOVE) -> Slot | None:
        """The slot that the value ``node`` stands in, if a key is written there."""
        if not depth:
            return None
        child = node
        for at in range(len(ancestors) - 1, -1, -1):
            parent, above = ancestors[at], ancestors[:at]
            if isinstance(parent, ast.keyword):
                return self._keyword(parent, above, depth)
            if isinstance(parent, ast.Dict):
                return self._entry(parent, child, above, depth)
            if isinstance(parent, (ast.Assign, ast.AnnAssign)):
                target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
                return self._target(target, above)
            if not isinstance(parent, _PASSES_ON):
                return None
            child = parent
        return None

    def holds(self, box: int, key: str) -> bool:
        """Whether the call or the dict of this number has this key, whatever stands under it."""
        node = self._boxes.get(box)
        if isinstance(node, ast.Call):
            return any(keyword.arg in (key, None) for keyword in node.keywords)
        return node is not None and any(each is None or string(each) == key for each in node.keys)

    def _keyword(self, keyword: ast.keyword, above: Ancestors, depth: int) -> Slot | None:
        """``f(key=value)``; in ``x = dict(key=value)`` the key stands under x, a field of a class under the class."""
        call = above[-1] if above else None
        if keyword.arg is None or not isinstance(call, ast.Call):
            return None
        if keyword.arg in ("default", "default_factory"):
            return self.of(call, above[:-1], depth)
        self._boxes[id(call)] = call
        start = self._tree.start(keyword)
        outer = self.of(call, above[:-1], depth - 1)
        return Slot(keyword.arg, start, start + len(keyword.arg), id(call), outer, _is_alone(call))

    def _entry(self, table: ast.Dict, child: ast.AST, above: Ancestors, depth: int) -> Slot | None:
        """``{"key": value}``."""
        at = self._tree.place_of(child, table.values)
        node = table.keys[at] if at is not None else None
        key = string(node)
        if node is None or key is None:
            return None
        self._boxes[id(table)] = table
        start = self._inside(node, key)
        outer = _section_in(key) or self.of(table, above, depth - 1)
        return Slot(key, start, start + len(key), id(table), outer, len(table.keys) == 1)

    def _inside(self, node: ast.AST, key: str) -> int:
        """The index of a key's first character inside its quotes; -1 where it is written in another way."""
        at = self._tree.text(node).find(key)
        return self._tree.start(node) + at if at >= 0 else -1

    def _target(self, target: ast.AST, above: Ancestors) -> Slot | None:
        """``x.key = value``, ``x["key"] = value``, and a field of a class, which stands under the class."""
        key = last_name(target)
        if key is None:
            return None
        if section := _section_in(key):
            return Slot(key, renames=False, above=section)
        holder = last_name(target.value) if isinstance(target, (ast.Attribute, ast.Subscript)) else None
        if holder is None and above and isinstance(above[-1], ast.ClassDef):
            holder = section_of(above[-1].name)
        return Slot(key, renames=False, above=Slot(holder) if holder else None)


def _section_in(key: str) -> Slot | None:
    """The section that a dotted key names: ``rollout`` of ``"actor.rollout.name"``."""
    section = key.rpartition(".")[0].rpartition(".")[2]
    return Slot(section) if section else None


def section_of(name: str) -> str:
    """The section of a config that a class stands for: ``rollout`` for RolloutConfig."""
    return _SUFFIXES.sub("", _WORDS.sub("_", name).lower())


def _is_alone(call: ast.Call) -> bool:
    return len(call.args) + len(call.keywords) == 1
