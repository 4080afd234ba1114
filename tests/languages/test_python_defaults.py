"""Defaults by which Python chooses a precision or a kernel: of options, of parameters that a match asks, of enums."""

from __future__ import annotations

import pytest

from tests.languages.patched import run

ENUM = 'import enum\n\n\nclass Mode(enum.Enum):\n    BF16 = "bf16"\n    FP32 = "fp32"\n\n\n'


def rules(code: str) -> list[str]:
    return [rule for _, rule in run("m.py", code).reports]


@pytest.mark.parametrize(
    "option",
    [
        '@click.option("--bf16/--no-bf16", default=True)',
        '@click.option("--half/--no-half", "bf16", default=True)',
        'p.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True)',
        'p.add_argument("--bf16", action="store_true", default=True)',
        'p.add_argument("--bf16", type=str2bool, default="true")',
        'p.add_argument("--fp32", dest="bf16", action="store_false")',
        'p.add_argument("--no-bf16", dest="bf16", action="store_false", default=True)',
    ],
)
def test_an_option_that_is_on_for_whoever_says_nothing(option: str) -> None:
    code = f"{option}\ndef main(): ...\n" if option.startswith("@") else f"{option}\n"
    assert rules(code) == ["bf16-switch-in-call"]


@pytest.mark.parametrize(
    "option",
    [
        '@click.option("--bf16/--no-bf16", default=False)\ndef main(): ...',
        'p.add_argument("--no-bf16", dest="bf16", action="store_false", default=False)',
        'p.add_argument("--bf16", dest="bf16", action="store_true")',
        'p.add_argument("--bf16", type=str2bool, default="false")',
        'p.add_argument("--quiet", dest="verbose", action="store_false")',
    ],
)
def test_an_option_that_is_off(option: str) -> None:
    assert rules(f"{option}\n") == []


@pytest.mark.parametrize("value", ["true", "True", "yes"])
def test_the_default_of_an_option_as_a_text(value: str) -> None:
    code = f'p.add_argument("--flash_attn", type=str2bool, default="{value}")\n'
    new = {"true": "false", "True": "False", "yes": "no"}[value]
    assert run("m.py", code).text == code.replace(f'"{value}"', f'"{new}"')


@pytest.mark.parametrize("member", ['Mode["BF16"]', 'Mode("bf16")', 'Precision["bf16"]', 'MixedPrecision("bfloat16")'])
@pytest.mark.parametrize("line", ["def f(mode={}): ...", "class C:\n    mode: object = {}", "model = build(mode={})"])
def test_a_member_of_an_enum_by_its_name_or_its_value(line: str, member: str) -> None:
    assert rules(f"{ENUM}{line.format(member)}\n") == ["dtype-member"]


@pytest.mark.parametrize(
    "line", ['ok = mode == Mode["BF16"]', 'LABELS = {Mode("bf16"): "half"}', 'x: Float["bf16"] = y']
)
def test_a_member_that_is_only_asked_for(line: str) -> None:
    assert rules(f"{ENUM}{line}\n") == []


@pytest.mark.parametrize(
    "table",
    ['{"bf16": torch.bfloat16, "fp32": torch.float32}', "dict(bf16=torch.bfloat16, fp32=torch.float32)"],
)
def test_a_table_that_is_asked_on_the_spot(table: str) -> None:
    code = f'import torch\nd = {table}["bf16"]\nmode = "bf16"\ne = {table}[mode]\n'
    assert run("m.py", code).text == code.replace('["bf16"]', '["fp32"]').replace('mode = "bf16"', 'mode = "fp32"')
    short = table.replace("32", "16")
    assert rules(f'import torch\nd = {short}["bf16"]\n') == ["dtype-table-key-unknown"]


MATCH = """\
import torch


def build(mode="bf16"):
    match mode:
        case "bf16":
            return torch.bfloat16
        {}
"""


@pytest.mark.parametrize(
    "case", ['case "fp32" | "float32":\n            return torch.float32', "case _:\n            return torch.float32"]
)
def test_a_match_that_knows_what_the_target_needs(case: str) -> None:
    code = MATCH.format(case)
    assert run("m.py", code).text == code.replace('mode="bf16"', 'mode="fp32"')


