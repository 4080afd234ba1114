"""The step ``scan``: nothing is left to rewrite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from precpatch.engine.finding import REPORT, REWRITE
from precpatch.plan import Plan
from precpatch.report.line import plural
from precpatch.report.words import change
from precpatch.verify.outcome import FAILED, OK, Problem, Step

_MOST_RULES = 4


def scan_step(plan: Plan, mend: str) -> Step:
    """How the scan of the checkout came out; ``mend`` is the command that would write what is left."""
    rewrites, reports = plan.of(REWRITE), plan.of(REPORT)
    problems = [Problem(each.mention.path, each.mention.line, f"{change(each)} ({each.rule})") for each in rewrites]
    problems += [Problem(new.path, 0, "is missing") for new in plan.patches.new_files]
    problems += [Problem(note.path, 0, note.message) for note in plan.errors]
    left = plural(len(rewrites), "site is", "sites are") + " left to rewrite" if rewrites else "nothing left to rewrite"
    unread = f", {plural(len(plan.errors), 'file')} could not be read" if plan.errors else ""
    return Step(
        "scan",
        FAILED if problems else OK,
        f"{left} in {plural(plan.files_scanned, 'file')}{unread}",
        tuple(problems),
        tuple(_notes(plan, mend)),
        figures={"files": plan.files_scanned, "rewrite": len(rewrites), "report": len(reports)},
    )


def _notes(plan: Plan, mend: str) -> Iterator[str]:
    if plan.of(REWRITE) or plan.patches.new_files:
        yield f"run `{mend}`"
    reports = plan.of(REPORT)
    if reports:
        rules = Counter(finding.rule for finding in reports).most_common()
        named = ", ".join(f"{rule} {count}" for rule, count in rules[:_MOST_RULES])
        more = f" and {len(rules) - _MOST_RULES} more rules" if len(rules) > _MOST_RULES else ""
        yield f"{plural(len(reports), 'site needs', 'sites need')} a person: {named}{more}"
