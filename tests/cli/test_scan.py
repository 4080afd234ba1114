"""`scan` and `diff`: what is printed, where, and the exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PRECPATCH = [sys.executable, "-m", "precpatch"]


def process(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run precpatch as a program with a changed environment."""
    return subprocess.run([*PRECPATCH, *words], capture_output=True, env={**os.environ, **environment}, check=False)


def test_a_finding_is_exit_code_1(checkout: Path, precpatch: Run) -> None:
    answer = precpatch("scan", "verl", "--target", "p40")
    assert (answer.code, answer.err) == (1, "")
    assert "torch.bfloat16 -> torch.float32" in answer.text
    assert "1 site to rewrite in 1 file." in answer.text
    assert answer.text.endswith("Run `precpatch apply verl --target p40` to write them.\n")


def test_the_next_step_keeps_what_was_asked(checkout: Path, precpatch: Run) -> None:
    answer = precpatch("scan", "verl", "-t", "6.1", "--dtype", "float32", "--exclude", "a b/*", "--unsafe")
    assert "`precpatch apply verl --target 6.1 --dtype float32 --exclude 'a b/*' --unsafe`" in answer.text


def test_nothing_to_do_is_exit_code_0(checkout: Path, precpatch: Run) -> None:
    answer = precpatch("scan", "verl", "--target", "a100")
    assert answer.code == 0
    assert "Nothing to rewrite." in answer.text


def test_a_file_that_cannot_be_read_is_exit_code_2_and_the_rest_goes_on(checkout: Path, precpatch: Run) -> None:
    (checkout / "bad.py").write_bytes(b"torch.bfloat16 = = 1\n")
    answer = precpatch("scan", "verl", "--target", "p40", "--format", "json")
    report = json.loads(answer.text)
    assert answer.code == 2
    assert [error["path"] for error in report["errors"]] == ["bad.py"]
    assert [finding["path"] for finding in report["findings"]] == ["model.py"]
    diff = precpatch("diff", "verl", "--target", "p40")
    assert diff.code == 2
    assert b"+++ b/model.py" in diff.out
    assert "bad.py" in diff.err


def test_json_positions_are_those_of_an_editor(checkout: Path, precpatch: Run) -> None:
    found = json.loads(precpatch("scan", "verl", "--target", "p40", "--format", "json").text)["findings"][0]
    assert (found["line"], found["column"], found["end_line"], found["end_column"]) == (5, 36, 5, 50)
    assert (found["before"], found["after"], found["action"]) == ("torch.bfloat16", "torch.float32", "rewrite")


@pytest.mark.parametrize("name", ["text", "json", "markdown"])
def test_output_goes_to_the_file_alone(name: str, checkout: Path, precpatch: Run) -> None:
    shown = precpatch("scan", "verl", "--target", "p40", "--format", name)
    saved = precpatch("scan", "verl", "--target", "p40", "--format", name, "--output", "report")
    assert (saved.code, saved.out) == (1, b"")
    written = Path("report").read_bytes()
    assert written
    assert shown.out.startswith(written)


def test_an_output_that_cannot_be_written_is_an_error(checkout: Path, precpatch: Run) -> None:
    answer = precpatch("scan", "verl", "--target", "p40", "--output", "none/report")
    assert answer.code == 2
    assert "cannot be written" in answer.err


def test_files_by_name_as_a_hook_passes_them(checkout: Path, precpatch: Run) -> None:
    (checkout / "notes.txt").write_text("bfloat16")
    (checkout / "run.toml").write_text("dtype = 'bfloat16'")
    answer = precpatch("scan", "verl/model.py", "verl/other.py", "verl/notes.txt", "verl/run.toml", "--target", "p40")
    assert (answer.code, answer.err) == (1, "")
    assert "1 site to rewrite in 1 file, 1 site needs a person." in answer.text
    assert precpatch("scan", "verl/notes.txt", "--target", "p40").code == 0


