"""What an apply did, for a person: files changed and added, what is left to do by hand, and the way back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from precpatch.engine.finding import REPORT, REWRITE
from precpatch.patch.transaction import Applied, Reverted
from precpatch.plan import Plan
from precpatch.report.line import Line, line, plural, visible
from precpatch.report.overview import blocker_lines, is_long, overview_lines
from precpatch.report.text import added_lines, finding_lines, headline, note_lines


def applied_lines(plan: Plan, applied: Applied, undo: str) -> Iterator[Line]:
    """The whole text; ``undo`` is the command that takes the change back."""
    yield headline(plan.target)
    yield line()
    yield from _changed(plan, applied)
    left = plan.of(REPORT)
    if is_long(left):
        yield from overview_lines(left)
        yield line("`precpatch scan --full` lists every place.")
        yield line()
    elif left:
        yield from blocker_lines(left)
        yield line(("Needs a person:", "bold"))
        yield line()
        yield from finding_lines(left)
    yield from note_lines("Could not be read", plan.errors)
    yield from note_lines("Please note", applied.notes)
    yield line((_summary(plan, applied), "bold"))
    if applied.files:
        yield line("Run `", (undo, "bold"), "` to take it back.")


def recovered_lines(recovered: Reverted) -> Iterator[Line]:
    """What was mended first after a run that was interrupted; nothing where there was none."""
    for note in recovered.notes:
        files = f", which changed {plural(len(recovered.files), 'file')}" if recovered.files else ""
        yield line((f"First, {note.message}{files}.", "bold"))
    if recovered.notes:
        yield line()


def reverted_lines(reverted: Reverted) -> Iterator[Line]:
    """What a revert did: the files put back and those removed again."""
    for path in reverted.files:
        yield line(f"  {visible(path)}", ("  removed" if path in reverted.removed else "", "dim"))
    yield from note_lines("Please note", reverted.notes)
    yield line((_revert_summary(reverted), "bold"))


def _revert_summary(reverted: Reverted) -> str:
    removed = len(reverted.removed)
    restored = len(reverted.files) - removed
    parts = [f"Restored {plural(restored, 'file')}."] if restored else []
    if removed:
        parts.append(f"Removed {plural(removed, 'added file')}.")
    return " ".join(parts) or "Every file was as before the apply already."


def _changed(plan: Plan, applied: Applied) -> Iterator[Line]:
    changed, added = _split(plan, applied)
    sites = _sites(plan)
    if changed:
        yield line(("Changed:", "bold"))
        for path in changed:
            yield line(f"  {visible(path)}  ", (plural(sites[path], "site"), "dim"))
        yield line()
    yield from added_lines(added)


def _split(plan: Plan, applied: Applied) -> tuple[list[str], list[str]]:
    """The files that were there before, and those that were not."""
    new = {file.path for file in plan.patches.new_files}
    return [path for path in applied.files if path not in new], [path for path in applied.files if path in new]


def _summary(plan: Plan, applied: Applied) -> str:
    changed, added = _split(plan, applied)
    sites = _sites(plan)
    parts = []
    if changed:
        done = sum(sites[path] for path in changed)
        parts.append(f"changed {plural(done, 'site')} in {plural(len(changed), 'file')}")
    if added:
        parts.append(f"added {plural(len(added), 'file')}")
    parts = parts or ["nothing to change"]
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
