"""Do the installed packages get the versions that they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from precpatch.doctor.checks.check import Check
from precpatch.doctor.checks.situation import Situation
from precpatch.doctor.environment import Environment
from precpatch.doctor.facts import Source
from precpatch.doctor.versions import version_of

WHY = (
    "vLLM, SGLang and torch are compiled against one version of what they ask for; beside another one they fail on "
    "import, or later without a clear error."
)

_METADATA = Source("metadata", "Requires-Dist in the metadata of the installed packages")


@dataclass(frozen=True, slots=True)
class _Demand:
    """One installed package asks for a version of another one."""

    asking: str
    wish: Requirement
    found: str

    @property
    def met(self) -> bool:
        version = version_of(self.found)
        return version is None or self.wish.specifier.contains(version, prereleases=True)


def requirements_check(situation: Situation) -> Check | None:
    """The version ranges that installed packages declare for one another; None where none is declared."""
    environment = situation.environment
    demands = list(_demands(environment))
    if not demands:
        return None
    broken = [demand for demand in demands if not demand.met]
    return Check(
        id="requirements",
        title="declared requirements",
        status="warn" if broken else "ok",
        seen="; ".join(_complaint(environment, each) for each in broken)
        or "the installed packages get the versions that they ask for",
        why=WHY,
        fix=_reinstall(environment, broken),
        sources=(_METADATA,),
    )


def _demands(environment: Environment) -> Iterator[_Demand]:
    """What each installed package asks of the others that are installed."""
    for asking in environment.packages:
        for text in environment.requires.get(asking, ()):
            try:
                wish = Requirement(text)
            except InvalidRequirement:
                continue
            found = environment.packages.get(canonicalize_name(wish.name))
            if found and wish.specifier and (not wish.marker or wish.marker.evaluate(_marker(environment))):
                yield _Demand(asking, wish, found)


def _marker(environment: Environment) -> dict[str, str]:
    """What a requirement's marker is to be told in place of the facts about the running interpreter."""
    version = environment.python_version
    known = {"python_full_version": version, "python_version": ".".join(version.split(".")[:2])} if version else {}
    return {"extra": "", **known}


def _complaint(environment: Environment, demand: _Demand) -> str:
    asking = f"{demand.asking} {environment.packages[demand.asking]}"
    return f"{asking} asks for {demand.wish.name}{demand.wish.specifier}, and {demand.found} is installed"


def _reinstall(environment: Environment, broken: list[_Demand]) -> str | None:
    """The command that gives each package what it asks for."""
    asking = dict.fromkeys(demand.asking for demand in broken)
    wanted = [f"'{name}=={environment.packages[name]}'" for name in asking]
    return f"{environment.pip} install {' '.join(wanted)}" if wanted else None
