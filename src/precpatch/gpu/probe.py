"""Reads the GPUs of the host: through nvidia-smi, or the CUDA driver where that is not there or may not be exact.

torch is only asked for its own answer on bf16.
Each way runs in a process of its own. None makes a CUDA context or takes GPU memory, and nothing stays loaded here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import precpatch
from precpatch.errors import UserError
from precpatch.gpu.capability import Capability, ComputeCapability, from_document, to_document, weakest_of
from precpatch.gpu.catalog import load_catalog
from precpatch.gpu.nvidia_smi import (
    LIST,
    OLD_QUERY,
    QUERY,
    NoGpuError,
    ProbeError,
    mig_instances,
    parse_nvidia_smi,
    refuses_compute_cap,
)
from precpatch.gpu.target import Target, make_target
from precpatch.gpu.visible import VARIABLE, hides_everything, names_mig, uses_indices, visible

# The ways of "auto". Measured on an H200: nvidia-smi costs 0.03 s of CPU, and cuInit of the driver 0.2 s. torch is none
# of them: it imports in seconds, and sees no GPU that the driver does not show.
WAYS = ("nvidia-smi", "driver")
VIA_CHOICES = ("auto", *WAYS, "torch")

_TIMEOUT_SECONDS = {"torch": 120.0, "driver": 30.0, "nvidia-smi": 30.0}
# WSL 2 has it outside of PATH.
_NVIDIA_SMI = ("nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi")
# No GPU below has MIG.
_FIRST_MIG: ComputeCapability = (8, 0)
_DOCUMENT_KIND = "gpu-probe"
_NAME_A_TARGET = "name a target instead, for example --target p40 (`precpatch targets` lists them)"


class MissingProgramError(ProbeError):
    """A program is not installed."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command."""

    returncode: int
    stdout: str
    stderr: str = ""


def run_command(command: Sequence[str], timeout: float) -> Completed:
    """Runs ``command`` and waits at most ``timeout`` seconds.

    Raises:
        MissingProgramError: the program is not there.
        ProbeError: it could not be started, or took too long.
    """
    program = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False)
    except FileNotFoundError:
        raise MissingProgramError(f"{program} is not installed") from None
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
        hostname: the host they are in; None where a file does not tell.
    """

    via: str
    gpus: tuple[Capability, ...]
    notes: tuple[str, ...] = ()
    hostname: str | None = None


def probe_host(via: str = "auto", *, host: Host | None = None, ask_torch: bool = False) -> Probe:
    """The GPUs of this host that CUDA_VISIBLE_DEVICES does not hide.

    ``via`` is one of ``VIA_CHOICES``; with "auto" the ways are tried until one answers. With ``ask_torch`` an installed
    torch is then asked what it says about bf16, which costs the seconds of its import.

    Raises:
        UserError: no way answered (the text has every reason), every GPU is hidden, or ``via`` is unknown.
    """
    here = host or Host()
    try:
        found = read_host(via, here)
    except ProbeError as error:
        raise UserError(f"{error}; {_NAME_A_TARGET}") from None
    if ask_torch and via == "auto" and here.torch_installed():
        found = _with_answer_of_torch(found, here)
    return replace(found, hostname=platform.node() or None)


def read_host(via: str, host: Host) -> Probe:
    """The visible GPUs of ``host``.

    Raises:
        NoGpuError: the host has no GPU, or hides all of them.
        ProbeError: it may have one, but it could not be read.
        UserError: ``via`` is unknown.
    """
    if via not in VIA_CHOICES:
        raise UserError(f"--via {via!r} is not one of {', '.join(VIA_CHOICES)}")
    value = host.environ.get(VARIABLE)
    if hides_everything(value):
        raise NoGpuError(f"{VARIABLE}={value!r} hides every GPU (unset it)")
    failures: dict[str, ProbeError] = {}
    found = None
    for way in WAYS if via == "auto" else (via,):
        try:
            found = _PROBES[way](host)
        except ProbeError as error:
            failures[way] = error
            continue
        if way == via or _is_exact(found, value):
            return found
    if found is not None:
        return found
    reasons = [f"{way}: {error}" for way, error in failures.items()]
    hidden = "" if value is None else f"; {VARIABLE} is {value!r}"
    without_gpu = all(isinstance(error, NoGpuError) for error in failures.values())
    kind = NoGpuError if without_gpu else ProbeError
    raise kind(f"no GPU could be read ({'; '.join(reasons)}{hidden})")


def _is_exact(found: Probe, visible_devices: str | None) -> bool:
    """False where the driver may know better than nvidia-smi: order of cards, MIG, a capability that was looked up."""
    if found.via == "driver":
        return True
    measured = all(gpu.source == "nvidia-smi" and gpu.shared_memory_per_block_optin for gpu in found.gpus)
    return measured and not found.notes and not names_mig(visible_devices)


def commands_of(via: str) -> list[list[str]]:
    """The commands that ``read_host`` may run by the way ``via``, torch left out; that of the driver comes first."""
    ways = WAYS if via == "auto" else (via,)
    driver = [_driver_command()] if "driver" in ways else []
    queries = (QUERY, OLD_QUERY, LIST) if "nvidia-smi" in ways else ()
    return [*driver, *([_NVIDIA_SMI[0], *query] for query in queries)]


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
        "hostname": probe.hostname,
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
    notes, hostname = document.get("notes", []), document.get("hostname")
    if not isinstance(notes, list) or not isinstance(hostname, str | None):
        raise ValueError("its notes are not a list, or its hostname is not a text")
    return Probe("file", tuple(from_document(gpu) for gpu in gpus), tuple(map(str, notes)), hostname)


def _probe_torch(host: Host) -> Probe:
    if not host.torch_installed():
        raise ProbeError("torch is not installed")
    return Probe("torch", _ask_process(host, "torch", [sys.executable, "-c", script("query_torch.py")]))


def _with_answer_of_torch(found: Probe, host: Host) -> Probe:
    """``found`` with what torch says about bf16 on each GPU, or a note why it says nothing."""
    try:
        told = _probe_torch(host).gpus
    except ProbeError as error:
        return replace(found, notes=(*found.notes, f"torch was asked about bf16 and gave no answer: {error}"))
    gpus = [replace(gpu, torch_bf16=_told_of(gpu, place, told)) for place, gpu in enumerate(found.gpus)]
    return replace(found, gpus=tuple(gpus))


def _told_of(gpu: Capability, place: int, told: Sequence[Capability]) -> bool | None:
    """torch's answer for ``gpu``: by UUID, else by place and name, since torch before 2.6 tells no UUID."""
    by_uuid = [each for each in told if each.uuid is not None and each.uuid == gpu.uuid]
    by_place = [each for each in told[place : place + 1] if each.name == gpu.name]
    return next((each.torch_bf16 for each in (*by_uuid, *by_place)), None)


