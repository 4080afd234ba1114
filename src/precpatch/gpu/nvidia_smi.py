"""What nvidia-smi prints: rows of GPUs, or a reason why there are none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from precpatch.errors import UserError
from precpatch.gpu.capability import (
    Capability,
    ComputeCapability,
    derive,
    format_compute_capability,
    parse_compute_capability,
)
from precpatch.gpu.catalog import load_catalog

QUERY = ("--query-gpu=index,name,compute_cap,memory.total,uuid", "--format=csv,noheader")
# Drivers of branch 470 and older refuse compute_cap; the names are then looked up in the catalog.
OLD_QUERY = ("--query-gpu=index,name,memory.total,uuid", "--format=csv,noheader")
# The only output that names MIG instances.
LIST = ("-L",)

_MIB = 1024**2
_GIB = 1024**3
# The unit is missing with --format=csv,nounits; no card has less than 100 MiB.
_MEMORY = re.compile(r"(\d+)\s*MiB|\d{3,}", re.IGNORECASE)
_UUID = re.compile(r"(?:GPU|MIG)-\S+", re.IGNORECASE)
_NO_ANSWER = re.compile(r"\[.*\]|N/A|Not Supported", re.IGNORECASE)
_NO_DEVICE = re.compile(r"No devices were found", re.IGNORECASE)
_LISTED_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)")
_LISTED_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")
_PROFILE_MEMORY = re.compile(r"\.(\d+)gb")
_HEADER = re.compile(r"(?:^|,)\s*(?:compute_cap|name)\s*(?:,|$)")


class ProbeError(UserError):
    """One way of probing gave no answer; the text says why."""


class NoGpuError(ProbeError):
    """One way of probing found that the host has no GPU, or shows none."""


def refuses_compute_cap(text: str) -> bool:
    """True where nvidia-smi says that it does not know the field ``compute_cap``."""
    return "compute_cap" in text and "not a valid field" in text


def parse_nvidia_smi(text: str) -> tuple[Capability, ...]:
    """The GPUs in the output of ``nvidia-smi --query-gpu=... --format=csv[,noheader]``.

    The fields name, compute_cap, memory.total and uuid are understood, each of them optional and in any order, and
    index where it comes first. A compute capability that is missing or "[N/A]" is looked up by name in the catalog;
    where the catalog does not know the name, it stays None.

    Raises:
        ProbeError: there is no row, or a line is neither a row nor a warning, such as a driver's complaint.
    """
    lines = [line.strip() for line in text.lstrip("\ufeff").splitlines()]
    rows = [line for line in lines if line and not _is_noise(line)]
    if not rows:
        raise ProbeError("nvidia-smi printed no GPU")
    if _NO_DEVICE.match(rows[0]):
        raise NoGpuError(f"nvidia-smi listed no GPU, it says: {rows[0][:200]}")
    return tuple(_capability(_read_row(line), line) for line in rows)


def mig_instances(text: str, gpus: Sequence[Capability]) -> dict[str, list[Capability]]:
    """The MIG instances in the output of ``nvidia-smi -L``, by the UUID of their GPU; for ``gpus`` only.

    An instance has the compute capability of its GPU, and the memory that its profile names ("1g.5gb").
    """
    by_uuid = {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    found: dict[str, list[Capability]] = {}
    uuid = ""
    for line in text.splitlines():
        if match := _LISTED_GPU.match(line):
            uuid = match[1]
        elif (match := _LISTED_MIG.match(line)) and uuid in by_uuid:
            found.setdefault(uuid, []).append(_instance(by_uuid[uuid], match[1], match[2]))
    return found


def _instance(gpu: Capability, profile: str, uuid: str) -> Capability:
    memory = _PROFILE_MEMORY.search(profile)
    return replace(
        gpu,
        name=f"{gpu.name} MIG {profile}",
        uuid=uuid,
        index=None,
        memory_bytes=int(memory[1]) * _GIB if memory else None,
    )


@dataclass
class _Row:
    """The fields of one line; ``answered`` where one of them was more than words."""

    name: str = ""
    answered: bool = False
    capability: ComputeCapability | None = None
    known: dict[str, Any] = field(default_factory=dict)


def _is_noise(line: str) -> bool:
    """A header, or a warning such as "WARNING: infoROM is corrupted at gpu 0000:3B:00.0"."""
    return line.upper().startswith("WARNING:") or bool(_HEADER.search(line))


def _read_row(line: str) -> _Row:
    """The fields of ``line`` by their shape: what has no other shape is part of the name, which may hold commas."""
    row = _Row()
    words = []
    fields = [part.strip().strip('"') for part in line.split(",")]
    if len(fields) > 1 and fields[0].isdecimal():
        row.known["index"] = int(fields.pop(0))
    for text in filter(None, fields):
        if not _read_field(text, row):
            words.append(text)
    row.name = ", ".join(words)
    return row


def _read_field(text: str, row: _Row) -> bool:
    """Stores ``text`` in ``row`` and says True, where its shape says what it is."""
    if (number := parse_compute_capability(text)) is not None:
        row.capability = number
    elif match := _MEMORY.fullmatch(text):
        row.known["memory_bytes"] = int(match[1] or match[0]) * _MIB
    elif _UUID.fullmatch(text):
        row.known["uuid"] = text
    elif not _NO_ANSWER.fullmatch(text):
        return False
    row.answered = True
    return True


def _capability(row: _Row, line: str) -> Capability:
    """What ``row`` says, or what the catalog says about its name."""
    if row.capability is not None:
        name = row.name or f"unnamed GPU ({format_compute_capability(row.capability)})"
        return load_catalog().describe_capability(row.capability, name, "nvidia-smi", **row.known)
    found = load_catalog().matches(row.name)
    if len(found) == 1:
        return replace(found[0].capability(called=row.name, source="name"), name=row.name, **row.known)
    if not (row.name and row.answered):
        raise ProbeError(f"nvidia-smi listed no GPU, it says: {line[:200]}")
    return derive(row.name, None, source="nvidia-smi", **row.known)
