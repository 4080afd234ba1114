"""`probe --ray` without Ray: what is asked, what the answers mean, and what is said where there is none."""

import json
import os
import subprocess
import sys

import pytest

from precpatch.errors import UserError
from precpatch.gpu import query_ray
from precpatch.gpu.nvidia_smi import OLD_QUERY, QUERY
from precpatch.gpu.probe import Completed, Host, ProbeError, commands_of, script
from precpatch.gpu.ray_cluster import probe_ray

DRIVER, *SMI = commands_of("auto")
P40 = {"index": 0, "name": "Tesla P40", "major": 6, "minor": 1, "memory_bytes": 24 << 30, "uuid": "GPU-1"}
NO_DRIVER = {"error": "the host has no CUDA driver library", "no_gpu": True}


def ran(command, stdout="", returncode=0):
    text = stdout if isinstance(stdout, str) else json.dumps(stdout)
    return {"command": command, "returncode": returncode, "stdout": text, "stderr": ""}


def node(name, *runs, ray_gpus=1, **environ):
    told = {"runs": list(runs), "environ": environ}
    return {"hostname": name, "node_id": name[0] * 56, "ray_gpus": ray_gpus} | told


def ray_that_says(found, asked=None):
    def run(command, timeout):
        if asked is not None:
            asked.append((command, timeout))
        return Completed(0, "Ray says hello\n" + json.dumps(found) + "\n")

    return Host(run=run)


def probed(*nodes, via="auto"):
    return probe_ray("head:6379", via, host=ray_that_says({"nodes": list(nodes)}))


def refused(*nodes):
    with pytest.raises(UserError) as caught:
        probed(*nodes)
    return str(caught.value)


WORKER = node("worker", ran(DRIVER, {"gpus": [P40]}), ray_gpus=1.0)
HEAD = node("head", ran(DRIVER, NO_DRIVER), *({"command": query, "missing": True} for query in SMI), ray_gpus=0)


def test_the_request_is_carried_to_a_process_of_its_own():
    asked = []
    probe_ray(" head:6379 ", host=ray_that_says({"nodes": [WORKER]}, asked))
    ((command, timeout),) = asked
    request = json.loads(command[-1])
    assert command[:3] == [sys.executable, "-c", script("query_ray.py")]
    assert (request["address"], request["commands"]) == ("head:6379", [DRIVER, *SMI])
    assert timeout > request["connect_seconds"] + request["answer_seconds"]


def test_ray_is_never_imported_here():
    code = "import sys, precpatch.cli.probe, precpatch.gpu.ray_cluster; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_nodes_come_in_the_order_of_their_names():
    cluster = probed(WORKER, HEAD)
    assert [(each.hostname, each.via, len(each.gpus)) for each in cluster.nodes] == [
        ("head", None, 0),
        ("worker", "driver", 1),
    ]
    assert "no CUDA driver library" in cluster.nodes[0].notes[0]


def test_an_old_driver_of_a_node_is_read_by_name():
    refusal = ran(SMI[0], 'Field "compute_cap" is not a valid field to query.\n', 2)
    old = node("old", ran(DRIVER, NO_DRIVER), refusal, ran(SMI[1], "0, Tesla P40, 24576 MiB, GPU-1\n"))
    (gpu,) = probed(old).gpus
    assert (SMI[0][1:], SMI[1][1:]) == (list(QUERY), list(OLD_QUERY))
    assert (gpu.compute_capability, gpu.source) == ((6, 1), "name")


def test_the_variable_of_the_node_hides_gpus_of_the_node():
    rows = ran(SMI[0], "0, Tesla P40, 6.1, 24576 MiB, GPU-1\n1, Tesla T4, 7.5, 15360 MiB, GPU-2\n")
    mixed = node("mixed", ran(DRIVER, NO_DRIVER), rows, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    cluster = probed(mixed)
    assert [gpu.name for gpu in cluster.gpus] == ["Tesla T4"]
    assert cluster.nodes[0].notes == ()


def test_another_number_of_gpus_than_ray_was_told_is_a_note():
    (only,) = probed(node("odd", ran(DRIVER, {"gpus": [P40]}), ray_gpus=8.0)).nodes
    assert only.notes == ("Ray was told of 8 GPUs there, and 1 could be read",)


@pytest.mark.parametrize(
    ("dark", "reason"),
    [
        ({"hostname": "dark", "node_id": "d" * 56, "ray_gpus": 0, "error": "no answer in 60 s"}, "no answer in 60 s"),
        (HEAD | {"hostname": "dark", "node_id": "d" * 56, "ray_gpus": 4}, "Ray was told of 4 GPUs there, but no GPU"),
        (node("dark", ran(DRIVER, {"error": "cuInit answered 803"})), "cuInit answered 803"),
        (node("dark", {"command": DRIVER, "failed": "gave no answer in 30 s"}), "gave no answer in 30 s"),
    ],
)
def test_a_node_that_cannot_be_read_is_named(dark, reason):
    message = refused(WORKER, dark)
    assert "1 of 2 nodes could not be read: dark (dddddddd): " in message
    assert reason in message


def test_a_cluster_without_a_gpu():
    assert "none of the 1 nodes of the cluster has a GPU: head (hhhhhhhh)" in refused(HEAD)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"error": "No module named 'ray'", "kind": "missing"}, r"--ray needs Ray .*pip install 'precpatch\[ray\]'"),
        (
            {"error": "no answer in 20 s", "kind": "connect"},
            r"--ray auto: no Ray cluster .*no answer in 20 s.*HOST:PORT",
        ),
        ({"error": "Version mismatch:\n  Ray: 2.9\n", "kind": "connect"}, r"\(Version mismatch: Ray: 2.9\)"),
        ({"error": "RaySystemError: x" + "y" * 999, "kind": "ray"}, r"--ray auto: RaySystemError: xy+\.\.\.$"),
        ({"nodes": []}, "no living node"),
        ([], "Ray ended without an answer"),
    ],
)
def test_a_cluster_that_was_not_asked(found, message):
    with pytest.raises(UserError, match=message):
        probe_ray(host=ray_that_says(found))


