"""Asks every node of a running Ray cluster about its GPUs.

``ray_cluster.py`` runs this file's text in a process of its own: Ray starts threads, prints as it likes, and can wait
for minutes for a cluster that is not there. It uses the standard library and Ray only; what runs on the nodes uses the
standard library only, so that precpatch need not be installed there. The request is one JSON object, the first
argument. It prints one line of JSON: ``{"nodes": [...]}``, or ``{"error": "...", "kind": "..."}`` with the kind
"missing" (there is no Ray), "connect" (no cluster answers) or "ray" (the cluster does not do what it was asked).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any


def main() -> None:
    """Answers the request. Ray is never imported from the current folder (it may be the checkout to patch)."""
    request = json.loads(sys.argv[1])
    here = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if entry and entry != here]
    # Under `uv run`, Ray would send the current folder to every node.
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    try:
        import ray
    except ModuleNotFoundError as error:
        finish({"error": str(error), "kind": "missing"})
    connect(ray, request)
    try:
        finish({"nodes": ask_nodes(ray, request)})
    except Exception as error:
        finish({"error": f"{type(error).__name__}: {error}", "kind": "ray"})


def finish(found: dict[str, Any]) -> None:
    """Prints ``found`` and ends the process, without waiting for Ray."""
    print("\n" + json.dumps(found), flush=True)
    os._exit(0)


def connect(ray: Any, request: dict[str, Any]) -> None:
    """Connects to the running cluster at ``address``, or ends the process after ``connect_seconds``."""
    silence = {"error": f"no answer in {request['connect_seconds']:g} s", "kind": "connect"}
    watch = threading.Timer(request["connect_seconds"], finish, [silence])
    watch.daemon = True
    watch.start()
    try:
        ray.init(address=request["address"], namespace="precpatch", log_to_driver=False, logging_level="ERROR")
    except BaseException as error:
        finish({"error": f"{type(error).__name__}: {error}", "kind": "connect"})
    watch.cancel()


def ask_nodes(ray: Any, request: dict[str, Any]) -> list[dict[str, Any]]:
    """What each living node answers, or why it does not; a task reserves no CPU and no GPU there."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    tasks = [send(ray, node["NodeID"], request) for node in nodes]
    done, _ = ray.wait(tasks, num_returns=len(tasks), timeout=request["answer_seconds"])
    answers = [answer_of(ray, task, done, request) for task in tasks]
    ray.shutdown()
    return [describe(node) | answer for node, answer in zip(nodes, answers, strict=True)]


def send(ray: Any, node_id: str, request: dict[str, Any]) -> Any:
    """Starts ``ask_here`` on one node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
    task = ray.remote(num_cpus=0, num_gpus=0, max_retries=0)(ask_here)
    return task.options(name="precpatch probe", scheduling_strategy=there).remote(request)


def answer_of(ray: Any, task: Any, done: list[Any], request: dict[str, Any]) -> dict[str, Any]:
    """The answer of one task, or ``{"error": "..."}``."""
    if task not in done:
        return {"error": f"no answer in {request['answer_seconds']:g} s"}
    try:
        answer: dict[str, Any] = ray.get(task)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return answer


def describe(node: dict[str, Any]) -> dict[str, Any]:
    """What Ray knows about a node."""
    return {
        "node_id": node["NodeID"],
        "hostname": node.get("NodeManagerHostname") or node.get("NodeManagerAddress") or "",
        "ray_gpus": node.get("Resources", {}).get("GPU", 0),
    }


def ask_here(request: dict[str, Any]) -> dict[str, Any]:
    """On the node: runs the commands in order, until one tells the GPUs as JSON; says what each one printed."""
    environ = environ_of_node()
    runs: list[dict[str, Any]] = []
    for command in request["commands"]:
        runs.append(run(command, environ, request))
        if tells_gpus(runs[-1].get("stdout", "")):
            break
    variables = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return {"runs": runs, "environ": {name: environ[name] for name in variables if name in environ}}


def environ_of_node() -> dict[str, str]:
    """The environment with CUDA_VISIBLE_DEVICES as the node was started with.

    Ray hides every GPU from a task that reserves none. The raylet, which starts the task's process, still has the
    value; where it cannot be read, an empty one counts as Ray's own and is left out.
    """
    environ = dict(os.environ)
    own = environ.pop("CUDA_VISIBLE_DEVICES", None)
    found, value = variable_of_raylet("CUDA_VISIBLE_DEVICES")
    visible = value if found else (own or None)
    return environ if visible is None else environ | {"CUDA_VISIBLE_DEVICES": visible}


def variable_of_raylet(name: str) -> tuple[bool, str | None]:
    """Whether the raylet's environment could be read, and the variable's value there."""
    folder = f"/proc/{os.getppid()}"
    try:
        with open(f"{folder}/comm") as file:
            if file.read().strip() != "raylet":
                return False, None
        with open(f"{folder}/environ", errors="replace") as file:
            pairs = dict(entry.partition("=")[::2] for entry in file.read().split("\0"))
    except OSError:
        return False, None
    return True, pairs.get(name)


def run(command: list[str], environ: dict[str, str], request: dict[str, Any]) -> dict[str, Any]:
    """One finished command, or why it did not finish; the asking host's Python stands for the node's own."""
    import subprocess

    program = sys.executable if command[0] == request["python"] else command[0]
    seconds = request["command_seconds"]
    told: dict[str, Any] = {"command": command}
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            check=False,
            env=environ,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
        )
    except FileNotFoundError:
        return told | {"missing": True}
    except subprocess.TimeoutExpired:
        return told | {"failed": f"gave no answer in {seconds:g} s"}
    except OSError as error:
        return told | {"failed": f"could not be started: {error}"}
    streams = {"stdout": done.stdout.decode("utf-8", "replace"), "stderr": done.stderr.decode("utf-8", "replace")}
    return told | {"returncode": done.returncode} | streams


def tells_gpus(stdout: str) -> bool:
    """True where the last line is JSON that lists GPUs, as the driver's query prints it."""
    try:
        return bool(json.loads(stdout.strip().rpartition("\n")[2])["gpus"])
    except (ValueError, TypeError, KeyError):
        return False


if __name__ == "__main__":
    main()
