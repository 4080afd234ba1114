"""A dtype that is rebuilt from the label which its data carry: it says what they are, and decides nothing."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from precpatch.languages.python.tree import last_name

_READ_BYTES = frozenset({"frombuffer", "view"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def rebuilds(call: ast.Call, ancestors: Sequence[ast.AST]) -> bool:
    """Whether ``getattr(torch, name)`` gives data their own dtype again.

    The name is taken off a dtype, ``str(x.dtype)``, or bytes are read as it: ``data.view(getattr(torch, name))``,
    at once or under the name that it is assigned to.
    """
    if any(_is_text_of_dtype(node) for node in ast.walk(call.args[1])):
        return True
    parent = ancestors[-1]
    if isinstance(parent, (ast.Call, ast.keyword)):
        reader = parent if isinstance(parent, ast.Call) else ancestors[-2]
        return isinstance(reader, ast.Call) and last_name(reader.func) in _READ_BYTES
    function = next((node for node in reversed(ancestors) if isinstance(node, _FUNCTIONS)), None)
    if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or function is None:
        return False
    target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
    return isinstance(target, ast.Name) and any(_reads_bytes_as(node, target.id) for node in ast.walk(function))


def _is_text_of_dtype(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or last_name(node.func) not in {"str", "repr"} or len(node.args) != 1:
        return False
    return isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "dtype"


def _reads_bytes_as(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call) or last_name(node.func) not in _READ_BYTES:
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(isinstance(value, ast.Name) and value.id == name for value in given)
