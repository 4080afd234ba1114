"""One finding in words: what becomes of it, what to do, why it stays."""

from __future__ import annotations

from precpatch.engine.finding import KEEP, Finding
from precpatch.languages.mention import ROLES
from precpatch.report.line import shorten


def change(finding: Finding) -> str:
    """What becomes of the site, on one line: ``before -> after``, or only what stands there."""
    before = shorten(finding.mention.text) or "(nothing)"
    if finding.after is None or finding.action == KEEP:
        return before
    return f"{before} -> {shorten(finding.after) or '(nothing)'}"


def kept_because(finding: Finding) -> str:
    """Why a site stays as it is written."""
    role = finding.mention.role
    return f"{finding.message or ROLES.get(role, '')} ({role})"


def shared_message(finding: Finding) -> str:
    """The message without what takes the value, which differs from place to place."""
    return finding.message.removesuffix(f"; used by {', '.join(finding.mention.used_by)}")
