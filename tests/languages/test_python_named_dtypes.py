"""Dtypes that Python takes out of torch by a name in a text: looked up, imported on the spot, in code that is run."""

from __future__ import annotations

import pytest

from tests.languages.patched import run

LOOKS_UP = [
    'vars(torch)["bfloat16"]',
    'torch.__dict__["bfloat16"]',
    'torch.__dict__.get("bfloat16")',
    'torch.__getattribute__("bfloat16")',
    'operator.attrgetter("bfloat16")(torch)',
    'getattr(torch, "BFLOAT16".lower())',
    '__import__("torch").bfloat16',
    'importlib.import_module("torch").bfloat16',
    'sys.modules["torch"].bfloat16',
]


@pytest.mark.parametrize("value", LOOKS_UP)
@pytest.mark.parametrize("line", ["x = {}", "y = x.to({})", "f(dtype={})"])
def test_a_dtype_that_torch_is_asked_for(line: str, value: str) -> None:
    code = f"import torch\n{line.format(value)}\n"
    outcome = run("m.py", code)
    assert outcome.text == code.replace("bfloat16", "float32").replace("BFLOAT16", "FLOAT32")
    assert outcome.reports == []


@pytest.mark.parametrize("value", ['vars(lib)["bfloat16"]', 'cfg.__dict__["bfloat16"]', 'torch.ops.get("bfloat16")'])
def test_another_module_that_is_asked(value: str) -> None:
    outcome = run("m.py", f"import torch\nx = {value}\n")
    assert (outcome.text, outcome.reports) == (f"import torch\nx = {value}\n", [])


@pytest.mark.parametrize(
    "name",
    [
        'f"bfloat{bits}"',
        '"bfloat%d" % bits',
        '"bfloat{}".format(bits)',
        '"".join(["b", "float", "16"])',
        '"bf16".replace("bf", "bfloat")',
    ],
)
def test_a_name_that_only_a_run_puts_together_is_reported(name: str) -> None:
    code = f"import torch\nx = getattr(torch, {name})\n"
    outcome = run("m.py", code)
    assert outcome.text == code
    assert outcome.reports == [(2, "dtype-dynamic")]


def test_another_attribute_of_torch_is_no_dtype() -> None:
    code = 'import torch\nf = getattr(torch, name)\ng = getattr(torch, f"{kind}_like")\n'
    assert run("m.py", code).reports == []


@pytest.mark.parametrize("function", ["exec", "eval", "builtins.exec"])
def test_code_in_a_text_that_is_run(function: str) -> None:
    code = f'import torch\n{function}("x.to(torch.bfloat16)")\n{function}(f"""\ny = {{n}}\nz = torch.bfloat16\n""")\n'
    outcome = run("m.py", code)
    assert outcome.text == code
    assert outcome.reports == [(2, "embedded-command"), (5, "embedded-command")]


LIMITS = ["min", "max", "tiny", "smallest_normal"]


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_of_the_dtype_changes_with_its_tensors(limit: str) -> None:
    code = f"import torch\nx.masked_fill(m, torch.finfo(torch.bfloat16).{limit})\nlow = torch.finfo(torch.bfloat16)\n"
    assert run("m.py", code).text == code.replace("bfloat16", "float32")


@pytest.mark.parametrize(
    "line",
    [
        "size = torch.finfo(torch.bfloat16).bits // 8",
        "ok = low == torch.finfo(torch.bfloat16).min",
        "LOW = {torch.bfloat16: torch.finfo(torch.bfloat16).min}",
        "low = torch.finfo(torch.bfloat16).min if x.dtype == torch.bfloat16 else 0",
    ],
)
def test_a_size_and_a_limit_for_those_who_ask_stay(line: str) -> None:
    outcome = run("m.py", f"import torch\n{line}\n")
    assert (outcome.text, outcome.reports) == (f"import torch\n{line}\n", [])
