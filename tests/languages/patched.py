"""A run on one file, as a user sees it: what becomes of its text, and what needs a person."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from precpatch.engine.finding import REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.patch.edits import PatchSet
from precpatch.session import file_findings


@dataclass(frozen=True)
class Outcome:
    """What a run does to a file.

    Attributes:
        data: its bytes afterwards.
        reports: line and rule of each place that needs a person.
        used_by: line -> the settings that take the value there.
    """

    data: bytes
    reports: list[tuple[int, str]]
    used_by: dict[int, tuple[str, ...]]

    @property
    def text(self) -> str:
        return self.data.decode()


@cache
def policy(target: str = "v100") -> Policy:
    return Policy(load_rules(), resolve_target(target, "float32", "eager"))


def run(path: str, text: str | bytes) -> Outcome:
    """A run on a file, which a second run leaves as it is."""
    data = text.encode() if isinstance(text, str) else text
    first = once(path, data)
    assert once(path, first.data).data == first.data, "a second run changes something"
    return first


def once(path: str, data: bytes) -> Outcome:
    findings = file_findings(path, data, policy())
    edits = [edit for finding in findings if finding.verdict == REWRITE for edit in finding.edits]
    patched = PatchSet.of(edits, lambda _: data).apply_to(path, data)
    reports = sorted((each.mention.line, each.rule) for each in findings if each.action == "report")
    return Outcome(patched, reports, {each.mention.line: each.mention.used_by for each in findings})
