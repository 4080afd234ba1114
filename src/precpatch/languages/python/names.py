"""What the names of a file stand for: aliases of torch, imported dtypes, names that something else shadows."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from precpatch.languages.python.scopes import ImportedDtype, Scopes, bindings_of, bound_by
from precpatch.languages.python.tree import FUNCTIONS, Ancestors, Tree, dotted, last_name, string
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.needles import Needles

_IMPORT = Needles((b"import",))


class Names:
    """The names of one file, looked up from a place in its tree."""

    def __init__(self, tree: Tree, vocabulary: Vocabulary) -> None:
        self._tree = tree
        self._vocabulary = vocabulary
        self._taken: dict[str, bool] = {}
        self._bound: dict[int, frozenset[str]] = {}
        self.torch: set[str] = set()
        self.functions: dict[str, str] = {}
        self.scopes = Scopes(tree)
        self.dtypes = self.scopes.dtypes
        for node, ancestors in tree.walk(tree.lines_with(_IMPORT)):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._import_from(node, ancestors)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name == "torch" or (alias.name.startswith("torch.") and not alias.asname):
                self.torch.add(alias.asname or "torch")
            elif alias.asname:
                self.functions[alias.asname] = alias.name

    def _import_from(self, node: ast.ImportFrom, ancestors: Ancestors) -> None:
        for alias in node.names:
            value = self._vocabulary.torch_dtypes.get(alias.name) if node.module == "torch" else None
            if value is not None:
                self.scopes.add(node, alias, value, ancestors)
            else:
                self.functions[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    @property
    def knows_torch(self) -> bool:
        """Whether the file imports torch, or something from it."""
        return bool(self.torch or self.dtypes) or any(
            full.partition(".")[0] == "torch" for full in self.functions.values()
        )

    def is_torch(self, node: ast.AST, ancestors: Ancestors) -> bool:
        """Whether the expression is the torch module, seen from under ``ancestors``.

        A bare ``torch`` that the file binds nowhere (a star import, a snippet) counts as the module.
        """
        if not isinstance(node, ast.Name):
            return _imported_there(node) == "torch"
        if node.id not in self.torch and not (node.id == "torch" and "torch" not in self._bound_anywhere):
            return False
        return not self.is_shadowed(node.id, ancestors)

    def imported_dtype(self, node: ast.AST, ancestors: Ancestors) -> ImportedDtype | None:
        """The import that a name such as ``bf`` goes back to, if it is a dtype of torch."""
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return None
        return self.scopes.imported(node, ancestors)

    def is_shadowed(self, name: str, ancestors: Ancestors) -> bool:
        """Whether a function around the place binds ``name`` to something that is not an import."""
        return any(name in self._bindings(node) for node in ancestors if isinstance(node, FUNCTIONS))

    def _bindings(self, function: ast.AST) -> frozenset[str]:
        key = id(function)
        if key not in self._bound:
            self._bound[key] = _bindings_of(function)
        return self._bound[key]

    @cached_property
    def _bound_anywhere(self) -> frozenset[str]:
        """Every name that is bound at module level by something other than an import."""
        return _bindings_of(self._tree.module)

    def is_taken(self, name: str) -> bool:
        """Whether the file binds ``name`` to something that is not torch's dtype of that name."""
        if name not in self._taken:
            binds = r"=(?!=)" if name in self.dtypes else r"(?:=(?!=)|:|,|\bin\b)"
            self._taken[name] = (
                name in self.functions
                or self.scopes.means_another(name)
                or re.search(rf"(?<![\w.]){re.escape(name)}\s*{binds}", self._tree.source.text) is not None
            )
        return self._taken[name]

    def full_name(self, name: str | None) -> str | None:
        """A dotted name with its first part replaced by what it was imported from."""
        if name is None:
            return None
        first, dot, rest = name.partition(".")
        if first in self.torch:
            first = "torch"
        return self.functions.get(first, first) + dot + rest


def _imported_there(node: ast.AST) -> str | None:
    """The module of ``__import__("torch")``, ``importlib.import_module("torch")``, ``sys.modules["torch"]``."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and last_name(node.func) in {"__import__", "import_module"}:
        return string(node.args[0])
    if isinstance(node, ast.Subscript) and dotted(node.value) == "sys.modules":
        return string(node.slice)
    return None


def _bindings_of(scope: ast.AST) -> frozenset[str]:
    """Names that a function or module binds itself; those that it imports as well are left out."""
    names, aliases = bindings_of(scope)
    return names - bound_by(aliases)
