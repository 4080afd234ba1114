"""The plan for a person: one block a file, one row a site, and a last line that says what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from precpatch.engine.finding import BLOCKER, KEEP, REPORT, REWRITE, SUPPRESSED, Finding
from precpatch.gpu.capability import format_compute_capability
from precpatch.gpu.target import Target
from precpatch.notes import FileNote
from precpatch.plan import Plan
from precpatch.report.line import Line, line, plain, plural, visible
from precpatch.report.overview import blocker_lines, is_long, overview_lines
from precpatch.report.words import change, kept_because

_WIDEST_CHANGE = 72
_MOST_SKIPPED = 10
_FP16_COST = {
    "slow": " (at 1/64 of the speed of float32 on this card)",
    "none": " (which this card only stores)",
}
"""What float16 costs, by how a card computes it: the arithmetic throughput table of the CUDA programming guide."""


def render(plan: Plan, show_kept: bool = False, full: bool = False) -> bytes:
    """The text report as plain UTF-8."""
    return plain(scan_lines(plan, show_kept, full=full))


def scan_lines(plan: Plan, show_kept: bool = False, next_step: str = "", full: bool = False) -> Iterator[Line]:
    """The whole report; ``next_step`` is the command that would write the rewrites.

    More places than a person reads one by one are folded, one row a rule, but with ``full`` or ``show_kept``.
    """
    yield headline(plan.target)
    yield line()
    shown = plan.of(REWRITE, REPORT, KEEP) if show_kept else plan.of(REWRITE, REPORT)
    folded = is_long(shown) and not (full or show_kept)
    if folded:
        yield from overview_lines(shown)
    else:
        yield from blocker_lines(shown)
        yield from finding_lines(shown)
    yield from added_lines(new.path for new in plan.patches.new_files)
    yield from note_lines("Could not be read", plan.errors)
    yield from note_lines("Left alone", plan.skipped, most=_MOST_SKIPPED)
    yield line((summary(plan), "bold"))
    if folded:
        yield line("`--full` lists every place, `precpatch explain RULE` says more about a rule.")
    yield line((_kept_summary(plan, show_kept), "dim"))
    if next_step and (plan.of(REWRITE) or plan.patches.new_files):
        yield line("Run `", (next_step, "bold"), "` to write them.")


def finding_lines(findings: Sequence[Finding]) -> Iterator[Line]:
    """A block a file: its path, then a row a finding, and the message under those that need a person.

    A message that many rows share stands under the first of them only; that of a blocker has been said above them all.
    """
    told: set[str] = set()
    for path, group in groupby(findings, key=lambda finding: finding.mention.path):
        rows = [(finding, _place(finding), change(finding)) for finding in group]
        place_width = max(len(place) for _, place, _ in rows)
        change_width = min(max(len(text) for _, _, text in rows), _WIDEST_CHANGE)
        yield line((visible(path), "bold"))
        for finding, place, text in rows:
            style = {REWRITE: "", REPORT: "yellow"}.get(finding.action, "dim")
            yield line(
                (f"  {place:>{place_width}}  ", "dim"),
                (f"{text:<{change_width}}  ", style),
                (finding.rule, "cyan"),
            )
            reason = _reason(finding)
            if reason and reason not in told:
                yield line((" " * (place_width + 4) + visible(reason), "" if finding.action == REPORT else "dim"))
            if finding.action == REPORT:
                told.add(reason)
        yield line()


def added_lines(paths: Iterable[str]) -> Iterator[Line]:
    """A row for each file that is added."""
    rows = [line(("added: ", "dim"), (visible(path), "bold")) for path in paths]
    if rows:
        yield from (*rows, line())


def note_lines(title: str, notes: Sequence[FileNote], most: int | None = None) -> Iterator[Line]:
    """A block of files with a message each, at most ``most`` of them."""
    if not notes:
        return
    yield line((f"{title}:", "bold"))
    for note in notes[:most]:
        yield line(f"  {visible(note.path)}: {visible(note.message)}")
    if most is not None and len(notes) > most:
        yield line((f"  and {len(notes) - most} more (all of them with --format json)", "dim"))
    yield line()


def headline(target: Target) -> Line:
    """The target in words, and what it decides."""
    return line((f"Target {visible(target.name)}", "bold"), f": {target_in_words(target)}")


def target_in_words(target: Target) -> str:
    """What the GPU is and what bfloat16 and FlashAttention become on it, on one line."""
    card = target.capability
    capability = format_compute_capability(card.compute_capability)
    parts = [visible(card.name)]
    if capability and capability not in card.name:
        parts.append(f"compute capability {capability}")
    bfloat16 = "native bfloat16" if target.native_bf16 else "no native bfloat16"
    cost = _FP16_COST.get(card.fp16, "") if target.dtype == "float16" and not target.uses_bf16 else ""
    parts.append(bfloat16 if target.uses_bf16 else f"{bfloat16} -> {target.dtype}{cost}")
    parts.append("FlashAttention-2" if target.uses_flash_attention else f"{target.attention} attention")
    return ", ".join(parts)


def summary(plan: Plan) -> str:
    """One sentence: how much is to be rewritten and added, how much needs a person, what could not be read."""
    rewrites, reports = plan.of(REWRITE), plan.of(REPORT)
    parts = ["nothing to rewrite"]
    if rewrites:
        files = len({finding.mention.path for finding in rewrites})
        parts = [f"{plural(len(rewrites), 'site')} to rewrite in {plural(files, 'file')}"]
    if plan.patches.new_files:
        parts.append(f"{plural(len(plan.patches.new_files), 'file')} to add")
    if reports:
        parts.append(f"{plural(len(reports), 'site needs', 'sites need')} a person")
    if plan.errors:
        parts.append(f"{plural(len(plan.errors), 'file')} could not be read")
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _place(finding: Finding) -> str:
    return f"{finding.mention.line}:{finding.mention.column}"


def _reason(finding: Finding) -> str:
    """What the line under a row says: why nothing is rewritten there, of a blocker only what takes the value."""
    if finding.action == KEEP:
        return kept_because(finding)
    if finding.action == REPORT and finding.severity == BLOCKER:
        return f"used by {', '.join(finding.mention.used_by)}" if finding.mention.used_by else ""
    return finding.message if finding.action == REPORT else ""


def _kept_summary(plan: Plan, show_kept: bool) -> str:
    counts = plan.count()
    parts = [f"{plural(plan.files_scanned, 'file')} scanned"]
    if counts[KEEP]:
        hint = "" if show_kept else " (--show-kept lists them, and the words in comments and text)"
        parts.append(f"{plural(counts[KEEP], 'mention stays', 'mentions stay')} as written{hint}")
    if counts[SUPPRESSED]:
        parts.append(f"{counts[SUPPRESSED]} suppressed by a comment")
    return ", ".join(parts) + "."
