"""What compiles for the GPU in Python: torch.compile by any name, and the method of a module; and what does not."""

from __future__ import annotations

import pytest

from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))


def reports(code: str) -> list[tuple[int, str]]:
    return [(each.mention.line, each.rule) for each in file_findings("m.py", code.encode(), P40) if each.rule]


COMPILES = [
    "model.compile()",
    "self.model.compile()",
    "self.actor_module.compile()",
    "model.layers[0].compile()",
    "blocks.compile(**options)",
    "f.compile(dynamic=True)",
    'f.compile(mode="max-autotune", fullgraph=True)',
    'f.compile(\n    backend="inductor",\n)',
    "@torch.compile\ndef g(x): ...",
    "@torch.compile(dynamic=True)\ndef g(x): ...",
    "g = functools.partial(torch.compile, dynamic=True)(f)",
]


@pytest.mark.parametrize("line", COMPILES)
def test_what_compiles_for_the_gpu(line: str) -> None:
    assert reports(f"import torch\n{line}\n") == [(2, "torch-compile-call")]


def test_compile_under_a_name_of_its_own() -> None:
    assert reports("from torch import compile as tc\n\ng = tc(f)\n") == [(3, "torch-compile-call")]


DOES_NOT = [
    'p = re.compile("x")',
    "graph = workflow.compile()",
    "app = graph.compile(checkpointer=memory)",
    'model.compile(optimizer="adam", loss="mse")',
    "template.compile()",
    'g = torch.compile(f, backend="eager")',
    '@torch.compile(backend="aot_eager")\ndef g(x): ...',
    'model.compile(backend="eager")',
    "if cfg.compile:\n    model.compile()",
]


@pytest.mark.parametrize("line", DOES_NOT)
def test_what_does_not(line: str) -> None:
    assert reports(f"import torch\n{line}\n") == []


def test_a_model_of_another_library() -> None:
    assert reports("import keras\nmodel.compile()\n") == []
