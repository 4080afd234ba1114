"""What a step of a verification found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OK, FAILED, SKIPPED = "ok", "failed", "skipped"

STEPS = ("parse", "scan", "imports", "configs")
"""The steps in their order."""


@dataclass(frozen=True, order=True)
class Problem:
    """Something that has to be mended.

    Attributes:
        path: the file, relative to the root; "" where it is not about one.
        line: the line in it, from 1; 0 for the file as a whole.
        message: one line.
    """

    path: str
    line: int
    message: str

    @property
    def place(self) -> str:
        """``path:line``, as far as it is known."""
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class Step:
    """How a step ended.

    Attributes:
        name: one of ``STEPS``.
        status: "ok", "failed" or "skipped".
        summary: what was looked at, or why nothing was, in a few words.
        problems: what failed.
        notes: what a person should know, and what is no failure; a line each.
        unneeded: modules that do not import for want of a package that this target or environment has not got, and
            that package.
        figures: numbers by name.
        seconds: how long it took.
    """

    name: str
    status: str
    summary: str
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    unneeded: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def skipped(name: str, why: str) -> Step:
    """A step that was not done."""
    return Step(name, SKIPPED, why)
