"""Casts whose bytes are read as another dtype: ``x.to(dtype=torch.bfloat16).contiguous().view(torch.uint8)``.

The view may follow the cast at once, after methods that keep the dtype, or under the name that the cast is given.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property

from precpatch.languages.python.names import Names
from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, dotted, last_name, string
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.needles import Needles

_KEEPS = frozenset(
    {"clone", "contiguous", "cpu", "cuda", "detach", "expand", "flatten", "narrow", "permute", "pin_memory", "ravel"}
    | {"requires_grad_", "reshape", "squeeze", "t", "transpose", "unsqueeze", "view", "view_as"}
)
"""Methods that give the same numbers in the same dtype."""

_KEEPING_FIELDS = frozenset({"data", "mT", "T"})
_OTHER_DTYPE = re.compile(r"u?int\d+|bits\d+")
_OF_TORCH = frozenset({"byte", "char", "int", "long", "short"})
"""Names of integers that are ordinary words elsewhere."""

_LEADS_ON = (ast.keyword, ast.IfExp, ast.BoolOp)


class Views:
    """What the views of one file read the bytes of."""

    def __init__(self, tree: Tree, names: Names, vocabulary: Vocabulary) -> None:
        self.tree = tree
        self.names = names
        self._of_torch = _OF_TORCH.union(name for name, value in vocabulary.torch_dtypes.items() if value != "bfloat16")

    def read(self, node: ast.AST, ancestors: Ancestors) -> bool:
        """Whether a dtype, or a cast by method, makes bytes that are read as another dtype."""
        at = len(ancestors) - 1
        while at >= 0 and isinstance(ancestors[at], _LEADS_ON):
            at -= 1
        if at < 0 or not isinstance(ancestors[at], ast.Call):
            return False
        at, viewed = self._follow(ancestors, at)
        return viewed or self._is_named(ancestors, at)

    def _follow(self, ancestors: Ancestors, at: int) -> tuple[int, bool]:
        """How far what is made at ``at`` keeps its dtype, and whether a view reads its bytes."""
        while at > 0:
            around, above = ancestors[at - 1], ancestors[at - 2] if at > 1 else None
            if isinstance(around, ast.Subscript) and around.value is ancestors[at]:
                at -= 1
            elif not isinstance(around, ast.Attribute):
                break
            elif isinstance(above, ast.Call) and above.func is around:
                if self._reads_other(above, ancestors[: at - 2]):
                    return at, True
                if not _keeps(above):
                    break
                at -= 2
            elif around.attr in _KEEPING_FIELDS:
                at -= 1
            else:
                break
        return at, False

    def _is_named(self, ancestors: Ancestors, at: int) -> bool:
        """Whether what stands at ``at`` is given a name whose bytes a view reads in the same function."""
        around = ancestors[at - 1] if at > 0 else None
        if not isinstance(around, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or around.value is not ancestors[at]:
            return False
        targets = around.targets if isinstance(around, ast.Assign) else [around.target]
        return any((_scope(ancestors), name) in self._named for each in targets if (name := dotted(each)))

    @cached_property
    def _named(self) -> set[tuple[int, str]]:
        """The names whose bytes a view reads, each with the function that it is in."""
        found = set()
        for node, ancestors in self.tree.walk(self.tree.lines_with(Needles(), (b".view(",))):
            if isinstance(node, ast.Call) and self._reads_other(node, ancestors):
                name = dotted(_owner(node))
                if name is not None:
                    found.add((_scope(ancestors), name))
        return found

    def _reads_other(self, call: ast.Call, ancestors: Ancestors) -> bool:
        """``x.view(torch.int16)``, ``x.view(dtype=torch.uint8)``."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "view":
            return False
        given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "dtype")]
        return any(self._is_other(each, ancestors) for each in given)

    def _is_other(self, node: ast.expr, ancestors: Ancestors) -> bool:
        name = (dotted(node) or "").rpartition(".")[2]
        if _OTHER_DTYPE.fullmatch(name):
            return True
        return name in self._of_torch and isinstance(node, ast.Attribute) and self.names.is_torch(node.value, ancestors)


def _keeps(call: ast.Call) -> bool:
    """Whether a method gives what it is called on, in the same dtype."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method != "to":
        return method in _KEEPS
    first = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "device"), None)
    return string(first) is not None or "device" in (last_name(first) or "")


def _owner(view: ast.expr) -> ast.expr:
    """What a view is of: ``t`` of ``t.contiguous()[0].view(torch.uint8)``."""
    node = view.func.value if isinstance(view, ast.Call) and isinstance(view.func, ast.Attribute) else view
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _keeps(node):
            node = node.func.value
        elif isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _KEEPING_FIELDS):
            node = node.value
        else:
            return node


def _scope(ancestors: Ancestors) -> int:
    return next((id(each) for each in reversed(ancestors) if isinstance(each, (ast.Module, *FUNCTIONS))), 0)
