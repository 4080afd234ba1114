"""The facts about software: ``software.yaml``, read once and only when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from precpatch.doctor.versions import version_of, within
from precpatch.gpu.capability import ComputeCapability, parse_compute_capability

STATUSES = ("ok", "warn", "fail", "unknown")

VERIFIED = {
    "wheel": "",
    "repo": "",
    "run": "",
    "docs": "",
    "report": "reported by others, not checked",
    "memory": "not verified",
}
"""How a fact was checked -> what the output says of it; "" where it was checked."""

Condition = str | tuple[str, ...] | None
"""A version range, the words of which one must be there, or None for "is not there"."""

Row = TypeVar("Row", bound="Fact")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact was read."""

    id: str
    title: str
    url: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """What every fact carries.

    Attributes:
        verified: how it was checked, a key of ``VERIFIED``.
        sources: where it was read.
        read: the versions in which it was looked up; for others it is inferred. All of its range where empty.
        note: what to know about it.
    """

    verified: str
    sources: tuple[Source, ...]
    read: tuple[str, ...] = ()
    note: str = ""

    def doubt(self, version: str | None) -> str:
        """Why the fact may not hold for ``version``; "" where it was checked."""
        said = VERIFIED[self.verified]
        wanted = version_of(version)
        known = [seen for text in self.read if (seen := version_of(text))]
        if said or wanted is None or not known or wanted in known:
            return said
        below = max((seen for seen in known if seen < wanted), default=None)
        above = min((seen for seen in known if seen > wanted), default=None)
        return "inferred from " + " and ".join(str(seen) for seen in (below, above) if seen)


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """What a binary holds: the compute capabilities with machine code (``exact`` ones serve no other) and with PTX."""

    sm: frozenset[ComputeCapability] = frozenset()
    ptx: frozenset[ComputeCapability] = frozenset()
    exact: frozenset[ComputeCapability] = frozenset()

    def serves(self, card: ComputeCapability, alone: frozenset[ComputeCapability]) -> bool:
        """Whether the binary runs on ``card``.

        A cubin for X.y runs on X.z with z >= y, but those in ``alone`` (Jetson) only serve themselves. PTX is
        compiled for every later card. Source: CUDA C++ Programming Guide, binary and PTX compatibility.
        """
        if card in self.sm | self.exact:
            return True
        near = (each for each in self.sm - alone if card not in alone and each[0] == card[0])
        return any(each <= card for each in near) or any(each <= card for each in self.ptx)

    def __str__(self) -> str:
        names = [f"sm_{major}{minor}" for major, minor in sorted(self.sm)]
        names += [f"sm_{major}{minor}a" for major, minor in sorted(self.exact)]
        return ", ".join([*names, *(f"PTX {major}.{minor}" for major, minor in sorted(self.ptx))])


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel(Fact):
    """The arch list of one torch wheel.

    Attributes:
        torch: its release, "2.8".
        variant: its CUDA build, "cu126".
        code: its arch list.
        pypi_default: whether it is the wheel of PyPI.
        release: the newest version whose wheel was seen, "2.8.0".
    """

    torch: str
    variant: str
    code: Code
    pypi_default: bool = False
    release: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Support(Fact):
    """Which cards the versions of a package run on.

    Attributes:
        versions: the range of versions.
        cuda: the range of CUDA versions of the torch build that it is about; all where it is None.
        minimum: the lowest compute capability, or None where ``code`` tells more.
        code: what the binary holds.
        install: the requirement to install for it.
        otherwise: what to do where no version serves the card.
    """

    versions: str
    cuda: str | None = None
    minimum: str | None = None
    code: Code | None = None
    install: str | None = None
    otherwise: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Case(Fact):
    """A verdict, and the conditions under which it is given."""

    when: tuple[tuple[str, Condition], ...]
    status: str
    seen: str
    fix: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckFacts:
    """What decides one check.

    Attributes:
        id: its name in the output.
        title: what it is about.
        package: what has to be there for the check to be made.
        why: why it matters.
        cases: verdicts by condition; they come before ``support``.
        support: which cards which version runs on.
        missing: what to say where the package is not there; nothing is said where it is "".
        shown: "unless-known" where a check without a verdict is left out.
    """

    id: str
    title: str
    package: str
    why: str
    cases: tuple[Case, ...] = ()
    support: tuple[Support, ...] = ()
    missing: str = ""
    shown: str = "always"


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """A rollout engine: it runs where its ``check`` says so, or in the verl releases of ``fact``."""

    name: str
    check: str | None = None
    verl: str | None = None
    not_verl: str | None = None
    fact: Fact | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineVersions(Fact):
    """The versions of a rollout engine that some verl releases ask for, and the newest among them."""

    verl: str
    engine: str
    versions: str
    newest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingDefault(Fact):
    """What use_remove_padding is by default in some verl releases: "true" or "false"."""

    verl: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All facts about software."""

    updated: str
    sources: Mapping[str, Source]
    alone: frozenset[ComputeCapability]
    wheels: tuple[Wheel, ...]
    checks: tuple[CheckFacts, ...]
    engines: tuple[Engine, ...]
    engine_versions: tuple[EngineVersions, ...]
    packing_defaults: tuple[PackingDefault, ...]

    def package_names(self) -> tuple[str, ...]:
        """The distributions that the facts speak of."""
        named = {key for check in self.checks for case in check.cases for key, _ in case.when}
        named |= {check.package for check in self.checks} | {"torch"}
        return tuple(sorted(named - NOT_PACKAGES))

    def check(self, name: str) -> CheckFacts:
        """The facts of the check ``name``."""
        return next(check for check in self.checks if check.id == name)

    def wheel(self, torch: str | None, variant: str | None) -> Wheel | None:
        """The wheel of a torch release and variant; the one of PyPI where the variant is not known."""
        rows = [row for row in self.wheels if row.torch == torch]
        return next((row for row in rows if row.variant == variant or (variant is None and row.pypi_default)), None)

    def asked_of(self, engine: str, verl: str | None) -> EngineVersions | None:
        """The versions of ``engine`` that a verl release asks for; None where that is not known."""
        return next((row for row in self.engine_versions if row.engine == engine and within(verl, row.verl)), None)

    def packing_default(self, verl: str | None) -> str:
        """The default of use_remove_padding in a verl release: "true", "false" or "unknown"."""
        return next((row.value for row in self.packing_defaults if within(verl, row.verl)), "unknown")


NOT_PACKAGES = frozenset({"capability", "cuda", "driver", "dtype", "attention", "packing"})
"""Keys of conditions that are not the name of a package."""


@cache
def load_facts() -> Facts:
    """The facts that ship with precpatch; read on the first call only."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files("precpatch.doctor").joinpath("software.yaml").read_text(encoding="utf-8")
    return read_facts(yaml.load(text, Loader=loader))  # noqa: S506 (both loaders are safe ones)


