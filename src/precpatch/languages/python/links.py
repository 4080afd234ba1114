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
    for mention, found in pairs:
        follows = _follows(finder, mention, found, pairs)
        facts = {"cast-guard"} if follows and mention.role == "comparison" else set()
        linked.append(replace(mention, follows=follows, facts=mention.facts | facts))
    return linked


def _follows(finder: Finder, mention: Mention, found: Found, pairs: Pairs) -> tuple[int, ...]:
    if mention.role == "allowed-values":
        return _guarded_defaults(finder, mention, found, pairs)
    if mention.kind == "switch" and found.role.siblings is not None:
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
    """``if x.dtype != v: x = x.to(v)``: the casts of x to v in the branch."""
    test, branch = check.role.test, statement_around(check.ancestors)
    if test is None or not isinstance(test.ops[0], (ast.NotEq, ast.IsNot)) or not isinstance(branch, ast.If):
        return ()
    subject = dotted(test.left)
    if not subject or not subject.endswith(".dtype"):
        return ()
    return tuple(
        mention.start
        for mention, other in pairs
        if branch in other.ancestors
        and other.value == check.value
        and mention.role in {"value", "method-cast"}
        and _casts(other, subject.removesuffix(".dtype"))
    )


def _casts(found: Found, subject: str) -> bool:
    """Whether the value is what ``subject.to(value)`` or ``subject.bfloat16()`` casts to."""
    if found.spelling == "method":
        return isinstance(found.node, ast.Attribute) and dotted(found.node.value) == subject
    return found.role.callee == f"{subject}.to"


def _values_beside(switch: Found, pairs: Pairs) -> tuple[int, ...]:
    """The dtype values in the same call or dict as a switch."""
    return tuple(
        mention.start
        for mention, other in pairs
        if other.kind == "dtype" and other.role.siblings is switch.role.siblings and mention.role == "value"
    )


def uses_of(imported: ImportedDtype, pairs: Pairs) -> tuple[int, ...]:
    """The uses of an imported dtype."""
    return tuple(
        mention.start
        for mention, found in pairs
        if isinstance(found.node, ast.Name) and found.node.id == imported.local
    )
