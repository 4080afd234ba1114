"""What a module provides at its top, for the imports of other modules."""

from __future__ import annotations

import ast

from precpatch.languages.python.imports import facts_of, modules_of
from precpatch.languages.python.reader import PythonLanguage
from precpatch.languages.python.tree import Tree
from precpatch.vocabulary import Vocabulary, builtin_vocabulary


def names_of(path: str, data: bytes) -> frozenset[str]:
    """The names that a module binds at its top; none where it needs flash_attn or another device for them.

    Raises:
        ReadError: it cannot be read.
    """
    vocabulary = builtin_vocabulary()
    kernels = {module.partition(".")[0] for module in vocabulary.padding}
    tree = Tree(PythonLanguage().open(path, data))
    if _needs(tree, vocabulary, kernels):
        return frozenset()
    names: set[str] = set()
    for statement in tree.module.body:
        if isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.ImportFrom):
            if (statement.module or "").partition(".")[0] in kernels | vocabulary.device_packages:
                return frozenset()
            names |= {alias.asname or alias.name for alias in statement.names}
    return frozenset(names)


def _needs(tree: Tree, vocabulary: Vocabulary, packages: set[str]) -> bool:
    """Whether one of the packages is imported anywhere in a way that may not fail."""
    return any(
        module.partition(".")[0] in packages and "guarded" not in facts_of(tree, vocabulary, ancestors)
        for node, ancestors in tree.walk(range(1, len(tree.source.line_starts) + 1))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for module, _ in modules_of(node)
    )
