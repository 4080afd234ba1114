"""Every further way in which bfloat16 comes in trips, and what only looks like one does not; on real PyTorch.

A function of the program whose name begins with ``clean`` must not trip, any other must.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Callable
from textwrap import dedent

import pytest

if importlib.util.find_spec("torch") is None and not os.environ.get("CI"):
    pytest.skip("torch is not installed (pip install 'precpatch[torch]')", allow_module_level=True)

PROGRAM = """
    import copy
    import traceback
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.checkpoint import checkpoint

    BF16 = torch.bfloat16


    def stored(count=4):
        "A bf16 tensor as a checkpoint gives it."
        return torch.zeros(2 * count, dtype=torch.uint8).view(BF16)


    def grid():
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        return distribute_tensor(torch.ones(4, 4), init_device_mesh("cpu", (1,)), [Shard(0)])


    def module_to(): nn.Linear(2, 2).to(BF16)
    def module_bfloat16(): nn.Linear(2, 2).bfloat16()
    def tensor_type(): torch.ones(2).type("torch.BFloat16Tensor")
    def tensor_class(): torch.BFloat16Tensor(2).fill_(1)
    def dtype_of_a_function(): torch.softmax(torch.ones(2), -1, dtype=BF16)
    def dtype_of_a_sum(): torch.ones(2).sum(dtype=BF16)
    def like(): torch.ones_like(torch.ones(2), dtype=BF16)
    def copy_into(): stored().copy_(torch.ones(4))
    def foreach_copy_into(): torch._foreach_copy_([torch.ones(4), stored()], [stored(), torch.ones(4)])
    def loaded_weights():
        layer = nn.Linear(2, 2, device="meta")
        layer.load_state_dict({"weight": stored().view(2, 2), "bias": stored(2)}, assign=True)
        layer(stored(2))


    def inference():
        with torch.inference_mode():
            torch.ones(2).to(BF16)


    def inference_autocast():
        with torch.inference_mode(), torch.autocast("cpu", dtype=BF16):
            functional.linear(torch.ones(2, 8), torch.ones(3, 8))


    def scripted():
        @torch.jit.script
        def script(values):
            return values.to(torch.bfloat16) * 2
        script(torch.ones(2))


    def traced():
        trace = torch.jit.trace(lambda values: values.to(BF16) * 2, torch.ones(2))
        trace(torch.ones(2))


    def gradient_of_a_function():
        torch.func.grad(lambda values: values.to(BF16).float().sum())(torch.ones(3))


    def vectorised(): torch.vmap(lambda values: values.to(BF16))(torch.ones(3, 3))


    def custom_backward():
        class Half(torch.autograd.Function):
            @staticmethod
            def forward(context, values):
                return values * 1
            @staticmethod
            def backward(context, gradient):
                return gradient.to(BF16).float()
        Half.apply(torch.ones(2, requires_grad=True)).sum().backward()


    def recomputed():
        for reentrant in True, False:
            values = torch.ones(2, requires_grad=True)
            checkpoint(lambda each: each.to(BF16).float(), values, use_reentrant=reentrant).sum().backward()


    def nested():
        for layout in torch.jagged, torch.strided:
            torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=layout).to(BF16)


    def sparse(): torch.eye(3).to_sparse().to(BF16)
    def dtensor(): grid().to(BF16) @ grid().to(BF16)


    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))


    def mode_of_the_user():
        with Mode():
            torch.ones(2).to(BF16)


    def generate():
        model = nn.Linear(4, 4)
        with torch.no_grad(), torch.autocast("cpu", dtype=BF16):
            state = torch.ones(1, 4)
            for _ in range(3):
                state = model(state)


    def compiled_module():
        module = nn.Linear(2, 2)
        module.compile()
        module(torch.ones(1, 2))


    class Model:
        def method(self, values):
            return values + 1


    def compiled_method(): torch.compile(Model().method)(torch.ones(2))
    def compiled_by_compiler(): torch.compiler.compile(Model().method)(torch.ones(2))


    def compiled_by_dynamo():
        import torch._dynamo
        torch._dynamo.optimize("inductor")(Model().method)(torch.ones(2))


    def autocast_without_its_gpu():
        with torch.autocast("cuda", dtype=BF16):
            torch.ones(2) * 2


    def autocast_decorator(): torch.autocast(device_type="cuda", dtype=BF16)(lambda: torch.ones(2) * 2)()


    def sharded(dtype):
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
        policy = MixedPrecision(param_dtype=dtype, reduce_dtype=dtype, buffer_dtype=dtype)
        model = FullyShardedDataParallel(nn.Linear(8, 1), device_id=torch.device("cpu"), mixed_precision=policy)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 8)).float().sum().backward()
        optimizer.step()


    def fsdp1(): sharded(BF16)
    def all_reduce(): dist.all_reduce(stored())
    def all_gather(): dist.all_gather([stored()], stored())
    def all_gather_into(): dist.all_gather_into_tensor(stored(), stored())
    def reduce_scatter(): dist.reduce_scatter_tensor(stored(), stored())
    def broadcast(): dist.broadcast(stored(), 0)


    def functional_collective():
        from torch.distributed import _functional_collectives as collectives
        collectives.all_reduce(stored(), "sum", [0]).wait()


    def clean_fsdp1(): sharded(torch.float32)


    def clean_ddp():
        nn.parallel.DistributedDataParallel(nn.Linear(4, 4))(torch.ones(1, 4)).sum().backward()


    def clean_questions():
        torch.finfo(BF16), torch.ones(2).dtype == BF16, torch.promote_types(BF16, torch.float32)
        torch.cuda.is_bf16_supported(), torch.empty(0, dtype=BF16), torch.autocast("cuda", dtype=BF16)
        stored().is_pinned(), stored().tolist(), stored().device, stored().is_contiguous(), stored().detach_()


    def clean_copies():
        stored().clone().float(), stored().to("cpu", copy=True).double(), copy.deepcopy(stored()).float()
        stored().view(2, 2).t().contiguous().float(), torch.ones(4).copy_(stored())
        torch._foreach_copy_([torch.ones(4)], [stored()])
        with torch.inference_mode():
            stored().to("cpu", copy=True).float(), stored().float(), stored().contiguous()


    def clean_scaler():
        weight = nn.Parameter(torch.ones(2))
        scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD([weight])
        scaler.scale((weight * 2).sum()).backward()
        scaler.step(optimizer)
        scaler.update()


    def clean_autocast():
        for device, dtype, enabled in ("cuda", BF16, False), ("cuda", torch.float32, True), ("cpu", BF16, False):
            with torch.autocast(device, dtype=dtype, enabled=enabled):
                nn.Linear(2, 2)(torch.ones(1, 2))


    def clean_recomputed():
        values = torch.ones(2, requires_grad=True)
        checkpoint(lambda each: each * 2, values, use_reentrant=False).sum().backward()


    def clean_traces():
        assert torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))(torch.ones(1, 2)).shape == (1, 2)
        torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),)).module()(torch.ones(1, 2))


    def clean_model():
        nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()(torch.ones(1, 4, 8))
        nn.LSTM(4, 4)(torch.ones(2, 1, 4))
        with torch.inference_mode():
            nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()(torch.ones(1, 4, 8))
            torch.einsum("bi,bj->ij", torch.ones(2, 3), torch.ones(2, 3))


    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    for name in NAMES:
        try:
            globals()[name]()
        except Exception:
            print(name, traceback.format_exc())