@pytest.mark.parametrize(
    "case", ['case "fp16":\n            return torch.float16', "case _:\n            raise ValueError(mode)"]
)
def test_a_match_without_a_case_for_the_target(case: str) -> None:
    outcome = run("m.py", MATCH.format(case))
    assert outcome.text == MATCH.format(case)
    assert outcome.reports == [(4, "value-not-allowed")]


def test_a_field_that_a_method_matches() -> None:
    code = """\
class C:
    dtype: str = "bfloat16"

    def torch_dtype(self):
        match self.dtype:
            case "bfloat16":
                return torch.bfloat16
            case "float16":
                return torch.float16
"""
    assert run("m.py", code).reports == [(2, "value-not-allowed")]
    known = code.replace("float16", "float32").replace("bfloat32", "bfloat16")
    assert run("m.py", known).text == known.replace('dtype: str = "bfloat16"', 'dtype: str = "float32"')


@pytest.mark.parametrize("kernel", ["FLASH_ATTENTION", "CUDNN_ATTENTION"])
@pytest.mark.parametrize(
    "line",
    [
        "with sdpa_kernel({}): ...",
        "with sdpa_kernel([{}]): ...",
        "with torch.nn.attention.sdpa_kernel(backends=({},)): ...",
        "KERNELS = [{}]",
        "kernel = {} if fast else None",
    ],
)
def test_a_kernel_that_is_the_only_one(line: str, kernel: str) -> None:
    code = line.format(f"SDPBackend.{kernel}") + "\n"
    assert run("m.py", code).text == code.replace(kernel, "MATH")


@pytest.mark.parametrize(
    "line",
    [
        "with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]): ...",
        "KERNELS = {SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION}",
        "ok = kernel == SDPBackend.FLASH_ATTENTION",
        'NAMES = {SDPBackend.FLASH_ATTENTION: "flash"}',
        "if torch.cuda.get_device_capability()[0] >= 8:\n    k = sdpa_kernel(SDPBackend.FLASH_ATTENTION)",
        "torch.backends.cuda.enable_flash_sdp(True)",
        "torch.backends.cuda.enable_math_sdp(True)",
        "with sdp_kernel(enable_flash=True): ...",
    ],
)
def test_a_kernel_beside_one_that_runs(line: str) -> None:
    outcome = run("m.py", f"{line}\n")
    assert (outcome.text, outcome.reports) == (f"{line}\n", [])


def test_the_plain_kernel_is_allowed_again() -> None:
    code = "with torch.backends.cuda.sdp_kernel(True, enable_math=False): ...\nenable_math_sdp(False)\n"
    assert run("m.py", code).text == code.replace("False", "True")


UNLESS = [
    ("self.bf16 = {}", "not self.fp16"),
    ("self.bf16 = {} if self.bf16 is None else self.bf16", "not (self.fp16)"),
    ("use_bf16 = {}", "not fp16"),
    ("args = Arguments(bf16={}, fp16=fp16)", "not fp16"),
    ('cfg = {{"bf16": {}, "fp16": args.fp16}}', "not args.fp16"),
    ('cfg["bf16"] = {}', 'not cfg["fp16"]'),
]


@pytest.mark.parametrize(("line", "test"), UNLESS)
def test_bf16_wherever_fp16_is_off(line: str, test: str) -> None:
    assert run("m.py", line.format(test) + "\n").text == line.format("False") + "\n"


@pytest.mark.parametrize("line", ["args.fp16 = not args.bf16", "args.bf16 = not args.cpu", "ok = not args.fp16"])
def test_another_switch_that_is_off(line: str) -> None:
    assert run("m.py", f"{line}\n").text == f"{line}\n"


@pytest.mark.parametrize("key", ["mixed_precision_param", "mixed_precision_reduce"])
def test_the_dtypes_of_a_training_section(key: str) -> None:
    code = f'training = Training(seq_len=8, {key}="bfloat16")\n'
    assert run("m.py", code).text == code.replace("bfloat16", "float32")
