"""The guard on real PyTorch on the CPU: every way that bf16 comes in trips, and float32 does not.

torch is an extra of precpatch. Without it this module is skipped on a laptop; in CI it has to be there.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("torch is not installed (pip install 'precpatch[torch]')", allow_module_level=True)

WAYS = """
    import multiprocessing
    import os
    import signal
    import subprocess
    import sys
    import threading

    import torch
    from torch import nn


    def literal():
        return torch.tensor([1.0, 2.0], dtype=torch.bfloat16)


    def arithmetic(values):
        return values * 2


    def half():
        return torch.ones(2, dtype=torch.float16)


    def default_dtype():
        torch.set_default_dtype(torch.bfloat16)
        try:
            return nn.Linear(2, 2)
        finally:
            torch.set_default_dtype(torch.float32)


    def train(model, batch, optimizer, dtype=None):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = model(batch).float().pow(2).mean()
        loss.backward()
        optimizer.step()


    def network():
        return nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))


    def autocast():
        model = network()
        forward = torch.randn(4, 8)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(forward).sum()
        loss.backward()


    def float32_training():
        model = network()
        for optimizer in torch.optim.AdamW(model.parameters()), torch.optim.SGD(model.parameters(), momentum=0.9):
            train(model, torch.randn(4, 8), optimizer)


    def float32_sharded():
        sharded(torch.float32)


    def bf16_sharded():
        sharded(torch.bfloat16)


    def sharded(dtype):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        model = network()
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)), mp_policy=MixedPrecisionPolicy(param_dtype=dtype))
        train(model, torch.randn(4, 8), torch.optim.AdamW(model.parameters()))


    def save():
        torch.save({"weight": torch.ones(8, 8, dtype=torch.bfloat16)}, "checkpoint.pt")


    def checkpoint_in_float32():
        weight = torch.load("checkpoint.pt")["weight"][1:].to(torch.float32)
        layer = nn.Linear(8, 7)
        layer.load_state_dict({"weight": torch.load("checkpoint.pt")["weight"][1:], "bias": torch.zeros(7)})
        return layer(weight).sum().item()


    def checkpoint_in_bf16():
        weight = torch.load("checkpoint.pt")["weight"]
        return weight @ weight


    def optimizer_state():
        weight = nn.Parameter(torch.load("checkpoint.pt")["weight"])
        weight.grad = weight.detach()
        torch.optim.AdamW([weight]).step()


    def on_meta():
        return nn.Linear(8, 8, device="meta", dtype=torch.bfloat16)(torch.ones(1, 8, device="meta").bfloat16())


    def ask():
        return torch.cuda._check_bf16_tensor_supported(torch.device("cpu"))


    def in_thread():
        return torch.ones(2).to(torch.bfloat16)


    def in_fork():
        torch.ones(2).to(torch.bfloat16)


    def in_spawn():
        torch.ones(2).to(torch.bfloat16)
        os.kill(os.getpid(), signal.SIGKILL)


    @torch.compile(fullgraph=True)
    def compiled(values):
        return values + 1


    def call_compiled():
        return compiled(torch.ones(2)), torch.compile(nn.Linear(2, 2))(torch.ones(1, 2))


    def other_backend():
        return torch.compile(lambda values: values + 1, backend="eager", fullgraph=True)(torch.ones(2))


    def process(method, work):
        child = multiprocessing.get_context(method).Process(target=work)
        child.start()
        child.join()


    def main():
        for work in literal, half, default_dtype, autocast, float32_training, on_meta, ask:
            work()
        call_compiled()
        other_backend()
        arithmetic(literal())
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
        save()
        for work in checkpoint_in_float32, checkpoint_in_bf16, optimizer_state:
            work()
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        float32_sharded()
        bf16_sharded()
        torch.distributed.destroy_process_group()
        process("fork", in_fork)
        process("spawn", in_spawn)
        print(torch.cuda.get_device_capability(), torch.cuda.get_device_name(), torch.cuda.is_available())


    if __name__ == "__main__":
        main()
