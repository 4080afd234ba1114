"""From what the user says (``--target``) to a Target."""

from __future__ import annotations

import re
from pathlib import Path

from precpatch.errors import UserError
from precpatch.gpu.capability import Capability, ComputeCapability, derive, format_compute_capability
from precpatch.gpu.catalog import Catalog, CatalogGpu, load_catalog
from precpatch.gpu.cluster import read_file
from precpatch.gpu.probe import Host, Probe, probe_host, target_of
from precpatch.gpu.target import Target, make_target

_DOTTED = re.compile(r"(\d{1,2})\.(\d)", re.ASCII)
# sm_61, sm61, compute_61, sm_90a
_PREFIXED = re.compile(r"(?:sm|compute)[_-]?(\d{1,2})(\d)[af]?", re.ASCII)
_DIGITS = re.compile(r"(\d{1,2})(\d)", re.ASCII)


def resolve_target(
    spec: str = "auto", dtype: str = "auto", attention: str = "auto", *, host: Host | None = None
) -> Target:
    """The Target that ``spec`` means, under the user's policy.

    Args:
        spec: a catalog name or alias ("p40", "Tesla V100-SXM2-32GB"), a compute capability ("6.1", "sm_61"), the path
            of a file that ``precpatch probe --format json`` wrote for a host or a cluster, "cpu", or "auto" (the GPUs
            of this host).
        dtype: one of ``DTYPE_CHOICES``.
        attention: one of ``ATTENTION_CHOICES``.
        host: the host that "auto" probes; this one where it is None.

    Raises:
        UserError: the spec is unknown or ambiguous, the file is not a probe, no GPU answers, or a choice is invalid.
    """
    wanted = spec.strip()
    if wanted.lower() == "auto":
        return target_of(probe_host(host=host), dtype, attention)
    if wanted.lower() == "cpu":
        return make_target(derive("cpu", None, source="name"), "cpu", dtype, attention)
    named = _by_name(wanted) or _by_capability(wanted)
    if named is not None:
        name, capability = named
        return make_target(capability, name, dtype, attention)
    if _is_path(wanted):
        gpus = tuple(gpu for node in read_file(Path(wanted), "--target") for gpu in node.gpus)
        return target_of(Probe("file", gpus), dtype, attention)
    raise UserError(_unknown(wanted))


def _by_name(wanted: str) -> tuple[str, Capability] | None:
    found = load_catalog().matches(wanted)
    if len(found) > 1:
        options = ", ".join(f"{gpu.id} ({format_compute_capability(gpu.compute_capability)})" for gpu in found)
        raise UserError(f"{wanted!r} is more than one GPU: {options}; name one of them")
    return (found[0].id, found[0].capability(called=wanted)) if found else None


def _by_capability(wanted: str) -> tuple[str, Capability] | None:
    catalog = load_catalog()
    capability = _written_capability(wanted.lower(), catalog)
    if capability is None:
        return None
    if capability not in catalog.shared_memory:
        known = ", ".join(f"{major}.{minor}" for major, minor in catalog.shared_memory)
        raise UserError(f"{wanted!r} is not a compute capability precpatch knows: {known}")
    name = f"sm_{capability[0]}{capability[1]}"
    return name, catalog.describe_capability(capability, name, "catalog")


def _written_capability(wanted: str, catalog: Catalog) -> ComputeCapability | None:
    """The compute capability that ``wanted`` spells; None where it spells none."""
    match = _DOTTED.fullmatch(wanted) or _PREFIXED.fullmatch(wanted)
    if match:
        return int(match[1]), int(match[2])
    match = _DIGITS.fullmatch(wanted)
    if match is None or (int(match[1]), int(match[2])) not in catalog.shared_memory:
        return None
    cards = [gpu.id for gpu in catalog.gpus if _is_number_of(gpu, wanted)]
    if cards:
        raise UserError(f"{wanted!r} can be compute capability {match[1]}.{match[2]} or {', '.join(cards)}; name one")
    return int(match[1]), int(match[2])


def _is_number_of(gpu: CatalogGpu, digits: str) -> bool:
    """True for "100" and a P100: a person may leave the letter out."""
    return re.fullmatch(f"[a-z]+{digits}", gpu.id) is not None


def _is_path(wanted: str) -> bool:
    if "/" in wanted or "\\" in wanted or wanted.lower().endswith(".json"):
        return True
    try:
        return Path(wanted).is_file()
    except (OSError, ValueError):
        return False


def _unknown(wanted: str) -> str:
    near = load_catalog().suggestions(wanted)
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    return (
        f"unknown target {wanted[:80]!r}{meant} `precpatch targets` lists the known GPUs; a compute capability such as "
        "6.1, a probe file, cpu and auto are taken too"
    )
