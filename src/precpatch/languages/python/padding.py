"""Where the padding helpers of ``flash_attn.bert_padding`` can come from in a checkout without flash-attn.

They are pure PyTorch. Newer verl has them in a module of its own; where a checkout has none, precpatch adds one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from precpatch.languages.base import ReadError
from precpatch.languages.python.kernels import imports_in
from precpatch.languages.python.tree import Tree
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import NewFile

NAMES = frozenset({"index_first_axis", "index_put_first_axis", "pad_input", "rearrange", "unpad_input"})
"""The helpers that other code imports from flash_attn.bert_padding."""

NEEDLE = b"def unpad_input"
"""A module without these bytes provides no helpers."""

_MUST = frozenset({"index_first_axis", "pad_input", "unpad_input"})

SHIM = "precpatch_padding"
"""The module that a fix adds where a checkout has no such helpers of its own."""


@dataclass(frozen=True, slots=True)
class Home:
    """A module to import the helpers from; ``new_file`` is there where it has to be added to the checkout."""

    module: str
    new_file: NewFile | None = None


@dataclass(frozen=True)
class PaddingHomes:
    """The modules of one checkout that provide the helpers.

    Attributes:
        packages: the folders of the checkout that are packages, relative to its root.
        providers: path of a module -> the helpers that it provides without flash-attn.
    """

    packages: frozenset[str]
    providers: Mapping[str, frozenset[str]]

    @classmethod
    def among(cls, packages: Iterable[str], candidates: Mapping[str, SourceFile]) -> PaddingHomes:
        """Look at the ``candidates``: files with ``NEEDLE`` in them."""
        provided = {path: helpers_of(source) for path, source in candidates.items()}
        return cls(frozenset(packages), {path: names for path, names in provided.items() if names >= _MUST})

    def home_for(self, path: str, names: Iterable[str]) -> Home | None:
        """Where the file ``path`` can import ``names`` from; None where nothing in its package can provide them."""
        package = self._package_of(path)
        wanted = frozenset(names)
        if package is None or not wanted <= NAMES:
            return None
        for provider in sorted(self.providers):
            if provider != path and self._package_of(provider) == package and wanted <= self.providers[provider]:
                return Home(self._module(provider, package, path))
        return self._shim(package, path)

    def _shim(self, package: PurePosixPath, path: str) -> Home:
        folder = package / "utils" if f"{package}/utils" in self.packages else package
        place = str(folder / f"{SHIM}.py")
        return Home(self._module(place, package, path), NewFile(place, self._shim_source))

    @cached_property
    def _shim_source(self) -> bytes:
        return (Path(__file__).parents[2] / "shim" / "padding.py").read_bytes()

    def _package_of(self, path: str) -> PurePosixPath | None:
        """The outermost folder around a file that is a package, with no gap in between."""
        package = None
        for folder in PurePosixPath(path).parents:
            if str(folder) not in self.packages:
                break
            package = folder
        return package

    @staticmethod
    def _module(target: str, package: PurePosixPath, path: str) -> str:
        """What ``path`` imports ``target`` by: absolute where the package stands at the top, else relative.

        Under another folder, the name that the package is imported by is not known: ``recipe/prime`` may be
        ``recipe.prime`` or ``prime``.
        """
        if package.parent in {PurePosixPath("."), PurePosixPath("src")}:
            return ".".join(PurePosixPath(target).relative_to(package.parent).with_suffix("").parts)
        folder = PurePosixPath(path).parent
        dots = "."
        while not PurePosixPath(target).is_relative_to(folder):
            folder, dots = folder.parent, dots + "."
        return dots + ".".join(PurePosixPath(target).relative_to(folder).with_suffix("").parts)


def helpers_of(source: SourceFile) -> frozenset[str]:
    """The helpers that a module provides at its top, none where it needs flash_attn or another device for them."""
    try:
        tree = Tree(source)
    except ReadError:
        return frozenset()
    if any("guarded" not in facts for module, facts in imports_in(tree) if module.startswith("flash_attn")):
        return frozenset()
    names: set[str] = set()
    for statement in tree.module.body:
        if isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.ImportFrom):
            if (statement.module or "").partition(".")[0] in {"flash_attn", "torch_npu"}:
                return frozenset()
            names |= {alias.asname or alias.name for alias in statement.names}
    return frozenset(names & NAMES)
