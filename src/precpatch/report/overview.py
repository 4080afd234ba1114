"""A long plan for a person: one row a rule with its places folded, what stops a run before what needs a look."""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from precpatch.engine.finding import BLOCKER, REPORT, REWRITE, Finding
from precpatch.report.line import Line, line, plural, visible
from precpatch.report.words import change, shared_message

MOST_ROWS = 40
"""So many rows a person reads; more of them are folded."""

_MOST_FOLDERS = 4
_MOST_FORMS = 3
_AROUND = frozenset({"ci", "docker"}) | {
    name + ending
    for name in ("benchmark", "doc", "example", "notebook", "recipe", "script", "test", "tutorial")
    for ending in ("", "s")
}
"""Folders beside the framework itself: a person wants to know of its core first."""


def is_long(findings: Sequence[Finding]) -> bool:
    """Whether there are more findings than a person reads one by one."""
    return len(findings) > MOST_ROWS


def overview_lines(findings: Sequence[Finding]) -> Iterator[Line]:
    """What stops a run, what needs a person and what will be done: a row a rule, and what to do under it."""
    reports = [finding for finding in findings if finding.action == REPORT]
    others = [finding for finding in reports if finding.severity != BLOCKER]
    above = os.path.commonpath([os.path.dirname(each.mention.path) for each in findings]) if findings else ""
    yield from _block("Stops you, and no rewrite mends it", _blockers(findings), above)
    yield from _block("Needs a person", others, above)
    yield from _block("To rewrite", [finding for finding in findings if finding.action == REWRITE], above)


def _blockers(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity == BLOCKER and finding.action == REPORT]


def blocker_lines(findings: Sequence[Finding]) -> Iterator[Line]:
    """What no edit of the checkout mends, a line a message."""
    messages = dict.fromkeys(map(shared_message, _blockers(findings)))
    if messages:
        yield line(("Stops you, and no rewrite mends it:", "bold red"))
        yield from (line(f"  {visible(message)}") for message in messages)
        yield line()


def _block(title: str, findings: Sequence[Finding], above: str) -> Iterator[Line]:
    """A title and the rules, those with most places first; everything lies in the folder ``above``."""
    if not findings:
        return
    yield line((f"{title}:", "bold"))
    rules = [list(group) for _, group in groupby(sorted(findings, key=_by_rule), key=_by_rule)]
    rules.sort(key=len, reverse=True)
    width = max(len(group[0].rule) for group in rules)
    digits = len(str(len(rules[0])))
    for group in rules:
        group.sort(key=_core_first)
        yield line(
            "  ",
            (f"{group[0].rule:<{width}}", "cyan"),
            f"  {len(group):>{digits}}  ",
            *_where(group, above),
        )
        yield line("    ", (visible(_message(group)), "" if group[0].action == REPORT else "dim"))
    yield line()


def _by_rule(finding: Finding) -> str:
    return finding.rule


def _core_first(finding: Finding) -> tuple[bool, str, int]:
    mention = finding.mention
    return _is_around(mention.path), mention.path, mention.start


def _is_around(path: str) -> bool:
    """Whether a file stands beside the framework itself."""
    first = path.split("/", 1)[0]
    return first in _AROUND or first.startswith(".")


def _folders(group: Sequence[Finding], above: str) -> str:
    """How many places each folder holds, below the one that holds everything; the framework's own first."""
    counts = Counter(_folder(finding.mention.path, above) for finding in group)
    rows = sorted(counts.items(), key=lambda row: (_is_around(row[0]), -row[1], row[0]))
    parts = [f"{visible(folder)} {count}" for folder, count in rows[:_MOST_FOLDERS]]
    if len(rows) > _MOST_FOLDERS:
        rest = sum(count for _, count in rows[_MOST_FOLDERS:])
        parts.append(f"{len(rows) - _MOST_FOLDERS} more {rest}")
    return ", ".join(parts)


def _folder(path: str, above: str) -> str:
    """The folder of a file just below ``above``, in the framework itself one deeper; or a file that lies there."""
    parts = path.split("/")
    depth = above.count("/") + 2 if above else 1
    return "/".join(parts[: depth + (not _is_around(path))])


def _where(group: Sequence[Finding], above: str) -> Line:
    """Where the first place stands; of several, how many each folder holds before it."""
    mention = group[0].mention
    first = f"{visible(mention.path)}:{mention.line}:{mention.column}"
    if len(group) == 1:
        return line(first)
    return line((f"{_folders(group, above)}: ", "dim"), f"{first} and {len(group) - 1} more")


def _message(group: Sequence[Finding]) -> str:
    """What to do about a report; for rewrites, what becomes of what."""
    if group[0].action == REPORT:
        texts = dict.fromkeys(map(shared_message, group))
        text = min(texts, key=len)
        return text if len(texts) == 1 else f"{text} (and {len(texts) - 1} more like it)"
    forms = Counter(change(finding) for finding in group).most_common()
    text = ", ".join(form for form, _ in forms[:_MOST_FORMS])
    return f"{text} and {plural(len(forms) - _MOST_FORMS, 'more form')}" if len(forms) > _MOST_FORMS else text
