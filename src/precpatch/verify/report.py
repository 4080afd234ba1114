"""The outcome of a verification, as text for a person and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from precpatch import __version__
from precpatch.gpu.target import Target
from precpatch.report.line import Line, line, plain, plural, visible
from precpatch.report.text import headline
from precpatch.verify.outcome import FAILED, OK, SKIPPED, Problem, Step

_STYLES = {OK: "green", FAILED: "bold red", SKIPPED: "dim"}
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Outcome:
    """Everything that a report shows.

    Attributes:
        target: what the checkout has to fit.
        python: the interpreter.
        steps: how each step ended.
    """

    target: Target
    python: str
    steps: tuple[Step, ...]

    @property
    def exit_code(self) -> int:
        """1 where a step failed, else 0."""
        return 1 if any(step.status == FAILED for step in self.steps) else 0


def render(name: str, outcome: Outcome) -> bytes:
    """The report in the format "text" or "json"."""
    return _json(outcome) if name == "json" else plain(report_lines(outcome))


def report_lines(outcome: Outcome) -> Iterator[Line]:
    """The whole report for a person: a row a step, what failed below, and a sentence."""
    yield headline(outcome.target)
    yield line()
    width = max(len(step.name) for step in outcome.steps)
    for step in outcome.steps:
        seconds = f"  {step.seconds:.1f} s" if step.status != SKIPPED else ""
        yield line(
            (f"{step.name:<{width}}  ", "cyan"),
            (f"{step.status:<7}  ", _STYLES[step.status]),
            visible(step.summary),
            (seconds, "dim"),
        )
        for note in step.notes:
            yield line((f"{'':<{width}}           {visible(note)}", "dim"))
    yield line()
    for step in outcome.steps:
        yield from _problem_lines(step)
    yield line((_summary(outcome.steps), "bold"))


def _problem_lines(step: Step) -> Iterator[Line]:
    if not step.problems:
        return
    yield line((f"{step.name}:", "bold"))
    for problem in step.problems[:_MOST_PROBLEMS]:
        yield line("  ", (f"{visible(problem.place)}: " if problem.place else "", "cyan"), visible(problem.message))
    if len(step.problems) > _MOST_PROBLEMS:
        yield line((f"  and {len(step.problems) - _MOST_PROBLEMS} more (all of them with --format json)", "dim"))
    yield line()


def _summary(steps: Sequence[Step]) -> str:
    failed = [step.name for step in steps if step.status == FAILED]
    skipped = [step.name for step in steps if step.status == SKIPPED]
    left = f" Not done: {', '.join(skipped)}." if skipped else ""
    if failed:
        return f"Failed: {', '.join(failed)}.{left}"
    stuck = sum(step.figures.get("cannot_start", 0) for step in steps)
    left += f" {plural(stuck, 'entry point')} cannot start in this environment." if stuck else ""
    return f"{'What was done' if skipped else 'All'} is well.{left}"


def _json(outcome: Outcome) -> bytes:
    document = {
        "version": 1,
        "tool": f"precpatch {__version__}",
        "root": ".",
        "target": outcome.target.describe(),
        "python": outcome.python,
        "ok": outcome.exit_code == 0,
        "steps": [_step(step) for step in outcome.steps],
    }
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def _step(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "status": step.status,
        "summary": step.summary,
        "problems": [_problem(problem) for problem in step.problems],
        "notes": list(step.notes),
        "not_needed": [{"path": path, "why": why} for path, why in step.unneeded.items()],
        "figures": dict(step.figures),
        "seconds": round(step.seconds, 3),
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {"path": problem.path or None, "line": problem.line or None, "message": problem.message}
