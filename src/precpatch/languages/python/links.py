"""Tying together what changes together: checks and defaults, tests and casts, switches and dtypes, imports and uses."""

from __future__ import annotations

import ast
from dataclasses import replace

from precpatch.languages.mention import Mention
from precpatch.languages.python.find import Finder, Found, statement_around
from precpatch.languages.python.names import ImportedDtype
from precpatch.languages.python.tree import dotted, scope_of

Pairs = list[tuple[Mention, Found]]


def link(finder: Finder, pairs: Pairs) -> list[Mention]:
    """The mentions with ``follows`` filled in."""
    linked = []
    listed = _casts_under_lists(pairs)
    for mention, found in pairs:
        follows = _follows(finder, mention, found, pairs)
        facts = {"cast-guard"} if follows and mention.role == "comparison" and mention.kind == "dtype" else set()
        if mention.start in listed:
            facts.add("under-list")
        linked.append(replace(mention, follows=follows, facts=mention.facts | facts))
    return linked


def _casts_under_lists(pairs: Pairs) -> set[int]:
    """``if x.dtype not in (float16, v): x = x.to(v)``: the casts of x under a list that v is in."""
    return {
        start
        for mention, found in pairs
        if mention.role == "allowed-values" and found.role.test is not None
        for start in _guarded_casts(found, pairs)
    }


def _follows(finder: Finder, mention: Mention, found: Found, pairs: Pairs) -> tuple[int, ...]:
    if mention.role == "allowed-values":
        return _guarded_defaults(finder, mention, found, pairs)
    if mention.kind == "switch":
        return _values_beside(found, pairs)
    if mention.role == "comparison" and "demands" not in mention.facts:
        return _guarded_casts(found, pairs)
    return ()


def _guarded_defaults(finder: Finder, check: Mention, found: Found, pairs: Pairs) -> tuple[int, ...]:
    """The values of the same name in the class (or its bases), function or option call that the check is in."""
    if not _checks_a_setting(found):
        return ()
    scopes = _scopes_of(finder.tree.module, found)
    beside = found.role.siblings if isinstance(found.role.siblings, ast.Call) else None
    return tuple(
        mention.start
        for mention, other in pairs
        if mention.role == "value"
        and (mention.kind, mention.key) == (check.kind, check.key)
        and (beside in other.ancestors if beside is not None else mention.scope in scopes)
    )


def _checks_a_setting(check: Found) -> bool:
    """Whether a check is about a name or an attribute of self, and not about a tensor's own ``q.dtype``."""
    left = check.role.test.left if check.role.test is not None else None
    if isinstance(left, ast.Attribute):
        return isinstance(left.value, ast.Name) and left.value.id in {"self", "cls"}
    return left is None or isinstance(left, ast.Name)


def _scopes_of(module: ast.Module, check: Found) -> set[str]:
    """The scopes whose values a check sees: its function's, its class's, the bases' that this file defines."""
    scopes = {scope_of(check.ancestors)}
    if check.role.test is not None and isinstance(check.role.test.left, ast.Name):
        return scopes
    for node in check.ancestors:
        if isinstance(node, ast.ClassDef):
            scopes |= _with_bases(module, node.name)
    return scopes


def _with_bases(module: ast.Module, name: str) -> set[str]:
    """A class and those it inherits from, as far as the file defines them at its top."""
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    found: set[str] = set()
    queue = [name]
    while queue:
        current = queue.pop()
        if current in classes and current not in found:
            found.add(current)
            queue += [dotted(base) or "" for base in classes[current].bases]
    return found


def _guarded_casts(check: Found, pairs: Pairs) -> tuple[int, ...]:
    """The casts of x to v that ``x.dtype == v`` or ``x.dtype != v`` stands around or before.

    In the branches of an ``if``, ``while`` or ``a if test else b``, and after an ``if`` that returns x as it is.
    """
    subject = _subject_of(check)
    if subject is None:
        return ()
    places = _guarded_places(check)
    return tuple(
        mention.start
        for mention, other in pairs
        if other.value == check.value
        and mention.role in {"value", "method-cast"}
        and any(place in other.ancestors for place in places)
        and _casts(other, subject)
    )


def _subject_of(check: Found) -> str | None:
    """``x`` of a test of ``x.dtype``."""
    left = dotted(check.role.test.left) if check.role.test is not None else None
    return left.removesuffix(".dtype") if left and left.endswith(".dtype") else None


def _guarded_places(check: Found) -> list[ast.AST]:
    """The constructs whose test the comparison is part of, and the statements after an early return."""
    places: list[ast.AST] = [*[node for node in check.ancestors if isinstance(node, ast.IfExp)][-1:]]
    statement = statement_around(check.ancestors)
    if isinstance(statement, (ast.If, ast.While)):
        places.append(statement)
        block = check.ancestors[check.ancestors.index(statement) - 1]
        body = getattr(block, "body", [])
        if isinstance(statement.body[-1], ast.Return) and statement in body:
            places += body[body.index(statement) + 1 :]
    return places


def _casts(found: Found, subject: str) -> bool:
    """Whether the value is what ``subject.to(value)`` or ``subject.bfloat16()`` casts to."""
    if found.spelling == "method":
        return isinstance(found.node, ast.Attribute) and dotted(found.node.value) == subject
    return found.role.callee in {f"{subject}.to", f"{subject}.type"}


def _values_beside(switch: Found, pairs: Pairs) -> tuple[int, ...]:
    """The dtype values in the same call or dict as a switch, or set on the same object in the same block."""
    return tuple(
        mention.start
        for mention, other in pairs
        if other.kind == "dtype" and mention.role == "value" and _are_beside(switch, other)
    )


def _are_beside(switch: Found, other: Found) -> bool:
    if switch.role.siblings is not None:
        return switch.role.siblings is other.role.siblings
    owner = _owner(switch)
    return owner is not None and owner == _owner(other)


def _owner(found: Found) -> tuple[int, str] | None:
    """The block and the object of ``cfg.bf16 = True`` and ``cfg["bf16"] = True``."""
    statement = statement_around(found.ancestors)
    if not isinstance(statement, ast.Assign) or found.role.siblings is not None:
        return None
    target = statement.targets[0]
    name = dotted(target.value) if isinstance(target, (ast.Attribute, ast.Subscript)) else None
    return (id(found.ancestors[found.ancestors.index(statement) - 1]), name) if name else None


def uses_of(imported: ImportedDtype, pairs: Pairs) -> tuple[int, ...]:
    """The uses of an imported dtype."""
    return tuple(
        mention.start
        for mention, found in pairs
        if isinstance(found.node, ast.Name) and found.node.id == imported.local
    )
