"""What a checkout's own settings can do: name a device, a pipe, a number without end. Each is one line and exit 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = {
    "a device as target": 'target = "/dev/zero"',
    "a pipe as target": 'target = "./pipe"',
    "a long number": f"target = {'9' * 5000}",
    "deep lists": f"exclude = {'[' * 3000}{']' * 3000}",
    "deep tables": f"exclude = {'{a=' * 3000}1{'}' * 3000}",
}


def precpatch(folder: Path, *words: str) -> tuple[int, str]:
    """Exit code and stderr of a command in a folder."""
    command = [sys.executable, "-m", "precpatch", *words]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout == ""
    return ran.returncode, ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no devices and pipes by path")
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("name", ["precpatch.toml", "pyproject.toml"])
def test_hostile_settings_are_one_line(tmp_path: Path, name: str, case: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    head = "[tool.precpatch]\n" if name == "pyproject.toml" else ""
    (tmp_path / name).write_text(f"{head}{SETTINGS[case]}\n")
    code, text = precpatch(tmp_path, "scan", ".")
    assert (code, text.count("\n")) == (2, 1)
    assert "report this bug" not in text


@pytest.mark.skipif(sys.platform == "win32", reason="no devices by path")
@pytest.mark.parametrize("words", ["scan --config", "probe --merge", "probe --nvidia-smi-output", "scan --target"])
def test_a_device_named_as_a_file_is_one_line(tmp_path: Path, words: str) -> None:
    code, text = precpatch(tmp_path, *words.split(), "/dev/zero")
    assert (code, text.count("\n")) == (2, 1)
    assert "bigger than" in text