def read_facts(data: Mapping[str, Any]) -> Facts:
    """The Facts in the parsed YAML ``data``.

    Raises:
        KeyError, TypeError, ValueError: a row is not as the comment in the file says.
    """
    sources = {name: Source(name, **entry) for name, entry in data["sources"].items()}
    return Facts(
        updated=data["updated"],
        sources=sources,
        alone=frozenset(_capability(text) for text in data["cubins"]["alone"]),
        wheels=tuple(_wheel(row, sources) for row in data["torch_wheels"]),
        checks=tuple(_check(entry, sources) for entry in data["checks"]),
        engines=tuple(_engine(row, sources) for row in data["engines"]),
        engine_versions=tuple(_fact(EngineVersions, row, sources) for row in data["engine_versions"]),
        packing_defaults=tuple(_fact(PackingDefault, row, sources) for row in data["packing_defaults"]),
    )


def _fact(kind: type[Row], row: Mapping[str, Any], sources: Mapping[str, Source], **more: Any) -> Row:
    """One row as the dataclass ``kind``; ``more`` are fields that are made from the row."""
    known = {field.name for field in fields(kind)}
    plain = {key: value for key, value in row.items() if key in known and key not in more}
    unknown = set(row) - known - {"sm", "ptx"}
    if unknown or row["verified"] not in VERIFIED:
        raise ValueError(f"software.yaml: {sorted(unknown) or row['verified']} in {dict(row)}")
    return kind(
        **plain
        | more
        | {"sources": tuple(sources[name] for name in row["sources"]), "read": tuple(row.get("read", ()))}
    )


def _wheel(row: Mapping[str, Any], sources: Mapping[str, Source]) -> Wheel:
    return _fact(Wheel, row, sources, code=code_of(row["sm"], row.get("ptx", ())))


def _check(entry: Mapping[str, Any], sources: Mapping[str, Source]) -> CheckFacts:
    return CheckFacts(
        **{key: value for key, value in entry.items() if key not in ("cases", "support")},
        cases=tuple(_fact(Case, row, sources, when=_when(row["when"])) for row in entry.get("cases", ())),
        support=tuple(_support(row, sources) for row in entry.get("support", ())),
    )


def _support(row: Mapping[str, Any], sources: Mapping[str, Source]) -> Support:
    return _fact(Support, row, sources, code=code_of(row["sm"], row.get("ptx", ())) if "sm" in row else None)


def _when(conditions: Mapping[str, Any]) -> tuple[tuple[str, Condition], ...]:
    return tuple((key, tuple(said) if isinstance(said, list) else said) for key, said in conditions.items())


def _engine(row: Mapping[str, Any], sources: Mapping[str, Source]) -> Engine:
    own = {key: value for key, value in row.items() if key in ("name", "check", "verl", "not_verl")}
    rest = {key: value for key, value in row.items() if key not in own}
    return Engine(**own, fact=_fact(Fact, rest, sources) if rest else None)


def code_of(sm: Any, ptx: Any = ()) -> Code:
    """The Code in lists such as ``[75, "90a"]``."""
    names = [str(name) for name in sm]
    return Code(
        sm=frozenset(_of_number(name) for name in names if name.isdigit()),
        exact=frozenset(_of_number(name[:-1]) for name in names if not name.isdigit()),
        ptx=frozenset(_of_number(str(name)) for name in ptx),
    )


def _of_number(digits: str) -> ComputeCapability:
    """(7, 5) for "75", (12, 0) for "120"."""
    return int(digits[:-1]), int(digits[-1])


def _capability(text: str) -> ComputeCapability:
    capability = parse_compute_capability(text)
    if capability is None:
        raise ValueError(f"software.yaml: {text!r} is not a compute capability")
    return capability
