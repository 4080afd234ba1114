"""A checkout with modules that are named like ours or like Python's: none of them is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import precpatch

NAMES = (
    "yaml",
    "typing",
    "libcst",
    "rich",
    "typer",
    "pathlib",
    "dataclasses",
    "nt",
    "sitecustomize",
    "precpatch_rules",
)


@pytest.mark.parametrize("command", ["scan . --target p40", "apply . --target p40", "targets"])
def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, command: str) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open('ran', 'a').write('{name} ')\nraise SystemExit(77)\n")
    (tmp_path / "libcst.py").rename(tmp_path / "x.py")
    (tmp_path / "libcst").mkdir()
    (tmp_path / "libcst" / "__init__.py").write_text("open('ran', 'a').write('libcst ')\n")
    (tmp_path / "a.py").write_text("import torch\n\nd = torch.bfloat16\n")
    where = {**os.environ, "PYTHONPATH": str(Path(precpatch.__file__).parents[1])}
    ran = subprocess.run(
        [sys.executable, "-m", "precpatch", *command.split()], cwd=tmp_path, env=where, capture_output=True, check=False
    )
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert ran.returncode in (0, 1), ran.stderr.decode()
