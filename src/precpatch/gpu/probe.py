"""Reads the GPUs of the host: through torch, else the CUDA driver, else nvidia-smi. Nothing stays loaded here."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import precpatch
from precpatch.errors import UserError
from precpatch.gpu.capability import Capability, from_document, to_document, weakest_of
from precpatch.gpu.catalog import load_catalog
from precpatch.gpu.nvidia_smi import OLD_QUERY, QUERY, ProbeError, parse_nvidia_smi, refuses_compute_cap
from precpatch.gpu.target import Target, make_target
from precpatch.gpu.visible import VARIABLE, hides_everything, uses_indices, visible

__all__ = [
    "FASTEST_FIRST",
    "VIA_CHOICES",
    "WAYS",
    "Completed",
    "Host",
    "Probe",
    "ProbeError",
    "parse_nvidia_smi",
    "probe_document",
    "probe_host",
    "probe_saved_output",
    "read_probe_document",
    "target_of",
]

WAYS = ("torch", "driver", "nvidia-smi")
VIA_CHOICES = ("auto", *WAYS)
# The same facts without waiting for torch: it imports in seconds, and sees no GPU that its driver does not show.
FASTEST_FIRST = ("driver", "nvidia-smi", "torch")

_TIMEOUT_SECONDS = {"torch": 120.0, "driver": 30.0, "nvidia-smi": 30.0}
_WSL_NVIDIA_SMI = "/usr/lib/wsl/lib/nvidia-smi"
_DOCUMENT_KIND = "gpu-probe"
_NAME_A_TARGET = "name a target instead, for example --target p40 (`precpatch targets` lists them)"


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command."""

    returncode: int
    stdout: str
    stderr: str = ""


