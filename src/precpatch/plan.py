"""The Plan: everything one run found and would change. Diff, apply and every report read this and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from precpatch.engine.finding import Finding
from precpatch.gpu.target import Target
from precpatch.notes import FileNote
from precpatch.patch.edits import PatchSet


@dataclass(frozen=True)
class Plan:
    """What a run found under ``root``.

    Attributes:
        root: folder that every path is relative to.
        target: the GPU and the policy that decided.
        findings: every verdict, kept ones too, ordered by path and position.
        patches: the edits of every rewrite, checked and disjoint.
        errors: files that could not be read, decoded or parsed.
        skipped: files left alone on purpose: links that leave the root, files over the size cap, other folders.
        files_scanned: number of files that were looked at.
    """

    root: Path
    target: Target
    findings: tuple[Finding, ...]
    patches: PatchSet
    errors: tuple[FileNote, ...]
    skipped: tuple[FileNote, ...]
    files_scanned: int

    def count(self) -> Counter[str]:
        """Number of findings by verdict (``rewrite``, ``report``, ...)."""
        return Counter(finding.verdict for finding in self.findings)

    def of(self, *actions: str) -> list[Finding]:
        """The findings whose action is one of ``actions``."""
        return [finding for finding in self.findings if finding.action in actions]