"""

CLEAN = {"float32_training", "float32_sharded", "checkpoint_in_float32", "on_meta", "ask", "other_backend", "half"}


@pytest.fixture(scope="module")
def ways(run_in: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> object:
    """All the ways in one program, on a P40 that torch.cuda knows of."""
    return run_in(tmp_path_factory.mktemp("ways"), WAYS, "--target", "p40", "--pretend")


@pytest.mark.parametrize(
    ("function", "operator", "phase"),
    [
        ("literal", "aten::lift_fresh", "forward"),
        ("arithmetic", "aten::mul", "forward"),
        ("default_dtype", "aten::empty", "forward"),
        ("autocast", "aten::addmm", "forward"),
        ("autocast", "aten::mm", "backward"),
        ("checkpoint_in_bf16", "aten::mm", "forward"),
        ("optimizer_state", "aten::zeros_like", "optimizer"),
        ("in_thread", "aten::_to_copy", "forward"),
        ("in_fork", "aten::_to_copy", "forward"),
        ("in_spawn", "aten::_to_copy", "forward"),
        ("call_compiled", "torch.compile", "forward"),
    ],
)
def test_it_trips(ways: object, function: str, operator: str, phase: str) -> None:
    sites = ways.sites(function)
    assert any(operator in site["operators"] and phase in site["phases"] for site in sites), sites
    assert all(site["path"] == "main.py" and site["count"] > 0 for site in sites)


def test_the_fsdp_policy_trips_only_in_bf16(ways: object) -> None:
    stacks = [" ".join(site["stack"]) for site in ways.report["sites"] if "fsdp" in " ".join(site["stack"])]
    assert stacks
    assert all("bf16_sharded" in stack for stack in stacks)


def test_float32_and_loads_do_not_trip(ways: object) -> None:
    reached = {row.split()[-1] for site in ways.report["sites"] for row in site["stack"]}
    assert not reached & CLEAN
    assert ways.report["summary"]["loads"] > 0


def test_a_compiled_function_says_where_it_was_compiled(ways: object) -> None:
    by_line = {site["compiled_at"]["line"]: site["count"] for site in ways.sites("call_compiled")}
    assert len(by_line) == 2
    assert set(by_line.values()) == {1}


def test_it_covers_the_process_tree(ways: object) -> None:
    processes = ways.report["processes"]
    assert len({process["pid"] for process in processes}) == 3
    assert all(process["torch"] for process in processes)


def test_torch_pretends_to_see_the_target(ways: object) -> None:
    assert ways.out.strip() == "(6, 1) Tesla P40 False"
    assert ways.code == 1
    assert ways.report["exit_code"] == 0


def test_with_nothing_to_watch_for_torch_only_pretends(guard: Callable[..., object]) -> None:
    """Functions are compiled then, so that what refuses the target's compute capability does."""
    script = """
        import torch
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        def backend(graph, inputs):
            print("compiled")
            return graph.forward

        torch.compile(lambda values: values.bfloat16() + 1, backend=backend)(torch.ones(2))
        print(torch.cuda.get_device_capability(), _get_current_dispatch_mode())
    """
    done = guard(script, "--target", "p40", "--pretend", "--allow", "bfloat16,torch.compile,triton")
    assert (done.code, done.out) == (0, "compiled\n(6, 1) None\n")


PRODUCTS = """
    import torch
    from torch.nn import functional

    one = torch.ones(1, 3, 4, 4, requires_grad=True)
    torch.mm(one[0, 0], one[0, 1]).sum().backward()
    torch.bmm(one[0], one[0])
    torch.addmm(one[0, 0].double(), one[0, 0].double(), one[0, 1].double())
    functional.linear(one[0, 0], one[0, 1])
    functional.conv2d(one, torch.ones(1, 3, 2, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.baddbmm(one[0], one[0], one[0])
        functional.linear(one[0, 0], one[0, 1])
    torch.mm(torch.ones(2, 2, device="meta"), torch.ones(2, 2, device="meta"))
    functional.scaled_dot_product_attention(one, one, one).sum().backward()
    torch.softmax(one, -1)
    torch.compile(lambda values: values + 1)(one)
"""


def test_what_it_computed_in(guard: Callable[..., object]) -> None:
    summary = guard(PRODUCTS, "--target", "v100").report["summary"]
    assert summary["matmuls"] == {"float32": 6, "float64": 1, "bfloat16": 2}
    kernel = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert summary["attention"] == {kernel: 1, f"{kernel}_backward": 1}
    assert summary["compiled_calls"] == 1


