"""The types of tensors and storages, which name a dtype as torch.bfloat16 does."""

from __future__ import annotations

import pytest

from tests.languages.patched import run

TYPES = [
    ("BFloat16Tensor", "FloatTensor"),
    ("BFloat16Storage", "FloatStorage"),
]
DECIDES = ["x.type({})", "x.to(y).type(dtype={})", "torch.set_default_tensor_type({})", "tensor_type = {}"]


@pytest.mark.parametrize("module", ["torch", "torch.cuda"])
@pytest.mark.parametrize(("old", "new"), TYPES)
@pytest.mark.parametrize("line", DECIDES)
def test_a_type_that_decides_becomes_that_of_the_target(line: str, old: str, new: str, module: str) -> None:
    for quote in ("", '"', "'"):
        code = "import torch\n" + line.format(f"{quote}{module}.{old}{quote}") + "\n"
        assert run("m.py", code).text == code.replace(old, new)


def test_a_type_through_another_name_of_its_module() -> None:
    code = "import torch as th\nimport torch.cuda as tc\na = th.BFloat16Tensor(2)\nb = x.type(tc.BFloat16Tensor)\n"
    assert run("m.py", code).text == code.replace("BFloat16Tensor", "FloatTensor")


def test_an_imported_type_is_reported_where_it_is_used() -> None:
    imports = "from torch import BFloat16Tensor\nfrom torch.cuda import BFloat16Tensor as T\n"
    code = f"{imports}x.type(BFloat16Tensor)\nx.type(T)\n"
    outcome = run("m.py", code)
    assert outcome.text == code
    assert outcome.reports == [(3, "dtype-unresolved"), (4, "dtype-unresolved")]


@pytest.mark.parametrize(
    "line",
    [
        'ok = x.type() == "torch.cuda.BFloat16Tensor"',
        "ok = isinstance(x, torch.cuda.BFloat16Tensor)",
        "HALF = (torch.BFloat16Tensor, torch.HalfTensor)",
        'SIZES = {"torch.cuda.BFloat16Tensor": 2}',
        "kind = torch.cuda.BFloat16Tensor if args.bf16 else torch.cuda.FloatTensor",
        "kind = mylib.BFloat16Tensor",
    ],
)
def test_a_type_that_is_asked_for_stays(line: str) -> None:
    outcome = run("m.py", f"import torch\n{line}\n")
    assert outcome.text == f"import torch\n{line}\n"
    assert outcome.reports == []
