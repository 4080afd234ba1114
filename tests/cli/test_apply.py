"""`apply` writes what `scan` said, and `revert` takes it back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_samples import MODEL, PATCHED_MODEL

from precpatch import session
from precpatch.plan import Plan

Run = Callable[..., Any]


def test_apply_then_revert_gives_back_every_byte(checkout: Path, precpatch: Run) -> None:
    answer = precpatch("apply", "verl", "--target", "p40")
    assert (answer.code, answer.err) == (0, "")
    assert (checkout / "model.py").read_bytes() == PATCHED_MODEL
    assert "model.py  1 site\n" in answer.text
    assert "Changed 1 site in 1 file." in answer.text
    assert answer.text.endswith("Run `precpatch revert verl` to take it back.\n")
    back = precpatch("revert", "verl")
    assert (back.code, back.text) == (0, "  model.py\nRestored 1 file.\n")
    assert (checkout / "model.py").read_bytes() == MODEL


def test_a_second_apply_changes_nothing_and_says_so(checkout: Path, precpatch: Run) -> None:
    precpatch("apply", "verl", "--target", "p40")
    answer = precpatch("apply", "verl", "--target", "p40")
    assert answer.code == 0
    assert "Nothing to change." in answer.text
    assert (checkout / "model.py").read_bytes() == PATCHED_MODEL


def test_reports_say_what_was_changed(checkout: Path, precpatch: Run) -> None:
    patch = precpatch("diff", "verl", "--target", "p40").out
    scan = precpatch("scan", "verl", "--target", "p40", "--format", "json").out
    precpatch("apply", "verl", "--target", "p40", "--report", "r.md", "--report", "r.json", "--report", "r.patch")
    assert Path("r.patch").read_bytes() == patch
    assert json.loads(Path("r.json").read_bytes()) == json.loads(scan)
    report = Path("r.md").read_text()
    assert "| 5 | `torch.bfloat16` | `torch.float32` |" in report
    assert patch.decode() in report


def test_a_wrong_report_name_stops_before_anything_is_written(checkout: Path, precpatch: Run) -> None:
    assert precpatch("apply", "verl", "--target", "p40", "--report", "r.docx").code == 2
    assert (checkout / "model.py").read_bytes() == MODEL


def test_a_hook_fails_when_it_changed_a_file_and_names_it(checkout: Path, precpatch: Run) -> None:
    words = ("apply", "--exit-non-zero-on-fix", "--target", "p40", "verl/model.py", "verl/other.py")
    answer = precpatch(*words)
    assert answer.code == 1
    assert "model.py" in answer.text
    assert precpatch(*words).code == 0


def test_quiet_prints_nothing(checkout: Path, precpatch: Run) -> None:
    answer = precpatch("apply", "verl", "--target", "p40", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, b"", "")
    assert (checkout / "model.py").read_bytes() == PATCHED_MODEL
    assert precpatch("revert", "verl", "--quiet").out == b""


def test_revert_keeps_later_edits_unless_forced(checkout: Path, precpatch: Run) -> None:
    precpatch("apply", "verl", "--target", "p40")
    (checkout / "model.py").write_bytes(b"# mine\n")
    refused = precpatch("revert", "verl")
    assert refused.code == 2
    assert (checkout / "model.py").read_bytes() == b"# mine\n"
    assert precpatch("revert", "verl", "--force").code == 0
    assert (checkout / "model.py").read_bytes() == MODEL


def test_revert_tells_restored_and_removed_files_apart(checkout: Path, precpatch: Run) -> None:
    (checkout / "pkg").mkdir()
    (checkout / "pkg/__init__.py").touch()
    (checkout / "pkg/packed.py").write_bytes(b"from flash_attn.bert_padding import unpad_input\n")
    precpatch("apply", "verl", "--target", "p40")
    rows = precpatch("revert", "verl").text.splitlines()
    assert [row for row in rows if row.endswith("  removed")]
    assert rows[-1] == "Restored 2 files. Removed 1 added file."


def apply_in_a_subfolder(checkout: Path, monkeypatch: pytest.MonkeyPatch, precpatch: Run) -> Path:
    """``cd verl/a; precpatch apply .``, with a folder inside and one beside it."""
    inner = checkout / "a"
    (inner / "b").mkdir(parents=True)
    (checkout / "c").mkdir()
    (inner / "model.py").write_bytes(MODEL)
    monkeypatch.chdir(inner)
    assert precpatch("apply", ".", "--target", "p40").code == 0
    return inner


def test_revert_looks_upward_and_says_where(checkout: Path, precpatch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / ".git").mkdir()
    inner = apply_in_a_subfolder(checkout, monkeypatch, precpatch)
    monkeypatch.chdir(inner / "b")
    answer = precpatch("revert")
    assert answer.code == 0
    assert answer.text == f"The apply was made in {inner}:\n  model.py\nRestored 1 file.\n"
    assert (inner / "model.py").read_bytes() == MODEL


def test_revert_names_a_folder_below_and_leaves_it(
    checkout: Path, precpatch: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = apply_in_a_subfolder(checkout, monkeypatch, precpatch)
    monkeypatch.chdir(checkout)
    answer = precpatch("revert")
    assert answer.code == 2
    assert "nothing to revert: no apply has been recorded here, but in another folder: run `precpatch revert a`" in (
        answer.err
    )
    assert (inner / "model.py").read_bytes() == PATCHED_MODEL
    assert precpatch("revert", "a").code == 0


def interrupted(root: Path, status: str) -> None:
    """Make the newest apply of ``root`` look like one whose run ended with ``status``."""
    journal = max((root / ".precpatch/journals").iterdir())
    journal.write_bytes(journal.read_bytes().replace(b'"done"', f'"{status}"'.encode()))


@pytest.mark.parametrize("status", ["writing", "reverting"])
@pytest.mark.parametrize("command", ["scan", "diff"])
def test_a_plan_from_a_half_written_tree_says_so(precpatch: Run, checkout: Path, command: str, status: str) -> None:
    precpatch("apply", "verl", "--target", "p40")
    interrupted(checkout, status)
    result = precpatch(command, "verl", "--target", "p40")
    assert "was interrupted or is under way" in result.err
    assert "precpatch revert" in result.err


def test_revert_removes_what_a_kill_before_the_journal_left(precpatch: Run, checkout: Path) -> None:
    blobs = checkout / ".precpatch" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / ("0" * 64)).write_bytes(b"x")
    assert precpatch("revert", "verl").code == 2
    assert not (checkout / ".precpatch").exists()


@pytest.mark.parametrize(
    ("status", "told"),
    [("writing", "an interrupted apply was rolled back"), ("reverting", "an interrupted revert was finished")],
)
def test_apply_says_what_it_mended_first(checkout: Path, precpatch: Run, status: str, told: str) -> None:
    precpatch("apply", "verl", "--target", "p40")
    interrupted(checkout, status)
    answer = precpatch("apply", "verl", "--target", "p40")
    assert answer.code == 0
    assert answer.text.startswith(f"First, {told}, which changed 1 file.\n\n")
    assert "Changed 1 site in 1 file." in answer.text
    assert precpatch("revert", "verl").code == 0
    assert (checkout / "model.py").read_bytes() == MODEL


@pytest.mark.parametrize("words", [("apply", "verl"), ("apply", "verl", "--report", "r.patch"), ("diff", "verl")])
@pytest.mark.parametrize("gone", [False, True])
def test_a_file_that_changes_after_the_plan_is_one_line(
    checkout: Path, precpatch: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], gone: bool
) -> None:
    real = session.plan

    def then_edited(*args: Any, **options: Any) -> Plan:
        found = real(*args, **options)
        (checkout / "model.py").write_bytes(b"# mine\n")
        if gone:
            (checkout / "model.py").unlink()
        return found

    monkeypatch.setattr(session, "plan", then_edited)
    answer = precpatch(*words, "--target", "p40")
    assert (answer.code, answer.out) == (2, b"")
    assert answer.err.startswith("precpatch: error: ")
    assert "run again" in answer.err
    assert answer.err.count("\n") == 1
