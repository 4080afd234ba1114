"""``precpatch probe``: what the GPUs of this host can do."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import stream

if TYPE_CHECKING:
    from precpatch.gpu.capability import Capability
    from precpatch.gpu.probe import Probe
    from precpatch.gpu.target import Target


class ProbeFormat(str, Enum):
    """The formats of ``--format``."""

    TEXT = "text"
    JSON = "json"


class Via(str, Enum):
    """The ways of ``--via``."""

    AUTO = "auto"
    TORCH = "torch"
    DRIVER = "driver"
    NVIDIA_SMI = "nvidia-smi"


def probe(
    output_format: Annotated[ProbeFormat, typer.Option("--format", help="How to print it.")] = ProbeFormat.TEXT,
    via: Annotated[
        Via, typer.Option("--via", help="How to read the GPUs; auto tries torch, the CUDA driver, nvidia-smi.")
    ] = Via.AUTO,
    nvidia_smi_output: Annotated[
        str | None,
        typer.Option(
            "--nvidia-smi-output",
            metavar="FILE",
            help="Read the GPUs from saved output of `nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader`; "
            "- is standard input.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to the screen.")
    ] = None,
) -> None:
    """Say what the GPUs of this host can do.

    Reads every GPU that CUDA_VISIBLE_DEVICES does not hide. The weakest decides.

    Examples:
      precpatch probe
      precpatch probe --format json --output gpu.json
      precpatch scan verl --target gpu.json
    """
    import json

    from precpatch.gpu.probe import probe_document, probe_host, probe_saved_output, target_of

    found = probe_host(via.value) if nvidia_smi_output is None else probe_saved_output(_read(nvidia_smi_output))
    target = target_of(found)
    if output_format is ProbeFormat.JSON:
        text = json.dumps(probe_document(found, target), indent=2, ensure_ascii=False)
    else:
        text = describe_probe(found, target)
    stream.put(f"{text}\n".encode(), output)


def describe_probe(found: Probe, target: Target) -> str:
    """The probe as lines for a person, without a newline at the end."""
    lines = [line for gpu in found.gpus for line in _describe_gpu(gpu)]
    if len(found.gpus) > 1:
        lines.append(f"{len(found.gpus)} GPUs; the weakest decides: {target.capability.name}")
    lines.append(f"target {target.name}: dtype {target.dtype}, attention {target.attention}")
    return "\n".join([*lines, *(f"note: {note}" for note in found.notes)])


def _describe_gpu(gpu: Capability) -> list[str]:
    from precpatch.gpu.capability import format_compute_capability

    shared = (gpu.shared_memory_per_block, gpu.shared_memory_per_block_optin, gpu.shared_memory_per_sm)
    block, optin, per_sm = (_size(size, 1024, "KiB") for size in shared)
    facts = {
        "read through": _SOURCES.get(gpu.source, gpu.source),
        "compute capability": format_compute_capability(gpu.compute_capability) or "unknown",
        "memory": _size(gpu.memory_bytes, 1024**3, "GiB"),
        "shared memory": f"per block {block}, opt-in {optin}; per SM {per_sm}",
        "bfloat16": gpu.bf16,
        "float16": gpu.fp16,
        "tf32, fp8": f"{_yes(gpu.tf32)}, {_yes(gpu.fp8)}",
    }
    if gpu.torch_bf16 is not None:
        facts["torch says bf16"] = _torch_answer(gpu)
    title = " ".join(part for part in (_position(gpu), gpu.name, f"({gpu.uuid})" if gpu.uuid else "") if part)
    return [title, *(f"  {name:<20}{value}" for name, value in facts.items())]


_SOURCES = {
    "driver": "the CUDA driver",
    "name": "the catalog, by name",
    "file": "a file",
}


def _torch_answer(gpu: Capability) -> str:
    """torch's answer next to ours, and why they differ where they do."""
    answer = f"{gpu.torch_bf16} (torch.cuda.is_bf16_supported())"
    if gpu.torch_bf16 and not gpu.native_bf16:
        return f"{answer}: from torch 2.3 on it counts emulation; native bfloat16 needs compute capability 8.0"
    if gpu.native_bf16 and not gpu.torch_bf16:
        return f"{answer}: the GPU has bfloat16 instructions, so this torch build does not serve it"
    return answer


def _position(gpu: Capability) -> str:
    return "GPU" if gpu.index is None else f"GPU {gpu.index}"


def _size(size: int | None, unit: int, name: str) -> str:
    return "unknown" if size is None else f"{round(size / unit, 1):g} {name}"


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"


def _read(source: str) -> str:
    """The text of a file, or of standard input for "-"; PowerShell's ``>`` writes UTF-16 with a byte-order mark."""
    import codecs
    import sys

    from precpatch.errors import UserError

    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise UserError(f"--nvidia-smi-output {source}: {error.strerror or error}") from None
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16" if is_utf16 else "utf-8-sig", "replace")
