"""The messages that precpatch knows: ``errors.yaml``, read once and only when it is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

SEVERITIES = ("error", "warning", "info")

VERIFIED = {
    "wheel": "text read in a PyPI wheel",
    "repo": "text read in the source repository",
    "run": "provoked in a test",
    "report": "quoted in a public report",
    "memory": "unverified",
    "unverified": "unverified",
}
"""How the text of an entry was checked -> what a person is told."""


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """One message and what it means.

    Attributes:
        id: its stable name.
        severity: one of ``SEVERITIES``.
        regex: how it is recognised in one line.
        anchors: literal strings; every match of the regex holds one of them.
        example: a line that the regex matches.
        software: what prints it.
        cause, fix: what happened, and what to do.
        mend: a precpatch command with ``{target}`` in it; "" where precpatch cannot help.
        verified: how the text was checked, a key of ``VERIFIED``.
        sources: where it comes from: a path inside the software, a page.
        echo: it follows an error that was printed before.
    """

    id: str
    severity: str
    regex: re.Pattern[str]
    anchors: tuple[str, ...]
    example: str
    software: str
    cause: str
    fix: str
    mend: str
    verified: str
    sources: tuple[str, ...]
    echo: bool

    def command(self, target: str) -> str | None:
        """The precpatch command that changes or shows the places in a checkout; None where there is none."""
        return self.mend.format(target=target) if self.mend else None


@dataclass(frozen=True)
class Recogniser:
    """Finds the messages of ``failures`` in a line."""

    failures: tuple[Failure, ...]

    @cached_property
    def _by_anchor(self) -> list[tuple[str, Failure]]:
        return [(anchor, failure) for failure in self.failures for anchor in failure.anchors]

    def recognise(self, text: str) -> list[Failure]:
        """The messages in ``text``, one line without colour codes, in the order of ``failures``."""
        likely = [failure for anchor, failure in self._by_anchor if anchor in text]
        return [failure for failure in dict.fromkeys(likely) if failure.regex.search(text)]


@cache
def load_failures() -> tuple[Failure, ...]:
    """The messages that ship with precpatch, echoes last; read on the first call only."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files("precpatch.doctor").joinpath("errors.yaml").read_text(encoding="utf-8")
    data = yaml.load(text, Loader=loader)  # noqa: S506 (both loaders are safe ones)
    errors = [_read(entry, echo=False) for entry in data["errors"]]
    return (*errors, *(_read(entry, echo=True) for entry in data["echoes"]))


def _read(entry: Mapping[str, Any], *, echo: bool) -> Failure:
    return Failure(
        id=entry["id"],
        severity=entry["severity"],
        regex=re.compile(entry["regex"]),
        anchors=tuple(entry["anchors"]),
        example=entry["example"],
        software=entry["software"],
        cause=entry["cause"],
        fix=entry["fix"],
        mend=entry.get("mend", ""),
        verified=entry["verified"],
        sources=tuple(entry[key] for key in ("source_path", "url") if entry.get(key, "-") != "-"),
        echo=echo,
    )
