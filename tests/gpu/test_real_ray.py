"""`probe --ray` against a Ray cluster of three node processes on this machine, each with a nvidia-smi of its own.

Ray is an extra of precpatch. Without it this module is skipped on a laptop; in CI it has to be there.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec("ray") is None and not os.environ.get("CI"):
    pytest.skip("Ray is not installed (pip install 'precpatch[ray]')", allow_module_level=True)

from ray.cluster_utils import Cluster

from precpatch.errors import UserError
from precpatch.gpu import ray_cluster
from precpatch.gpu.resolve import resolve_target

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the nvidia-smi of the nodes is a shell script")

A100 = "0, NVIDIA A100-SXM4-80GB, 8.0, 81920 MiB, GPU-aa"
MIXED = "0, Tesla P40, 6.1, 24576 MiB, GPU-bb\n1, Tesla T4, 7.5, 15360 MiB, GPU-cc"
NONE = "No devices were found"


def environ_of(folder: Path, rows: str, **variables: str) -> dict[str, str]:
    """The environment of a node whose nvidia-smi prints ``rows``."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{rows}\nEND\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **variables}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the nodes have their programs."""
    return tmp_path_factory.mktemp("nodes")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    """A head node without a GPU, a node with an A100, and one that shows Ray the second of its two cards."""
    head = {"num_cpus": 0, "num_gpus": 0, "env_vars": environ_of(folder / "head", NONE)}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=0, num_gpus=1, env_vars=environ_of(folder / "a", A100))
    mixed = environ_of(folder / "b", MIXED, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    made.add_node(num_cpus=0, num_gpus=1, env_vars=mixed)
    yield made
    made.shutdown()


def probe(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """`precpatch probe --ray` by nvidia-smi, whatever this machine has, in an environment that hides its GPUs."""
    command = [sys.executable, "-m", "precpatch", "probe", "--ray", "--via", "nvidia-smi", *arguments]
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": ""} | variables
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environ)


def test_every_node_is_asked_and_the_weakest_decides(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    done = probe(cluster.address, "--format", "json", "--output", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    document = json.loads(file.read_text())
    found = {tuple(gpu["name"] for gpu in node["gpus"]): node for node in document["nodes"]}
    assert found.keys() == {(), ("NVIDIA A100-SXM4-80GB",), ("Tesla T4",)}
    assert len({node["node_id"] for node in found.values()}) == 3
    assert "No devices were found" in found[()]["notes"][0]
    assert resolve_target(str(file)).describe() == document["target"]
    assert document["target"]["name"] == "t4"


def test_without_an_address_the_running_cluster_is_found(cluster: Cluster) -> None:
    done = probe(RAY_ADDRESS=cluster.address)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("node ") == 3
    assert "3 nodes, 2 GPUs; the weakest decides: Tesla T4 in " in done.stdout


def test_a_node_that_hangs_is_named(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_COMMAND_SECONDS", 5.0)
    (folder / "b" / "nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(UserError, match=r"1 of 3 nodes could not be read: .*nvidia-smi gave no answer in 5 s"):
        ray_cluster.probe_ray(cluster.address, "nvidia-smi")


def test_an_address_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "CONNECT_SECONDS", 2.0)
    with pytest.raises(UserError, match=r"--ray 127.0.0.1:1: no Ray cluster could be joined \(no answer in 2 s\)"):
        ray_cluster.probe_ray("127.0.0.1:1")
