"""The steps that run nothing: parse and scan; and the request as a whole."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precpatch.cli.main import run

Verify = Callable[..., object]

CELL = '{"cell_type": "code", "metadata": {}, "outputs": [], "source": ["x = torch.bfloat16 +\\n"]}'
NOTEBOOK = f'{{"cells": [{CELL}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}\n'


def test_a_whole_checkout_is_ok(verify: Verify) -> None:
    done = verify({}, "--only", "parse,scan")
    assert done.code == 0
    assert [(step["name"], step["status"]) for step in done.report["steps"]] == [
        ("parse", "ok"),
        ("scan", "ok"),
        ("imports", "skipped"),
        ("configs", "skipped"),
    ]
    assert done.step("parse")["summary"] == "5 files (4 python, 1 yaml)"


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("verl/a.py", "x = 1\ndef f(:\n", "verl/a.py:2: invalid syntax"),
        ("verl/a.yaml", "a:\n\tb: 1\n", "verl/a.yaml:2: found character '\\t' that cannot start any token"),
        ("verl/a.json", '{"a": 1,\n "b" 2}\n', "verl/a.json:2: "),
        ("verl/a.ipynb", '{"cells": [\n', "verl/a.ipynb:"),
        ("verl/a.ipynb", NOTEBOOK, "verl/a.ipynb:"),
        ("verl/a.py", "\0", "verl/a.py:None: not text (null bytes)"),
    ],
)
def test_a_file_that_does_not_parse_fails_with_its_line(path: str, text: str, told: str, verify: Verify) -> None:
    done = verify({path: text}, "--only", "parse")
    assert done.code == 1
    (problem,) = done.problems("parse")
    assert problem.startswith(told)
    assert "left alone" not in problem
    assert done.step("parse")["figures"]["broken"] == 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_script_is_read_by_bash_and_not_run(verify: Verify, tmp_path: Path) -> None:
    scripts = {
        "good.sh": f"touch {tmp_path}/was-run\n",
        "bad.sh": "echo 1\nif true; then\n  echo 2\n",
        "other.sh": "#!/usr/bin/env zsh\nfor x (1 2) { echo $x }\n",
    }
    done = verify(scripts, "--only", "parse")
    (problem,) = done.problems("parse")
    assert problem.startswith("bad.sh:4: syntax error: unexpected end of file")
    assert not (tmp_path / "was-run").exists()


def test_lines_of_json_are_data(verify: Verify) -> None:
    assert verify({"data/a.json": '{"a": 1}\n{"a": 2}\n', "data/b.json": ""}, "--only", "parse").code == 0


def test_a_place_left_to_rewrite_fails_and_names_the_command(verify: Verify) -> None:
    files = {"verl/a.py": "import torch\nx = load(torch_dtype=torch.bfloat16)\n"}
    done = verify(files, "--only", "scan")
    assert done.code == 1
    assert done.problems("scan") == ["verl/a.py:2: torch.bfloat16 -> torch.float32 (dtype-value)"]
    assert done.step("scan")["notes"][0].startswith("run `precpatch apply ")


def test_a_site_for_a_person_is_no_failure(verify: Verify) -> None:
    done = verify(
        {"verl/a.py": 'import torch\nx = torch.empty(3, dtype=getattr(torch, entry["dtype"]))\n'}, "--only", "scan"
    )
    assert done.code == 0
    assert done.step("scan")["notes"] == ["1 site needs a person: dtype-dynamic 1"]


def test_the_settings_of_the_checkout_hold(verify: Verify) -> None:
    files = {
        "verl/a.py": "import torch\nx = load(torch_dtype=torch.bfloat16)\n",
        "precpatch.toml": 'exclude = ["verl/a.py"]\n',
    }
    assert verify(files, "--only", "scan").code == 0


def test_text_has_a_row_a_step_and_a_last_word(
    checkout: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = checkout({"verl/a.py": "(\n"})
    monkeypatch.setattr(sys, "argv", ["precpatch", "verify", str(root), "--target", "p40", "--only", "parse"])
    assert run() == 1
    out = capfd.readouterr().out.splitlines()
    assert out[0].startswith("Target p40: Tesla P40")
    assert out[2].startswith("parse    failed   1 of 6 files (5 python, 1 yaml) do not parse")
    assert "  verl/a.py:1: '(' was never closed" in out
    assert out[-1] == "Failed: parse. Not done: scan, imports, configs."


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "prase"], "'prase' is not one of parse, scan, imports, configs. Did you mean 'parse'?"),
        (["--skip", "parse,scan,imports,configs"], "no step is left"),
        (["--format", "yaml"], "'yaml' is not one of text, json"),
        (["--python", "/nowhere/python"], "--python /nowhere/python: there is no such interpreter"),
        (["--entry", "verl.nonesuch", "--only", "imports"], "--entry verl.nonesuch: no such module"),
        (["--target", "p4000x"], "unknown target"),
        (["--python", "true", "--only", "imports"], "cannot be used: it ended with exit code 0"),
        (["--only", ","], "no step is left"),
        (["--timeout", "nan"], "--timeout: not a number"),
        (["--timeout", "inf"], "inf is not in the range"),
        (["-o", "/nowhere/report.json"], "/nowhere/report.json: cannot be written"),
    ],
)
def test_a_wrong_request_is_one_line(words: list[str], told: str, verify: Verify) -> None:
    done = verify({}, *words)
    assert (done.code, done.report) == (2, {})
    assert done.err.startswith("precpatch: error: ")
    assert done.err.count("\n") == 1
    assert told in done.err


def test_an_empty_path_is_no_path(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["precpatch", "verify", "", "--target", "p40"])
    assert run() == 2
    assert "an empty path: is a variable not set?" in capfd.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="a script as interpreter")
def test_an_interpreter_that_does_not_start_is_given_up(
    verify: Verify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precpatch.verify.child._START_SECONDS", 0.5)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 60\n")
    python.chmod(0o755)
    done = verify({}, "--only", "imports", "--python", python)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{python}: cannot be used: it does not start to work" in done.err
