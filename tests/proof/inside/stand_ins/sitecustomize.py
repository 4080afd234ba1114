"""Lets a verl tree run on a machine without any accelerator. Found first by every Python process of a run.

verl knows the device name "cpu" and no such platform: its engines register for cuda and npu, its process group is
nccl, and torch.cpu lacks much of what torch.cuda has. This fills those gaps from outside. It touches no file of verl,
no dtype, no attention setting and no kernel.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

CPU = "cpu"


class DeviceId(str):
    """The id of the device: "cpu" where verl hands it on, "0" where verl formats "{device}:{id}"."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return "0"


DEVICE_ID = DeviceId(CPU)


def nothing(*args: Any, **kwargs: Any) -> None:
    """What an accelerator is told and a CPU need not do."""


def zero(*args: Any, **kwargs: Any) -> int:
    """How much memory of an accelerator is in use."""
    return 0


def fill_torch_cpu(torch: Any) -> None:
    """Give torch.cpu the functions of torch.cuda."""
    allocator = type("memory", (), {"_set_allocator_settings": staticmethod(nothing)})
    answers = {
        **dict.fromkeys(("empty_cache", "ipc_collect", "reset_peak_memory_stats"), nothing),
        **dict.fromkeys(("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"), zero),
        **dict.fromkeys(("manual_seed", "manual_seed_all"), torch.manual_seed),
        "mem_get_info": lambda *_: (1 << 34, 1 << 34),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "get_device_name": lambda *_: CPU,
        "get_device_capability": lambda *_: (0, 0),
        "memory": allocator,
        "random": torch.cpu,
    }
    for name, answer in answers.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, answer)
    # FSDP pins what it offloads to the CPU.
    torch.Tensor.pin_memory = lambda self, device=None: self


def use_gloo(distributed: Any) -> None:
    """Answer every wish for a process group with gloo."""
    real = distributed.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return real("gloo", *args, **kwargs)

    distributed.init_process_group = distributed.distributed_c10d.init_process_group = init_process_group


def let_fsdp_broadcast(utils: Any) -> None:
    """FSDP1 refuses to broadcast tensors of the CPU from rank 0."""
    utils._check_module_states_for_sync_module_states = nothing


def name_the_device(device: Any) -> None:
    """verl.utils.device, up to 0.8."""
    if hasattr(device, "get_platform"):
        return
    device.get_nccl_backend = lambda: "gloo"
    device.get_device_name = lambda: CPU
    device.get_device_id = lambda: DEVICE_ID
    if hasattr(device, "get_resource_name"):
        device.get_resource_name = lambda: "GPU"


def add_platform(module: Any) -> None:
    """verl.plugin.platform.platform_cuda, from 0.9 on."""
    import torch
    from verl.plugin.platform.platform_manager import PlatformRegistry

    class CpuPlatform(module.PlatformCUDA):
        """The platform of verl for CUDA, on the CPU."""

        device_name = CPU
        device_module = torch.cpu

        def is_available(self) -> bool:
            return True

        def is_platform_available(self, use_smi_check: bool = False) -> bool:
            return True

        def current_device(self) -> DeviceId:
            return DEVICE_ID

        def device_count(self) -> int:
            return 1

        def communication_backend_name(self) -> str:
            return "gloo"

        def is_ipc_supported(self) -> bool:
            return False

        @contextmanager
        def nvtx_range(self, msg: str) -> Any:
            yield

        set_device = synchronize = set_allocator_settings = empty_cache = nothing
        profiler_start = profiler_stop = get_collective_module = nothing
        manual_seed = manual_seed_all = staticmethod(torch.manual_seed)

    PlatformRegistry._platforms[CPU] = CpuPlatform
    os.environ["VERL_PLATFORM"] = CPU


def register_engines(module: Any) -> None:
    """Register the engines that verl has for cuda for the CPU as well."""
    real = module.EngineRegistry.register.__func__

    def register(cls: Any, model_type: Any, backend: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> Any:
        devices = device if isinstance(device, list) else [device]
        return real(cls, model_type, backend, [*devices, CPU] if "cuda" in devices else device, *args, **kwargs)

    module.EngineRegistry.register = classmethod(register)


def offer_resources(ray: Any) -> None:
    """main_ppo asks Ray for a GPU, or for a resource by the name of the device."""
    real = ray.init

    def init(*args: Any, **kwargs: Any) -> Any:
        if "address" not in kwargs and not args:
            kwargs.setdefault("num_gpus", 1)
            kwargs.setdefault("include_dashboard", False)
            kwargs["resources"] = {CPU: 8, **(kwargs.get("resources") or {})}
        return real(*args, **kwargs)

    ray.init = init


def set_timing(module: Any) -> None:
    """verl 0.4 with HF rollout reads an attribute that nothing sets."""
    if not hasattr(module.BaseShardingManager, "timing"):
        module.BaseShardingManager.timing = {}


def stand_in_for_images() -> None:
    """verl 0.6 to 0.8 import this package at the top of a module, and use it for images only."""
    if find_spec("qwen_vl_utils") is None:
        module = ModuleType("qwen_vl_utils")
        vars(module).update(fetch_image=None, fetch_video=None)
        sys.modules["qwen_vl_utils"] = module


def stand_in() -> None:
    """Fill the gaps once the modules that have them are imported."""
    from precpatch_guard.imports import after_import

    if os.environ.get("PROOF_DEVICE") == CPU:
        after_import("torch", fill_torch_cpu)
        after_import("torch.distributed", use_gloo)
        after_import("torch.distributed.fsdp._init_utils", let_fsdp_broadcast)
        after_import("ray", offer_resources)
        after_import("verl.utils.device", name_the_device)
        after_import("verl.plugin.platform.platform_cuda", add_platform)
        after_import("verl.workers.engine.base", register_engines)
    after_import("verl.workers.sharding_manager.base", set_timing)
    stand_in_for_images()


# The guard itself and the making of the data are started with this file on their path too.
if find_spec("precpatch_guard"):
    stand_in()
