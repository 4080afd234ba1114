"""Which vLLM a checkout asks for, read as text from its lists of requirements, and what that needs of a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from precpatch.gpu.capability import ComputeCapability, parse_compute_capability
from precpatch.gpu.target import Pin, Target

if TYPE_CHECKING:
    from precpatch.doctor.facts import Support

_FILES = ("requirements*.txt", "requirements/*.txt", "setup.py", "pyproject.toml")
_MOST_BYTES = 500_000
"""A larger file is no list of requirements."""

_MOST_WISHES = 100
"""So many requirements are looked at in one file."""

_RANGE = r"[=<>!~]=?=?[ \t]*[\w.*+!]+"
_ASKS = re.compile(
    rf"""(?P<begin>^[ \t]*|["'])vllm(?:\[[^\]\n]*\])?[ \t]*(?P<versions>{_RANGE}(?:[ \t]*,[ \t]*{_RANGE})*)""", re.M
)
_LOWEST = frozenset({"==", "===", ">=", "~=", ">"})


@dataclass(frozen=True, slots=True)
class Wish:
    """One place that asks for versions of vLLM.

    Attributes:
        lowest: the lowest version that will do; None where any older one will.
    """

    path: str
    versions: str
    lowest: str | None


def with_pins(root: Path, target: Target) -> Target:
    """The target with the vLLM that the folder ``root`` asks for, where a card that runs vLLM may be too old for it."""
    if target.uses_bf16 or not target.runs_vllm:
        return target
    return with_lists({path.relative_to(root).as_posix(): _text(path) for path in _lists(root)}, target)


def with_lists(texts: Mapping[str, str], target: Target) -> Target:
    """The target with the vLLM that lists of requirements ask for, by their paths."""
    wishes = [wish for path, text in texts.items() for wish in _wishes(path, text)]
    return replace(target, vllm_pin=_pin(wishes, target))


def _pin(wishes: list[Wish], target: Target) -> Pin | None:
    """What the lowest version that is asked for needs of a GPU; None where some list takes any older one."""
    if not wishes or any(wish.lowest is None for wish in wishes):
        return None
    from precpatch.doctor.facts import load_facts
    from precpatch.doctor.versions import version_of, within

    lowest = {version: wish for wish in reversed(wishes) if (version := version_of(wish.lowest)) is not None}
    if not lowest:
        return None
    wish = lowest[min(lowest)]
    rows = [(row, minimum) for row in load_facts().check("vllm").support if (minimum := _minimum(row)) is not None]
    needed = next((minimum for row, minimum in rows if within(wish.lowest, row.versions)), None)
    runs = next((row.install for row, minimum in rows if target.capability.at_least(minimum)), None)
    return Pin(f"vllm{wish.versions} in {wish.path}", needed, runs) if needed is not None else None


def _minimum(row: Support) -> ComputeCapability | None:
    return parse_compute_capability(row.minimum) if row.minimum is not None else None


def _wishes(path: str, text: str) -> Iterator[Wish]:
    """The places of one list that ask for versions of vLLM; a line that names it alone takes what there is."""
    is_plain = path.endswith(".txt")
    for match in islice(_ASKS.finditer(text), _MOST_WISHES):
        start = text.rfind("\n", 0, match.start()) + 1
        if (match["begin"] not in ("'", '"')) is is_plain and text.find("#", start, match.start()) < 0:
            versions = re.sub(r"\s", "", match["versions"])
            yield Wish(path, versions, _lowest(versions))


def _lowest(versions: str) -> str | None:
    """The lowest version of a range such as ``>=0.8.5,<=0.12.0``."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import Version

    try:
        bounds = [each.version.removesuffix(".*") for each in SpecifierSet(versions) if each.operator in _LOWEST]
        return max(bounds, key=Version, default=None)
    except (InvalidSpecifier, ValueError):
        return None


def _lists(root: Path) -> Iterator[Path]:
    """The lists of requirements at the top of a checkout; those for another device do not count."""
    from precpatch.vocabulary import builtin_vocabulary

    words = builtin_vocabulary()
    for glob in _FILES:
        paths = (path for path in root.glob(glob) if path.is_file() and not path.is_symlink())
        yield from sorted(path for path in paths if not words.is_path_of_other_device(path.name))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return ""
    return data.decode("utf-8", errors="replace") if len(data) <= _MOST_BYTES else ""
