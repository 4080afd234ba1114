# ruff: noqa: E501 (one row a case is easier to read than a wrapped one)
"""What Python code asks of the machine first: its capability, kept under a name; whether it is another one; the CPU."""

from __future__ import annotations

import pytest

from precpatch.engine.finding import REPORT, REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))
CC = "torch.cuda.get_device_capability()"


def acts(code: str) -> bool:
    """Whether something is rewritten or reported."""
    found = file_findings("m.py", ("import torch\n" + code).encode(), P40)
    return any(each.verdict in {REWRITE, REPORT} for each in found)


CHOICE = "\nd = torch.bfloat16 if A else torch.float32"

ANSWERED = [
    f"A = {CC}[0] >= 8{CHOICE}",
    f"A = {CC} >= (8, 0)\nif A:\n    d = torch.bfloat16",
    f"A: bool = {CC}[0] >= 8{CHOICE}",
    f"c, _ = {CC}\n" + "".join(f"a_{n} = c_{n}\n" for n in range(250)) + f"A = c >= 8{CHOICE}",
    f"c = {CC}\n" + "".join(f"a_{n} = c_{n}\n" for n in range(250)) + f"A = c[0] >= 8{CHOICE}",
    f"A = B = {CC}[0] >= 8{CHOICE}",
    f"A = not {CC}[0] < 8{CHOICE}",
    f"A = torch.cuda.is_available() and {CC}[0] >= 8{CHOICE}",
    f"A = torch.cuda.is_bf16_supported(including_emulation=False){CHOICE}",
    f"A = torch.cuda.get_device_properties(0).major >= 8{CHOICE}",
    f"OLD = {CC}[0] < 8\nd = torch.float32 if OLD else torch.bfloat16",
    f"c = {CC}\nd = torch.bfloat16 if c[0] >= 8 else torch.float32",
    f"cc = {CC}[0]\nd = torch.bfloat16 if cc >= 8 else torch.float32",
    f"high, low = {CC}\nd = torch.bfloat16 if high >= 8 else torch.float32",
    f"major, _ = {CC}\nA = major >= 8{CHOICE}",
    f"cc = {CC}[0]\nA = cc >= 8{CHOICE}",
    f"high, _ = {CC}\ndef ampere():\n    return high >= 8\nd = torch.bfloat16 if ampere() else torch.float32",
    f"name = torch.cuda.get_device_name()\nA = 'A100' in name{CHOICE}",
    f"if (A := {CC}[0] >= 8):\n    d = torch.bfloat16",
    f"class C:\n    def __init__(self):\n        self.ok = {CC}[0] >= 8\n    def f(self):\n        return torch.bfloat16 if self.ok else torch.float32",
    f'def ampere():\n    """Is it one?"""\n    return {CC}[0] >= 8\nd = torch.bfloat16 if ampere() else torch.float32',
    f"def f():\n    A = {CC}[0] >= 8\n    if not A:\n        return torch.float32\n    return torch.bfloat16",
    f"def f():\n    cap = {CC}\n    if cap[0] < 8:\n        return torch.float32\n    return torch.bfloat16",
    f'A = {CC}[0] >= 8\ncfg.attn_implementation = "flash_attention_2" if A else "eager"',
]


@pytest.mark.parametrize("code", ANSWERED)
def test_a_name_that_holds_the_capability_guards(code: str) -> None:
    assert not acts(code)


NO_ANSWER = {
    "another threshold": f"A = {CC}[0] >= 7{CHOICE}",
    "the other branch": f"A = {CC}[0] >= 8\nd = torch.float32 if A else torch.bfloat16",
    "another number": f"A = cfg.layers >= 8{CHOICE}",
    "two values": f"A = {CC}[0] >= 8\nA = True{CHOICE}",
    "nothing asks it": f"A = {CC}[0] >= 8\nd = torch.bfloat16",
    "emulation counts": f"A = torch.cuda.is_bf16_supported(){CHOICE}",
    "or something else": f"A = {CC}[0] >= 8 or force{CHOICE}",
    "a parameter of that name": f"A = {CC}[0] >= 8\ndef f(A):\n    return torch.bfloat16 if A else torch.float32",
    "only a message": f'if {CC}[0] < 8:\n    print("slow")\nd = torch.bfloat16',
}


@pytest.mark.parametrize("code", NO_ANSWER.values(), ids=NO_ANSWER)
def test_a_name_that_holds_something_else_does_not(code: str) -> None:
    assert acts(code)


ELSEWHERE = [
    *('device == "cpu"', 'device.type == "cpu"', "x.is_cpu", "not x.is_cuda", "not torch.cuda.is_available()"),
    *('device == torch.device("cpu")', 'device in ("cpu", "mps")', "torch.backends.mps.is_available()"),
    *("torch.xpu.is_available()", "torch.version.hip", "torch.version.hip is not None"),
    *('sys.platform == "darwin"', '"A100" in torch.cuda.get_device_name()', 'socket.gethostname() == "node-7"'),
    *('torch.cuda.get_device_name(0).startswith("NVIDIA H100")', 'hostname.startswith("h100")'),
]


@pytest.mark.parametrize("test", ELSEWHERE)
def test_a_branch_for_the_cpu_or_another_machine_stays(test: str) -> None:
    assert not acts(f"if {test}:\n    d = torch.bfloat16")
    assert acts(f"if not ({test}):\n    d = torch.bfloat16")
    assert acts(f"if {test} or force:\n    d = torch.bfloat16")
    assert not acts(f"elsewhere = {test}\nif elsewhere:\n    d = torch.bfloat16")


@pytest.mark.parametrize(
    "test", ['device != "cpu"', 'device in ("cpu", "cuda")', "offload_to_cpu", 'offload == "cpu"', 'name == "cuda:0"']
)
def test_a_branch_that_may_be_the_gpu_does_not(test: str) -> None:
    assert acts(f"if {test}:\n    d = torch.bfloat16")


def test_autocast_of_the_cpu_stays() -> None:
    for region in ('torch.autocast("cpu", ', 'torch.autocast(device_type="cpu", ', "torch.cpu.amp.autocast("):
        assert not acts(f"with {region}dtype=torch.bfloat16): ...")
    for region in ('torch.autocast("cuda", ', "torch.autocast(device_type=device, ", "torch.cuda.amp.autocast("):
        assert acts(f"with {region}dtype=torch.bfloat16): ...")
