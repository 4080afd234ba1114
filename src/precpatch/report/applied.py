"""What an apply did, for a person: the files that changed, what is left to do by hand, and the way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from precpatch.engine.finding import REPORT, REWRITE
from precpatch.patch.transaction import Applied
from precpatch.plan import Plan
from precpatch.report.line import Line, line, plural, visible
from precpatch.report.text import finding_lines, headline, note_lines


def applied_lines(plan: Plan, applied: Applied, undo: str) -> Iterator[Line]:
    """The whole text; ``undo`` is the command that takes the change back."""
    yield headline(plan.target)
    yield line()
    yield from _changed(plan, applied)
    left = plan.of(REPORT)
    if left:
        yield line(("Needs a person:", "bold"))
        yield line()
        yield from finding_lines(left)
    yield from note_lines("Could not be read", plan.errors)
    yield from note_lines("Please note", applied.notes)
    yield line((_summary(plan, applied), "bold"))
    if applied.files:
        yield line("Run `", (undo, "bold"), "` to take it back.")


def _changed(plan: Plan, applied: Applied) -> Iterator[Line]:
    if not applied.files:
        return
    sites = _sites(plan)
    yield line(("Changed:", "bold"))
    for path in applied.files:
        yield line(f"  {visible(path)}  ", (plural(sites[path], "site"), "dim"))
    yield line()


def _summary(plan: Plan, applied: Applied) -> str:
    sites = _sites(plan)
    parts = ["nothing to change"]
    if applied.files:
        done = sum(sites[path] for path in applied.files)
        parts = [f"changed {plural(done, 'site')} in {plural(len(applied.files), 'file')}"]
    if plan.of(REPORT):
        parts.append(f"{plural(len(plan.of(REPORT)), 'site needs', 'sites need')} a person")
    if plan.errors:
        parts.append(f"{plural(len(plan.errors), 'file')} could not be read")
    unwritten = len(plan.patches.paths) - len(applied.files)
    if unwritten:
        parts.append(f"{plural(unwritten, 'file')} could not be written")
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _sites(plan: Plan) -> Counter[str]:
    """Number of rewritten sites by file."""
    return Counter(finding.mention.path for finding in plan.of(REWRITE))
