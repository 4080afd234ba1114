"""`precpatch doctor`: options, exit codes, text, JSON, and a checkout beside the environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from precpatch.cli.main import run
from precpatch.doctor.checkout import read_checkout, verl_version

TRAINER = """actor_rollout_ref:
  model:
    use_remove_padding: {packing}
  rollout:
    name: {engine}
"""


@dataclass(frozen=True)
class Answer:
    """What the command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Answer]:
    """Run `precpatch doctor` as the console script does."""

    def call(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["precpatch", "doctor", *map(str, words)])
        monkeypatch.setenv("NO_COLOR", "1")
        code = run()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Answer(code, out.decode(), err.decode())

    return call


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Make an interpreter that says that packages are installed, on a host without a driver."""
    monkeypatch.setattr("precpatch.doctor.environment.driver_version", lambda run: None)

    def make(packages: dict[str, str], cuda: str | None = "12.8") -> str:
        build = f"cu{cuda.replace('.', '')}" if cuda else "cpu"
        answer = {
            "python": "3.11.9",
            "packages": {name: {"version": version, "requires": []} for name, version in packages.items()},
            "torch_version_text": f"__version__ = '{packages.get('torch')}+{build}'\ncuda = {cuda!r}\n",
        }
        path = tmp_path / "fake-python"
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def verl(tmp_path: Path) -> Callable[..., Path]:
    """Make a checkout of verl."""

    def make(version: str = "0.4.1", engine: str = "vllm", packing: str = "true") -> Path:
        root = tmp_path / "checkout"
        config = root / "verl" / "trainer" / "config"
        config.mkdir(parents=True)
        (root / "verl" / "version").mkdir()
        (root / "verl" / "version" / "version").write_text(f"{version}\n")
        (config / "ppo_trainer.yaml").write_text(TRAINER.format(engine=engine, packing=packing))
        return root

    return make


Make = Callable[..., Any]


def test_a_failing_check_is_exit_code_1_and_names_the_mend(doctor: Make, python: Make) -> None:
    answer = doctor("--target", "p40", "--python", python({"torch": "2.8.0", "triton": "3.4.0"}))
    assert (answer.code, answer.err) == (1, "")
    assert "fail     torch " in answer.out
    assert "none of it runs on 6.1" in answer.out
    assert "fake-python -m pip install 'torch==2.8.0+cu126' --index-url https://" in answer.out
    assert "why: A torch build holds machine code" in answer.out
    assert "source: arch list of libtorch_python.so" in answer.out
    assert answer.out.endswith("1 fail, 1 unknown, 2 ok.\n")


def test_nothing_wrong_is_exit_code_0(doctor: Make, python: Make) -> None:
    answer = doctor("--target", "v100", "--python", python({"torch": "2.10.0", "triton": "3.6.0"}))
    assert answer.code == 0
    assert answer.out.startswith("Target v100: Tesla V100, compute capability 7.0")
    assert "(inferred from 3.5.1 and 3.9.0)" in answer.out
    assert "; 1 not verified." in answer.out


def test_json(doctor: Make, python: Make, verl: Make, tmp_path: Path) -> None:
    saved = tmp_path / "doctor.json"
    interpreter = python({"torch": "2.8.0", "transformers": "4.52.4"})
    answer = doctor(verl(), "--target", "t4", "--python", interpreter, "--format", "json", "-o", saved)
    assert (answer.code, answer.out) == (1, "")
    document = json.loads(saved.read_bytes())
    assert document.keys() == {"version", "tool", "target", "environment", "checkout", "checks", "summary"}
    assert document["version"] == 1
    assert document["target"] == {
        "name": "t4",
        "compute_capability": "7.5",
        "dtype": "float32",
        "attention": "eager",
    }
    assert document["environment"] == {
        "python": interpreter,
        "python_version": "3.11.9",
        "driver": None,
        "torch": "2.8.0+cu128",
        "cuda": "12.8",
        "architectures": None,
        "packages": {"torch": "2.8.0", "transformers": "4.52.4"},
    }
    place = "verl/trainer/config/ppo_trainer.yaml:5"
    assert document["checkout"] == {"verl": "0.4.1", "rollout_engines": {"vllm": place}, "use_remove_padding": "true"}
    statuses = {check["id"]: check["status"] for check in document["checks"]}
    assert statuses == {"torch": "ok", "cuda": "ok", "driver": "unknown", "packing": "fail", "rollout-vllm": "warn"}
    assert document["summary"] == {"ok": 2, "warn": 1, "fail": 1, "unknown": 1}
    keys = {"id", "title", "status", "seen", "why", "fix", "verified", "doubt", "sources"}
    for check in document["checks"]:
        assert check.keys() == keys
        assert all(source.keys() == {"title", "url"} for source in check["sources"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--python", "/nowhere/python"], "--python /nowhere/python: there is no such interpreter"),
        (["--format", "jsno"], "'jsno' is not one of text, json. Did you mean 'json'?"),
        (["--target", "p4000x"], "unknown target"),
        (["nowhere"], "nowhere"),
        (["--dtype", "bf16"], "--dtype 'bf16' is not one of"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_one_line(doctor: Make, words: list[str], told: str) -> None:
    target = [] if "--target" in words else ["--target", "p40"]
    answer = doctor(*words, *target)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("precpatch: error: ")
    assert answer.err.count("\n") == 1
    assert told in answer.err


def test_a_file_is_no_checkout(doctor: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = doctor(tmp_path / "file", "--target", "p40")
    assert answer.code == 2
    assert "is a file; name the folder of the checkout" in answer.err


def test_the_settings_of_the_checkout_choose_the_target(doctor: Make, python: Make, verl: Make) -> None:
    root = verl(engine="hf", packing="false")
    (root / "precpatch.toml").write_text('target = "p40"\n')
    answer = doctor(root, "--python", python({"torch": "2.6.0"}, cuda="12.4"))
    assert answer.out.startswith("Target p40")
    assert "Checkout: verl 0.4.1" in answer.out
    assert "rollout.name is hf (verl/trainer/config/ppo_trainer.yaml:5); verl 0.4.1 runs it" in answer.out
    assert answer.code == 0


def test_control_characters_never_reach_the_terminal(doctor: Make, python: Make) -> None:
    answer = doctor("--target", "p40", "--python", python({"torch": "2.6.0", "vllm": "0.8\x1b[31m"}, cuda="12.4"))
    assert r"0.8\x1b[31m" in answer.out
    assert "\x1b" not in answer.out


def test_a_checkout_that_says_nothing(doctor: Make, python: Make, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    answer = doctor(empty, "--target", "v100", "--python", python({"torch": "2.8.0", "transformers": "4.52.4"}))
    assert "Checkout: verl of unknown version" in answer.out
    assert "rollout.name" not in answer.out
    assert "whether use_remove_padding is on is not known" in answer.out


def test_mirrors_and_other_engines_do_not_decide(verl: Make) -> None:
    root = verl(engine="'???'", packing="false")
    config = root / "verl" / "trainer" / "config"
    text = TRAINER.format(engine="sglang", packing="true")
    for name in ("_generated_ppo_trainer.yaml", "ppo_megatron_trainer.yaml", "ppo_npu.yaml"):
        (config / name).write_text(text)
    (config / "broken.yaml").write_text("rollout: {name: vllm\nuse_remove_padding: [\n")
    (config / "reward.yaml").write_text("rollout:\n  name: ???\n")
    found = read_checkout(root)
    assert found.engines == {"???": "verl/trainer/config/ppo_trainer.yaml:5"}
    assert found.packing == "false"


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"verl/version/version": "0.9.1\n"}, "0.9.1"),
        ({"version/version": "0.8.0.dev\n"}, "0.8.0.dev"),
        ({"pyproject.toml": '[project]\nname = "verl"\nversion = "0.3.0"\n'}, "0.3.0"),
        ({"pyproject.toml": '[project]\nname = "other"\nversion = "0.3.0"\n'}, None),
        ({"verl/version/version": "\x00\xff not a version"}, None),
        ({}, None),
    ],
)
def test_the_version_of_verl(files: dict[str, str], version: str | None, tmp_path: Path) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert verl_version(tmp_path) == version
