"""CUDA_VISIBLE_DEVICES, for the ways of probing that do not obey it by themselves (nvidia-smi).

Source: CUDA programming guide, environment variables: indices or UUID prefixes, separated by commas; an entry that
names no GPU hides everything after it; an empty value hides all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from precpatch.gpu.capability import Capability

VARIABLE = "CUDA_VISIBLE_DEVICES"

_UUID_PREFIX = re.compile(r"(?:GPU|MIG)-.", re.IGNORECASE)
# A MIG device of older drivers carries the UUID of its GPU: MIG-GPU-<uuid>/<instance>/<compute instance>.
_MIG_OF_GPU = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/.*")


def visible(
    gpus: Sequence[Capability], value: str | None, instances: Sequence[Capability] = ()
) -> tuple[Capability, ...]:
    """The GPUs that a CUDA program sees under ``value``, in its order; all of them where it is None (unset).

    A GPU that is named twice hides all of them, as CUDA does. ``instances`` are the MIG instances of the GPUs, which
    only their UUIDs name. CUDA shows a process the first of them; here all are, since other processes take the others.
    """
    if value is None:
        return tuple(gpus)
    seen: list[Capability] = []
    for entry in value.split(","):
        gpu = _named_by(entry.strip(), gpus, instances)
        if gpu is None:
            break
        if gpu not in seen:
            seen.append(gpu)
        elif not names_mig(entry):
            return ()
    return tuple(seen)


def hides_everything(value: str | None) -> bool:
    """True where no GPU of any host can be visible: an empty value, or a first entry that can name none."""
    if value is None:
        return False
    first = value.split(",")[0].strip()
    return _leading_index(first) is None and not _UUID_PREFIX.match(first)


def names_mig(value: str | None) -> bool:
    """True where ``value`` names a MIG instance."""
    return value is not None and "mig-" in value.lower()


def uses_indices(value: str | None) -> bool:
    """True where ``value`` names GPUs by position, which depends on the order of the GPUs."""
    return value is not None and _leading_index(value.strip()) is not None


def _named_by(entry: str, gpus: Sequence[Capability], instances: Sequence[Capability]) -> Capability | None:
    """The one GPU or instance that ``entry`` names; None where there is none, or where a UUID prefix fits several."""
    index = _leading_index(entry)
    if index is not None:
        return next((gpu for position, gpu in enumerate(gpus) if _index_of(gpu, position) == index), None)
    if not _UUID_PREFIX.match(entry):
        return None
    known = (*gpus, *instances)
    match = _MIG_OF_GPU.fullmatch(entry)
    return _with_uuid(entry, known) or (_with_uuid(match[1], known) if match else None)


def _with_uuid(prefix: str, gpus: Sequence[Capability]) -> Capability | None:
    fitting = [gpu for gpu in gpus if gpu.uuid and gpu.uuid.lower().startswith(prefix.lower())]
    return fitting[0] if len(fitting) == 1 else None


def _index_of(gpu: Capability, position: int) -> int:
    return position if gpu.index is None else gpu.index


def _leading_index(entry: str) -> int | None:
    """The number at the start of ``entry``: CUDA reads it as C's strtol does, "1x" as 1."""
    match = re.match(r"\+?\d+", entry, re.ASCII)
    return int(match[0]) if match else None
