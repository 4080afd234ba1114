"""Putting the nodes of a cluster together, without a cluster."""

import json

import pytest

from precpatch.errors import UserError
from precpatch.gpu.capability import derive
from precpatch.gpu.cluster import (
    Node,
    cluster_document,
    cluster_target,
    make_cluster,
    merge_files,
    nodes_with,
    read_nodes,
)
from precpatch.gpu.resolve import resolve_target

P40 = derive("Tesla P40", (6, 1), source="driver", memory_bytes=24 << 30)
P100 = derive("Tesla P100-PCIE-16GB", (6, 0), source="nvidia-smi", memory_bytes=16 << 30)
A100 = derive("NVIDIA A100-SXM4-80GB", (8, 0), source="driver", memory_bytes=80 << 30)
STRANGE = derive("Strange Card", None, source="nvidia-smi")

HEAD = Node("head", "h" * 56, notes=("the host has no CUDA driver library",))
BIG = Node("big", "b" * 56, "driver", (A100, A100))
OLD = Node("old", "c" * 56, "driver", (P40,), ("look here",))


def test_the_weakest_gpu_of_all_nodes_decides():
    cluster = make_cluster("ray", [HEAD, BIG, OLD])
    target = cluster_target(cluster)
    assert (target.name, target.dtype, target.attention) == ("p40", "float32", "eager")
    assert nodes_with(cluster, target.capability) == "old (cccccccc)"
    assert cluster_target(make_cluster("ray", [HEAD, BIG])).name == "a100"


def test_no_fact_is_better_than_on_any_node():
    target = cluster_target(make_cluster("files", [OLD, Node("p", gpus=(P100,))]), dtype="float16")
    assert (target.name, target.dtype, target.ask("fast_fp16")) == ("p100", "float16", False)


def test_many_nodes_are_counted():
    nodes = [Node(f"n{number}", gpus=(P40,)) for number in range(5)]
    assert nodes_with(make_cluster("files", nodes), P40) == "n0, n1, n2, and 2 more"


def test_a_node_that_could_not_be_read_leaves_the_weakest_unknown():
    nodes = [BIG, OLD, Node("dark", "d" * 56, error="no answer in 60 s"), Node("odd", gpus=(STRANGE, STRANGE))]
    with pytest.raises(UserError) as caught:
        make_cluster("ray", nodes)
    assert str(caught.value) == (
        "the weakest GPU of the cluster cannot be known, 2 of 4 nodes could not be read: dark (dddddddd): no answer in "
        "60 s; odd: the compute capability of 'Strange Card' is unknown"
    )


def test_a_cluster_without_a_gpu_decides_nothing():
    with pytest.raises(
        UserError, match=r"none of the 2 nodes .* head \(hhhhhhhh\): the host has no CUDA driver library; x"
    ):
        make_cluster("ray", [HEAD, Node("x")])


def test_document_round_trip(tmp_path):
    cluster = make_cluster("ray", [HEAD, BIG, OLD])
    document = json.loads(json.dumps(cluster_document(cluster, cluster_target(cluster))))
    assert (document["version"], document["kind"], document["via"]) == (1, "gpu-cluster", "ray")
    nodes = read_nodes(document, "file.json")
    assert [(node.hostname, node.node_id, len(node.gpus), node.notes) for node in nodes] == [
        (node.hostname, node.node_id, len(node.gpus), node.notes) for node in cluster.nodes
    ]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(document))
    target = resolve_target(str(file), dtype="float16")
    assert (target.name, target.dtype, target.capability.source) == ("p40", "float16", "file")


def document_with(**changes):
    return cluster_document(make_cluster("ray", [OLD]), cluster_target(make_cluster("ray", [OLD]))) | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "reads version 1"),
        ({"kind": "findings"}, "not the output of"),
        ({"nodes": []}, "lists no node"),
        ({"nodes": {}}, "lists no node"),
        ({"nodes": [5]}, "lists no node"),
        ({"nodes": [{"hostname": "a", "gpus": []}]}, "lists no GPU"),
        ({"nodes": [{"gpus": []}]}, "a node without a hostname"),
        ({"nodes": [{"hostname": "a", "node_id": 5, "gpus": []}]}, "an id that is not a text"),
        ({"nodes": [{"hostname": "a"}]}, "GPUs or notes of node 'a'"),
        ({"nodes": [{"hostname": "a", "gpus": [5]}]}, "GPUs or notes of node 'a'"),
        ({"nodes": [{"hostname": "a", "gpus": [], "notes": "x"}]}, "GPUs or notes of node 'a'"),
        ({"nodes": [{"hostname": "a", "gpus": [{"name": "x", "compute_capability": "new"}]}]}, "'new' is not"),
    ],
)
def test_what_is_not_a_cluster(tmp_path, changes, message):
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(document_with(**changes)))
    with pytest.raises(UserError, match=f"--target .*cluster.json: .*{message}"):
        resolve_target(str(file))
    with pytest.raises(UserError, match=f"--merge .*cluster.json: .*{message}"):
        merge_files([file])


def test_an_edited_cluster_cannot_claim_native_bf16(tmp_path):
    document = document_with()
    document["nodes"][0]["gpus"][0] |= {"bf16": "native"}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(document))
    assert not resolve_target(str(file)).native_bf16
