"""What is printed drives no terminal, whatever a checkout holds; a pipe that nobody reads stops nothing for ever."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from precpatch.report.line import command_line, line, plain, visible_lines

EVIL = "a\x1b]0;owned\x07\x9b31m\u202e\r\nb"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run precpatch as a program; one that waits fails the test."""
    command = [sys.executable, "-m", "precpatch", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "verl"
    folder.mkdir()
    (folder / "model.py").write_bytes(
        b"import torch\n# \x1b[31m\x07\xc2\x9b\nx = torch.zeros(2, dtype=torch.bfloat16)\n"
    )
    return folder


def test_a_line_of_a_report_is_one_line() -> None:
    shown = plain([line(EVIL, (EVIL, "bold"))]).decode()
    assert shown.count("\n") == 1
    assert shown[:-1].isprintable()


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="bash quotes")
def test_a_command_with_an_odd_name_is_one_line_and_means_it() -> None:
    words = [EVIL, "it's", "caf\xe9", os.fsdecode(b"\xff'\\")]
    shown = command_line(["printf", "%s\\0", *words])
    assert shown.isprintable()
    done = subprocess.run(["/bin/bash", "-c", shown], capture_output=True, check=True)
    assert done.stdout.split(b"\0")[:-1] == [os.fsencode(word) for word in words]


def test_text_of_many_lines_keeps_tabs_and_line_feeds_only() -> None:
    assert visible_lines(b"\ta\n\x1b\xff\r\n") == "\ta\n\\x1b\\xff\\r\n"


def test_a_patch_is_exact_in_a_pipe_and_safe_on_a_terminal(checkout: Path) -> None:
    assert b"\x1b[31m" in run(checkout, "diff", "-t", "p40").stdout
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "precpatch", "diff", "-t", "p40"]
    child = subprocess.Popen(command, cwd=checkout, stdout=theirs, stderr=subprocess.PIPE)
    complaint = child.communicate(timeout=60)[1]
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert b"\\x1b[31m\\x07\\x9b" in shown
    assert b"\x1b" not in shown
    assert b"shown as escapes" in complaint


def test_the_diff_of_a_markdown_report_holds_no_control_byte(checkout: Path) -> None:
    text = run(checkout, "scan", "-t", "p40", "--format", "markdown").stdout.decode()
    assert "\\x1b[31m" in text
    assert all(row.isprintable() for row in text.split("\n"))


@pytest.mark.parametrize("words", [("apply", "--report"), ("scan", "--output"), ("diff", "--output")])
def test_a_pipe_that_nobody_reads_is_refused_before_anything_changes(checkout: Path, words: tuple[str, str]) -> None:
    before = (checkout / "model.py").read_bytes()
    os.mkfifo(checkout.parent / "out.md")
    command, option = words
    done = run(checkout, command, "-t", "p40", option, "../out.md")
    assert done.returncode == 2
    assert b"a pipe that nobody reads" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert (checkout / "model.py").read_bytes() == before


def test_a_pipe_that_is_read_gets_the_report(checkout: Path) -> None:
    pipe = checkout.parent / "out.md"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert run(checkout, "apply", "-t", "p40", "--report", "../out.md").returncode == 0
        assert reader.communicate(timeout=60)[0].startswith(b"# Precision report")


def test_guard_looks_at_its_output_before_it_runs_anything(checkout: Path) -> None:
    done = run(checkout, "guard", "-t", "p40", "-o", "none/out.json", "--", "touch", "ran")
    assert done.returncode == 2
    assert not (checkout / "ran").exists()
