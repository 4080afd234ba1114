"""Small checkouts, and ``precpatch verify`` run on them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from precpatch.cli.main import run

ENTRY = """
    import hydra

    @hydra.main(config_path="config", config_name="ppo", version_base=None)
    def main(config):
        from verl.trainer import worker
"""


FOLDER = "chéck out"
"""A name that is no identifier and not ASCII, as any folder of a user may have."""


@dataclass(frozen=True)
class Verified:
    """What the command left behind."""

    code: int
    err: str
    report: dict[str, Any]

    def step(self, name: str) -> dict[str, Any]:
        """A step of the report."""
        return next(step for step in self.report["steps"] if step["name"] == name)

    def problems(self, name: str) -> list[str]:
        """What failed in a step, as ``path:line: message``."""
        return [f"{each['path']}:{each['line']}: {each['message']}" for each in self.step(name)["problems"]]


Files = dict[str, str]


@pytest.fixture
def checkout(tmp_path: Path) -> Callable[[Files], Path]:
    """Make a checkout of verl in small, with an entry point and its config; ``files`` come on top."""

    def make(files: Files) -> Path:
        small = {
            "verl/__init__.py": "",
            "verl/trainer/__init__.py": "",
            "verl/trainer/main_ppo.py": ENTRY,
            "verl/trainer/worker.py": "",
            "verl/trainer/config/ppo.yaml": "lr: 1\n",
        }
        for path, text in {**small, **files}.items():
            place = tmp_path / FOLDER / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(dedent(text))
        return tmp_path / FOLDER

    return make


@pytest.fixture
def verify(
    checkout: Callable[[Files], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., Verified]:
    """Verify a small checkout."""

    def call(files: Files, *words: object) -> Verified:
        report = tmp_path / "report.json"
        options = ["--target", "p40", "--format", "json", "-o", str(report)]
        monkeypatch.setattr(sys, "argv", ["precpatch", "verify", str(checkout(files)), *options, *map(str, words)])
        code = run()
        out, err = capfd.readouterr()
        assert out == ""
        return Verified(code, err, json.loads(report.read_text()) if report.exists() else {})

    return call


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Files], None]:
    """Put packages into the environment that runs verl."""

    def make(files: Files) -> None:
        for path, text in files.items():
            place = tmp_path / "site-packages" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(dedent(text))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))

    return make
