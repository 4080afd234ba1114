"""Values in Python that are put together, or given a name first: what they are used for decides."""

from __future__ import annotations

import pytest

from precpatch.engine.finding import REPORT, REWRITE
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.patch.edits import PatchSet
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))


def patched(code: str) -> str:
    """The code after all rewrites, which must say so a second time."""
    data = code.encode()
    found = file_findings("m.py", data, P40)
    edits = [edit for each in found if each.verdict == REWRITE for edit in each.edits]
    after = PatchSet.of(edits, lambda _: data).apply_to("m.py", data)
    again = [each for each in file_findings("m.py", after, P40) if each.verdict == REWRITE]
    assert not again, "a second run finds something"
    return after.decode()


def reported(code: str) -> list[str]:
    return [each.rule for each in file_findings("m.py", code.encode(), P40) if each.verdict == REPORT]


PUT_TOGETHER = [
    *('"bfloat" + "16"', '"bfloat" + "1" + "6"', 'f"bfloat{16}"', '"bfloat{}".format(16)', '"bfloat%d" % 16'),
    "\"bfloat\" + f'{16}'",
]


@pytest.mark.parametrize("text", PUT_TOGETHER)
def test_a_name_that_is_put_together(text: str) -> None:
    assert patched(f"import torch\nd = getattr(torch, {text})") == 'import torch\nd = getattr(torch, "float32")'
    assert patched(f"cfg.dtype = {text}") == 'cfg.dtype = "float32"'
    assert patched(f"run(dtype={text}, n=1)") == 'run(dtype="float32", n=1)'
    assert patched(f'kw = {{"dtype": {text}}}') == 'kw = {"dtype": "float32"}'
    assert patched(f"print({text})") == f"print({text})"
    assert reported(f"print({text})") == []


@pytest.mark.parametrize(
    "text", ['"actor.dtype=" + D', 'f"actor.dtype={D}"', '"actor.dtype={}".format(D)', '"actor.dtype=%s" % D']
)
def test_a_constant_in_an_override(text: str) -> None:
    for spelled, instead in (("bfloat16", "float32"), ("bf16", "fp32")):
        code = f'D = "{spelled}"\ncmd = ["run", {text}]\n'
        assert patched(code) == code.replace(spelled, instead)
        literal = f"cmd = {text}".replace("{D}", "{'bf16'}").replace(" D", ' "bf16"').replace("(D)", '("bf16")')
        assert patched(literal) == literal.replace("bf16", "fp32")
    assert reported(f'D = "vllm"\ncmd = {text}'.replace("actor.dtype", "actor.rollout.name")) == ["rollout-engine"]
    assert reported(f'D = "x"\ncmd = {text}') == []


LOOKED_UP = ["given or {0}", "{0} if half else given", 'os.environ.get("D", {0})', "{0}"]


@pytest.mark.parametrize("form", LOOKED_UP)
def test_a_name_that_torch_is_asked_for(form: str) -> None:
    code = "import torch\nd = getattr(torch, " + form.format('"bfloat16"') + ")"
    assert patched(code) == code.replace("bfloat16", "float32")
    code = f"import torch\nd = eval({form.format(chr(34) + 'torch.bfloat16' + chr(34))})"
    assert patched(code) == code.replace("bfloat16", "float32")


DEFINITIONS = {
    "module": "{n} = {v}\n{use}",
    "annotated": "{n}: str = {v}\n{use}",
    "pairwise": "{n}, other = {v}, 1\n{use}",
    "environment": 'import os\n{n} = os.environ.get("X", {v})\n{use}',
    "or": "{n} = given or {v}\n{use}",
    "local": "def f():\n    {n} = {v}\n    {use}",
    "parameter": "def f({n}={v}):\n    {use}",
    "keyword only": "async def f(a, *, {n}: str = {v}):\n    {use}",
    "lambda": "f = lambda {n}={v}: {use}",
}
USES = ["load(torch_dtype=NAME)", "load(getattr(torch, NAME))", '{"dtype": NAME}', "x.to(eval(NAME))"]


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS)
@pytest.mark.parametrize("use", USES)
def test_a_name_that_ends_as_a_dtype(definition: str, use: str) -> None:
    code = "import torch\n" + definition.format(n="NAME", v='"bfloat16"', use=use)
    assert patched(code) == code.replace("bfloat16", "float32")
    elsewhere = "import torch\n" + definition.format(n="NAME", v='"bfloat16"', use="x.name == NAME")
    assert patched(elsewhere) == elsewhere


def test_an_attribute_of_a_class() -> None:
    code = 'class C:\n    KIND = "bfloat16"\n\n    def f(self):\n        return load(dtype=self.KIND)\n'
    assert patched(code) == code.replace("bfloat16", "float32")
    by_class = code.replace("self.KIND", "C.KIND")
    assert patched(by_class) == by_class.replace("bfloat16", "float32")
    twice = code + "\n    def g(self):\n        self.KIND = x\n"
    assert patched(twice) == twice


@pytest.mark.parametrize(
    "code",
    [
        'NAME = "bfloat16"\nNAME = other\nload(dtype=NAME)',
        'NAME = "bfloat16"\ndef f(NAME):\n    load(dtype=NAME)',
        'def f(NAME="bfloat16"):\n    NAME = other\n    load(dtype=NAME)',
        'def f(NAME="bfloat16"):\n    pass\ndef g(NAME):\n    load(dtype=NAME)',
        'NAME = "bfloat16"\ndef f():\n    global NAME\n    NAME = x\nload(dtype=NAME)',
    ],
)
def test_a_name_with_another_value_proves_nothing(code: str) -> None:
    assert patched(code) == code


def test_other_settings_by_a_constant() -> None:
    code = 'A = "flash_attention_2"\nM.from_pretrained(x, attn_implementation=A)\n'
    assert patched(code) == code.replace("flash_attention_2", "eager")
    assert patched("P = True\nrun(use_remove_padding=P)") == "P = False\nrun(use_remove_padding=P)"
    assert reported("N = 4\nrun(ulysses_sequence_parallel_size=N)") == ["ulysses"]
    assert reported("N = 1\nrun(ulysses_sequence_parallel_size=N)") == []
