"""Asks the CUDA driver about the GPUs, without any package and without a CUDA context.

``probe.py`` runs this file's text in a process of its own: after ``cuInit``, CUDA no longer works in the forked
children of a process. So it uses the standard library only. It prints one line of JSON: ``{"gpus": [...]}``, or
``{"error": "...", "no_gpu": bool}``, where ``no_gpu`` tells a host without a GPU from one whose GPU cannot be read.

Sources: attribute numbers and error numbers are those of cuda.h (``CUdevice_attribute``, ``CUresult``).
"""

import ctypes
import json
import os
import sys
from typing import Any

# The loader's own places, then WSL 2 and NixOS, where it does not look.
LIBRARIES = (
    "libcuda.so.1",
    "libcuda.so",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/run/opengl-driver/lib/libcuda.so.1",
)
WINDOWS_LIBRARIES = ("nvcuda.dll",)

# Written by the kernel's NVIDIA driver; containers see it even where they were started without the GPU.
KERNEL_DRIVER = "/proc/driver/nvidia/version"

NO_DEVICE = 100

ATTRIBUTES = {
    "shared_memory_per_block": 8,
    "major": 75,
    "minor": 76,
    "shared_memory_per_sm": 81,
    "shared_memory_per_block_optin": 97,
}

ERRORS = {
    3: "not initialized",
    34: "only the stub library of a CUDA toolkit was found",
    100: "no CUDA device is visible",
    101: "invalid device",
    803: "the driver and its library have different versions",
    804: "forward compatibility is not supported on this GPU",
    999: "unknown error",
}


class DriverError(Exception):
    """The driver refused a call; ``status`` is its error number."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} answered {status} ({ERRORS.get(status, 'see CUresult in cuda.h')})")
        self.status = status


def load_library() -> Any:
    """The CUDA driver library; None where the host has none."""
    for name in WINDOWS_LIBRARIES if sys.platform == "win32" else LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def read_gpus(library: Any) -> list[dict[str, Any]]:
    """Every GPU that the driver shows to this process; it obeys CUDA_VISIBLE_DEVICES.

    Raises:
        DriverError: the driver refused a call.
    """
    call(library, "cuInit", 0)
    count = ctypes.c_int()
    call(library, "cuDeviceGetCount", ctypes.byref(count))
    return [read_gpu(library, index) for index in range(count.value)]


def read_gpu(library: Any, index: int) -> dict[str, Any]:
    """One GPU: sizes in bytes, and None for an attribute that an old driver does not know."""
    device = ctypes.c_int()
    call(library, "cuDeviceGet", ctypes.byref(device), index)
    name = ctypes.create_string_buffer(256)
    call(library, "cuDeviceGetName", name, len(name), device)
    memory = ctypes.c_size_t()
    call(library, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    facts = {field: read_attribute(library, number, device) for field, number in ATTRIBUTES.items()}
    return {
        "index": index,
        "name": name.value.decode("utf-8", "replace"),
        "memory_bytes": memory.value,
        "uuid": read_uuid(library, device, is_mig=b" MIG " in name.value),
        **facts,
    }


def read_attribute(library: Any, number: int, device: Any) -> "int | None":
    """One device attribute; None where the driver does not know it."""
    value = ctypes.c_int()
    return value.value if library.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 else None


def read_uuid(library: Any, device: Any, *, is_mig: bool = False) -> "str | None":
    """The UUID of a GPU or MIG instance as nvidia-smi writes it; None where the driver does not tell.

    Only the second version of the call, from CUDA 11.4 on, tells the UUID of an instance and not that of its GPU.
    """
    raw = (ctypes.c_ubyte * 16)()
    newer = getattr(library, "cuDeviceGetUuid_v2", None)
    if (newer or library.cuDeviceGetUuid)(ctypes.byref(raw), device) != 0:
        return None
    digits = bytes(raw).hex()
    prefix = "MIG-" if is_mig and newer else "GPU-"
    return prefix + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def call(library: Any, function: str, *arguments: Any) -> None:
    """Calls the driver and raises DriverError for anything but success."""
    status = getattr(library, function)(*arguments)
    if status != 0:
        raise DriverError(function, status)


def answer(library: Any) -> dict[str, Any]:
    """The JSON object to print for ``library``; None stands for a host without the library."""
    if library is None:
        return without_library()
    try:
        return {"gpus": read_gpus(library)}
    except DriverError as error:
        return {"error": str(error), "no_gpu": error.status == NO_DEVICE}


def without_library() -> dict[str, Any]:
    """The JSON object to print where the library is not there."""
    if os.path.exists(KERNEL_DRIVER):
        error = (
            "the kernel runs the NVIDIA driver, but its library libcuda.so.1 is not here; start a container with "
            "the GPU and the capability compute (docker run --gpus all)"
        )
        return {"error": error, "no_gpu": False}
    return {"error": "the host has no CUDA driver library (libcuda.so.1, nvcuda.dll)", "no_gpu": True}


if __name__ == "__main__":
    print(json.dumps(answer(load_library())))
