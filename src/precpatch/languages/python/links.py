"""Tying together what changes together: checks and defaults, tests and casts, switches and dtypes, imports and uses."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from precpatch.languages.mention import Mention
from precpatch.languages.python.find import Finder, Found, statement_around
from precpatch.languages.python.scopes import ImportedDtype
from precpatch.languages.python.tree import dotted
from precpatch.languages.site import METHOD

Pair = tuple[Mention, Found]


class Links:
    """The mentions of one file, by what may tie them together; each tie is looked up and not searched for."""

    def __init__(self, finder: Finder, pairs: Iterable[Pair]) -> None:
        self.finder = finder
        self.pairs = list(pairs)
        self._settings: dict[tuple[str, str | None], list[Pair]] = defaultdict(list)
        self._in_scope: dict[tuple[str, str | None, str], list[tuple[int, int]]] = defaultdict(list)
        self._casts: dict[tuple[str, int], list[Mention]] = defaultdict(list)
        self._casts_after: dict[tuple[str, int], list[tuple[int, Mention]]] = defaultdict(list)
        self._beside: dict[object, list[int]] = defaultdict(list)
        self._uses: dict[int, list[int]] = defaultdict(list)
        self._told_uses: dict[int, tuple[int, ...]] = {}
        for number, (mention, found) in enumerate(self.pairs):
            self._sort_in(number, mention, found)

    def _sort_in(self, number: int, mention: Mention, found: Found) -> None:
        if mention.role == "value":
            self._in_scope[mention.kind, mention.key, mention.scope].append((number, mention.start))
            self._settings[mention.kind, mention.key].append((mention, found))
        if mention.role in {"value", "method-cast"} and (subject := _cast_subject(found)) is not None:
            self._sort_in_cast(subject, mention, found)
        if mention.kind == "dtype" and mention.role == "value":
            for place in _places_beside(found):
                self._beside[place].append(mention.start)
        names = self.finder.names
        if (imported := names.imported_dtype(found.node, found.ancestors)) is not None:
            self._uses[names.scopes.group_of(imported)].append(mention.start)

    def linked(self) -> list[Mention]:
        """The mentions with ``follows`` filled in."""
        listed = self._casts_under_lists()
        return [self._linked(mention, found, listed) for mention, found in self.pairs]

    def uses_of(self, imported: ImportedDtype) -> tuple[int, ...]:
        """The uses of an imported dtype: the same tuple for all imports that bind the name."""
        group = self.finder.names.scopes.group_of(imported)
        if group not in self._told_uses:
            self._told_uses[group] = tuple(self._uses.get(group, ()))
        return self._told_uses[group]

    def _linked(self, mention: Mention, found: Found, listed: set[int]) -> Mention:
        follows = self._follows(mention, found)
        facts = {"cast-guard"} if follows and mention.role == "comparison" and mention.kind == "dtype" else set()
        if mention.start in listed:
            facts.add("under-list")
        return replace(mention, follows=follows, facts=mention.facts | facts) if follows or facts else mention

    def _casts_under_lists(self) -> set[int]:
        """``if x.dtype not in (float16, v): x = x.to(v)``: the casts of x under a list that v is in."""
        return {
            start
            for mention, found in self.pairs
            if mention.role == "allowed-values" and found.role.test is not None
            for start in self._guarded_casts(mention, found)
        }

    def _follows(self, mention: Mention, found: Found) -> tuple[int, ...]:
        if mention.role == "allowed-values":
            return self._guarded_defaults(mention, found)
        if mention.kind == "switch":
            places = _places_beside(found)
            return tuple(self._beside.get(places[0], ())[:_MOST_TIES]) if places else ()
        if mention.role == "comparison" and "demands" not in mention.facts:
            return self._guarded_casts(mention, found)
        return ()

    def _guarded_defaults(self, check: Mention, found: Found) -> tuple[int, ...]:
        """The values of the same name in the class (or its bases), function or option call that the check is in."""
        settings = self._settings.get((check.kind, check.key), ())
        if not settings or not _checks_a_setting(found):
            return ()
        beside = found.role.siblings if isinstance(found.role.siblings, ast.Call) else None
        if beside is not None:
            return tuple(each.start for each, other in settings if any(beside is node for node in other.ancestors))
        scopes = self._scopes_of(found)
        seen = sorted(each for scope in scopes for each in self._in_scope.get((check.kind, check.key, scope), ()))
        return tuple(start for _, start in seen)

    def _scopes_of(self, check: Found) -> set[str]:
        """The scopes whose values a check sees: its function's, its class's, the bases' that this file defines."""
        scopes = {check.scope}
        if check.role.test is not None and isinstance(check.role.test.left, ast.Name):
            return scopes
        for node in check.ancestors:
            if isinstance(node, ast.ClassDef):
                scopes |= _with_bases(self._classes, node.name)
        return scopes

    @cached_property
    def _classes(self) -> dict[str, ast.ClassDef]:
        """The classes that the file defines at its top, by name."""
        return {node.name: node for node in self.finder.tree.module.body if isinstance(node, ast.ClassDef)}

    def _sort_in_cast(self, subject: str, mention: Mention, found: Found) -> None:
        """Remember a cast of ``subject`` by the branches that it stands in, and by its place in the blocks around."""
        for node, below in _pairs((*found.ancestors, found.node)):
            if isinstance(node, (ast.IfExp, ast.If, ast.While)):
                self._casts[subject, id(node)].append(mention)
            body = getattr(node, "body", None)
            at = self.finder.tree.place_of(below, body) if isinstance(body, list) else None
            if at is not None:
                self._casts_after[subject, id(node)].append((at, mention))

    def _guarded_casts(self, mention: Mention, check: Found) -> tuple[int, ...]:
        """The casts of x to v that ``x.dtype == v`` or ``x.dtype != v`` stands around or before.

        In the branches of an ``if``, ``while`` or ``a if test else b``, and after an ``if`` that returns x as it is.
        """
        subject = _subject_of(check)
        if subject is None:
            return ()
        choice = next((node for node in reversed(check.ancestors) if isinstance(node, ast.IfExp)), None)
        casts = list(self._casts.get((subject, id(choice)), ())[:_MOST_TIES])
        statement = statement_around(check.ancestors)
        if isinstance(statement, (ast.If, ast.While)):
            casts += self._casts.get((subject, id(statement)), ())[:_MOST_TIES]
            casts += self._casts_below(subject, statement, check)
        return tuple(dict.fromkeys(cast.start for cast in casts if cast.value == mention.value))

    def _casts_below(self, subject: str, statement: ast.If | ast.While, check: Found) -> list[Mention]:
        """The casts after an ``if`` that returns, in the same block."""
        block = next((node for node, below in _pairs(check.ancestors) if below is statement), None)
        casts = self._casts_after.get((subject, id(block)), ()) if isinstance(statement.body[-1], ast.Return) else ()
        if not casts or block is None:
            return []
        at = self.finder.tree.place_of(statement, block.body)  # type: ignore[attr-defined]
        first = bisect_right(casts, at, key=lambda each: each[0]) if at is not None else len(casts)
        return [cast for _, cast in casts[first : first + _MOST_TIES]]


