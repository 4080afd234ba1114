"""Asking an interpreter: the running one, one that is no Python, one that hangs, and torch that is never imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from precpatch.doctor import environment as module
from precpatch.doctor.environment import Environment, driver_version, read_environment, torch_build
from precpatch.doctor.query_architectures import architectures
from precpatch.errors import UserError
from precpatch.gpu.probe import Completed

CU128 = "__version__ = '2.8.0+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"
FAKE_TORCH = """import sys
import types

cuda = types.SimpleNamespace(get_arch_list=lambda: {listed})
_C = types.SimpleNamespace(_cuda_getArchFlags=lambda: "sm_70 sm_80")
print("torch talks while it is imported")
"""


def script(path: Path, text: str) -> str:
    """A program at ``path``."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def install(folder: Path, name: str, version: str, requires: Sequence[str] = ()) -> None:
    """The metadata of one distribution."""
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {text}" for text in requires)]
    (place / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the interpreter imports from, with torch 2.8 for CUDA 12.8 in it."""
    folder = tmp_path / "site"
    install(folder, "torch", "2.8.0", ["triton==3.4.0; platform_system == 'Linux'"])
    (folder / "torch").mkdir()
    (folder / "torch" / "version.py").write_text(CU128)
    (folder / "torch" / "__init__.py").write_text(FAKE_TORCH.format(listed='["sm_70", "sm_75"]'))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def test_the_running_interpreter() -> None:
    found = read_environment(None, ["packaging", "no-such-distribution"])
    assert found.executable == sys.executable
    assert found.python_version == ".".join(map(str, sys.version_info[:3]))
    assert found.packages.keys() >= {"packaging"}
    assert "no-such-distribution" not in found.packages
    assert found.pip == "pip"


def test_torch_is_read_without_and_then_asked_in_a_process_of_its_own(site: Path) -> None:
    found = read_environment(sys.executable, ["torch"])
    assert found.torch == "2.8.0+cu128"
    assert found.cuda == "12.8"
    assert found.architectures == ("sm_70", "sm_75")
    assert found.requires["torch"] == ("triton==3.4.0; platform_system == 'Linux'",)
    assert found.pip == f"{sys.executable} -m pip"


def test_without_a_gpu_the_flags_of_the_build_are_asked(site: Path) -> None:
    (site / "torch" / "__init__.py").write_text(FAKE_TORCH.format(listed="[]"))
    assert read_environment(None, ["torch"]).architectures == ("sm_70", "sm_80")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ImportError('libcudnn.so.9: not found')", "ImportError: libcudnn.so.9: not found"),
        ("import os\nos.abort()", "no usable answer"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_a_note(site: Path, code: str, reason: str) -> None:
    (site / "torch" / "__init__.py").write_text(code)
    found = read_environment(None, ["torch"])
    assert found.architectures is None
    assert reason in found.architectures_error
    assert found.torch == "2.8.0+cu128"


def test_a_torch_for_cpus_is_not_imported(site: Path) -> None:
    (site / "torch" / "version.py").write_text("__version__ = '2.8.0+cpu'\ncuda: Optional[str] = None\n")
    marker = site / "imported"
    (site / "torch" / "__init__.py").write_text(f"open({str(marker)!r}, 'w')")
    found = read_environment(None, ["torch"])
    assert (found.torch, found.cuda, found.architectures) == ("2.8.0+cpu", None, None)
    assert not marker.exists()


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "importlib", "torch", "types", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('code of the checkout was run')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert read_environment(None, ["packaging"]).packages


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda path: str(path / "none"), "there is no such interpreter"),
        (lambda path: "no-such-python-anywhere", "there is no such interpreter"),
        (str, "is a folder; name the interpreter in it"),
        (lambda path: _plain_file(path / "file"), "cannot be executed"),
        (lambda path: script(path / "words", "echo hello"), "gave no usable answer, is it a Python interpreter?"),
        (lambda path: script(path / "mute", "exit 3"), "It said: nothing"),
        (lambda path: script(path / "cross", "echo broken >&2; exit 1"), "It said: broken"),
        (lambda path: script(path / "list", "echo '[]'"), "is it Python 3.8 or later?"),
        (lambda path: script(path / "empty", "echo '{}'"), "is it Python 3.8 or later?"),
        (lambda path: script(path / "odd", """echo '{"packages": {"torch": 3}}'"""), "is it Python 3.8 or later?"),
    ],
)
def test_an_interpreter_that_is_none(tmp_path: Path, made: object, told: str) -> None:
    assert callable(made)
    python = made(tmp_path)
    with pytest.raises(UserError) as caught:
        read_environment(python, ["torch"])
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def _plain_file(path: Path) -> str:
    path.write_text("not a program")
    return str(path)


def test_an_interpreter_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "METADATA_SECONDS", 0.3)
    with pytest.raises(UserError, match="gave no answer in"):
        read_environment(script(tmp_path / "slow", "exec sleep 60"), ["torch"])


def test_an_interpreter_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps({"python": "3.9.1", "packages": {"ray": {"version": "2.9", "requires": []}}})
    script(tmp_path / "verl-python", f"echo a note of a site hook\necho '{answer}'")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = read_environment("verl-python", ["ray"])
    assert (found.python_version, found.packages) == ("3.9.1", {"ray": "2.9"})
    assert found.pip == "verl-python -m pip"


@pytest.mark.parametrize(
    ("text", "packages", "expected"),
    [
        (CU128, {"torch": "2.8.0"}, ("cu128", "12.8")),
        ("__version__ = '2.0.1+cu117'\ncuda = '11.7'\n", {"torch": "2.0.1"}, ("cu117", "11.7")),
        ("__version__ = '2.6.0a0+df5bbc09d1.nv24.12'\ncuda = '12.6'\n", {"torch": "2.6.0a0"}, ("cu126", "12.6")),
        ("__version__ = '2.9.0'\ncuda: Optional[str] = None\n", {"torch": "2.9.0"}, ("cpu", None)),
        ("__version__ = '2.8.0+rocm6.4'\ncuda = None\nhip: str = '6.4'\n", {"torch": "2.8.0"}, ("rocm6.4", None)),
        ("hip = '6.4'\n", {"torch": "2.8.0"}, ("rocm", None)),
        ("", {"torch": "2.8.0+cu126"}, ("cu126", "12.6")),
        ("", {"torch": "2.8.0+cpu"}, ("cpu", None)),
        ("", {"torch": "2.6.0", "nvidia-cuda-runtime-cu12": "12.4.127"}, ("cu124", "12.4")),
        ("", {"torch": "2.6.0"}, (None, None)),
    ],
)
def test_the_build_of_torch(text: str, packages: dict[str, str], expected: tuple[str | None, str | None]) -> None:
    assert torch_build(text, packages) == expected


def test_a_local_label_is_shown_once() -> None:
    assert Environment(packages={"torch": "2.8.0+cu126"}, torch_variant="cu126").torch == "2.8.0+cu126"
    assert Environment(packages={"torch": "2.8.0"}).torch == "2.8.0"
    assert Environment().torch is None


@pytest.mark.parametrize(
    ("done", "version"),
    [
        (Completed(0, "550.54.15\n550.54.15\n"), "550.54.15"),
        (Completed(0, "No devices were found\n"), None),
        (Completed(9, "NVIDIA-SMI has failed because it couldn't communicate with driver 1.2.3"), None),
    ],
)
def test_the_driver(done: Completed, version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "nvidia-smi", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert driver_version(lambda command, timeout: done) == version


def test_an_nvidia_smi_that_hangs_is_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "nvidia-smi", "exec sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(module, "DRIVER_SECONDS", 0.3)
    assert driver_version() is None


def test_no_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(module, "_WSL_NVIDIA_SMI", "/nowhere")
    assert driver_version() is None


def test_a_torch_without_cuda_flags() -> None:
    class Cuda:
        @staticmethod
        def get_arch_list() -> list[str]:
            return []

    class Built:
        @staticmethod
        def _cuda_getArchFlags() -> None:  # noqa: N802
            return None

    class Torch:
        cuda, _C = Cuda, Built

    assert architectures(Torch) == []
