"""The checks as text for a person and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from precpatch import __version__
from precpatch.doctor.checkout import Checkout
from precpatch.doctor.checks import Check
from precpatch.doctor.environment import Environment
from precpatch.doctor.facts import STATUSES, Source
from precpatch.gpu.target import Target
from precpatch.report.line import Line, line, plain, visible

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "dim"}


@dataclass(frozen=True)
class Diagnosis:
    """Everything that a report shows.

    Attributes:
        target: what was asked about.
        environment: what is installed.
        checkout: what the checkout says; None where none was given.
        checks: the verdicts.
    """

    target: Target
    environment: Environment
    checkout: Checkout | None
    checks: tuple[Check, ...]

    def count(self) -> dict[str, int]:
        """How many checks have each status."""
        counted = Counter(check.status for check in self.checks)
        return {status: counted[status] for status in STATUSES}

    @property
    def exit_code(self) -> int:
        """0 where nothing warns or fails, else 1."""
        counted = self.count()
        return 1 if counted["warn"] or counted["fail"] else 0


def render(name: str, diagnosis: Diagnosis) -> bytes:
    """The report in the format "text" or "json"."""
    return _json(diagnosis) if name == "json" else plain(report_lines(diagnosis))


def report_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    """The whole report for a person."""
    from precpatch.report.text import headline

    yield headline(diagnosis.target)
    yield line(_environment_in_words(diagnosis.environment))
    if diagnosis.checkout:
        yield line(f"Checkout: verl {visible(diagnosis.checkout.version or 'of unknown version')}")
    yield line()
    width = max((len(check.id) for check in diagnosis.checks), default=0)
    for check in diagnosis.checks:
        yield from _check_lines(check, width)
    yield line()
    yield line((_summary(diagnosis), "bold"))


def _environment_in_words(environment: Environment) -> str:
    parts = [f"Environment: Python {environment.python_version} ({environment.executable})"]
    if environment.driver:
        parts.append(f"driver {environment.driver}")
    return visible(", ".join(parts))


def _check_lines(check: Check, width: int) -> Iterator[Line]:
    doubt = f" ({check.doubt})" if check.doubt else ""
    yield line(
        (f"{check.status:<7}  ", STYLES[check.status]), (f"{check.id:<{width}}  ", "cyan"), visible(check.seen + doubt)
    )
    indent = " " * (width + 11)
    yield line((f"{indent}why: {visible(check.why)}", "dim"))
    if check.fix:
        yield line(f"{indent}fix: ", (visible(check.fix), "bold"))
    if check.sources:
        yield line((f"{indent}source: {visible('; '.join(map(_source_in_words, check.sources)))}", "dim"))


def _source_in_words(source: Source) -> str:
    return f"{source.title} {source.url or ''}".strip()


def _summary(diagnosis: Diagnosis) -> str:
    counted = diagnosis.count()
    said = ", ".join(f"{counted[status]} {status}" for status in ("fail", "warn", "unknown", "ok") if counted[status])
    doubted = sum(1 for check in diagnosis.checks if check.doubt)
    return f"{said or 'Nothing to check'}{f'; {doubted} not verified' if doubted else ''}."


def _json(diagnosis: Diagnosis) -> bytes:
    document = {
        "version": 1,
        "tool": f"precpatch {__version__}",
        "target": diagnosis.target.describe(),
        "environment": _environment(diagnosis.environment),
        "checkout": _checkout(diagnosis.checkout),
        "checks": [_check(check) for check in diagnosis.checks],
        "summary": diagnosis.count(),
    }
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def _environment(environment: Environment) -> dict[str, Any]:
    return {
        "python": environment.executable,
        "python_version": environment.python_version,
        "driver": environment.driver,
        "torch": environment.torch,
        "cuda": environment.cuda,
        "architectures": list(environment.architectures) if environment.architectures else None,
        "packages": dict(sorted(environment.packages.items())),
    }


def _checkout(checkout: Checkout | None) -> dict[str, Any] | None:
    if checkout is None:
        return None
    return {"verl": checkout.version, "rollout_engines": dict(checkout.engines), "use_remove_padding": checkout.packing}


def _check(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "title": check.title,
        "status": check.status,
        "seen": check.seen,
        "why": check.why,
        "fix": check.fix,
        "verified": not check.doubt,
        "doubt": check.doubt or None,
        "sources": [{"title": source.title, "url": source.url} for source in check.sources],
    }
