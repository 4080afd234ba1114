"""What a person reads after an apply."""

from __future__ import annotations

from dataclasses import replace

from precpatch.patch.edits import PatchSet
from precpatch.patch.transaction import Applied, apply
from precpatch.plan import Plan
from precpatch.report.applied import applied_lines
from precpatch.report.line import plain


def shown(plan: Plan, applied: Applied) -> list[str]:
    return plain(applied_lines(plan, applied, "precpatch revert verl")).decode().splitlines()


def test_changed_and_added_files_are_told_apart(adding_plan: Plan) -> None:
    rows = shown(adding_plan, apply(adding_plan.root, adding_plan.patches))
    at = rows.index("Changed:")
    assert rows[at + 1 : at + 5] == ["  pkg/a.py  1 site", "", "added: empty", "added: pkg/added.py"]
    assert rows[-2].startswith("Changed 1 site in 1 file, added 2 files, 2 sites need a person")
    assert rows[-1] == "Run `precpatch revert verl` to take it back."


def test_a_file_that_was_not_added_is_not_listed(adding_plan: Plan) -> None:
    rows = shown(adding_plan, Applied(("pkg/a.py", "empty")))
    assert "added: pkg/added.py" not in rows
    assert rows[-2].endswith("1 file could not be written.")


def test_nothing_to_change(plan: Plan) -> None:
    rows = shown(replace(plan, findings=(), patches=PatchSet()), Applied())
    assert rows[-1].startswith("Nothing to change")
