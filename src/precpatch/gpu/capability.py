"""What one GPU can do. Every fact follows from its compute capability, unless it was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from precpatch.errors import UserError

ComputeCapability = tuple[int, int]

# Each list goes from the weakest to the strongest.
BF16_SUPPORT = ("none", "emulated", "native")
FP16_SUPPORT = ("none", "slow", "fast", "tensor-core")

SOURCES = ("catalog", "torch", "driver", "nvidia-smi", "name", "file")

_NATIVE_BF16: ComputeCapability = (8, 0)
_FP8: ComputeCapability = (8, 9)
_TENSOR_CORES: ComputeCapability = (7, 0)
_FIRST_FP16: ComputeCapability = (5, 3)
_SLOW_FP16: ComputeCapability = (6, 1)


@dataclass(frozen=True, slots=True)
class Capability:
    """What one GPU can do, and how we know.

    Attributes:
        name: the name the driver or the catalog gives the card.
        compute_capability: ``(major, minor)``; None where it is unknown, and for a CPU.
        memory_bytes: device memory in bytes; from the catalog it is the nominal size of the smallest variant.
        shared_memory_per_block: default limit for one block, in bytes (CUDA device attribute 8).
        shared_memory_per_block_optin: limit that a kernel can ask for, in bytes (attribute 97); what Triton goes by.
        shared_memory_per_sm: shared memory of one multiprocessor, in bytes (attribute 81).
        bf16: "native", "emulated" or "none".
        fp16: "tensor-core", "fast" (packed, no tensor cores), "slow" (1/64 of float32) or "none" (storage only).
        tf32: True where matrix units take TF32.
        fp8: True where matrix units take FP8.
        source: how we know; one of ``SOURCES``. Shared memory that the source does not tell is looked up by
            compute capability.
        index: position among the GPUs of the host, in the order of the source.
        uuid: the driver's id, "GPU-...".
        torch_bf16: what ``torch.cuda.is_bf16_supported()`` says; None where torch was not asked. From torch 2.3 on
            it counts emulation, so it is shown and never decides.
    """

    name: str
    compute_capability: ComputeCapability | None
    memory_bytes: int | None = None
    shared_memory_per_block: int | None = None
    shared_memory_per_block_optin: int | None = None
    shared_memory_per_sm: int | None = None
    bf16: str = "none"
    fp16: str = "none"
    tf32: bool = False
    fp8: bool = False
    source: str = "catalog"
    index: int | None = None
    uuid: str | None = None
    torch_bf16: bool | None = None

    @property
    def native_bf16(self) -> bool:
        """True where the GPU has bfloat16 instructions: compute capability 8.0 or more."""
        return self.bf16 == "native"

    def at_least(self, needed: ComputeCapability) -> bool:
        """True where the compute capability is known and not below ``needed``."""
        return self.compute_capability is not None and self.compute_capability >= needed


def bf16_support(capability: ComputeCapability | None) -> str:
    """How bfloat16 is computed: "native", "emulated" or "none".

    Sources: ptxas takes any ``.bf16`` instruction from sm_80 on only. Below, eager PyTorch goes through float32; cuBLAS
    takes bf16 matrices on 7.x and was reported to refuse them on 5.2, 6.0 and 6.1.
    """
    if capability is None or capability < _TENSOR_CORES:
        return "none"
    return "native" if capability >= _NATIVE_BF16 else "emulated"


def fp16_support(capability: ComputeCapability | None) -> str:
    """How float16 arithmetic is computed: "tensor-core", "fast", "slow" or "none".

    Sources: ptxas takes ``fma.rn.f16`` from sm_53 and ``mma`` from sm_70 on; the CUDA C Programming Guide gives 2
    results per clock and multiprocessor on 6.1 against 128 for float32. The GTX 16 series is 7.5 without tensor cores;
    only the catalog knows that.
    """
    if capability is None or capability < _FIRST_FP16:
        return "none"
    if capability >= _TENSOR_CORES:
        return "tensor-core"
    return "slow" if capability == _SLOW_FP16 else "fast"


def tf32_support(capability: ComputeCapability | None) -> bool:
    """True where ptxas takes ``.tf32``: compute capability 8.0 or more."""
    return capability is not None and capability >= _NATIVE_BF16


def fp8_support(capability: ComputeCapability | None) -> bool:
    """True where ptxas takes the ``e4m3`` conversions: compute capability 8.9 or more."""
    return capability is not None and capability >= _FP8


def derive(name: str, capability: ComputeCapability | None, *, source: str, **known: Any) -> Capability:
    """A Capability whose number formats follow from the compute capability.

    ``known`` are other fields of ``Capability``, measured or looked up; they win over what would be derived.
    """
    derived: dict[str, Any] = {
        "bf16": bf16_support(capability),
        "fp16": fp16_support(capability),
        "tf32": tf32_support(capability),
        "fp8": fp8_support(capability),
    }
    return Capability(name=name, compute_capability=capability, source=source, **(derived | known))


def parse_compute_capability(text: str) -> ComputeCapability | None:
    """``"6.1"`` as ``(6, 1)``; None where the text is not ``major.minor``."""
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text.strip(), re.ASCII)
    return (int(match[1]), int(match[2])) if match else None


def format_compute_capability(capability: ComputeCapability | None) -> str | None:
    """``(6, 1)`` as ``"6.1"``; None for None."""
    return None if capability is None else f"{capability[0]}.{capability[1]}"


def weakest_of(gpus: Iterable[Capability]) -> Capability:
    """The GPU that decides for all of them: lowest compute capability, then smallest opt-in shared memory.

    Its other facts are lowered to the worst of all the cards, since a job can land on any of them: next to a P40, a
    P100 (6.0, fast float16) must not promise fast float16.

    Raises:
        UserError: there is no GPU, or the compute capability of one is unknown.
    """
    cards = list(gpus)
    if not cards:
        raise UserError("no GPU to decide by; name a target, for example --target p40")
    for card in cards:
        if card.compute_capability is None:
            raise UserError(
                f"the compute capability of {card.name!r} is unknown, and precpatch does not guess; "
                "name the target, for example --target p40 or --target 6.1"
            )
    return _lowered(min(cards, key=_strength), cards)


def _strength(card: Capability) -> tuple[ComputeCapability, int]:
    """The key that orders cards from the weakest; shared memory nobody knows counts as none."""
    return card.compute_capability or (0, 0), card.shared_memory_per_block_optin or 0


def _lowered(weakest: Capability, cards: list[Capability]) -> Capability:
    """``weakest`` with every fact as low as on any of ``cards``."""
    return replace(
        weakest,
        memory_bytes=_smallest(card.memory_bytes for card in cards),
        shared_memory_per_block=_smallest(card.shared_memory_per_block for card in cards),
        shared_memory_per_block_optin=_smallest(card.shared_memory_per_block_optin for card in cards),
        shared_memory_per_sm=_smallest(card.shared_memory_per_sm for card in cards),
        bf16=min((card.bf16 for card in cards), key=BF16_SUPPORT.index),
        fp16=min((card.fp16 for card in cards), key=FP16_SUPPORT.index),
        tf32=all(card.tf32 for card in cards),
        fp8=all(card.fp8 for card in cards),
    )


def _smallest(sizes: Iterable[int | None]) -> int | None:
    return min((size for size in sizes if size is not None), default=None)


def to_document(card: Capability) -> dict[str, Any]:
    """The Capability as plain JSON data; sizes in bytes, the compute capability as "6.1" or None."""
    return {
        "index": card.index,
        "name": card.name,
        "uuid": card.uuid,
        "compute_capability": format_compute_capability(card.compute_capability),
        "memory_bytes": card.memory_bytes,
        "shared_memory_per_block": card.shared_memory_per_block,
        "shared_memory_per_block_optin": card.shared_memory_per_block_optin,
        "shared_memory_per_sm": card.shared_memory_per_sm,
        "bf16": card.bf16,
        "fp16": card.fp16,
        "tf32": card.tf32,
        "fp8": card.fp8,
        "source": card.source,
        "torch_bf16": card.torch_bf16,
    }


def from_document(document: Mapping[str, Any]) -> Capability:
    """The Capability that ``to_document`` wrote, with source "file".

    Whether bf16, tf32 and fp8 are there is derived again from the compute capability, so that an edited file cannot
    claim native bfloat16 for an old card. fp16 is read, but never above what the compute capability allows.

    Raises:
        ValueError: a field is missing or is not what it should be.
    """
    name = document.get("name")
    written = document.get("compute_capability")
    if not isinstance(name, str) or not name:
        raise ValueError("a GPU without a name")
    capability = None if written is None else parse_compute_capability(str(written))
    if written is not None and capability is None:
        raise ValueError(f"{written!r} is not a compute capability such as 6.1")
    sizes = {field: _read_size(document, field) for field in _SIZES}
    return derive(
        name,
        capability,
        source="file",
        fp16=_read_fp16(document, capability),
        index=_read_index(document),
        uuid=_read_optional(document, "uuid", str),
        torch_bf16=_read_optional(document, "torch_bf16", bool),
        **sizes,
    )


_SIZES = ("memory_bytes", "shared_memory_per_block", "shared_memory_per_block_optin", "shared_memory_per_sm")


def _read_optional(document: Mapping[str, Any], field: str, kind: type) -> Any:
    value = document.get(field)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{field} is {value!r}, not a {kind.__name__}")
    return value


def _read_size(document: Mapping[str, Any], field: str) -> int | None:
    value = _read_optional(document, field, int)
    if value is None:
        return None
    if isinstance(value, bool) or value < 0:
        raise ValueError(f"{field} is {value!r}, not a number of bytes")
    return int(value)


def _read_index(document: Mapping[str, Any]) -> int | None:
    value = _read_optional(document, "index", int)
    return None if value is None else int(value)


def _read_fp16(document: Mapping[str, Any], capability: ComputeCapability | None) -> str:
    allowed = fp16_support(capability)
    written = document.get("fp16", allowed)
    if written not in FP16_SUPPORT:
        raise ValueError(f"fp16 is {written!r}, not one of {', '.join(FP16_SUPPORT)}")
    return min(str(written), allowed, key=FP16_SUPPORT.index)
