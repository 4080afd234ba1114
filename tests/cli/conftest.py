"""A small checkout, and the command line run in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli_samples import MODEL

from precpatch.cli.main import run


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder "verl" with one site to rewrite and one file without any, below the current folder."""
    folder = tmp_path / "verl"
    folder.mkdir()
    (folder / "model.py").write_bytes(MODEL)
    (folder / "other.py").write_bytes(b"print('nothing here')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return folder


@pytest.fixture
def precpatch(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Answer]:
    """Run a command line as the console script does."""

    def call(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["precpatch", *map(str, words)])
        code = run()
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = capfdbinary.readouterr()
        return Answer(code, out, err.decode())

    return call