def run_command(command: Sequence[str], timeout: float) -> Completed:
    """Runs ``command`` and waits at most ``timeout`` seconds.

    Raises:
        ProbeError: the program is not there, could not be started, or took too long.
    """
    program = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        raise ProbeError(f"{program} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ProbeError(f"{program} gave no answer in {timeout:.0f} s") from None
    except OSError as error:
        raise ProbeError(f"{program} could not be started: {error.strerror or error}") from None
    return Completed(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def torch_is_installed() -> bool:
    """True where ``import torch`` would find a module; it is not imported."""
    try:
        return importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True)
class Host:
    """The seams to the host.

    Attributes:
        run: runs a command with a timeout in seconds; see ``run_command``.
        environ: the environment variables.
        torch_installed: whether torch can be asked.
    """

    run: Callable[[Sequence[str], float], Completed] = run_command
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    torch_installed: Callable[[], bool] = torch_is_installed


@dataclass(frozen=True)
class Probe:
    """What a probe found.

    Attributes:
        via: the way that answered: "torch", "driver", "nvidia-smi", or "file" for saved output.
        gpus: the visible GPUs.
        notes: what a person should know about how they were read.
    """

    via: str
    gpus: tuple[Capability, ...]
    notes: tuple[str, ...] = ()


def probe_host(via: str = "auto", *, host: Host | None = None, order: Sequence[str] = WAYS) -> Probe:
    """The GPUs of this host that CUDA_VISIBLE_DEVICES does not hide.

    ``via`` is one of ``VIA_CHOICES``; with "auto" the ways in ``order`` are tried until one answers.

    Raises:
        UserError: no way answered (the text has every reason), every GPU is hidden, or ``via`` is unknown.
    """
    if via not in VIA_CHOICES:
        raise UserError(f"--via {via!r} is not one of {', '.join(VIA_CHOICES)}")
    here = host or Host()
    if hides_everything(here.environ.get(VARIABLE)):
        raise UserError(f"{VARIABLE}={here.environ[VARIABLE]!r} hides every GPU; unset it, or {_NAME_A_TARGET}")
    reasons = []
    for way in order if via == "auto" else (via,):
        try:
            return _PROBES[way](here)
        except ProbeError as error:
            reasons.append(f"{way}: {error}")
    hidden = f"; {VARIABLE} is {here.environ[VARIABLE]!r}" if VARIABLE in here.environ else ""
    raise UserError(f"no GPU of this host could be read ({'; '.join(reasons)}{hidden}); {_NAME_A_TARGET}")


def probe_saved_output(text: str) -> Probe:
    """The GPUs in saved output of ``nvidia-smi --query-gpu=...``; CUDA_VISIBLE_DEVICES of this host does not count.

    Raises:
        UserError: the text lists no GPU.
    """
    try:
        return Probe("nvidia-smi", parse_nvidia_smi(text))
    except ProbeError as error:
        raise UserError(f"{error}; {_NAME_A_TARGET}") from None


def target_of(probe: Probe, dtype: str = "auto", attention: str = "auto") -> Target:
    """The Target for the weakest of the probed GPUs; its name is a catalog id where the catalog knows the card.

    Raises:
        UserError: there is no GPU, the compute capability of one is unknown, or an option is not a valid choice.
    """
    weakest = weakest_of(probe.gpus)
    found = load_catalog().matches(weakest.name)
    if len(found) == 1 and found[0].compute_capability == weakest.compute_capability:
        return make_target(weakest, found[0].id, dtype, attention)
    major, minor = weakest.compute_capability or (0, 0)
    return make_target(weakest, f"sm_{major}{minor}", dtype, attention)


def probe_document(probe: Probe, target: Target) -> dict[str, Any]:
    """The probe as plain JSON data; ``read_probe_document`` reads it back."""
    return {
        "version": 1,
        "tool": f"precpatch {precpatch.__version__}",
        "kind": _DOCUMENT_KIND,
        "via": probe.via,
        "gpus": [to_document(gpu) for gpu in probe.gpus],
        "target": target.describe(),
        "notes": list(probe.notes),
    }


def read_probe_document(document: Any) -> Probe:
    """The Probe in parsed JSON data that ``probe_document`` made.

    Raises:
        ValueError: it is something else; the text says what is wrong.
    """
    if not isinstance(document, dict) or document.get("kind") != _DOCUMENT_KIND:
        raise ValueError("it is not the output of `precpatch probe --format json`")
    if document.get("version") != 1:
        raise ValueError(f"its version is {document.get('version')!r}, and this precpatch reads version 1")
    gpus = document.get("gpus")
    if not isinstance(gpus, list) or not gpus or not all(isinstance(gpu, dict) for gpu in gpus):
        raise ValueError("it lists no GPU")
    return Probe("file", tuple(from_document(gpu) for gpu in gpus))


def _probe_torch(host: Host) -> Probe:
    if not host.torch_installed():
        raise ProbeError("torch is not installed")
    return Probe("torch", _ask_process(host, "torch", [sys.executable, "-c", _script("query_torch.py")]))


def _probe_driver(host: Host) -> Probe:
    command = [sys.executable, "-I", "-S", "-c", _script("query_driver.py")]
    return Probe("driver", _ask_process(host, "driver", command))


def _probe_nvidia_smi(host: Host) -> Probe:
    listed = parse_nvidia_smi(_nvidia_smi_rows(host))
    gpus = visible(listed, host.environ.get(VARIABLE))
    if not gpus:
        raise ProbeError(f"{VARIABLE} shows none of the {len(listed)} GPUs")
    return Probe("nvidia-smi", gpus, _order_notes(host, listed))


def _nvidia_smi_rows(host: Host) -> str:
    """The rows nvidia-smi prints; without compute_cap where the driver is too old to know it."""
    program = _nvidia_smi_program()
    done = host.run([program, *QUERY], _TIMEOUT_SECONDS["nvidia-smi"])
    if refuses_compute_cap(done.stdout + done.stderr):
        done = host.run([program, *OLD_QUERY], _TIMEOUT_SECONDS["nvidia-smi"])
    if done.returncode != 0:
        raise ProbeError(f"nvidia-smi failed: {_first_line(done.stdout + done.stderr)}")
    return done.stdout


def _nvidia_smi_program() -> str:
    on_wsl_only = shutil.which("nvidia-smi") is None and os.path.exists(_WSL_NVIDIA_SMI)
    return _WSL_NVIDIA_SMI if on_wsl_only else "nvidia-smi"


def _order_notes(host: Host, listed: Sequence[Capability]) -> tuple[str, ...]:
    """A warning where positions in CUDA_VISIBLE_DEVICES may mean other cards to CUDA than to nvidia-smi."""
    mixed = len({gpu.compute_capability for gpu in listed}) > 1
    by_bus = host.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not mixed or by_bus or not uses_indices(host.environ.get(VARIABLE)):
        return ()
    return (
        f"{VARIABLE} was read in the order of nvidia-smi (PCI bus); CUDA counts the fastest GPU first unless "
        "CUDA_DEVICE_ORDER=PCI_BUS_ID is set, so it may mean another of these different cards",
    )


def _ask_process(host: Host, way: str, command: Sequence[str]) -> tuple[Capability, ...]:
    """The GPUs in the JSON line that a query script prints last."""
    done = host.run(command, _TIMEOUT_SECONDS[way])
    try:
        found = json.loads(done.stdout.strip().splitlines()[-1])
        error, gpus = found.get("error"), found.get("gpus", [])
    except (IndexError, ValueError, AttributeError):
        raise ProbeError(f"the query failed: {_first_line(done.stderr) or 'it printed nothing'}") from None
    if error or not gpus:
        raise ProbeError(error or "no CUDA device is visible")
    return tuple(_read_answer(gpu, way) for gpu in gpus)


def _read_answer(gpu: Mapping[str, Any], way: str) -> Capability:
    """One GPU of a query script's answer."""
    measured = {key: value for key, value in gpu.items() if key not in ("name", "major", "minor")}
    if gpu.get("major") is None or gpu.get("minor") is None:
        raise ProbeError(f"the compute capability of {gpu['name']!r} is unknown")
    return load_catalog().describe_capability((gpu["major"], gpu["minor"]), gpu["name"], way, **measured)


def _script(name: str) -> str:
    return resources.files("precpatch.gpu").joinpath(name).read_text(encoding="utf-8")


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")


_PROBES: dict[str, Callable[[Host], Probe]] = {
    "torch": _probe_torch,
    "driver": _probe_driver,
    "nvidia-smi": _probe_nvidia_smi,
}
