"""The wheel holds all that precpatch needs, wherever it is installed and wherever it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed wheel and nothing of the checkout."""
    wheels = tmp_path_factory.mktemp("wheels")
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(PROJECT)], check=True)
    (wheel,) = wheels.glob("precpatch-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", str(folder), str(wheel)], check=True)
    return folder


def precpatch(installed: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the installed precpatch in ``cwd``."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "precpatch", *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_its_rules_are_those_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    listed = precpatch(installed, tmp_path, "rules")
    assert listed.returncode == 0, listed.stderr
    shipped = {path.relative_to(PROJECT / "rules") for path in (PROJECT / "rules").rglob("*.yaml")}
    inside = installed / "precpatch" / "rules"
    assert {path.relative_to(inside) for path in inside.rglob("*.yaml")} == shipped
    assert {line.split()[0] for line in listed.stdout.splitlines()} == {path.stem for path in shipped}
    assert str(inside) in precpatch(installed, tmp_path, "explain", "dtype-value").stdout


def test_it_scans_from_any_folder(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\nmodel = load(path, torch_dtype=torch.bfloat16)\n")
    found = precpatch(installed, tmp_path, "scan", ".", "--target", "p40")
    assert found.returncode == 1, found.stderr
    assert "torch.bfloat16 -> torch.float32" in found.stdout


def test_it_knows_the_gpus(installed: Path, tmp_path: Path) -> None:
    listed = precpatch(installed, tmp_path, "targets")
    assert listed.returncode == 0, listed.stderr
    assert "p40" in listed.stdout
