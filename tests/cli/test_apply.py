"""`apply` writes what `scan` said, and `revert` takes it back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli_samples import MODEL, PATCHED_MODEL

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
