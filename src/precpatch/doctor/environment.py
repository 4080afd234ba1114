"""What is installed where verl will run. Heavy packages are read from their metadata; only torch is asked, apart."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from precpatch.doctor.versions import local_label
from precpatch.errors import UserError
from precpatch.gpu.nvidia_smi import ProbeError
from precpatch.gpu.probe import Completed, run_command

EXTRA_NAMES = ("accelerate", "ray", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime-cu12")
"""Distributions that are asked for besides those of the facts."""

METADATA_SECONDS = 30.0
IMPORT_SECONDS = 120.0
DRIVER_SECONDS = 30.0

_WSL_NVIDIA_SMI = "/usr/lib/wsl/lib/nvidia-smi"
_ASSIGNED = r"^{}\b[^=\n]*=\s*['\"]([^'\"\n]+)['\"]"
_CUDA_VARIANT = re.compile(r"cu(\d+)(\d)", re.ASCII)
_DRIVER = re.compile(r"\d+(?:\.\d+)+", re.ASCII)

Run = Callable[[Sequence[str], float], Completed]


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What is installed for one interpreter.

    Attributes:
        python: the interpreter as the user named it; None for the one that runs precpatch.
        executable: its path.
        python_version: its version, "3.11.9"; "" where it is not known.
        packages: version of each distribution that was asked for and is installed, by normalized name.
        requires: what those distributions ask for, as their metadata say it.
        torch_variant: the build of torch ("cu126", "cpu", "rocm6.4"); None where nothing tells it.
        cuda: the CUDA version of the torch build, "12.6"; None where it has none or nothing tells it.
        architectures: torch's own arch list ("sm_75", ...); None where torch did not tell it.
        architectures_error: why torch did not tell it; "" where it was not asked.
        driver: version of the NVIDIA driver of this host.
    """

    python: str | None = None
    executable: str = sys.executable
    python_version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    torch_variant: str | None = None
    cuda: str | None = None
    architectures: tuple[str, ...] | None = None
    architectures_error: str = ""
    driver: str | None = None

    @property
    def torch(self) -> str | None:
        """The installed torch with its build, "2.8.0+cu128"."""
        version = self.packages.get("torch")
        if version is None or self.torch_variant is None or local_label(version):
            return version
        return f"{version}+{self.torch_variant}"

    @property
    def pip(self) -> str:
        """The command that is this interpreter's pip."""
        return "pip" if self.python is None else f"{shlex.quote(self.python)} -m pip"


def read_environment(python: str | None, names: Iterable[str], *, run: Run = run_command) -> Environment:
    """What is installed for an interpreter.

    Args:
        python: path or name of the interpreter; the running one where it is None.
        names: the distributions to look for.
        run: runs a command with a timeout in seconds.

    Raises:
        UserError: there is no such interpreter, or it gave no answer.
    """
    executable = sys.executable if python is None else _find(python)
    answer = _ask(executable, "query_packages.py", sorted({*names, *EXTRA_NAMES}), METADATA_SECONDS, run)
    try:
        versions = {name: str(entry["version"]) for name, entry in answer["packages"].items()}
        requires = {name: tuple(map(str, entry["requires"])) for name, entry in answer["packages"].items()}
    except (AttributeError, KeyError, TypeError):
        raise UserError(f"{executable}: gave no usable answer; is it Python 3.8 or later?") from None
    variant, cuda = torch_build(str(answer.get("torch_version_text") or ""), versions)
    listed, error = _architectures(executable, run) if "torch" in versions and cuda else (None, "")
    return Environment(
        python=python,
        executable=executable,
        python_version=str(answer.get("python", "")),
        packages=versions,
        requires=requires,
        torch_variant=variant,
        cuda=cuda,
        architectures=listed,
        architectures_error=error,
        driver=driver_version(run),
    )


def torch_build(version_text: str, packages: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Variant and CUDA version of the torch build.

    They stand in the text of ``torch/version.py``, in the local label of torch's version, or show in the version of
    the CUDA runtime wheel beside it.
    """
    said = {name: re.search(_ASSIGNED.format(name), version_text, re.M) for name in ("__version__", "cuda", "hip")}
    words = {name: match[1] for name, match in said.items() if match}
    label = local_label(words.get("__version__", "")) or local_label(packages.get("torch", ""))
    if "hip" in words:
        return label or "rocm", None
    cuda = words.get("cuda") or cuda_of(label) or (None if version_text else _cuda_of_runtime(packages))
    if label and (cuda_of(label) or cuda is None):
        return label, cuda
    if cuda is None:
        return ("cpu" if version_text else None), None
    return "cu" + "".join(cuda.split(".")[:2]), cuda


def cuda_of(variant: str | None) -> str | None:
    """ "12.6" for the variant "cu126"."""
    match = _CUDA_VARIANT.fullmatch(variant or "")
    return f"{match[1]}.{match[2]}" if match else None


def _cuda_of_runtime(packages: Mapping[str, str]) -> str | None:
    found = [version for name, version in packages.items() if name.startswith("nvidia-cuda-runtime")]
    return ".".join(found[0].split(".")[:2]) if len(found) == 1 else None


def driver_version(run: Run = run_command) -> str | None:
    """The version of the NVIDIA driver, as nvidia-smi tells it; None where it does not."""
    program = shutil.which("nvidia-smi") or (_WSL_NVIDIA_SMI if os.path.exists(_WSL_NVIDIA_SMI) else None)
    if program is None:
        return None
    try:
        done = run([program, "--query-gpu=driver_version", "--format=csv,noheader"], DRIVER_SECONDS)
    except ProbeError:
        return None
    match = _DRIVER.search(done.stdout) if done.returncode == 0 else None
    return match[0] if match else None


def _find(python: str) -> str:
    """The path of the interpreter that the user named."""
    found = shutil.which(python)
    if found is not None:
        return found
    if os.path.isdir(python):
        raise UserError(f"--python {python}: is a folder; name the interpreter in it, such as its bin/python")
    if os.path.exists(python):
        raise UserError(f"--python {python}: cannot be executed")
    raise UserError(f"--python {python}: there is no such interpreter")


def _architectures(executable: str, run: Run) -> tuple[tuple[str, ...] | None, str]:
    """What torch says about its build, or why it does not."""
    try:
        answer = _ask(executable, "query_architectures.py", (), IMPORT_SECONDS, run)
    except UserError as error:
        return None, str(error)
    listed = answer.get("architectures")
    if isinstance(listed, list) and listed:
        return tuple(str(name) for name in listed), ""
    return None, str(answer.get("error") or "torch listed nothing")


def _ask(executable: str, script: str, words: Sequence[str], seconds: float, run: Run) -> dict[str, Any]:
    """The JSON object that a script prints last, run by ``executable``."""
    text = resources.files("precpatch.doctor").joinpath(script).read_text(encoding="utf-8")
    try:
        done = run([executable, "-c", text, *words], seconds)
    except ProbeError as error:
        raise UserError(f"{executable}: {error}") from None
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1][:200]
        raise UserError(f"{executable}: gave no usable answer, is it a Python interpreter? It said: {said}") from None
    return answer if isinstance(answer, dict) else {}
