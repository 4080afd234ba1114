"""``precpatch probe``: what the GPUs of this host, or of every node of a cluster, can do."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precpatch.cli import stream

if TYPE_CHECKING:
    from precpatch.gpu.capability import Capability
    from precpatch.gpu.cluster import Cluster, Node
    from precpatch.gpu.probe import Probe
    from precpatch.gpu.target import Target


class ProbeFormat(str, Enum):
    """The formats of ``--format``."""

    TEXT = "text"
    JSON = "json"


class Via(str, Enum):
    """The ways of ``--via``."""

    AUTO = "auto"
    DRIVER = "driver"
    NVIDIA_SMI = "nvidia-smi"
    TORCH = "torch"


_CLUSTER = "Cluster"


def probe(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ADDRESS|FILES]",
            help="With --ray, the cluster: HOST:PORT of its head node, or auto for the one of this machine (the "
            "default). With --merge, the files.",
            show_default=False,
        ),
    ] = None,
    *,
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Ask every node of a running Ray cluster; needs precpatch[ray]. No GPU is reserved.",
            rich_help_panel=_CLUSTER,
        ),
    ] = False,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="Put together the JSON files of several hosts, gathered by Slurm or by hand.",
            rich_help_panel=_CLUSTER,
        ),
    ] = False,
    output_format: Annotated[ProbeFormat, typer.Option("--format", help="How to print it.")] = ProbeFormat.TEXT,
    via: Annotated[
        Via,
        typer.Option(
            "--via",
            help="How to read the GPUs; auto takes nvidia-smi where that is exact, else the CUDA driver, and asks an "
            "installed torch for its own answer on bf16.",
        ),
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
    """Say what the GPUs of this host, or of a whole cluster, can do.

    Reads every GPU that CUDA_VISIBLE_DEVICES does not hide. The weakest decides.

    Examples:
      precpatch probe
      precpatch probe --format json --output gpu.json
      precpatch scan verl --target gpu.json
      precpatch probe --ray --format json --output cluster.json
      precpatch probe --ray head-node:6379
      precpatch probe --merge node-a.json node-b.json
    """
    from precpatch.report.line import visible

    _check_one_source(places or [], ray=ray, merge=merge, saved=nvidia_smi_output is not None, via=via)
    as_json = output_format is ProbeFormat.JSON
    if output is not None:
        stream.check_writable(output)
    if ray or merge:
        text = _probe_cluster(places or [], via.value, ray=ray, as_json=as_json)
    else:
        text = _probe_one(via.value, nvidia_smi_output, as_json=as_json)
    shown = text if as_json else "\n".join(map(visible, text.split("\n")))
    stream.put(f"{shown}\n".encode("utf-8", "backslashreplace"), output)


def _check_one_source(places: list[str], *, ray: bool, merge: bool, saved: bool, via: Via) -> None:
    """Refuse options that do not go together.

    Raises:
        UserError: two sources are named, or a word has no option that takes it.
    """
    from precpatch.errors import UserError

    if ray + merge + saved > 1:
        raise UserError("--ray, --merge and --nvidia-smi-output do not go together: each names where the GPUs are")
    if places and not (ray or merge):
        raise UserError(f"{places[0]!r} has no option that takes it: --ray takes an address, --merge takes files")
    if ray and len(places) > 1:
        raise UserError(f"--ray takes one address, not {len(places)}")
    if merge and not places:
        raise UserError("--merge needs the files that `precpatch probe --format json` wrote on each host")
    if (merge or saved) and via is not Via.AUTO:
        raise UserError(f"--via {via.value} reads GPUs, and --merge and --nvidia-smi-output read files")


def _probe_one(via: str, saved: str | None, *, as_json: bool) -> str:
    """The GPUs of this host, or of the host whose nvidia-smi output was saved."""
    from precpatch.gpu.probe import probe_document, probe_host, probe_saved_output, target_of

    found = probe_host(via, ask_torch=True) if saved is None else probe_saved_output(_read(saved))
    target = target_of(found)
    return _dump(probe_document(found, target)) if as_json else describe_probe(found, target)


def _probe_cluster(places: list[str], via: str, *, ray: bool, as_json: bool) -> str:
    """The GPUs of every node, asked through Ray or read from files."""
    from precpatch.gpu.cluster import cluster_document, cluster_target, merge_files

    if ray:
        from precpatch.gpu.ray_cluster import probe_ray

        cluster = probe_ray(places[0] if places else "auto", via)
    else:
        cluster = merge_files([Path(place) for place in places])
    target = cluster_target(cluster)
    return _dump(cluster_document(cluster, target)) if as_json else describe_cluster(cluster, target)


def _dump(document: dict[str, Any]) -> str:
    import json

    return json.dumps(document, indent=2)


def describe_probe(found: Probe, target: Target) -> str:
    """The probe as lines for a person, without a newline at the end."""
    lines = [line for gpu in found.gpus for line in _describe_gpu(gpu)]
    if len(found.gpus) > 1:
        lines.append(f"{len(found.gpus)} GPUs; the weakest decides: {target.capability.name}")
    return "\n".join([*lines, _describe_target(target), *(f"note: {note}" for note in found.notes)])


def describe_cluster(cluster: Cluster, target: Target) -> str:
    """A block for each node, then what decides, without a newline at the end."""
    from precpatch.gpu.cluster import nodes_with

    weakest = target.capability
    lines = [line for node in cluster.nodes for line in _describe_node(node)]
    lines.append(
        f"{_count(len(cluster.nodes), 'node')}, {_count(len(cluster.gpus), 'GPU')}; the weakest decides: "
        f"{weakest.name} in {nodes_with(cluster, weakest)}"
    )
    return "\n".join([*lines, _describe_target(target)])


def _describe_node(node: Node) -> list[str]:
    """A node's cards by kind, and its notes."""
    source = f"read through {_SOURCES.get(node.via, node.via)}" if node.via else "no GPU"
    kinds = Counter(_describe_card(gpu) for gpu in node.gpus)
    cards = [f"  {count} x {card}" for card, count in kinds.items()]
    return [f"node {node.title}: {source}", *cards, *(f"  note: {note}" for note in node.notes)]


def _describe_card(gpu: Capability) -> str:
    from precpatch.gpu.capability import format_compute_capability

    capability = format_compute_capability(gpu.compute_capability)
    memory = _size(gpu.memory_bytes, 1024**3, "GiB")
    return f"{gpu.name}: compute capability {capability}, memory {memory}, bfloat16 {gpu.bf16}, float16 {gpu.fp16}"


def _describe_target(target: Target) -> str:
    return f"target {target.name}: dtype {target.dtype}, attention {target.attention}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


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
    from precpatch.files import read_limited

    try:
        raw = sys.stdin.buffer.read() if source == "-" else read_limited(Path(source))
    except OSError as error:
        raise UserError(f"--nvidia-smi-output {source}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"--nvidia-smi-output {source}: {error}") from None
    is_utf16 = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return raw.decode("utf-16" if is_utf16 else "utf-8-sig", "replace")
