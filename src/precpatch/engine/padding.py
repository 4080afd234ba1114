"""The action "padding": where the padding helpers of ``flash_attn.bert_padding`` come from without flash-attn.

They are pure PyTorch. Newer verl has them in a module of its own; where a checkout has none, precpatch adds one. Which
it is depends on the rest of the checkout, so these fixes are made last, when all files were looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from precpatch.engine.finding import Finding
from precpatch.languages.base import ReadError
from precpatch.languages.python.provides import names_of
from precpatch.languages.python.structure import replace_module
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit, NewFile

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
        shim: the source of the module that is added where nothing provides them.
    """

    packages: frozenset[str]
    providers: Mapping[str, frozenset[str]]
    shim: bytes

    @classmethod
    def among(cls, packages: Iterable[str], candidates: Iterable[tuple[str, bytes]], shim: bytes) -> PaddingHomes:
        """Look at the ``candidates``: path and bytes of the files with ``NEEDLE`` in them."""
        provided = {path: _helpers_of(path, data) for path, data in candidates}
        return cls(frozenset(packages), {path: names for path, names in provided.items() if names >= _MUST}, shim)

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
        return Home(self._module(place, package, path), NewFile(place, self.shim))

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


def _helpers_of(path: str, data: bytes) -> frozenset[str]:
    """The helpers that a module provides at its top, none where it needs flash_attn or another device for them."""
    try:
        return names_of(path, data) & NAMES
    except ReadError:
        return frozenset()


def with_homes(homes: PaddingHomes | None, source: SourceFile, findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one file with the fixes made that waited for the rest of the checkout."""
    return [_at_home(homes, source, finding) if finding.waits else finding for finding in findings]


def _at_home(homes: PaddingHomes | None, source: SourceFile, finding: Finding) -> Finding:
    mention = finding.mention
    home = homes.home_for(mention.path, (mention.key or "").split(",")) if homes else None
    new = _imported_from(home.module, mention.text) if home else None
    if home is None or new is None:
        return finding.lowered(f"{finding.message}; it cannot be rewritten in place")
    edit = Edit(mention.path, mention.start, source.data[mention.start : mention.end], new.encode(source.encoding))
    return replace(finding, edits=(edit,), after=new, new_file=home.new_file, waits=False)


def _imported_from(module: str, statement: str) -> str | None:
    try:
        return replace_module(statement, module)
    except ValueError:
        return None
