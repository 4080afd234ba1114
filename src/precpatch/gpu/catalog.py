"""The GPUs that precpatch knows: ``catalog.yaml``, read once and only when it is needed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from precpatch.gpu.capability import (
    Capability,
    ComputeCapability,
    bf16_support,
    derive,
    fp8_support,
    fp16_support,
    parse_compute_capability,
    tf32_support,
)

GIB = 1024**3
_KIB = 1024

_VENDOR_WORD = re.compile(r"nvidia|tesla|geforce|grid")
_VENDOR_PREFIX = re.compile(r"^(?:nvidia|tesla|geforce|grid)+")
_MIG_SUFFIX = re.compile(r"\bmig\b.*$")
_MEMORY_WORD = re.compile(r"(\d+)gb?")
# Words of a driver's name that do not tell one chip from another: board form, memory kind, vGPU profile.
_FORM_WORD = re.compile(r"pcie|sxm\d?|fhhl|dgxs|nvl|hbm\d?e?|\d+[abcqv]")


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Shared memory of one compute capability, in bytes: per block (default and opt-in) and per multiprocessor."""

    per_block: int
    per_block_optin: int
    per_sm: int

    def as_fields(self) -> dict[str, int]:
        """The three sizes under the names of the fields of ``Capability``."""
        return {
            "shared_memory_per_block": self.per_block,
            "shared_memory_per_block_optin": self.per_block_optin,
            "shared_memory_per_sm": self.per_sm,
        }


@dataclass(frozen=True, slots=True)
class CatalogGpu:
    """One card of the catalog.

    Attributes:
        id: the short name that ``--target`` takes, "p40".
        name: the maker's name.
        aliases: other names it goes by, those of drivers among them.
        compute_capability: ``(major, minor)``.
        memory_gib: nominal memory in GiB, one number for each variant.
        bf16, fp16, tf32, fp8: as in ``Capability``.
        shared_memory: its sizes in bytes.
        fp32_tflops, fp64_tflops: boost-clock peaks without tensor cores; None where no source gives them.
        verified: the groups of fields that were read in a source.
        sources: ids in ``Catalog.sources``.
        note: what to know about the figures; "" where there is nothing.
    """

    id: str
    name: str
    aliases: tuple[str, ...]
    compute_capability: ComputeCapability
    memory_gib: tuple[int, ...]
    bf16: str
    fp16: str
    tf32: bool
    fp8: bool
    shared_memory: SharedMemory
    fp32_tflops: float | None
    fp64_tflops: float | None
    verified: tuple[str, ...]
    sources: tuple[str, ...]
    note: str

    def capability(self, called: str = "", source: str = "catalog") -> Capability:
        """What the card can do.

        Memory is that of the variant that ``called`` names ("V100-SXM2-32GB"), else that of the smallest one.
        """
        return derive(
            self.name,
            self.compute_capability,
            source=source,
            memory_bytes=self._memory_gib(called) * GIB,
            bf16=self.bf16,
            fp16=self.fp16,
            tf32=self.tf32,
            fp8=self.fp8,
            **self.shared_memory.as_fields(),
        )

    def _memory_gib(self, called: str) -> int:
        sizes = [int(match[1]) for word in _words(called) if (match := _MEMORY_WORD.fullmatch(word))]
        return next((size for size in sizes if size in self.memory_gib), min(self.memory_gib))


@dataclass(frozen=True)
class Catalog:
    """Every known card and compute capability.

    Attributes:
        gpus: the cards, oldest first.
        shared_memory: shared memory by compute capability.
        sources: where the facts were read, by source id: ``title``, ``url`` and so on.
    """

    gpus: tuple[CatalogGpu, ...]
    shared_memory: Mapping[ComputeCapability, SharedMemory]
    sources: Mapping[str, Mapping[str, Any]]
    _index: Mapping[str, tuple[CatalogGpu, ...]]

    def matches(self, name: str) -> tuple[CatalogGpu, ...]:
        """The cards that ``name`` can mean: one, none (unknown), or several (ambiguous, as "RTX 6000").

        Case, spaces, dashes and vendor words do not count. Memory size, board form and vGPU profile are only dropped
        where the name as given is unknown, and nothing else ever is: "T400" is not a T4.
        """
        return self._index.get(_key(name)) or self._index.get(_short_key(name)) or ()

    def suggestions(self, name: str) -> list[str]:
        """Ids of the cards whose names are nearest to ``name``, at most three; with its first letter where any are."""
        wanted = _short_key(name)
        alike = [key for key in self._index if key[:1] == wanted[:1]]
        near = difflib.get_close_matches(wanted, alike) or difflib.get_close_matches(wanted, list(self._index))
        return list(dict.fromkeys(gpu.id for key in near for gpu in self._index[key]))[:3]

    def describe_capability(self, capability: ComputeCapability, name: str, source: str, **known: Any) -> Capability:
        """A Capability from a bare compute capability, with the catalog's shared memory where ``known`` has none."""
        row = self.shared_memory.get(capability)
        measured = {field: value for field, value in known.items() if value is not None}
        return derive(name, capability, source=source, **((row.as_fields() if row else {}) | measured))


