"""Dataclasses that refuse a value which the patch sets: ``assert self.dtype in ["bfloat16"]`` in ``__post_init__``.

Read from the source, as building one often fails before that, for want of a value that the user has to give.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from .places import file_of, modules_now, own_path

_LONGEST_VALUE = 200


def do(job: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Look at every dataclass that the imported modules of the checkout define.

    Returns:
        ``classes``, their number; ``refusals``, with ``path``, ``line`` and ``text``: classes that refuse the value
        that they have by default; ``values``, with ``path``, ``line`` and ``name`` of each class: its defaults.
    """
    found = list(_dataclasses(request["root"]))
    refusals = []
    for kind, path in found:
        for text in refused_values(kind, request["words"]):
            refusals.append({"path": path, "line": _line(kind), "text": text})
    values = [
        {"path": path, "line": _line(kind), "name": kind.__name__, "values": list(_defaults(kind))}
        for kind, path in found
    ]
    return {"classes": len(found), "refusals": refusals, "values": values}


def row(keys: Sequence[Any], value: Any, origin: str = "") -> Iterator[dict[str, Any]]:
    """A value as it is answered, if it is a plain one: the keys that lead to it, and where it comes from."""
    if isinstance(value, (bool, int, str)) and len(str(value)) <= _LONGEST_VALUE:
        plain = str(value) if isinstance(value, str) else value
        yield {"keys": [key if isinstance(key, int) else str(key) for key in keys], "value": plain, "origin": origin}


def _defaults(kind: Any) -> Iterator[dict[str, Any]]:
    """The plain defaults that a dataclass does not inherit, and its own name as what it is made by."""
    yield from row((kind.__name__, "_target_"), f"{kind.__module__}.{kind.__name__}")
    for field in dataclasses.fields(kind):
        if field.name in vars(kind):
            yield from row((kind.__name__, field.name), field.default)


def refused_values(kind: Any, words: dict[str, str], given: dict[str, Any] | None = None) -> list[str]:
    """The values of ``words`` that a dataclass refuses, by default or as ``given``, in a sentence each."""
    values = {field.name: (given or {}).get(field.name, field.default) for field in dataclasses.fields(kind)}
    refused = []
    for name, allowed in _checks(kind):
        value = values.get(name)
        if isinstance(value, str) and value in words and value not in allowed:
            refused.append(f"{kind.__name__}.__post_init__ refuses {name}={value!r}: it takes {', '.join(allowed)}")
    return refused


def _dataclasses(root: str) -> Iterator[tuple[Any, str]]:
    """The dataclasses of the imported modules below ``root``, each once, with the file that defines it."""
    for name in sorted(modules_now()):
        module = sys.modules.get(name)
        path = own_path(file_of(module) or os.devnull, root)
        for kind in list(getattr(module, "__dict__", {}).values()) if path else ():
            if _is_dataclass_of(kind, name):
                yield kind, path


def _is_dataclass_of(kind: Any, module: str) -> bool:
    """Whether anything at all is a dataclass that a module defines."""
    with suppress(Exception):
        return isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module
    return False


def _line(kind: Any) -> int:
    with suppress(OSError, TypeError):
        return inspect.getsourcelines(kind)[1]
    return 1


def _checks(kind: Any) -> Iterator[tuple[str, list[str]]]:
    """Fields with the only strings that ``__post_init__`` lets through, whatever else is set."""
    for each in kind.__mro__:
        method = vars(each).get("__post_init__")
        if method is None:
            continue
        body = _body(method)
        for statement in body:
            yield from _check(statement)
        if not _calls_super(body):
            return


def _body(method: Any) -> Sequence[ast.stmt]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    except (OSError, TypeError, SyntaxError):
        return ()
    function = tree.body[0]
    return function.body if isinstance(function, ast.FunctionDef) else ()


def _calls_super(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "super" for each in body for node in ast.walk(each))


def _check(statement: ast.stmt) -> Iterator[tuple[str, list[str]]]:
    """``assert self.x in [...]``, or ``if self.x not in [...]: raise``."""
    if isinstance(statement, ast.Assert):
        yield from _membership(statement.test, ast.In)
    elif isinstance(statement, ast.If) and isinstance(statement.body[0], ast.Raise):
        yield from _membership(statement.test, ast.NotIn)


def _membership(test: ast.expr, kind: type[ast.cmpop]) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], kind) or len(test.ops) > 1:
        return
    left, right = test.left, test.comparators[0]
    if not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
        return
    values = [each.value for each in right.elts if isinstance(each, ast.Constant)]
    is_field = isinstance(left, ast.Attribute) and isinstance(left.value, ast.Name) and left.value.id == "self"
    if is_field and len(values) == len(right.elts):
        yield left.attr, [str(value) for value in values]  # type: ignore[attr-defined]
