"""Run a script under ``precpatch guard`` and read its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest


@dataclass(frozen=True)
class Guarded:
    """What a guarded command left behind."""

    code: int
    out: str
    err: str
    report: dict[str, Any]

    def sites(self, function: str) -> list[dict[str, Any]]:
        """The sites in a function of the script."""
        return [site for site in self.report["sites"] if (site["caller"] or site)["function"] == function]


Guard = Callable[..., Guarded]


@pytest.fixture(scope="module")
def run_in() -> Callable[..., Guarded]:
    """Run ``script`` in ``folder`` under the guard."""

    def run(folder: Path, script: str, *options: str, command: tuple[str, ...] = ("{python}", "main.py")) -> Guarded:
        (folder / "main.py").write_text(dedent(script))
        words = [word.replace("{python}", sys.executable) for word in command]
        line = [sys.executable, "-m", "precpatch", "guard", "--format", "json", "-o", "report.json", *options, "--"]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*line, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        report = folder / "report.json"
        return Guarded(
            done.returncode, done.stdout, done.stderr, json.loads(report.read_text()) if report.exists() else {}
        )

    return run


@pytest.fixture
def guard(run_in: Callable[..., Guarded], tmp_path: Path) -> Guard:
    """Run a script in a folder of its own under the guard."""

    def run(script: str, *options: str, **more: Any) -> Guarded:
        return run_in(tmp_path, script, *options, **more)

    return run
