"""The plan as Markdown: every change with its reason, what needs a person, what stays, and the diff itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from precpatch import __version__
from precpatch.engine.finding import BLOCKER, KEEP, REPORT, REWRITE, SUPPRESSED, Finding
from precpatch.languages.mention import ROLES
from precpatch.notes import FileNote
from precpatch.plan import Plan
from precpatch.report import patch, text
from precpatch.report.line import plural, shorten, visible, visible_lines
from precpatch.report.words import kept_because, shared_message

_BACKTICKS = re.compile(r"`+")
_MARKS = re.compile(r"[\\*_\[\]<&|~`]")


def render(plan: Plan, show_kept: bool = False) -> bytes:
    """The report as UTF-8; sites that stay are counted by role, and listed with ``show_kept``."""
    blocks = [*_blocks(plan, show_kept)]
    return ("\n\n".join(blocks) + "\n").encode("utf-8", "backslashreplace")


def _blocks(plan: Plan, show_kept: bool) -> Iterator[str]:
    yield "# Precision report"
    yield f"Target **{prose(plan.target.name)}**: {prose(text.target_in_words(plan.target))}."
    yield f"{text.summary(plan)} {plural(plan.files_scanned, 'file')} scanned by precpatch {__version__}."
    yield from _blockers([finding for finding in plan.of(REPORT) if finding.severity == BLOCKER])
    yield from _changes(plan.of(REWRITE))
    yield from _added([new.path for new in plan.patches.new_files])
    yield from _places(
        "Needs a person", [finding for finding in plan.of(REPORT) if finding.severity != BLOCKER], _message
    )
    yield from _kept(plan, show_kept)
    yield from _files("Could not be read", plan.errors)
    yield from _files("Left alone", plan.skipped)
    yield from _diff(patch.render(plan))


def _message(finding: Finding) -> str:
    return finding.message


def _blockers(findings: Sequence[Finding]) -> Iterator[str]:
    """What no edit of the checkout mends, once, its places folded."""
    if findings:
        yield f"## Stops you, and no rewrite mends it ({len(findings)})"
        yield "\n".join(f"- {prose(message)}" for message in dict.fromkeys(map(shared_message, findings)))
        yield f"<details><summary>{plural(len(findings), 'place')}</summary>"
        yield _table_of_places(findings, _message)
        yield "</details>"


def _changes(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        return
    yield f"## Changes ({len(findings)})"
    for path, group in groupby(findings, key=lambda finding: finding.mention.path):
        yield f"### {code(path)}"
        yield table(
            ("Line", "Before", "After", "Rule", "Why"),
            [
                (
                    str(finding.mention.line),
                    _cell(finding.mention.text),
                    _cell(finding.after or ""),
                    prose(finding.rule),
                    prose(finding.message),
                )
                for finding in group
            ],
        )


def _added(paths: Sequence[str]) -> Iterator[str]:
    if paths:
        yield f"## Added files ({len(paths)})"
        yield "\n".join(f"- added: {code(path)}" for path in paths)


def _places(title: str, findings: Sequence[Finding], reason: Callable[[Finding], str]) -> Iterator[str]:
    if not findings:
        return
    yield f"## {title} ({len(findings)})"
    yield _table_of_places(findings, reason)


def _table_of_places(findings: Sequence[Finding], reason: Callable[[Finding], str]) -> str:
    return table(
        ("Place", "Found", "Rule", "Why"),
        [
            (
                code(f"{finding.mention.path}:{finding.mention.line}", in_table=True),
                _cell(finding.mention.text),
                prose(finding.rule),
                prose(reason(finding)),
            )
            for finding in findings
        ],
    )


def _kept(plan: Plan, show_kept: bool) -> Iterator[str]:
    kept = plan.of(KEEP)
    if not kept:
        return
    if show_kept:
        yield from _places("Stays as written", kept, kept_because)
        return
    roles = Counter(SUPPRESSED if finding.verdict == SUPPRESSED else finding.mention.role for finding in kept)
    yield f"## Stays as written ({len(kept)})"
    yield table(
        ("Role", "What it does there", "Sites"),
        [(role, ROLES.get(role, "a comment says so"), str(number)) for role, number in roles.most_common()],
    )


def _files(title: str, notes: Sequence[FileNote]) -> Iterator[str]:
    if notes:
        yield f"## {title} ({len(notes)})"
        yield table(("File", "Why"), [(code(note.path, in_table=True), prose(note.message)) for note in notes])


def _diff(data: bytes) -> Iterator[str]:
    if not data:
        return
    body = visible_lines(data).rstrip("\n")
    fence = "`" * max(3, _longest_run(body) + 1)
    yield "## Diff"
    yield f"{fence}diff\n{body}\n{fence}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def code(source: str, in_table: bool = False) -> str:
    r"""``source`` as a code span: the fence outdoes any backticks in it, and in a table ``|`` is ``\|``."""
    shown = visible(source)
    if not shown.strip():
        return ""
    if in_table and r"\|" in shown:  # a table would take the backslash for its own
        return "<code>" + "".join(char if char.isalnum() else f"&#{ord(char)};" for char in shown) + "</code>"
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    span = f"{fence}{pad}{shown}{pad}{fence}"
    return span.replace("|", r"\|") if in_table else span


def prose(message: str) -> str:
    """A message as Markdown: code between backticks stays code, every other mark is shown as it is."""
    pieces = visible(message).split("`")
    if len(pieces) % 2 == 0:
        return _escape(visible(message))
    return "".join(code(piece, in_table=True) if index % 2 else _escape(piece) for index, piece in enumerate(pieces))


def _cell(source: str) -> str:
    return code(shorten(source), in_table=True)


def _escape(words: str) -> str:
    return _MARKS.sub(lambda mark: "\\" + mark.group(), words)


def _longest_run(source: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(source)), default=0)