def test_no_gpu_here_says_how_to_name_one(checkout: Path, precpatch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    answer = precpatch("scan", "verl")
    assert answer.code == 2
    assert "--target" in answer.err


def test_settings_of_the_checkout_are_used(checkout: Path, precpatch: Run) -> None:
    (checkout / "precpatch.toml").write_text('target = "p40"\nexclude = ["model.py"]\n')
    assert precpatch("scan", "verl").code == 0
    (checkout / "precpatch.toml").write_text('target = "p40"\n')
    assert precpatch("scan", "verl").code == 1


def test_diff_is_a_patch_that_git_takes(checkout: Path, precpatch: Run) -> None:
    answer = precpatch("diff", "verl", "--target", "p40")
    assert answer.code == 1
    subprocess.run(["git", "apply", "-p1", "-"], input=answer.out, cwd=checkout, check=True)
    assert b"torch_dtype=torch.float32" in (checkout / "model.py").read_bytes()
    again = precpatch("diff", "verl", "--target", "p40")
    assert (again.code, again.out) == (0, b"")


def test_scan_and_diff_write_nothing(checkout: Path, precpatch: Run) -> None:
    before = {path: path.read_bytes() for path in checkout.iterdir()}
    precpatch("scan", "verl", "--target", "p40")
    precpatch("diff", "verl", "--target", "p40")
    assert {path: path.read_bytes() for path in checkout.iterdir()} == before


def test_bytes_survive_a_c_locale_and_a_pipe(checkout: Path) -> None:
    (checkout / "café.py").write_bytes("import torch\nx = f(torch.bfloat16)  # café\n".encode())
    (checkout / "latin.py").write_bytes(b"# coding: latin-1\nimport torch\nx = f(torch.bfloat16)  # caf\xe9\n")
    (checkout / os.fsdecode(b"odd\xff.py")).write_bytes(b"import torch\nx = f(torch.bfloat16)\n")
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for words in (["scan"], ["scan", "--format", "json"], ["scan", "--format", "markdown"], ["diff"]):
        done = process(*words, "verl", "--target", "p40", **plain)
        assert (done.returncode, done.stderr) == (1, b"")
        assert done.stdout
    assert b"# caf\xe9\n" in done.stdout


@pytest.mark.parametrize("command", ["scan", "diff"])
def test_a_reader_that_goes_away_ends_it_quietly(command: str, checkout: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [*PRECPATCH, command, "verl", "--target", "p40"], stdout=writer, stderr=subprocess.PIPE
    ) as running:
        os.close(writer)
        assert running.communicate()[1] == b""
    assert running.returncode == 1


def on_a_terminal(*words: str, **environment: str) -> str:
    """What precpatch prints on a terminal of 60 columns."""
    primary, secondary = pty.openpty()
    changed = {**os.environ, "TERM": "xterm", "COLUMNS": "60", **environment}
    with subprocess.Popen([*PRECPATCH, *words], stdout=secondary, env=changed) as running:
        os.close(secondary)
        pieces = []
        while True:
            try:
                piece = os.read(primary, 65536)
            except OSError:
                break
            if not piece:
                break
            pieces.append(piece)
        running.wait()
    os.close(primary)
    return b"".join(pieces).decode()


def test_colours_only_on_a_terminal_and_only_where_wanted(
    checkout: Path, precpatch: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR")
    piped = precpatch("scan", "verl", "--target", "p40").text
    coloured = on_a_terminal("scan", "verl", "--target", "p40")
    plain = on_a_terminal("scan", "verl", "--target", "p40", NO_COLOR="1")
    assert "\x1b[" not in piped
    assert "\x1b[" in coloured
    assert plain.replace("\r\n", "\n") == piped


def test_an_empty_path_is_not_the_current_folder(checkout: Path, precpatch: Run) -> None:
    """An unset variable in a script must not turn into everything below."""
    answer = precpatch("apply", "", "--target", "p40")
    assert answer.code == 2
    assert "an empty path" in answer.err
    assert b"torch.bfloat16" in (checkout / "model.py").read_bytes()
