"""The action "padding": where the padding helpers of ``flash_attn.bert_padding`` come from without flash-attn.

They are pure PyTorch. Newer verl has them in a module of its own; where a checkout has none, precpatch adds one. Which
it is depends on the rest of the checkout, so these fixes are made last, when all files were looked at.
"""

from __future__ import annotations

import re
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

_RUN_BY_ITSELF = re.compile(r"__name__\s*==\s*['\"]__main__")

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
        named: the packages that a module of theirs imports from by the folder's name. Else that name is no proof: a
            checkout may be a package inside another one.
    """

    packages: frozenset[str]
    providers: Mapping[str, frozenset[str]]
    shim: bytes
    named: frozenset[str] = frozenset()

    @classmethod
    def among(cls, packages: Iterable[str], modules: Iterable[tuple[str, bytes]], shim: bytes) -> PaddingHomes:
        """Look at the ``modules`` of the checkout: path and bytes."""
        known = frozenset(packages)
        provided: dict[str, frozenset[str]] = {}
        named: set[str] = set()
        outermost: dict[str, PurePosixPath | None] = {}
        for path, data in modules:
            if NEEDLE in data:
                provided[path] = _helpers_of(path, data)
            folder = path.rpartition("/")[0]
            if folder not in outermost:
                outermost[folder] = _package_of(known, path)
            package = outermost[folder]
            if package is not None and str(package) not in named and _imports_from(data, package.name):
                named.add(str(package))
        providers = {path: names for path, names in provided.items() if names >= _MUST}
        return cls(known, providers, shim, frozenset(named))

    def home_for(self, path: str, names: Iterable[str], text: str) -> Home | None:
        """Where the file ``path``, with this text, can import ``names`` from; None where nothing can provide them.

        By the name of its package where that is proven, else relatively, which a file that is run by itself cannot.
        """
        package = _package_of(self.packages, path)
        wanted = frozenset(names)
        if package is None or not wanted <= NAMES:
            return None
        is_named = str(package) in self.named
        if not is_named and _RUN_BY_ITSELF.search(text):
            return None
        for provider in sorted(self.providers):
            if (
                provider != path
                and _package_of(self.packages, provider) == package
                and wanted <= self.providers[provider]
            ):
                return Home(self._module(provider, package if is_named else None, path))
        return self._shim(package, path, is_named)

    def _shim(self, package: PurePosixPath, path: str, is_named: bool) -> Home:
        folder = package / "utils" if f"{package}/utils" in self.packages else package
        place = str(folder / f"{SHIM}.py")
        return Home(self._module(place, package if is_named else None, path), NewFile(place, self.shim))

    @staticmethod
    def _module(target: str, package: PurePosixPath | None, path: str) -> str:
        """What ``path`` imports ``target`` by: from ``package`` where its name is proven, else relatively."""
        if package is not None:
            return ".".join(PurePosixPath(target).relative_to(package.parent).with_suffix("").parts)
        folder = PurePosixPath(path).parent
        dots = "."
        while not PurePosixPath(target).is_relative_to(folder):
            folder, dots = folder.parent, dots + "."
        return dots + ".".join(PurePosixPath(target).relative_to(folder).with_suffix("").parts)


def _package_of(packages: frozenset[str], path: str) -> PurePosixPath | None:
    """The outermost folder around a file that is a package, with no gap in between."""
    package = None
    for folder in PurePosixPath(path).parents:
        if str(folder) not in packages:
            break
        package = folder
    return package


def _imports_from(data: bytes, package: str) -> bool:
    """Whether a module imports from a package by this name."""
    return re.search(rb"^[ \t]*(?:from|import)[ \t]+%b\b" % re.escape(package).encode(), data, re.MULTILINE) is not None


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
    home = homes.home_for(mention.path, (mention.key or "").split(","), source.text) if homes else None
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