_MOST_TIES = 50
"""So many mentions are tied to one."""


def _pairs(ancestors: tuple[ast.AST, ...]) -> Iterable[tuple[ast.AST, ast.AST]]:
    return pairwise(ancestors)


def _checks_a_setting(check: Found) -> bool:
    """Whether a check is about a name or an attribute of self, and not about a tensor's own ``q.dtype``."""
    left = check.role.test.left if check.role.test is not None else None
    if isinstance(left, ast.Attribute):
        return isinstance(left.value, ast.Name) and left.value.id in {"self", "cls"}
    return left is None or isinstance(left, ast.Name)


def _with_bases(classes: dict[str, ast.ClassDef], name: str) -> set[str]:
    """A class and those it inherits from, as far as they are among ``classes``."""
    found: set[str] = set()
    queue = [name]
    while queue:
        current = queue.pop()
        if current in classes and current not in found:
            found.add(current)
            queue += [dotted(base) or "" for base in classes[current].bases]
    return found


def _subject_of(check: Found) -> str | None:
    """``x`` of a test of ``x.dtype``."""
    left = dotted(check.role.test.left) if check.role.test is not None else None
    return left.removesuffix(".dtype") if left and left.endswith(".dtype") else None


def _cast_subject(found: Found) -> str | None:
    """``x`` of ``x.to(value)`` or ``x.bfloat16()``, for the value or the method."""
    if found.form == METHOD:
        return dotted(found.node.value) if isinstance(found.node, ast.Attribute) else None
    base, dot, method = (found.role.callee or "").rpartition(".")
    return base if dot and method in {"to", "type"} else None


def _places_beside(found: Found) -> list[object]:
    """What ties a switch and the values beside it: the call or dict around both, or the object that both are set on."""
    if found.role.siblings is not None:
        return [id(found.role.siblings)]
    owner = _owner(found)
    return [owner] if owner is not None else []


def _owner(found: Found) -> tuple[int, str] | None:
    """The block and the object of ``cfg.bf16 = True`` and ``cfg["bf16"] = True``."""
    statement = statement_around(found.ancestors)
    if not isinstance(statement, ast.Assign):
        return None
    target = statement.targets[0]
    name = dotted(target.value) if isinstance(target, (ast.Attribute, ast.Subscript)) else None
    block = next((node for node, below in _pairs(found.ancestors) if below is statement), None)
    return (id(block), name) if name and block is not None else None