"""

_HELPERS = {"stored", "grid", "sharded"}
_FUNCTIONS = [each.name for each in ast.parse(dedent(PROGRAM)).body if isinstance(each, ast.FunctionDef)]
NAMES = [name for name in _FUNCTIONS if name not in _HELPERS]


@pytest.fixture(scope="module")
def ways(run_in: Callable[..., object], tmp_path_factory: pytest.TempPathFactory) -> object:
    """The program on a P40."""
    return run_in(tmp_path_factory.mktemp("ways"), PROGRAM.replace("NAMES", repr(NAMES)), "--target", "p40")


def _reached(ways: object) -> set[str]:
    return {row.split()[-1] for site in ways.report["sites"] for row in site["stack"]}


def test_every_way_runs_as_without_the_guard(ways: object) -> None:
    assert ways.out == ""


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("clean")])
def test_it_trips(ways: object, name: str) -> None:
    assert name in _reached(ways)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("clean")])
def test_it_does_not_trip(ways: object, name: str) -> None:
    assert name not in _reached(ways)


def test_what_a_gpu_would_do_in_an_autocast_region_is_a_kind_of_its_own(ways: object) -> None:
    (site,) = ways.sites("autocast_without_its_gpu")
    assert site["kinds"] == {"autocast": 1}
    assert site["operators"] == {"torch.autocast for cuda, off without it": 1}
