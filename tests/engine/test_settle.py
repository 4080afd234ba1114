"""Fixes that cannot all be made: what collides, what would break the file, what changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from precpatch.engine.decide import decide
from precpatch.engine.finding import KEEP, REPORT, REWRITE, Finding
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.engine.settle import settle_checkout, settle_file
from precpatch.gpu.resolve import resolve_target
from precpatch.languages.mention import Mention, place
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit, PatchSet

SOURCE = SourceFile("m.py", b"a = torch.bfloat16\nb = torch.bfloat16\nc = 1\n")
P40 = Policy(load_rules(), resolve_target("p40"))


def mention(line: int) -> Mention:
    start = SOURCE.line_starts[line - 1] + 4
    return Mention(language="python", kind="dtype", value="bfloat16", spelling="torch", role="value",
                   **place(SOURCE, start, start + 14))  # fmt: skip


@dataclass
class FakeReading:
    """A reading whose edits and complaint are given."""

    source: SourceFile = SOURCE
    mentions: Sequence[Mention] = field(default_factory=lambda: [mention(1), mention(2)])
    edits: dict[int, tuple[Edit, ...]] = field(default_factory=dict)
    complaint: str | None = None

    def rewrite(self, asked: Mention, value: str) -> tuple[Edit, ...]:
        return self.edits.get(asked.line, ())

    def extend(self, asked: Mention, value: str) -> tuple[Edit, ...]:
        return ()

    def check(self, data: bytes) -> str | None:
        return self.complaint


def edit(start: int, old: bytes, new: bytes) -> Edit:
    assert SOURCE.data[start : start + len(old)] == old
    return Edit("m.py", start, old, new)


FIRST, SECOND = edit(10, b"bfloat16", b"float32"), edit(29, b"bfloat16", b"float32")


def settled(reading: FakeReading) -> list[Finding]:
    return settle_file(P40, reading, decide(P40, reading))


def verdicts(findings: Sequence[Finding]) -> list[str]:
    return [finding.verdict for finding in findings]


def test_fixes_of_different_places_are_made() -> None:
    assert verdicts(settled(FakeReading(edits={1: (FIRST,), 2: (SECOND,)}))) == [REWRITE, REWRITE]


@pytest.mark.parametrize(
    "other",
    [
        edit(4, b"torch.bfloat16", b"torch.float32"),
        edit(17, b"6\nb", b"x"),
        edit(10, b"bfloat16", b"float16"),
        edit(0, SOURCE.data, b"all"),
    ],
    ids=["around", "over the end", "the same place", "the whole file"],
)
def test_the_later_of_two_fixes_that_collide_is_reported(other: Edit) -> None:
    found = settled(FakeReading(edits={1: (FIRST,), 2: (other,)}))
    assert verdicts(found) == [REWRITE, REPORT]
    assert found[1].message.endswith("not rewritten: its place is changed by another fix")
    assert found[1].edits == ()
    assert PatchSet.of(found[0].edits, lambda _: SOURCE.data).apply_to("m.py", SOURCE.data).count(b"float32") == 1


def test_the_same_edit_twice_does_not_collide() -> None:
    assert verdicts(settled(FakeReading(edits={1: (FIRST,), 2: (FIRST,)}))) == [REWRITE, REWRITE]


def test_an_edit_between_two_others_collides_with_none() -> None:
    third = edit(18, b"\n", b"\r\n")
    found = settle_file(P40, FakeReading(), [_rewrite(1, FIRST), _rewrite(2, SECOND), _rewrite(1, third)])
    assert verdicts(found) == [REWRITE, REWRITE, REWRITE]


def test_a_collision_takes_the_whole_group_back() -> None:
    grouped = [replace(_rewrite(1, SECOND), group="g"), replace(_rewrite(2, FIRST), group="g")]
    found = settle_file(P40, FakeReading(), [_rewrite(1, FIRST), *grouped, _rewrite(2, edit(29, b"bf", b"x"))])
    assert [each.verdict for each in found][:1] == [REWRITE]
    refused = settle_file(P40, FakeReading(), [_rewrite(1, edit(10, b"bf", b"x")), *grouped])
    assert verdicts(refused) == [REWRITE, REPORT, REPORT]


def _rewrite(line: int, *edits: Edit) -> Finding:
    return Finding("some-rule", mention(line), REWRITE, "error", "why", after="x", edits=edits)


def test_a_file_that_would_not_parse_is_left_whole() -> None:
    found = settled(FakeReading(edits={1: (FIRST,), 2: (SECOND,)}, complaint="line 1: no"))
    assert verdicts(found) == [REPORT, REPORT]
    assert all("the rewritten file would not parse (line 1: no)" in each.message for each in found)
    assert all(each.edits == () and each.after is None for each in found)


def test_a_fix_that_changes_nothing_is_kept() -> None:
    found = settled(FakeReading(edits={1: (edit(10, b"bfloat16", b"bfloat16"),), 2: (SECOND,)}))
    assert verdicts(found) == [KEEP, REWRITE]
    assert found[0].message == "kept: says what the target wants already"


def test_a_place_without_an_edit_needs_a_person() -> None:
    found = settled(FakeReading(edits={2: (SECOND,)}))
    assert verdicts(found) == [REPORT, REWRITE]
    assert found[0].message.endswith("it cannot be rewritten in place")


def test_a_locked_file_takes_back_its_fixes_and_their_groups() -> None:
    elsewhere = replace(_rewrite(2, Edit("other.py", 0, b"x", b"y")), group="g")
    found = settle_checkout(P40, [replace(_rewrite(1, FIRST), group="g"), elsewhere, _rewrite(2, SECOND)], {"other.py"})
    assert verdicts(found) == [REPORT, REPORT, REWRITE]
    assert "not-writable" in found[0].message
