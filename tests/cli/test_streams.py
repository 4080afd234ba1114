"""Standard streams that are closed or full, and reports that cannot be written: one clear line, exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_samples import MODEL, PATCHED_MODEL

Run = Callable[..., Any]

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")

FULL, CLOSED = ">/dev/full", ">&-"


def shell(words: str, redirections: str, unbuffered: str = "") -> subprocess.CompletedProcess[str]:
    """Run precpatch as a program with the redirections of a shell."""
    command = f'exec "{sys.executable}" -m precpatch {words} {redirections}'
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment, check=False)


def assert_one_line(done: subprocess.CompletedProcess[str], *told: str) -> None:
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("precpatch: error: ")
    assert done.stderr.count("\n") == 1
    for text in told:
        assert text in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("redirection", "why"), [(FULL, "No space left on device"), (CLOSED, "it is closed")])
@pytest.mark.parametrize(
    "words", ["scan verl -t p40", "diff verl -t p40", "scan verl -t p40 --format json", "rules", "--help", "targets"]
)
@pytest.mark.usefixtures("checkout")
def test_a_standard_output_that_takes_nothing(words: str, redirection: str, why: str, unbuffered: str) -> None:
    assert_one_line(shell(words, redirection, unbuffered), f"standard output cannot be written: {why}.")


@pytest.mark.parametrize("redirections", ["<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
@pytest.mark.usefixtures("checkout")
def test_with_nobody_to_tell_the_exit_code_is_left(redirections: str) -> None:
    for words in ("scan verl -t p40", "diff verl -t p40", "--help", "scan nowhere"):
        done = shell(words, redirections)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_a_closed_standard_error_spoils_nothing(checkout: Path) -> None:
    (checkout / "bad.py").write_bytes(b"torch.bfloat16 = = 1\n")
    done = shell("diff verl -t p40", "2>&-")
    assert done.returncode == 2
    assert done.stdout.startswith("diff --git")
    assert "bad.py" not in done.stdout


@pytest.mark.usefixtures("checkout")
def test_who_asks_for_a_file_needs_no_standard_output() -> None:
    assert shell("diff verl -t p40 --output p40.patch", "<&- >&- 2>&-").returncode == 1
    assert Path("p40.patch").read_bytes().startswith(b"diff --git")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("redirection", [FULL, CLOSED])
def test_apply_and_revert_say_what_they_did(checkout: Path, redirection: str, unbuffered: str) -> None:
    told = "But the change is made, in 1 file; `precpatch revert verl` takes it back."
    assert_one_line(shell("apply verl -t p40", redirection, unbuffered), told)
    assert (checkout / "model.py").read_bytes() == PATCHED_MODEL
    assert_one_line(shell("revert verl", redirection, unbuffered), "But the change was taken back.")
    assert (checkout / "model.py").read_bytes() == MODEL


@pytest.mark.parametrize("report", ["none/r.md", "folder.md", "verl/model.py/r.md", f"{'n' * 300}.md"])
def test_a_report_that_cannot_be_written_stops_before_anything_is(checkout: Path, precpatch: Run, report: str) -> None:
    Path("folder.md").mkdir()
    answer = precpatch("apply", "verl", "--target", "p40", "--report", "good.md", "--report", report)
    assert (answer.code, answer.out) == (2, b"")
    assert "cannot be written" in answer.err
    assert answer.err.count("\n") == 1
    assert (checkout / "model.py").read_bytes() == MODEL
    assert not Path("good.md").exists()


def test_the_check_of_a_report_changes_no_file(checkout: Path, precpatch: Run) -> None:
    Path("old.md").write_bytes(b"old")
    Path("link.md").symlink_to("new.md")
    words = ("--report", "old.md", "--report", "link.md", "--report", "other.md")
    assert precpatch("apply", "verl", "--target", "none", *words).code == 2
    assert Path("old.md").read_bytes() == b"old"
    assert Path("link.md").is_symlink()
    assert not Path("new.md").exists()
    assert not Path("other.md").exists()


def test_a_report_that_fails_later_says_that_the_change_is_made(checkout: Path, precpatch: Run) -> None:
    Path("full.md").symlink_to("/dev/full")
    answer = precpatch("apply", "verl", "--target", "p40", "--report", "full.md")
    assert answer.code == 2
    assert answer.err == (
        "precpatch: error: full.md: cannot be written: No space left on device. "
        "But the change is made, in 1 file; `precpatch revert verl` takes it back.\n"
    )
    assert (checkout / "model.py").read_bytes() == PATCHED_MODEL
