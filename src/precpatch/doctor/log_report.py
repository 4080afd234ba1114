"""A LogDiagnosis as lines for a person and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from precpatch import __version__
from precpatch.doctor.diagnose import Known, LogDiagnosis, Seen
from precpatch.doctor.failures import VERIFIED
from precpatch.doctor.health import Ailment
from precpatch.report.line import Line, line, plural, shorten, visible

_SHOWN_UNKNOWN = 5
_WIDTH = 160
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}

_AILMENTS = {
    "non-finite-loss": ("{metric} is {value}", "{steps}"),
    "non-finite-gradients": ("{metric} is {value}", "{steps}"),
    "skipped-steps": ("skipped optimizer steps: {value}", "{messages}; a few while a loss scale settles are normal"),
    "constant-loss": ("{metric} stays at {value}", "{steps} in a row: nothing is learned"),
}


def diagnosis_lines(diagnosis: LogDiagnosis, log: str, target: str) -> Iterator[Line]:
    """The diagnosis for a person: the first cause in full, then everything else."""
    yield line(f"{visible(log)}: {plural(diagnosis.lines, 'line')}, {_summary(diagnosis)}")
    first = diagnosis.first_cause
    if first:
        yield from _titled("First cause", _known_lines(first, target, full=True))
    elif any(known.failure.echo for known in diagnosis.known) and not diagnosis.unknown:
        yield from _titled("First cause", [line("  not in this log: what is here are echoes of an error elsewhere")])
    others = [known for known in diagnosis.known if known is not first and not known.failure.echo]
    yield from _titled("Also seen" if first else "Seen", _all_lines(others, target))
    echoes = [known for known in diagnosis.known if known.failure.echo]
    yield from _titled("Echoes of an earlier error", _all_lines(echoes, target))
    yield from _titled("Unknown errors (precpatch does not know what causes them)", _unknown_lines(diagnosis))
    yield from _titled("Health of the run", (_ailment_line(each) for each in diagnosis.ailments))


def diagnosis_document(diagnosis: LogDiagnosis, log: str, target: str) -> dict[str, Any]:
    """The diagnosis as plain JSON data."""
    first = diagnosis.first_cause
    return {
        "version": 1,
        "tool": f"precpatch {__version__}",
        "log": log,
        "lines": diagnosis.lines,
        "bytes": diagnosis.size,
        "failures": [_known_document(known, target, known is first) for known in diagnosis.known],
        "unknown": [_unknown_document(seen) for seen in diagnosis.unknown],
        "unknown_unlisted": diagnosis.unlisted,
        "health": [_ailment_document(each) for each in diagnosis.ailments],
    }


def _summary(diagnosis: LogDiagnosis) -> str:
    if diagnosis.clean:
        return "nothing known was found"
    unknown = len(diagnosis.unknown) + diagnosis.unlisted
    counts = (
        (len(diagnosis.known), plural(len(diagnosis.known), "known message")),
        (unknown, plural(unknown, "unknown error")),
        (len(diagnosis.ailments), plural(len(diagnosis.ailments), "sign of bad health", "signs of bad health")),
    )
    return ", ".join(text for number, text in counts if number)


def _titled(title: str, lines: Iterator[Line] | list[Line]) -> Iterator[Line]:
    for index, each in enumerate(lines):
        if not index:
            yield line()
            yield line((title, "bold"))
        yield each


def _all_lines(known: list[Known], target: str) -> Iterator[Line]:
    for each in known:
        yield from _known_lines(each, target, full=False)


def _known_lines(known: Known, target: str, *, full: bool) -> Iterator[Line]:
    failure, seen = known.failure, known.seen
    severity = "echo" if failure.echo else failure.severity
    where = f"  line {seen.line}{_times(seen)}  "
    yield line(where, (severity, _STYLES.get(severity, "")), f"  {failure.id} ({failure.software})")
    facts = {
        "message": shorten(seen.message, _WIDTH),
        "cause": failure.cause,
        "fix": failure.fix,
        "command": failure.command(target) or "",
        "source": f"{'; '.join(failure.sources) or 'none'} ({VERIFIED[failure.verified]})" if full else _doubt(known),
    }
    yield from (line(f"    {name:<9}{text}") for name, text in facts.items() if text)


def _doubt(known: Known) -> str:
    return "unverified" if VERIFIED[known.failure.verified] == "unverified" else ""


def _unknown_lines(diagnosis: LogDiagnosis) -> Iterator[Line]:
    first = diagnosis.first_cause
    shown = diagnosis.unknown[:_SHOWN_UNKNOWN]
    for seen in shown:
        earlier = ", before the first cause" if first and seen.line < first.seen.line else ""
        yield line(f"  line {seen.line}{_times(seen)}{earlier}  {shorten(seen.message, _WIDTH)}")
    more = len(diagnosis.unknown) - len(shown) + diagnosis.unlisted
    if more:
        yield line(f"  and {more} more")


def _ailment_line(ailment: Ailment) -> Line:
    what, how_often = _AILMENTS[ailment.kind]
    words = {
        "metric": visible(ailment.metric),
        "value": shorten(ailment.value, 80),
        "steps": plural(ailment.count, "step"),
        "messages": plural(ailment.count, "message"),
    }
    where = f"line {ailment.line}" if ailment.step is None else f"line {ailment.line}, step {ailment.step}"
    return line(f"  {where}  {what.format(**words)} ({how_often.format(**words)})")


def _times(seen: Seen) -> str:
    return f", {seen.count} times" if seen.count > 1 else ""


def _known_document(known: Known, target: str, is_first: bool) -> dict[str, Any]:
    failure, seen = known.failure, known.seen
    return {
        "id": failure.id,
        "line": seen.line,
        "count": seen.count,
        "severity": failure.severity,
        "first_cause": is_first,
        "echo": failure.echo,
        "message": seen.message,
        "cause": failure.cause,
        "fix": failure.fix,
        "command": failure.command(target),
        "software": failure.software,
        "verified": failure.verified,
        "sources": list(failure.sources),
    }


def _unknown_document(seen: Seen) -> dict[str, Any]:
    return {"line": seen.line, "count": seen.count, "message": seen.message}


def _ailment_document(ailment: Ailment) -> dict[str, Any]:
    return {
        "kind": ailment.kind,
        "metric": ailment.metric or None,
        "line": ailment.line,
        "step": ailment.step,
        "count": ailment.count,
        "value": ailment.value,
    }
