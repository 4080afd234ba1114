"""The plan as one JSON object: version 1 of the contract, in ASCII, so that every locale and reader can take it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from precpatch import __version__
from precpatch.engine.finding import KEEP, REPORT, REWRITE, SUPPRESSED, UNSAFE, Finding
from precpatch.notes import FileNote
from precpatch.plan import Plan


def render(plan: Plan, show_kept: bool = False) -> bytes:
    """The JSON report; findings that stay as they are only with ``show_kept``."""
    shown = plan.of(REWRITE, REPORT, KEEP) if show_kept else plan.of(REWRITE, REPORT)
    report = {
        "version": 1,
        "tool": f"precpatch {__version__}",
        "root": ".",
        "target": plan.target.describe(),
        "findings": [_finding(finding) for finding in shown],
        "errors": _notes(plan.errors),
        "added_files": [new_file.path for new_file in plan.patches.new_files],
        "skipped": _notes(plan.skipped),
        "summary": _summary(plan),
    }
    return json.dumps(report, indent=2).encode("ascii") + b"\n"


def _finding(finding: Finding) -> dict[str, Any]:
    mention = finding.mention
    return {
        "path": mention.path,
        "line": mention.line,
        "column": mention.column,
        "end_line": mention.end_line,
        "end_column": mention.end_column,
        "rule": finding.rule,
        "kind": mention.kind,
        "role": mention.role,
        "action": finding.action,
        "severity": finding.severity,
        "before": mention.text,
        "after": finding.after,
        "message": finding.message,
        "override": finding.override,
    }


def _notes(notes: Sequence[FileNote]) -> list[dict[str, str]]:
    return [{"path": note.path, "message": note.message} for note in notes]


def _summary(plan: Plan) -> dict[str, int]:
    counts = plan.count()
    return {
        "files_scanned": plan.files_scanned,
        "files_with_findings": len({finding.mention.path for finding in plan.of(REWRITE, REPORT)}),
        "rewrite": counts[REWRITE],
        "report": counts[REPORT] + counts[UNSAFE],
        "keep": counts[KEEP],
        "suppressed": counts[SUPPRESSED],
    }
