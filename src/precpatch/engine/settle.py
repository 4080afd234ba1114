"""Settling: fixes that cannot all be made are lowered to reports, whole groups at a time, until what is left holds.

In one file: fixes that collide, and edits after which the file would not parse. In the checkout: files that may not be
written, and groups of which one member stays. All of it ends here; nothing else lowers a verdict once it is given.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from precpatch.engine.decide import claims
from precpatch.engine.finding import KEEP, REPORT, REWRITE, SUPPRESSED, UNSAFE, Finding
from precpatch.engine.policy import Policy
from precpatch.engine.rules import Rule
from precpatch.languages.base import Reading
from precpatch.patch.edits import Edit, PatchSet

NOT_WRITABLE = "not-writable: the file or its folder is read-only"
_CHOOSES = frozenset({"value", "autocast", "method-cast"})


def settle_file(policy: Policy, reading: Reading, findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one file after their edits were tried together."""
    settled = settle_groups(policy, _without_collisions(findings))
    edits = [edit for finding in settled if finding.verdict == REWRITE for edit in finding.edits]
    if not edits:
        return settled
    source = reading.source
    changed = PatchSet.of(edits, lambda _: source.data).apply_to(source.path, source.data)
    problem = reading.check(changed)
    if problem is None:
        return settled
    return [finding.refused(f"the rewritten file would not parse ({problem})") for finding in settled]


def settle_checkout(
    policy: Policy, findings: Sequence[Finding], locked: AbstractSet[str], reason: str = NOT_WRITABLE
) -> list[Finding]:
    """The findings of all files, none of which writes one of the ``locked`` files."""
    refused = {finding.together for finding in findings if finding.verdict == REWRITE and locked & _written_by(finding)}
    settled = _refuse(findings, lambda finding: finding.together in refused, reason)
    return settle_groups(policy, settled)


def settle_groups(policy: Policy, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with every group of a group rule of which one member stays left as a whole."""
    settled = list(findings)
    for rule in policy.active:
        if rule.action == "group":
            for positions in _groups(rule, policy, settled):
                _settle_group(rule, settled, positions)
    return settled


def _without_collisions(findings: Sequence[Finding]) -> list[Finding]:
    """Refuse every fix, group by group, whose edits touch those of a fix accepted before it."""
    taken = _Taken()
    refused: set[str] = set()
    for finding in findings:
        if finding.verdict != REWRITE:
            continue
        if any(map(taken.collides, finding.edits)):
            refused.add(finding.together)
        else:
            taken.add(finding.edits)
    return _refuse(findings, lambda finding: finding.together in refused, "its place is changed by another fix")


class _Taken:
    """Edits that were accepted, in the order of their place."""

    def __init__(self) -> None:
        self._edits: list[Edit] = []

    def add(self, edits: Iterable[Edit]) -> None:
        """Accept edits that do not collide with any other; one that is there already counts once."""
        for edit in edits:
            at = bisect_left(self._edits, (edit.start, edit.end), key=_place)
            if at == len(self._edits) or self._edits[at] != edit:
                self._edits.insert(at, edit)

    def collides(self, edit: Edit) -> bool:
        """Whether an edit claims bytes that another one claims."""
        at = bisect_left(self._edits, edit.end, key=lambda other: other.start)
        near = (self._edits[index] for index in range(at - 1, -1, -1))
        other = next((each for each in near if each != edit), None)
        return other is not None and edit.start < other.end


def _place(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _refuse(findings: Sequence[Finding], is_refused: Callable[[Finding], bool], reason: str) -> list[Finding]:
    return [finding.refused(reason) if is_refused(finding) else finding for finding in findings]


def _written_by(finding: Finding) -> set[str]:
    """The files that a fix writes."""
    added = {finding.new_file.path} if finding.new_file else set()
    return {edit.path for edit in finding.edits} | added


def _groups(rule: Rule, policy: Policy, findings: Sequence[Finding]) -> Iterator[list[int]]:
    """The positions in ``findings`` of each group of the rule."""
    groups: dict[str, list[int]] = {}
    for position, finding in enumerate(findings):
        if claims(rule, policy, finding.mention):
            groups.setdefault(finding.mention.path if rule.scope == "file" else "", []).append(position)
    yield from groups.values()


def _settle_group(rule: Rule, findings: list[Finding], positions: Sequence[int]) -> None:
    """Lower all members of a group where one of them chooses the old value and keeps it."""
    stays = next((findings[at] for at in positions if _stays(findings[at])), None)
    if stays is None:
        return
    place = f"{stays.mention.path}:{stays.mention.line}"
    message = f"{rule.message}: {place} stays, so this stays too"
    names = {findings[at].group for at in positions if findings[at].verdict == REWRITE} - {None}
    for at in positions:
        findings[at] = findings[at].lowered(message, rule.id)
    for at, finding in enumerate(findings):
        if finding.group in names:
            findings[at] = finding.lowered(message, rule.id)


def _stays(finding: Finding) -> bool:
    """Whether a member chooses the old value and keeps it."""
    if finding.verdict in {REPORT, SUPPRESSED, UNSAFE}:
        return True
    return finding.verdict == KEEP and not finding.rule and finding.mention.role in _CHOOSES
