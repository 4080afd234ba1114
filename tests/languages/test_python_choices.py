"""Names of dtypes in Python that are asked of a table, of an enum, or given as a switch or as an optimizer."""

from __future__ import annotations

import pytest

from precpatch.engine.finding import REPORT, REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))
TABLE = "import torch\nT = {'bf16': torch.bfloat16, 'fp32': torch.float32}\n"
HALVES = TABLE.replace("'fp32': torch.float32", "'fp16': torch.float16")


def told(code: str) -> list[tuple[str, str, str | None]]:
    """What is rewritten or reported."""
    found = file_findings("m.py", code.encode(), P40)
    return [(each.verdict, each.mention.text, each.after) for each in found if each.verdict in {REWRITE, REPORT}]


ASKED = [
    *(
        'def f(d=T["bf16"]): ...',
        'd = T["bf16"]',
        'run(dtype=T["bf16"])',
        'd = T.get("bf16")',
        'd = T.get(n, T["bf16"])',
    ),
    *(
        'x = x.to(T["bf16"])',
        'with torch.autocast("cuda", T["bf16"]): ...',
        'kw = {"dtype": T["bf16"]}',
        'd = T[n or "bf16"]',
    ),
    *('def f():\n    return T["bf16"]', 'N = "bf16"\nd = T[N]', 'def f(n="bf16"):\n    return T.get(n)'),
]


@pytest.mark.parametrize("code", ASKED)
def test_what_a_table_is_asked_for(code: str) -> None:
    assert told(TABLE + code) == [(REWRITE, '"bf16"', '"fp32"')]
    assert told(HALVES + code) == [(REPORT, '"bf16"', None)], "the table does not know the target's dtype"


@pytest.mark.parametrize(
    "code",
    [
        'x.dtype == T["bf16"]',
        'print(T["bf16"])',
        'del T["bf16"]',
        'size = SIZES["bf16"]',
        'd = T["fp32"]',
        'd = cfg.get("bf16")',
    ],
)
def test_what_no_table_of_the_file_is_asked_for_a_choice(code: str) -> None:
    assert told(TABLE + code) == []


MEMBERS = [
    *("def f(p=Precision.BF16): ...", "class C:\n    p: Precision = Precision.BF16", "cfg.precision = Precision.BF16"),
    *("run(dtype=lib.DType.BFLOAT16)", "d = given or DType.bf16", 'kw = {"dtype": DType.BF16}'),
    "def f():\n    return DType.BF16",
]


@pytest.mark.parametrize("code", MEMBERS)
def test_a_member_of_an_enum_that_decides(code: str) -> None:
    assert [(verdict, text.upper()[:2]) for verdict, text, _ in told(code)] == [(REPORT, "BF")]


@pytest.mark.parametrize(
    "code",
    [
        *("x == Precision.BF16", "x in (Precision.BF16, Precision.FP32)", "names = {Precision.BF16: 1}", "Kind.BF16()"),
        *("match x:\n    case Precision.BF16:\n        pass", "kind = gguf.GGMLQuantizationType.BF16"),
    ],
)
def test_a_member_of_an_enum_that_does_not(code: str) -> None:
    assert told(code) == []


SWITCHES = [
    *("args.bf16 = True", 'args["bf16"] = True', "self.use_bf16 = True", "args.bf16: bool = True", "bf16 = True"),
    *('kw = {"bf16": True, "fp16": False}', 'run(**{"bf16": True})', 'kw = {"args": {"bf16": True}}'),
]


@pytest.mark.parametrize("code", SWITCHES)
def test_a_switch_that_is_set(code: str) -> None:
    assert [verdict for verdict, *_ in told(code)] == [REPORT]
    assert told(code.replace("True", "False")) == []


@pytest.mark.parametrize(
    "code",
    [
        *(
            'add_argument("--bf16", action="store_true")',
            'p.add_argument("-b", "--bf16")',
            "if args.bf16:\n    args.bf16 = True",
        ),
        *('CAN = {"bf16": True, "fp32": True}', "args.bf16 == True", "print(bf16=True)"),
    ],
)
def test_a_switch_that_is_declared_or_asked_for(code: str) -> None:
    assert told(code) == []
