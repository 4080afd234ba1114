"""The GPUs of several hosts, and which of them decides. Pure: the nodes were asked by Ray, or come from files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import precpatch
from precpatch.errors import UserError
from precpatch.files import read_limited
from precpatch.gpu.capability import Capability, from_document, to_document
from precpatch.gpu.probe import Probe, read_probe_document, target_of
from precpatch.gpu.target import Target

_DOCUMENT_KIND = "gpu-cluster"
_NAMED_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class Node:
    """One host of a cluster.

    Attributes:
        hostname: its name; the name of the file where that does not tell it.
        node_id: Ray's id of the node, since one host can run several; None elsewhere.
        via: the way its GPUs were read; None where it has none.
        gpus: its GPUs; empty for a head or login node.
        notes: what a person should know, such as why there is no GPU.
        error: why the GPUs it may have could not be read.
    """

    hostname: str
    node_id: str | None = None
    via: str | None = None
    gpus: tuple[Capability, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def title(self) -> str:
        """The name for a person, with the start of Ray's id where there is one."""
        return f"{self.hostname} ({self.node_id[:8]})" if self.node_id else self.hostname


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that were all read, at least one of them with a GPU.

    Attributes:
        via: "ray" or "files".
        nodes: every node, those without a GPU among them.
    """

    via: str
    nodes: tuple[Node, ...]

    @property
    def gpus(self) -> tuple[Capability, ...]:
        """The GPUs of all nodes."""
        return tuple(gpu for node in self.nodes for gpu in node.gpus)


def make_cluster(via: str, nodes: Iterable[Node]) -> Cluster:
    """The Cluster of ``nodes``.

    Raises:
        UserError: a node could not be read, a GPU's compute capability is unknown (a weaker one may hide there), or
            no node has a GPU.
    """
    every = tuple(nodes)
    unread = [f"{node.title}: {trouble}" for node in every if (trouble := _trouble(node))]
    if unread:
        raise UserError(
            f"the weakest GPU of the cluster cannot be known, {len(unread)} of {len(every)} nodes could not be read: "
            f"{_some(unread)}"
        )
    if not any(node.gpus for node in every):
        reasons = [": ".join((node.title, *node.notes[:1])) for node in every]
        raise UserError(f"none of the {len(every)} nodes of the cluster has a GPU: {_some(reasons)}")
    return Cluster(via, every)


def cluster_target(cluster: Cluster, dtype: str = "auto", attention: str = "auto") -> Target:
    """The Target for the weakest GPU of all nodes."""
    return target_of(Probe(cluster.via, cluster.gpus), dtype, attention)


def nodes_with(cluster: Cluster, gpu: Capability) -> str:
    """The nodes that have a card like ``gpu``, for a person: a few names, then a count."""
    same = [node.title for node in cluster.nodes if any(_is_like(gpu, each) for each in node.gpus)]
    return _some(same, ", ")


def cluster_document(cluster: Cluster, target: Target) -> dict[str, Any]:
    """The cluster as plain JSON data; ``read_nodes`` reads it back."""
    return {
        "version": 1,
        "tool": f"precpatch {precpatch.__version__}",
        "kind": _DOCUMENT_KIND,
        "via": cluster.via,
        "nodes": [_node_document(node) for node in cluster.nodes],
        "target": target.describe(),
    }


def merge_files(paths: Sequence[Path]) -> Cluster:
    """The Cluster of the hosts in files that ``precpatch probe --format json`` wrote, clusters among them.

    Raises:
        UserError: a file cannot be read or is something else, or ``make_cluster`` refuses the nodes.
    """
    return make_cluster("files", (node for path in paths for node in read_file(path, "--merge")))


def read_file(path: Path, option: str) -> tuple[Node, ...]:
    """The nodes in a file that ``precpatch probe --format json`` wrote; ``option`` named it.

    Raises:
        UserError: the file cannot be read or is something else.
    """
    try:
        return read_nodes(json.loads(read_limited(path)), path.name)
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror or error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UserError(
            f"{option} {path}: it is not JSON; `precpatch probe --format json` writes such a file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{option} {path}: {error}") from None


def read_nodes(document: Any, name: str) -> tuple[Node, ...]:
    """The nodes in parsed JSON data: those of a cluster, or the one host of a probe.

    ``name`` stands for a host that does not tell its own.

    Raises:
        ValueError: it is neither; the text says what is wrong.
    """
    if isinstance(document, dict) and document.get("kind") == _DOCUMENT_KIND:
        return _read_cluster(document)
    probe = read_probe_document(document)
    return (Node(probe.hostname or name, via=probe.via, gpus=probe.gpus, notes=probe.notes),)


def _read_cluster(document: dict[str, Any]) -> tuple[Node, ...]:
    if document.get("version") != 1:
        raise ValueError(f"its version is {document.get('version')!r}, and this precpatch reads version 1")
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or not nodes or not all(isinstance(node, dict) for node in nodes):
        raise ValueError("it lists no node")
    read = tuple(_read_node(node) for node in nodes)
    if not any(node.gpus for node in read):
        raise ValueError("it lists no GPU")
    return read


def _node_document(node: Node) -> dict[str, Any]:
    return {
        "hostname": node.hostname,
        "node_id": node.node_id,
        "via": node.via,
        "gpus": [to_document(gpu) for gpu in node.gpus],
        "notes": list(node.notes),
    }


def _read_node(document: dict[str, Any]) -> Node:
    hostname, node_id = document.get("hostname"), document.get("node_id")
    if not isinstance(hostname, str) or not isinstance(node_id, str | None):
        raise ValueError("a node without a hostname, or with an id that is not a text")
    gpus, notes = document.get("gpus"), document.get("notes", [])
    if not isinstance(gpus, list) or not all(isinstance(gpu, dict) for gpu in gpus) or not isinstance(notes, list):
        raise ValueError(f"the GPUs or notes of node {hostname!r} are not a list")
    return Node(
        hostname,
        node_id=node_id,
        via="file" if gpus else None,
        gpus=tuple(from_document(gpu) for gpu in gpus),
        notes=tuple(map(str, notes)),
    )


def _trouble(node: Node) -> str | None:
    """Why a weaker GPU than those we know may hide in ``node``; None where none can."""
    unknown = next((gpu.name for gpu in node.gpus if gpu.compute_capability is None), None)
    return node.error or (unknown and f"the compute capability of {unknown!r} is unknown")


def _is_like(gpu: Capability, other: Capability) -> bool:
    return (gpu.name, gpu.compute_capability) == (other.name, other.compute_capability)


def _some(texts: Sequence[str], separator: str = "; ") -> str:
    """The first few texts, and how many more there are."""
    more = [f"and {len(texts) - _NAMED_AT_MOST} more"] if len(texts) > _NAMED_AT_MOST else []
    return separator.join([*texts[:_NAMED_AT_MOST], *more])