def test_a_process_that_dies_says_its_last_words():
    with pytest.raises(UserError, match="--ray auto: Check failed: gcs"):
        probe_ray(host=Host(run=lambda command, timeout: Completed(-6, "", "Check failed:\n gcs\n")))


def test_a_process_that_hangs_is_one_line():
    def run(command, timeout):
        raise ProbeError("python gave no answer in 140 s")

    with pytest.raises(UserError, match="--ray auto: python gave no answer"):
        probe_ray(host=Host(run=run))


def test_without_ray_the_message_says_how_to_get_it(tmp_path):
    """A folder called ray in the checkout is not taken for it."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "__init__.py").write_text("raise SystemExit('imported from the checkout')")
    command = [sys.executable, "-S", "-c", script("query_ray.py"), "{}"]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, timeout=60, check=True, cwd=tmp_path, env=environ)
    answer = Completed(0, done.stdout.decode())
    with pytest.raises(UserError, match=r"needs Ray \(No module named 'ray'\): pip install 'precpatch\[ray\]'"):
        probe_ray(host=Host(run=lambda command, timeout: answer))


class FakeRay:
    """A cluster whose nodes answer with what ``answers`` says: an exception, None for never, or a dictionary."""

    def __init__(self, answers):
        self.answers = answers
        self.left = False

    def nodes(self):
        dead = {"NodeID": "dead", "Alive": False}
        known = {"Alive": True, "NodeManagerHostname": "h", "Resources": {"GPU": 2.0}}
        return [dead, *({"NodeID": name} | known for name in self.answers)]

    def wait(self, tasks, num_returns, timeout):
        assert num_returns == len(self.answers)
        done = [task for task in tasks if self.answers[task] is not None]
        return done, [task for task in tasks if task not in done]

    def get(self, task):
        if isinstance(self.answers[task], Exception):
            raise self.answers[task]
        return self.answers[task]

    def shutdown(self):
        self.left = True


def test_every_living_node_is_asked_and_a_silent_one_is_said_to_be(monkeypatch):
    ray = FakeRay({"a": {"runs": []}, "b": None, "c": RuntimeError("node died")})
    monkeypatch.setattr(query_ray, "send", lambda ray, node_id, request: node_id)
    found = query_ray.ask_nodes(ray, {"answer_seconds": 60})
    assert ray.left
    assert [(each["node_id"], each.get("error")) for each in found] == [
        ("a", None),
        ("b", "no answer in 60 s"),
        ("c", "RuntimeError: node died"),
    ]
    assert found[0] == {"node_id": "a", "hostname": "h", "ray_gpus": 2.0, "runs": []}


REQUEST = {"python": "/other/python", "command_seconds": 60.0}


def test_on_the_node_the_first_command_that_tells_gpus_is_the_last():
    tell = ["/other/python", "-c", "print('hello'); print('{\"gpus\": [1]}')"]
    commands = [["/other/python", "-c", 'print(\'{"error": "x"}\')'], ["no-such-program"], tell, tell]
    runs = query_ray.ask_here(REQUEST | {"commands": commands})["runs"]
    assert [run["command"] for run in runs] == commands[:3]
    assert (runs[0]["returncode"], runs[1]["missing"], runs[2]["stdout"].split()[0]) == (0, True, "hello")


def test_on_the_node_a_command_that_hangs_or_cannot_start_is_said(tmp_path):
    slow = ["/other/python", "-c", "import time; time.sleep(60)"]
    assert query_ray.run(slow, {}, REQUEST | {"command_seconds": 0.1})["failed"] == "gave no answer in 0.1 s"
    assert "could not be started" in query_ray.run([str(tmp_path)], {}, REQUEST)["failed"]


@pytest.mark.parametrize(
    ("raylet", "own", "value"),
    [
        ((True, None), "", None),
        ((True, "1"), "", "1"),
        ((True, ""), "0", ""),
        ((False, None), "", None),
        ((False, None), "1", "1"),
        ((False, None), None, None),
    ],
)
def test_the_gpus_that_ray_hides_from_its_task_are_seen(monkeypatch, raylet, own, value):
    monkeypatch.setattr(query_ray, "variable_of_raylet", lambda name: raylet)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if own is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", own)
    assert query_ray.environ_of_node().get("CUDA_VISIBLE_DEVICES") == value


def test_a_parent_that_is_no_raylet_says_nothing():
    assert query_ray.variable_of_raylet("PATH") == (False, None)


def test_the_script_needs_ray_and_nothing_of_precpatch():
    assert "import precpatch" not in script("query_ray.py")
    assert "from precpatch" not in script("query_ray.py")
