"""The scripts that run in processes of their own, with a fake CUDA library and a fake torch."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from precpatch.gpu import query_driver, query_torch

ATTRIBUTES = {8: 49152, 75: 7, 76: 5, 81: 65536, 97: 65536}


class FakeLibrary:
    """The CUDA driver of a host with one Tesla T4."""

    def __init__(self, init=0, count=1, missing=()):
        self.init, self.count, self.missing = init, count, missing

    def cuInit(self, flags):  # noqa: N802
        return self.init

    def cuDeviceGetCount(self, count):  # noqa: N802
        count._obj.value = self.count
        return 0

    def cuDeviceGet(self, device, index):  # noqa: N802
        device._obj.value = index
        return 0

    def cuDeviceGetName(self, buffer, length, device):  # noqa: N802
        buffer.value = b"Tesla T4"
        return 0

    def cuDeviceTotalMem_v2(self, memory, device):  # noqa: N802
        memory._obj.value = 15 << 30
        return 0

    def cuDeviceGetAttribute(self, value, number, device):  # noqa: N802
        if number in self.missing:
            return 1
        value._obj.value = ATTRIBUTES[number]
        return 0

    def cuDeviceGetUuid(self, raw, device):  # noqa: N802
        raw._obj[:] = bytes(range(16))
        return 0


def test_the_driver_tells_everything():
    assert query_driver.answer(FakeLibrary()) == {
        "gpus": [
            {
                "index": 0,
                "name": "Tesla T4",
                "memory_bytes": 15 << 30,
                "uuid": "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
                "shared_memory_per_block": 49152,
                "major": 7,
                "minor": 5,
                "shared_memory_per_sm": 65536,
                "shared_memory_per_block_optin": 65536,
            }
        ]
    }


def test_an_attribute_that_an_old_driver_does_not_know():
    (gpu,) = query_driver.read_gpus(FakeLibrary(missing=(97,)))
    assert gpu["shared_memory_per_block_optin"] is None


class MigLibrary(FakeLibrary):
    """The CUDA driver of a process that sees a MIG instance; ``second`` is the newer call for the UUID."""

    def __init__(self, second=True):
        super().__init__()
        if second:
            self.cuDeviceGetUuid_v2 = self.instance_uuid

    def cuDeviceGetName(self, buffer, length, device):  # noqa: N802
        buffer.value = b"NVIDIA A100-SXM4-40GB MIG 1g.5gb"
        return 0

    def instance_uuid(self, raw, device):
        raw._obj[:] = bytes(range(16, 32))
        return 0


@pytest.mark.parametrize(("second", "prefix"), [(True, "MIG-10111213"), (False, "GPU-00010203")])
def test_a_mig_instance_has_a_uuid_of_its_own_where_the_driver_tells_it(second, prefix):
    (gpu,) = query_driver.read_gpus(MigLibrary(second))
    assert gpu["uuid"].startswith(prefix)


@pytest.mark.parametrize(
    ("library", "message", "no_gpu"),
    [
        (None, "no CUDA driver library", True),
        (FakeLibrary(init=100), "cuInit answered 100 (no CUDA device is visible)", True),
        (FakeLibrary(init=803), "cuInit answered 803 (the driver and its library have different versions)", False),
        (FakeLibrary(init=4711), "cuInit answered 4711 (see CUresult in cuda.h)", False),
    ],
)
def test_a_driver_that_refuses(library, message, no_gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(query_driver, "KERNEL_DRIVER", str(tmp_path / "version"))
    answer = query_driver.answer(library)
    assert message in answer["error"]
    assert answer["no_gpu"] == no_gpu


def test_a_container_that_was_started_without_the_gpu(monkeypatch, tmp_path):
    (tmp_path / "version").touch()
    monkeypatch.setattr(query_driver, "KERNEL_DRIVER", str(tmp_path / "version"))
    answer = query_driver.answer(None)
    assert "docker run --gpus all" in answer["error"]
    assert answer["no_gpu"] is False


def test_the_library_is_also_looked_for_where_wsl_has_it(monkeypatch):
    def load(name):
        if name != "/usr/lib/wsl/lib/libcuda.so.1":
            raise OSError(name)
        return name

    monkeypatch.setattr(query_driver.sys, "platform", "linux")
    monkeypatch.setattr(query_driver.ctypes, "CDLL", load)
    assert query_driver.load_library() == "/usr/lib/wsl/lib/libcuda.so.1"


def test_the_driver_script_runs_on_any_host():
    script = Path(query_driver.__file__).read_text(encoding="utf-8")
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout).keys() <= {"gpus", "error", "no_gpu"}


def fake_torch(*, cuda="12.6", devices=1, bf16=True, **properties):
    known = {"name": "Tesla T4", "major": 7, "minor": 5, "total_memory": 15 << 30, **properties}

    def is_bf16_supported():
        if bf16 is None:
            raise RuntimeError("no kernel image is available")
        return bf16

    return SimpleNamespace(
        __version__="2.6.0",
        version=SimpleNamespace(cuda=cuda),
        cuda=SimpleNamespace(
            is_available=lambda: devices > 0,
            device_count=lambda: devices,
            is_bf16_supported=is_bf16_supported,
            get_device_properties=lambda index: SimpleNamespace(**known),
        ),
    )


def test_an_old_torch_tells_no_shared_memory():
    (gpu,) = query_torch.answer(fake_torch())["gpus"]
    assert (gpu["name"], gpu["major"], gpu["minor"], gpu["torch_bf16"]) == ("Tesla T4", 7, 5, True)
    assert gpu["shared_memory_per_block_optin"] is None
    assert gpu["uuid"] is None


def test_a_newer_torch_does():
    torch = fake_torch(uuid="00-11", shared_memory_per_block_optin=65536, shared_memory_per_multiprocessor=65537)
    (gpu,) = query_torch.answer(torch)["gpus"]
    assert gpu["uuid"] == "GPU-00-11"
    assert (gpu["shared_memory_per_block_optin"], gpu["shared_memory_per_sm"]) == (65536, 65537)


def test_a_torch_that_cannot_say_whether_it_supports_bf16():
    (gpu,) = query_torch.answer(fake_torch(bf16=None))["gpus"]
    assert gpu["torch_bf16"] is None


def test_the_answer_of_torch_takes_no_gpu_memory():
    torch = fake_torch(devices=2)
    cards = [(8, 0), (6, 1)]
    asked = []

    def trial(device):
        raise AssertionError("a tensor was made on the GPU")

    def is_bf16_supported():
        index = torch.cuda.current_device()
        asked.append(index)
        return cards[index] >= (8, 0) or torch.cuda._check_bf16_tensor_supported(index)

    torch.cuda.is_bf16_supported = is_bf16_supported
    torch.cuda._check_bf16_tensor_supported = trial
    assert [gpu["torch_bf16"] for gpu in query_torch.answer(torch)["gpus"]] == [True, True]
    assert asked == [0, 1]


@pytest.mark.parametrize(
    ("torch", "message"),
    [(fake_torch(cuda=None), "built without CUDA"), (fake_torch(devices=0), "sees no CUDA device")],
)
def test_a_torch_without_a_gpu(torch, message):
    assert message in query_torch.answer(torch)["error"]


def test_the_torch_script_never_imports_from_the_current_folder(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('imported from the checkout')")
    script = Path(query_torch.__file__).read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    assert "torch failed: ModuleNotFoundError" in json.loads(done.stdout)["error"]
