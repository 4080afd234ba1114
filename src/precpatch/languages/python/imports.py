"""Imports of packages with kernels: what they name, and whether the program goes on where they fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, dotted, last_name
from precpatch.vocabulary import Vocabulary

_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_AVAILABLE = re.compile(r"_available|has_|have_|installed")


def modules_of(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, list[str]]]:
    """The modules that a statement imports by their full name, each with the names that it takes from there."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, []) for alias in node.names)
    elif not node.level:
        yield node.module or "", [alias.name for alias in node.names]


def facts_of(tree: Tree, vocabulary: Vocabulary, ancestors: Ancestors) -> set[str]:
    """``lazy``: inside a function. ``guarded``: it may fail."""
    facts = set()
    if any(isinstance(parent, FUNCTIONS) for parent in ancestors):
        facts.add("lazy")
    for at, parent in enumerate(ancestors):
        if _lets_fail(parent, ancestors[at + 1 : at + 2]) or _asks_first(tree, vocabulary, parent):
            facts.add("guarded")
    return facts


def _lets_fail(parent: ast.AST, below: Ancestors) -> bool:
    """A ``try`` whose body the import is in and that catches its failure."""
    if not isinstance(parent, ast.Try):
        return False
    if below and any(below[0] is each for each in (*parent.handlers, *parent.orelse, *parent.finalbody)):
        return False
    if all(isinstance(each, ast.Pass) for handler in parent.handlers for each in handler.body):
        return False  # nothing stands in for the names: the failure only comes later
    caught = {name for handler in parent.handlers for name in _caught(handler)}
    return bool(caught & _IMPORT_ERRORS)


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {last_name(each) or "" for each in types}


def _asks_first(tree: Tree, vocabulary: Vocabulary, parent: ast.AST) -> bool:
    """An ``if`` that asks for the package; one that only asks for a device does not."""
    if not isinstance(parent, (ast.If, ast.IfExp)):
        return False
    test = _device_checks(vocabulary.device_words).sub("", tree.text(parent.test).lower())
    return _AVAILABLE.search(test) is not None or any(name in test for name in _names_asked_for(vocabulary))


@lru_cache(maxsize=4)
def _device_checks(words: frozenset[str]) -> re.Pattern[str]:
    """What asks for a device and not for a package."""
    names = "|".join(["cuda", *sorted(words)])
    return re.compile(rf"is_(?:torch_)?(?:{names})_available|(?:{names})\.is_available|device_name")


def _names_asked_for(vocabulary: Vocabulary) -> set[str]:
    """Parts of what a test calls a package with kernels: ``use_flash``, ``HAVE_TRITON``."""
    return {package.name.partition("_")[0] for package in vocabulary.packages} | vocabulary.flash_aliases


def replaces_attention(vocabulary: Vocabulary, statement: ast.stmt) -> bool:
    """``Attention.forward = some_flash_attn_forward``."""
    if not isinstance(statement, ast.Assign):
        return False
    target, value = statement.targets[0], dotted(statement.value) or ""
    return (
        isinstance(target, ast.Attribute)
        and target.attr == "forward"
        and vocabulary.hints_at(value.rpartition(".")[2], "attention")
    )
