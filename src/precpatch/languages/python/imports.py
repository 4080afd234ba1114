"""Imports of packages with kernels: what they name, and whether the program goes on where they fail."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from precpatch.languages.python.tree import FUNCTIONS, SCOPES, Ancestors, Tree, dotted, last_name, string
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.needles import Needles

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
    caught = {name for handler in parent.handlers if not _stops(handler.body) for name in _caught(handler)}
    return bool(caught & _IMPORT_ERRORS)


_STOPS = frozenset({"exit", "_exit", "quit", "abort"})


def _stops(body: list[ast.stmt]) -> bool:
    """Whether a block always ends the program: it raises, leaves, or asserts what is never true."""
    last = body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return last_name(last.value.func) in _STOPS
    if isinstance(last, ast.Assert):
        return isinstance(last.test, ast.Constant) and not last.test.value
    if isinstance(last, ast.If):
        return bool(last.orelse) and _stops(last.body) and _stops(last.orelse)
    return isinstance(last, ast.Raise)


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


def named_by_call(node: ast.Call, function: str) -> str | None:
    """The module of ``importlib.import_module("a.b")`` and ``__import__("a.b")``, as far as it is written there."""
    if function not in _IMPORTERS:
        return None
    module = _written(_argument(node, 0, "name"))
    if module is not None and module.startswith("."):
        package = _written(_argument(node, 1, "package"))
        return f"{package}{module}" if package else None
    return module.rstrip(".") if module else None


_IMPORTERS = frozenset({"importlib.import_module", "importlib.__import__", "__import__"})


def _argument(node: ast.Call, at: int, name: str) -> ast.expr | None:
    return (
        node.args[at] if len(node.args) > at else next((each.value for each in node.keywords if each.arg == name), None)
    )


def _written(node: ast.expr | None) -> str | None:
    """A text, or how it begins: ``f"a.{x}"``, ``"a." + x``."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0] if node.values else None
    while isinstance(node, ast.BinOp):
        node = node.left
    return string(node)


def falls_back_to_none(node: ast.Import | ast.ImportFrom, ancestors: Ancestors) -> set[str]:
    """The names of an import that are None where it fails."""
    local = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    handlers = [each for parent in ancestors if isinstance(parent, ast.Try) for each in parent.handlers]
    found: set[str] = set()
    for statement in (each for handler in handlers for each in handler.body if isinstance(each, ast.Assign)):
        for target in statement.targets:
            found |= local & _set_to_none(target, statement.value)
    return found


def _set_to_none(target: ast.expr, value: ast.expr) -> set[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
        return set().union(*(_set_to_none(each, of) for each, of in zip(target.elts, values, strict=False)))
    is_none = isinstance(value, ast.Constant) and value.value is None
    return {target.id} if is_none and isinstance(target, ast.Name) else set()


_MOST_USES = 50
"""So many uses of a name that may be None are looked at."""


def is_called_untested(tree: Tree, vocabulary: Vocabulary, names: set[str]) -> bool:
    """Whether one of the names, which may be None, is called where nothing asks whether it is there.

    A class or a function asks for all of it; one that says FlashAttention by its name is only reached by who asks.
    """
    if not names:
        return False
    lines = tree.lines_with(Needles(), [name.encode() for name in sorted(names)])
    used = list(tree.walk(lines))
    asking = names.union(*(_answers(node) for node, _ in used))
    calls = (each for each in used if _calls_one(*each, names))
    return any(not _is_tested(tree, vocabulary, ancestors, asking) for _, ancestors in islice(calls, _MOST_USES))


def _answers(node: ast.AST) -> set[str]:
    """``HAS = name is not None``: the names that hold whether something is there."""
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Compare, ast.UnaryOp)):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()


def _calls_one(node: ast.AST, ancestors: Ancestors, names: set[str]) -> bool:
    """``name(...)``, ``name.f(...)``, ``@name.f``."""
    if not isinstance(node, ast.Name) or node.id not in names or not ancestors:
        return False
    at = len(ancestors) - 1
    while at and isinstance(ancestors[at], ast.Attribute):
        at -= 1
    parent, child = ancestors[at], (*ancestors, node)[at + 1]
    return (isinstance(parent, ast.Call) and parent.func is child) or (
        isinstance(parent, SCOPES) and any(child is each for each in parent.decorator_list)
    )


def _is_tested(tree: Tree, vocabulary: Vocabulary, ancestors: Ancestors, names: set[str]) -> bool:
    scopes = [node for node in ancestors if isinstance(node, SCOPES)]
    if any(vocabulary.is_flash_kernel(scope.name) for scope in scopes):
        return True
    tests = list(ancestors)
    if scopes:
        tests += ast.walk(scopes[0])
    return any(_asks_for(tree, vocabulary, node, names) for node in tests)


def _asks_for(tree: Tree, vocabulary: Vocabulary, node: ast.AST, names: set[str]) -> bool:
    """Whether a test asks for one of the names, for the package, or for the implementation."""
    test = getattr(node, "test", None)
    if isinstance(node, ast.BoolOp):
        test = node.values[0]
    if not isinstance(test, ast.expr):
        return False
    text = tree.text(test)
    return (
        any(re.search(rf"\b{re.escape(name)}\b", text) for name in names)
        or _AVAILABLE.search(text.lower()) is not None
        or any(name in text.lower() for name in _names_asked_for(vocabulary))
        or vocabulary.hints_at(text, "attention")
    )


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
