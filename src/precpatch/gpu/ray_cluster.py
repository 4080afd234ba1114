"""The GPUs of every node of a running Ray cluster. Ray itself is only imported in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from precpatch.errors import UserError
from precpatch.gpu.cluster import Cluster, Node, make_cluster
from precpatch.gpu.nvidia_smi import NoGpuError, ProbeError
from precpatch.gpu.probe import (
    Completed,
    Host,
    MissingProgramError,
    commands_of,
    read_host,
    script,
)

CONNECT_SECONDS = 20.0
_COMMAND_SECONDS = 30.0
_ANSWER_SECONDS = 60.0
# For starting Python, importing Ray from a slow disk, and leaving the cluster.
_SPARE_SECONDS = 60.0

_LONGEST_REASON = 300


def probe_ray(address: str = "auto", via: str = "auto", *, host: Host | None = None) -> Cluster:
    """The GPUs of every living node of the Ray cluster at ``address``; a task that reserves nothing asks each.

    Args:
        address: what ``ray.init`` takes for a running cluster: "auto" (the one of this machine, or RAY_ADDRESS),
            "HOST:PORT" of the head node, or "ray://HOST:PORT".
        via: "auto", "driver" or "nvidia-smi".
        host: runs the process that asks; this host where it is None.

    Raises:
        UserError: Ray is not installed, no cluster answers in ``CONNECT_SECONDS``, or ``make_cluster`` refuses the
            nodes, since one did not answer or none has a GPU.
    """
    if via == "torch":
        raise UserError("--via torch does not go with --ray: torch is not asked on the nodes; leave --via out")
    if address.strip() in ("", "local"):
        raise UserError(f"--ray {address!r} is no running cluster; give auto, or HOST:PORT of the head node")
    answers = _ask(address.strip(), via, host or Host())
    nodes = [_read_node(answer, via) for answer in answers]
    return make_cluster("ray", sorted(nodes, key=lambda node: (node.hostname, node.node_id or "")))


def _ask(address: str, via: str, host: Host) -> list[dict[str, Any]]:
    """What the process says about each node."""
    request = {
        "address": address,
        "commands": commands_of(via),
        "python": sys.executable,
        "connect_seconds": CONNECT_SECONDS,
        "command_seconds": _COMMAND_SECONDS,
        "answer_seconds": _ANSWER_SECONDS,
    }
    command = [sys.executable, "-c", script("query_ray.py"), json.dumps(request)]
    try:
        done = host.run(command, CONNECT_SECONDS + _ANSWER_SECONDS + _SPARE_SECONDS)
    except ProbeError as error:
        raise UserError(f"--ray {address}: {error}") from None
    try:
        found = json.loads(done.stdout.strip().rpartition("\n")[2])
        nodes, kind = found.get("nodes"), found.get("kind")
    except (ValueError, AttributeError):
        raise UserError(f"--ray {address}: {_brief(done.stderr) or 'Ray ended without an answer'}") from None
    if kind or not nodes:
        raise UserError(_refusal(address, kind, _brief(found.get("error", "the cluster has no living node"))))
    return list(nodes)


def _refusal(address: str, kind: str | None, reason: str) -> str:
    """The one line for a cluster that was not asked."""
    if kind == "missing":
        return f"--ray needs Ray ({reason}): pip install 'precpatch[ray]', in the version that the cluster runs"
    if kind == "connect":
        return (
            f"--ray {address}: no Ray cluster could be joined ({reason}); run it on a node of the cluster, with auto "
            "or HOST:PORT of the head node"
        )
    return f"--ray {address}: {reason}"


def _read_node(answer: Mapping[str, Any], via: str) -> Node:
    """What the answer of one node means; read as the GPUs of this host are."""
    hostname, node_id, promised = str(answer["hostname"]), str(answer["node_id"]), int(answer["ray_gpus"])
    if "error" in answer:
        return Node(hostname, node_id, error=_brief(answer["error"]))
    host = Host(run=_Recorded(answer["runs"]), environ=answer["environ"], torch_installed=lambda: False)
    try:
        found = read_host(via, host)
    except NoGpuError as error:
        if promised:
            return Node(hostname, node_id, error=f"{_promise(promised)}, but {error}")
        return Node(hostname, node_id, notes=(str(error),))
    except ProbeError as error:
        return Node(hostname, node_id, error=str(error))
    return Node(hostname, node_id, found.via, found.gpus, (*found.notes, *_count_notes(promised, len(found.gpus))))


def _count_notes(promised: int, found: int) -> tuple[str, ...]:
    """A note where Ray was told of another number of GPUs."""
    return () if promised == found else (f"{_promise(promised)}, and {found} could be read",)


def _promise(gpus: int) -> str:
    return f"Ray was told of {gpus} GPU{'' if gpus == 1 else 's'} there"


class _Recorded:
    """Answers commands with what they printed on a node; one that was not run there counts as not installed."""

    def __init__(self, runs: Sequence[Mapping[str, Any]]) -> None:
        self._runs = {tuple(run["command"]): run for run in runs}

    def __call__(self, command: Sequence[str], timeout: float) -> Completed:
        run = self._runs.get(tuple(command), {"missing": True})
        program = Path(command[0]).name
        if run.get("missing"):
            raise MissingProgramError(f"{program} is not installed")
        if "failed" in run:
            raise ProbeError(f"{program} {run['failed']}")
        return Completed(run["returncode"], run["stdout"], run["stderr"])


def _brief(text: str) -> str:
    """``text`` on one line, cut where it is long."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."