WORKER = """
    import os
    import torch
    import torch.distributed as dist

    def reduce(dtype):
        values = torch.ones(2).to(dtype)
        dist.all_reduce(values)

    dist.init_process_group("gloo")
    reduce(torch.float32)
    if os.environ.get("HALF"):
        reduce(torch.bfloat16)
    dist.destroy_process_group()
"""

TORCHRUN = ("{python}", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "main.py")


def test_collectives_of_torchrun_workers(guard: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALF", "1")
    done = guard(WORKER, "--target", "p40", command=TORCHRUN)
    site = next(site for site in done.sites("reduce") if "c10d::allreduce_" in site["operators"])
    assert (site["count"], site["processes"], site["phases"]) == (2, 2, {"collective": 2})
    assert done.code == 1


MODEL = """
    import torch

    @torch.compile
    def compiled(values):
        return values + 1

    def load():
        return torch.zeros(2, dtype=torch.uint8).view(torch.bfloat16).float()

    def forward(values):
        return values.to(torch.bfloat16)

    compiled(load())
    print("before")
    forward(torch.ones(2))
    print("after")
"""


def test_raise_stops_at_the_first_trip_and_names_the_finding(guard: Callable[..., object]) -> None:
    done = guard(MODEL, "--target", "v100", "--mode", "raise", "--checkout", ".")
    assert done.out == "before\n"
    assert "precpatch guard: aten::_to_copy makes a bfloat16 tensor at main.py:12; Tesla V100 cannot" in done.err
    (site,) = done.report["sites"]
    assert (site["path"], site["line"], site["function"]) == ("main.py", 12, "forward")
    (finding,) = site["mended_by"]["findings"]
    assert (site["mended_by"]["nearness"], finding["line"], finding["after"]) == ("line", 12, "torch.float32")
    assert done.report["kernels"] == []


def test_strict_trips_on_loads_and_allow_lets_them_be(guard: Callable[..., object]) -> None:
    done = guard(MODEL, "--target", "p40", "--strict", "--forbid", "float16", "--allow", "torch.compile,triton")
    assert done.report["forbidden"] == ["bfloat16", "float16"]
    assert {site["function"] for site in done.report["sites"]} == {"load", "forward"}
    assert set(done.sites("load")[0]["kinds"]) == {"load"}
    assert done.out == "before\nafter\n"


TRITON = """
    import sys
    from triton.runtime.jit import JITFunction
    import torch

    def launch():
        JITFunction().run(torch.ones(2), grid=(1,))

    def launch_bf16():
        JITFunction().run(torch.zeros(2, dtype=torch.uint8).view(torch.bfloat16), grid=(1,))

    launch()
    launch_bf16()
"""


@pytest.mark.parametrize(("target", "functions"), [("p40", {"launch", "launch_bf16"}), ("v100", {"launch_bf16"})])
def test_triton_launches(guard: Callable[..., object], tmp_path: Path, target: str, functions: set[str]) -> None:
    folder = tmp_path / "triton" / "runtime"
    folder.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("")
    (folder / "__init__.py").write_text("")
    (folder / "jit.py").write_text(
        "class JITFunction:\n    __name__ = 'add'\n    def run(self, *args, **kwargs): ...\n"
    )
    done = guard(TRITON, "--target", target)
    assert {site["function"] for site in done.report["sites"]} == functions
    assert all("triton::add" in site["operators"] for site in done.report["sites"])


FOREIGN = """
    import ctypes
    import torch

    def in_foreign_thread(_):
        torch.nn.Linear(1, 1)(torch.ones(1, 1)).to(torch.bfloat16)
        return 0

    body = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(in_foreign_thread)
    libc, thread = ctypes.CDLL(None), ctypes.c_ulong()
    libc.pthread_create(ctypes.byref(thread), None, body, None)
    libc.pthread_join(thread, None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the thread is made with Linux's pthread_create")
def test_a_thread_that_python_did_not_start(guard: Callable[..., object]) -> None:
    assert guard(FOREIGN, "--target", "p40").sites("in_foreign_thread")


ENDINGS = """
    import ctypes, os, signal, sys
    import torch

    def work():
        torch.ones(2, 2) @ torch.ones(2, 2)
        torch.ones(2).to(torch.bfloat16)

    def execute():
        work()
        os.execv(sys.executable, [sys.executable, "-c", "import torch; torch.ones(2, 2) @ torch.ones(2, 2)"])

    def close_files():
        os.closerange(3, 256)
        work()

    def go_elsewhere():
        os.chdir("/")
        work()

    ends = {
        "exit": lambda: (work(), os._exit(0)),
        "kill": lambda: (work(), os.kill(os.getpid(), signal.SIGKILL)),
        "crash": lambda: (work(), ctypes.string_at(0)),
        "execute": execute, "close_files": close_files, "go_elsewhere": go_elsewhere,
    }
    work()
    for end in ends.values():
        if not os.fork():
            end()
            os._exit(0)
        os.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it forks")
def test_counts_are_whole_whatever_ends_a_process(guard: Callable[..., object]) -> None:
    done = guard(ENDINGS, "--target", "p40")
    (site,) = done.sites("work")
    assert (site["count"], site["processes"], site["path"]) == (7, 7, "main.py")
    assert done.report["summary"]["matmuls"] == {"float32": 8}


PLACES = """
    import torch
    for line in range(4200):
        exec(compile("\\n" * line + "values.mul(2)", "generated", "exec"), {"values": BF16})
    torch.ones(2, 2) @ torch.ones(2, 2)
""".replace("BF16", "torch.zeros(4, dtype=torch.uint8).view(torch.bfloat16)")


def test_more_places_than_can_be_told_apart_are_counted_in_one(guard: Callable[..., object]) -> None:
    report = guard(PLACES, "--target", "p40").report
    assert report["summary"]["trips"] == 4200
    assert report["sites"][-1]["path"] == "<more>"
    assert len(report["sites"]) < 4200
    assert report["summary"]["matmuls"] == {"float32": 1}


DELETED = """
    import json, os, shutil
    import torch
    shutil.rmtree(json.loads(os.environ["PRECPATCH_GUARD"])["folder"])
    torch.ones(2).to(torch.bfloat16)
"""


def test_a_deleted_journal_is_not_a_clean_run(guard: Callable[..., object]) -> None:
    done = guard(DELETED, "--target", "p40")
    assert (done.code, done.report) == (2, {})
    assert "No such file or directory" in done.err
    assert "the command deleted" in done.err
    assert done.err.count("\n") == 2


def test_raise_reaches_the_user_out_of_a_backward_pass(guard: Callable[..., object]) -> None:
    script = """
        import torch
        values = torch.ones(2, requires_grad=True)
        doubled = values * 2
        doubled.register_hook(lambda values: values.to(torch.bfloat16).float())
        doubled.sum().backward()
        print("after")
    """
    done = guard(script, "--target", "p40", "--mode", "raise")
    assert (done.code, done.out, done.report["exit_code"]) == (1, "", 1)
    assert "PrecisionError: precpatch guard: aten::_to_copy makes a bfloat16 tensor at main.py:5" in done.err


RAY = """
    import ray
    import torch

    @ray.remote
    class Worker:
        def multiply(self):
            return [torch.ones(2, 2) @ torch.ones(2, 2) for _ in range(5)][0].sum().item()

        def in_thread(self):
            return torch.ones(2).to(torch.bfloat16).float().sum().item()

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.get(Worker.remote().multiply.remote())
    ray.get(Worker.options(max_concurrency=2).remote().in_thread.remote())
"""


@pytest.mark.skipif(importlib.util.find_spec("ray") is None and not os.environ.get("CI"), reason="Ray is not installed")
def test_ray_actors_are_watched_in_their_threads_and_raise_in_the_driver(guard: Callable[..., object]) -> None:
    done = guard(RAY, "--target", "p40", "--mode", "raise")
    (site,) = done.sites("in_thread")
    assert (site["count"], site["processes"]) == (1, 1)
    assert done.report["summary"]["matmuls"] == {"float32": 5}
    assert (done.code, done.report["exit_code"]) == (1, 1)
    assert "PrecisionError: precpatch guard: aten::_to_copy makes a bfloat16 tensor at " in done.err