def _probe_driver(host: Host) -> Probe:
    return Probe("driver", _ask_process(host, "driver", _driver_command()))


def _driver_command() -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script("query_driver.py")]


def _probe_nvidia_smi(host: Host) -> Probe:
    listed = parse_nvidia_smi(_nvidia_smi_rows(host))
    value = host.environ.get(VARIABLE)
    instances = _mig_instances(host, listed)
    gpus = visible(listed, value, [each for some in instances.values() for each in some])
    if not gpus:
        raise ProbeError(f"{VARIABLE} shows none of the {len(listed)} GPUs")
    return Probe("nvidia-smi", gpus, (*_order_notes(host, listed), *_mig_notes(gpus, instances)))


def _nvidia_smi_rows(host: Host) -> str:
    """The rows nvidia-smi prints; without compute_cap where the driver is too old to know it."""
    done = _run_nvidia_smi(host, QUERY)
    if refuses_compute_cap(done.stdout + done.stderr):
        done = _run_nvidia_smi(host, OLD_QUERY)
    if done.returncode != 0 and "No devices were found" not in done.stdout:
        raise ProbeError(f"nvidia-smi failed: {_first_line(done.stdout + done.stderr)}")
    return done.stdout


def _run_nvidia_smi(host: Host, query: Sequence[str]) -> Completed:
    """Runs the nvidia-smi of PATH, else that of WSL."""
    for program in _NVIDIA_SMI:
        try:
            return host.run([program, *query], _TIMEOUT_SECONDS["nvidia-smi"])
        except MissingProgramError:
            continue
    raise NoGpuError("nvidia-smi is not installed")


def _mig_instances(host: Host, listed: Sequence[Capability]) -> dict[str, list[Capability]]:
    """The MIG instances by the UUID of their GPU; asked for only where there can be any."""
    if not names_mig(host.environ.get(VARIABLE)) and not any(gpu.at_least(_FIRST_MIG) for gpu in listed):
        return {}
    try:
        done = _run_nvidia_smi(host, LIST)
    except ProbeError:
        return {}
    return mig_instances(done.stdout, listed)


def _mig_notes(gpus: Sequence[Capability], instances: Mapping[str, Sequence[Capability]]) -> tuple[str, ...]:
    """A note for each GPU that is shown whole, though MIG splits it."""
    split = [gpu for gpu in gpus if gpu.uuid in instances]
    return tuple(
        f"MIG splits GPU {gpu.index} into {len(instances[gpu.uuid or ''])} instances, and a process sees one of them; "
        "the memory shown is that of the whole GPU"
        for gpu in split
    )


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
    if found.get("no_gpu") or not (error or gpus):
        raise NoGpuError(error or "no CUDA device is visible")
    if error:
        raise ProbeError(error)
    return tuple(_read_answer(gpu, way) for gpu in gpus)


def _read_answer(gpu: Mapping[str, Any], way: str) -> Capability:
    """One GPU of a query script's answer."""
    measured = {key: value for key, value in gpu.items() if key not in ("name", "major", "minor")}
    if gpu.get("major") is None or gpu.get("minor") is None:
        raise ProbeError(f"the compute capability of {gpu['name']!r} is unknown")
    return load_catalog().describe_capability((gpu["major"], gpu["minor"]), gpu["name"], way, **measured)


def script(name: str) -> str:
    """The text of a query script, to be run by ``python -c``."""
    return resources.files("precpatch.gpu").joinpath(name).read_text(encoding="utf-8")


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")


_PROBES: dict[str, Callable[[Host], Probe]] = {
    "torch": _probe_torch,
    "driver": _probe_driver,
    "nvidia-smi": _probe_nvidia_smi,
}