@cache
def load_catalog() -> Catalog:
    """The catalog that ships with precpatch; read on the first call only."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = resources.files("precpatch.gpu").joinpath("catalog.yaml").read_text(encoding="utf-8")
    return read_catalog(yaml.load(text, Loader=loader))  # noqa: S506 (both loaders are safe ones)


def read_catalog(data: Mapping[str, Any]) -> Catalog:
    """The Catalog in the parsed YAML ``data``."""
    gpus = tuple(_read_gpu(entry) for entry in data["gpus"])
    rows = data["by_compute_capability"]
    return Catalog(
        gpus=gpus,
        shared_memory={_capability_of(key): _read_shared_memory(row) for key, row in rows.items()},
        sources=data["sources"],
        _index=_index_by_name(gpus),
    )


def _read_gpu(entry: Mapping[str, Any]) -> CatalogGpu:
    capability = _capability_of(entry["compute_capability"])
    return CatalogGpu(
        id=entry["id"],
        name=entry["name"],
        aliases=tuple(entry["aliases"]),
        compute_capability=capability,
        memory_gib=tuple(entry["memory_gib"]),
        bf16=entry.get("bf16", bf16_support(capability)),
        fp16=entry.get("fp16", fp16_support(capability)),
        tf32=entry.get("tf32", tf32_support(capability)),
        fp8=entry.get("fp8", fp8_support(capability)),
        shared_memory=_read_shared_memory(entry),
        fp32_tflops=entry.get("fp32_tflops"),
        fp64_tflops=entry.get("fp64_tflops"),
        verified=tuple(entry["verified"]),
        sources=tuple(entry["sources"]),
        note=entry.get("note", ""),
    )


def _read_shared_memory(row: Mapping[str, Any]) -> SharedMemory:
    return SharedMemory(
        per_block=row["shared_mem_per_block_default_kib"] * _KIB,
        per_block_optin=row["shared_mem_per_block_optin_kib"] * _KIB,
        per_sm=row["shared_mem_per_sm_kib"] * _KIB,
    )


def _capability_of(text: str) -> ComputeCapability:
    capability = parse_compute_capability(text)
    if capability is None:
        raise ValueError(f"catalog.yaml: {text!r} is not a compute capability")
    return capability


def _index_by_name(gpus: Sequence[CatalogGpu]) -> dict[str, tuple[CatalogGpu, ...]]:
    index: dict[str, tuple[CatalogGpu, ...]] = {}
    for gpu in gpus:
        for key in {_key(name) for name in (gpu.id, gpu.name, *gpu.aliases)}:
            index[key] = (*index.get(key, ()), gpu)
    return index


def _words(name: str) -> list[str]:
    """The words of a GPU's name, in lower case, without vendor words and without a MIG profile."""
    plain = _MIG_SUFFIX.sub("", name.lower())
    return [word for word in re.split(r"[^a-z0-9]+", plain) if word and not _VENDOR_WORD.fullmatch(word)]


def _key(name: str) -> str:
    return _VENDOR_PREFIX.sub("", "".join(_words(name)))


def _short_key(name: str) -> str:
    """The key without memory size, board form and vGPU profile."""
    kept = [word for word in _words(name) if not (_MEMORY_WORD.fullmatch(word) or _FORM_WORD.fullmatch(word))]
    return _VENDOR_PREFIX.sub("", "".join(kept))
