"""Groups: sites that change together or not at all, in one file or in the whole tree, as the group rules say.

A save dtype and the check that compares it, the data on a wire and what reads it: if one of them stays as it is
(suppressed, ignored, or in need of a person), the others stay too and are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from precpatch.engine.decide import Policy, claims
from precpatch.engine.finding import KEEP, REPORT, REWRITE, SUPPRESSED, UNSAFE, Finding
from precpatch.engine.rules import Rule

_CHOOSES = frozenset({"value", "autocast", "method-cast"})


def settle_groups(policy: Policy, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, with every group of which one member stays left as a whole."""
    settled = list(findings)
    for rule in policy.rules:
        if rule.action == "group":
            for members in _groups(rule, policy, settled):
                _settle(rule, settled, members)
    return settled


def _groups(rule: Rule, policy: Policy, findings: Sequence[Finding]) -> Iterator[list[int]]:
    """The positions in ``findings`` of each group of the rule."""
    groups: dict[str, list[int]] = {}
    for position, finding in enumerate(findings):
        if claims(rule, policy, finding.mention):
            groups.setdefault(finding.mention.path if rule.scope == "file" else "", []).append(position)
    yield from groups.values()


def _settle(rule: Rule, findings: list[Finding], members: Iterable[int]) -> None:
    positions = list(members)
    stays = next((findings[at] for at in positions if _stays(findings[at])), None)
    if stays is None:
        return
    for at in positions:
        if findings[at].verdict == REWRITE:
            findings[at] = _left(rule, findings[at], stays)


def _stays(finding: Finding) -> bool:
    """Whether a member chooses the old value and keeps it."""
    if finding.verdict in {REPORT, SUPPRESSED, UNSAFE}:
        return True
    return finding.verdict == KEEP and not finding.rule and finding.mention.role in _CHOOSES


def _left(rule: Rule, finding: Finding, stays: Finding) -> Finding:
    place = f"{stays.mention.path}:{stays.mention.line}"
    message = f"{rule.message}: {place} stays, so this stays too"
    return replace(
        finding, rule=rule.id, verdict=REPORT, message=message, edits=(), new_file=None, after=None, override=None
    )
