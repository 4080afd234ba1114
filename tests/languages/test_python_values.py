# ruff: noqa: E501 (one row a case is easier to read than a wrapped one)
"""Which bfloat16 and which FlashAttention in Python decides, and which only talks: one line each, for a Tesla P40."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precpatch.engine.finding import REPORT, REWRITE, Finding
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.patch.edits import PatchSet
from precpatch.session import file_findings

RULES = load_rules()
P40 = Policy(RULES, resolve_target("p40"))
V100 = Policy(RULES, resolve_target("v100", "float16", "sdpa"))


def findings(code: str | bytes, policy: Policy = P40, path: str = "module.py") -> list[Finding]:
    return file_findings(path, code if isinstance(code, bytes) else code.encode(), policy)


def patched(code: str | bytes, policy: Policy = P40) -> str:
    data = code if isinstance(code, bytes) else code.encode()
    edits = [edit for each in findings(data, policy) if each.verdict == REWRITE for edit in each.edits]
    return PatchSet.of(edits, lambda _: data).apply_to("module.py", data).decode("utf-8", "surrogateescape")


def reported(code: str, policy: Policy = P40) -> list[str]:
    return [each.rule for each in findings(code, policy) if each.verdict == REPORT]


CHANGES = {
    "alias of torch": ("import torch as th\nx = th.bfloat16", "import torch as th\nx = th.float32"),
    "import inside a function": (
        "def f():\n    import torch\n    return torch.bfloat16",
        "def f():\n    import torch\n    return torch.float32",
    ),
    "torch from a star import": ("from prelude import *\nx = torch.bfloat16", "from prelude import *\nx = torch.float32"),
    "torch or nothing": (
        "try:\n    import torch\nexcept ImportError:\n    torch = None\nx = torch.bfloat16",
        "try:\n    import torch\nexcept ImportError:\n    torch = None\nx = torch.float32",
    ),
    "attribute": ("import torch\nself._dtype = torch.bfloat16", "import torch\nself._dtype = torch.float32"),
    "conditional": ("import torch\nd = torch.bfloat16 if a else None", "import torch\nd = torch.float32 if a else None"),
    "or": ("import torch\nd = cfg.dtype or torch.bfloat16", "import torch\nd = cfg.dtype or torch.float32"),
    "or with a name": ("d = cfg.dtype or 'bf16'", "d = cfg.dtype or 'fp32'"),
    "walrus": ("import torch\nf(d := torch.bfloat16)", "import torch\nf(d := torch.float32)"),
    "pairwise": ("import torch\na, b = torch.bfloat16, 1", "import torch\na, b = torch.float32, 1"),
    "lambda": ("import torch\nf = lambda: torch.bfloat16", "import torch\nf = lambda: torch.float32"),
    "default": ("import torch\ndef f(*, d=torch.bfloat16): ...", "import torch\ndef f(*, d=torch.float32): ..."),
    "decorator": (
        "import torch\n@torch.autocast('cuda', dtype=torch.bfloat16)\ndef f(): ...",
        "import torch\n@torch.autocast('cuda', dtype=torch.float32)\ndef f(): ...",
    ),
    "imported autocast": (
        "import torch\nfrom torch.amp import autocast\nwith autocast('cuda', torch.bfloat16): ...",
        "import torch\nfrom torch.amp import autocast\nwith autocast('cuda', torch.float32): ...",
    ),
    "partial": (
        "import torch\nf = partial(torch.autocast, dtype=torch.bfloat16)",
        "import torch\nf = partial(torch.autocast, dtype=torch.float32)",
    ),
    "mixed precision": (
        "import torch\np = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)",
        "import torch\np = MixedPrecision(param_dtype=torch.float32, reduce_dtype=torch.float32)",
    ),
    "getattr default": (
        "import torch\nd = getattr(self, 'd', torch.bfloat16)",
        "import torch\nd = getattr(self, 'd', torch.float32)",
    ),
    "over several lines": ("import torch\nx = (torch\n     .bfloat16)", "import torch\nx = (torch\n     .float32)"),
    "method over several lines": ("y = (x\n     .bfloat16())", "y = (x\n     .float())"),
    "unbound method": ("import torch\nf = map(torch.Tensor.bfloat16, xs)", "import torch\nf = map(torch.Tensor.float, xs)"),
    "setattr": ("setattr(cfg, 'dtype', 'bfloat16')", "setattr(cfg, 'dtype', 'float32')"),
    "pop": ("d = kw.pop('torch_dtype', 'bf16')", "d = kw.pop('torch_dtype', 'fp32')"),
    "environment": ("os.environ['TORCH_DTYPE'] = 'bfloat16'", "os.environ['TORCH_DTYPE'] = 'float32'"),
    "torch name in a string": ("c = dict(torch_dtype='torch.bfloat16')", "c = dict(torch_dtype='torch.float32')"),
    "upper case": ("DTYPE = 'BF16'", "DTYPE = 'FP32'"),
    "raw string": ("dtype = r'bfloat16'", "dtype = r'float32'"),
    "typer option": ("dtype: str = typer.Option('bfloat16')", "dtype: str = typer.Option('float32')"),
    "pydantic field": ("dtype: str = Field(default='bfloat16')", "dtype: str = Field(default='float32')"),
    "arguments of a command": ("run(['--dtype', 'bfloat16'])", "run(['--dtype', 'float32'])"),
    "option of a command": ("run(['--dtype=bfloat16'])", "run(['--dtype=float32'])"),
    "override in an f-string": ("o = [f'{p}.rollout.dtype=bfloat16']", "o = [f'{p}.rollout.dtype=float32']"),
    "returned by name": ("def get_dtype():\n    return 'bfloat16'", "def get_dtype():\n    return 'float32'"),
    "no flag": ("import torch\nd = torch.float16 if fp16 else torch.bfloat16", "import torch\nd = torch.float16 if fp16 else torch.float32"),
    "a CUDA check": (
        "import torch\nd = torch.bfloat16 if torch.cuda.is_available() else torch.float32",
        "import torch\nd = torch.float32 if torch.cuda.is_available() else torch.float32",
    ),
    "a threshold below 8.0": (
        "import torch\nif torch.cuda.get_device_capability()[0] >= 7:\n    d = torch.bfloat16",
        "import torch\nif torch.cuda.get_device_capability()[0] >= 7:\n    d = torch.float32",
    ),
    "the branch for old cards": (
        "import torch\nif major < 8:\n    d = torch.bfloat16",
        "import torch\nif major < 8:\n    d = torch.float32",
    ),
    "a class registered for CUDA too": (
        "@register(device=['cuda', 'npu'])\nclass Engine:\n    dtype: str = 'bfloat16'",
        "@register(device=['cuda', 'npu'])\nclass Engine:\n    dtype: str = 'float32'",
    ),
    "a cast guard in an expression": (
        "import torch\nreturn_ = x.to(torch.bfloat16) if x.dtype != torch.bfloat16 else x",
        "import torch\nreturn_ = x.to(torch.float32) if x.dtype != torch.float32 else x",
    ),
    "a cast guard the other way round": (
        "import torch\ny = x if x.dtype == torch.bfloat16 else x.to(torch.bfloat16)",
        "import torch\ny = x if x.dtype == torch.float32 else x.to(torch.float32)",
    ),
    "a cast guard with not": (
        "import torch\nif not x.dtype == torch.bfloat16:\n    x = x.type(torch.bfloat16)",
        "import torch\nif not x.dtype == torch.float32:\n    x = x.type(torch.float32)",
    ),
    "a cast guard that returns": (
        "import torch\ndef f(x):\n    if x.dtype == torch.bfloat16:\n        return x\n    return x.to(torch.bfloat16)",
        "import torch\ndef f(x):\n    if x.dtype == torch.float32:\n        return x\n    return x.to(torch.float32)",
    ),
    "a cast guard that loops": (
        "import torch\nwhile x.dtype != torch.bfloat16:\n    x = x.to(torch.bfloat16)",
        "import torch\nwhile x.dtype != torch.float32:\n    x = x.to(torch.float32)",
    ),
    "switch and dtype in a dict": (
        "import torch\nargs.update({'bf16': True, 'params_dtype': torch.bfloat16})",
        "import torch\nargs.update({'bf16': False, 'params_dtype': torch.float32})",
    ),
    "switch and dtype on one object": (
        "import torch\ncfg.bf16 = True\ncfg.params_dtype = torch.bfloat16",
        "import torch\ncfg.bf16 = False\ncfg.params_dtype = torch.float32",
    ),
    "a use after a check that allows several": (
        "import torch\ndef f(d='bfloat16'):\n    assert d in ('bfloat16', 'float16')\n    x = torch.autocast('cuda', dtype=torch.bfloat16)",
        "import torch\ndef f(d='bfloat16'):\n    assert d in ('bfloat16', 'float16')\n    x = torch.autocast('cuda', dtype=torch.float32)",
    ),
    "a function after a check at the top": (
        "import torch\nassert out.dtype == torch.bfloat16\ndef f(d=torch.bfloat16): ...",
        "import torch\nassert out.dtype == torch.bfloat16\ndef f(d=torch.float32): ...",
    ),
    "choices of click": (
        "@click.option('--dtype', default='bf16', type=click.Choice(['bf16', 'fp16']))\ndef f(dtype): ...",
        "@click.option('--dtype', default='fp32', type=click.Choice(['bf16', 'fp16', 'fp32']))\ndef f(dtype): ...",
    ),
    "a name with NPU inside another word": (
        "import torch\nfrom vllm.inputs import INPUT_REGISTRY\nd = torch.bfloat16",
        "import torch\nfrom vllm.inputs import INPUT_REGISTRY\nd = torch.float32",
    ),
    "attention of a sub-config": (
        "c.vision_config._attn_implementation = 'flash_attention_2'",
        "c.vision_config._attn_implementation = 'eager'",
    ),
    "attention by a setter": ("m.set_attn_implementation('flash_attention_3')", "m.set_attn_implementation('eager')"),
    "attention where installed": (
        "attn = 'flash_attention_2' if is_flash_attn_2_available() else 'sdpa'",
        "attn = 'eager' if is_flash_attn_2_available() else 'sdpa'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_decides_changes(name: str) -> None:
    before, after = CHANGES[name]
    assert patched(before) == after
    assert patched(after) == after


STAYS = {
    "comparison": "import torch\nbf16 = dtype is torch.bfloat16",
    "membership": "import torch\nok = d in (torch.bfloat16, torch.float32)",
    "case": "match d:\n    case 'bf16':\n        pass",
    "key of a table": "import torch\nT = {torch.bfloat16: 2}",
    "value of a table": "import torch\nT = {'bf16': torch.bfloat16}",
    "subscript": "ALL_ATTENTION_FUNCTIONS['flash_attention_2'] = kernel",
    "list of names": "NAMES = ['bf16', 'bfloat16']",
    "for loop": "for dtype in ['bf16', 'fp16']:\n    run(dtype)",
    "enum": "class Precision(str, Enum):\n    dtype = 'bf16'",
    "annotation": "def f(d: Literal['bfloat16', 'float16']): ...",
    "docstring": "def f():\n    'dtype=bfloat16'",
    "bare string": "'''x.to(torch.bfloat16)'''",
    "comment": "x = 1  # torch.bfloat16",
    "log": "logger.info('rollout.dtype=bfloat16')",
    "help": "p.add_argument('--x', help='bfloat16')",
    "error": "raise ValueError('dtype bfloat16')",
    "assert message": "assert ok, 'bfloat16'",
    "run name": "cfg.run_name = 'bfloat16'",
    "optimizer": "strategy = 'adamw_bf16'",
    "model name": "path = 'gpt-oss-20b-bf16'",
    "keyword that holds the word": "cfg(disable_bf16_reduced_precision_matmul=True)",
    "finfo": "import torch\nsize = torch.finfo(torch.bfloat16).bits",
    "string method": "name = dtype.replace('bfloat16', 'x')",
    "other library": "import jax.numpy as jnp\nx = jnp.bfloat16",
    "shadowed torch": "import torch\ndef f(torch):\n    return torch.bfloat16",
    "torch that is none": "torch = Fake()\nx = torch.bfloat16",
    "float16": "import torch\nx = torch.float16",
    "half": "x = y.half()",
    "under its name": "import torch\nif name == 'bf16':\n    d = torch.bfloat16",
    "under its dtype": "import torch\nif x.dtype == torch.bfloat16:\n    y = y.to(torch.bfloat16)",
    "under a list of its names": "import torch\nif name in BFLOAT_LIST:\n    d = torch.bfloat16",
    "under a flag": "import torch\nif args.bf16:\n    d = torch.bfloat16",
    "after an assert for it": "import torch\ndef f(d):\n    assert d == 'bf16' or skip\n    return torch.bfloat16",
    "under the capability": "import torch\nif torch.cuda.get_device_capability() >= (8, 0):\n    d = torch.bfloat16",
    "after a return for old cards": "import torch\ndef f():\n    if major < 8:\n        return 1\n    return torch.bfloat16",
    "else of old cards": "import torch\nif major < 8:\n    pass\nelse:\n    d = torch.bfloat16",
    "an NPU branch": "import torch\nif is_npu_available:\n    d = torch.bfloat16",
    "a class for an NPU": "class MindSpeedEngine(Base):\n    dtype: str = 'bfloat16'",
    "a class registered for an NPU": "@register(device='npu')\nclass Engine:\n    dtype: str = 'bfloat16'",
    "a function for an NPU": "import torch\ndef rms_norm_npu(x):\n    return x.to(torch.bfloat16)",
    "an NPU module": "import torch\nimport torch_npu\nd = torch.bfloat16",
    "a module that raises without an NPU": "import torch\nif not is_torch_npu_available():\n    raise ImportError\nd = torch.bfloat16",
    "a table by keywords": "import torch\nT = dict(bf16=torch.bfloat16, fp16=torch.float16)",
    "a registration": "import torch\nREG.register('bf16', torch.bfloat16)",
    "a registration by keywords": "import torch\nadd(dtype=torch.bfloat16, name='bfloat16')",
    "an attribute by its name": "import torch\nsetattr(DT, 'bf16', torch.bfloat16)",
    "under the end of a name": "import torch\nd = torch.bfloat16 if name.endswith('bf16') else torch.float32",
    "a table of implementations": "T = {'flash_attention': 'flash_attention_2', 'sdp': 'sdpa'}",
    "a dtype that is only printed": "import torch\ns = f'dtype={torch.bfloat16}'",
    "a name that is taken": "from torch import bfloat16\nfrom numpy import float32\nx = y.to(bfloat16)",
    "another module's bfloat16": "from .consts import bfloat16\nx = y.to(bfloat16)",
    "a byte view": "import torch\nx = y.view(torch.bfloat16)",
    "a name that says bf16": "import torch\nBF16_DTYPE = torch.bfloat16",
    "a TPU accelerator": "import torch\nfrom lightning.fabric.accelerators import XLAAccelerator\nd = torch.bfloat16",
    "suppressed": "import torch\nd = torch.bfloat16  # precpatch: ignore",
    "suppressed by rule": "import torch\nd = torch.bfloat16  # precpatch: ignore[dtype-value] the wire",
    "suppressed file": "# precpatch: ignore-file\nimport torch\nd = torch.bfloat16",
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_what_only_talks_stays(name: str) -> None:
    assert patched(STAYS[name]) == STAYS[name]


def test_a_suppression_of_another_rule_does_not_hold() -> None:
    code = "import torch\nd = torch.bfloat16  # precpatch: ignore[dtype-autocast]"
    assert "float32" in patched(code)


REPORTS = {
    "dtype-dynamic": "import torch\nd = getattr(torch, cfg['dtype'])",
    "permissive-bf16-check": "import torch\nd = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16",
    "dtype-converter-no-branch": (
        "import torch\ndef f(n):\n    if n == 'fp16':\n        return torch.float16\n    return torch.bfloat16"
    ),
    "demands-bf16": "import torch\nassert m.dtype == torch.bfloat16",
    "allowed-values": "if dtype not in ['bf16', 'fp16']:\n    raise ValueError",
    "bf16-cli-flag": "run(['train.py', '--bf16'])",
    "attention-unknown-key": "run('flash_attention_2')",
    "dtype-in-call-list": "import torch\nallocate([(8, torch.bfloat16)])",
    "value-not-allowed": "def f(dtype='bf16'):\n    if dtype == 'bf16':\n        return 1\n    raise ValueError",
    "dtype-import": "from torch import bfloat16\nfrom numpy import float32\nx = y.to(bfloat16)",
    "dtype-cast-under-list": "import torch\nif q.dtype not in (torch.float16, torch.bfloat16):\n    q = q.to(torch.bfloat16)",
    "embedded-command": "os.system('python3 -m x a.b.dtype=bfloat16 c=1')",
}


@pytest.mark.parametrize("rule", REPORTS)
def test_what_needs_a_person_is_reported_and_left(rule: str) -> None:
    assert rule in reported(REPORTS[rule])
    assert patched(REPORTS[rule]) == REPORTS[rule]


def test_float16_and_sdpa_where_asked_for() -> None:
    code = dedent("""\
        import torch
        x = y.bfloat16().to(torch.bfloat16)
        m = load(torch_dtype="bf16", attn_implementation="flash_attention_2")
    """)
    assert patched(code, V100) == dedent("""\
        import torch
        x = y.half().to(torch.float16)
        m = load(torch_dtype="fp16", attn_implementation="sdpa")
    """)


def test_a_check_in_another_class_grows_with_the_default_it_guards() -> None:
    code = dedent("""\
        class Base:
            dtype: str = "bfloat16"

        class Engine(Base):
            def check(self):
                if self.dtype not in {"bfloat16"}:
                    raise ValueError
    """)
    after = patched(code)
    assert 'dtype: str = "float32"' in after
    assert '{"bfloat16", "float32"}' in after


def test_a_check_of_a_tensor_is_no_check_of_the_default_beside_it() -> None:
    code = "import torch\ndef f(q, dtype=torch.bfloat16):\n    assert q.dtype in (torch.float16, torch.bfloat16)\n"
    assert patched(code) == code.replace("dtype=torch.bfloat16", "dtype=torch.float32")
    assert reported(code) == ["allowed-values"]


def test_a_default_stays_where_its_check_cannot_grow() -> None:
    """One group: what refuses the new default cannot be extended, so the default is left and a person is told."""
    code = 'parser.add_argument("--dtype", default="bf16", choices=NAMES)\n'
    assert "fp32" in patched(code)
    frozen = dedent("""\
        class Engine:
            dtype: Literal["bf16"] = "bf16"
    """)
    assert patched(frozen) == frozen
    assert reported(frozen) == ["value-not-allowed"]


def test_a_membership_check_in_a_function_grows_with_its_default() -> None:
    code = "def f(dtype='bf16'):\n    if dtype not in ('bf16', 'fp16'):\n        raise ValueError\n"
    assert patched(code) == code.replace("dtype='bf16'", "dtype='fp32'").replace("'fp16')", "'fp16', 'fp32')")


def test_an_imported_dtype_follows_its_uses() -> None:
    code = "from torch import nn, bfloat16\nok = d == bfloat16\nx = y.to(bfloat16)\n"
    assert patched(code) == "from torch import nn, bfloat16, float32\nok = d == bfloat16\nx = y.to(float32)\n"


@pytest.mark.parametrize(
    ("encoding", "line_end"),
    [("utf-8", "\n"), ("utf-8", "\r\n"), ("utf-8", "\r"), ("latin-1", "\n"), ("latin-1", "\r\n")],
)
def test_bytes_outside_the_edits_stay(encoding: str, line_end: str) -> None:
    lines = [
        f"# -*- coding: {encoding} -*-",
        "import torch\f",
        'name = "caf\xe9"; x = torch.bfloat16  # \xe9',
        "y = x",
    ]
    before = line_end.join(lines).encode(encoding)
    edits = [edit for each in findings(before) if each.verdict == REWRITE for edit in each.edits]
    after = PatchSet.of(edits, lambda _: before).apply_to("module.py", before)
    assert after == before.replace(b"torch.bfloat16", b"torch.float32")


PIECES = [
    "x = torch.bfloat16",
    "y = x.bfloat16()",
    "dtype = 'bf16'",
    "NAMES = ['bf16', torch.bfloat16]",
    "ok = d is torch.bfloat16",
    "# torch.bfloat16 \u00e9\u4e2d\U0001f600",
    "f(torch.bfloat16, attn_implementation='flash_attention_2')",
    "if d == 'bf16':\n    z = torch.bfloat16",
    "with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass",
    "'''bfloat16\n\u00e9'''",
    "s = '\u00e9' 'a'; t = torch.bfloat16; u = '\U0001f600'",
    "class C:\n    dtype: str = 'bfloat16'  # 'bfloat16'",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_rewrite_parses_changes_nothing_else_and_needs_no_second_run(
    pieces: list[str], line_end: str, final: bool
) -> None:
    before = ("import torch\n" + "\n".join(pieces) + "\n" * final).replace("\n", line_end).encode()
    found = [each for each in findings(before) if each.verdict == REWRITE]
    edits = [edit for each in found for edit in each.edits]
    after = PatchSet.of(edits, lambda _: before).apply_to("module.py", before)
    ast.parse(after)
    assert [each for each in findings(after) if each.verdict == REWRITE] == []
    position, kept_before, shift, kept_after = 0, [], 0, []
    for edit in sorted(edits, key=lambda each: each.start):
        kept_before.append(before[position : edit.start])
        kept_after.append(after[position + shift : edit.start + shift])
        position, shift = edit.end, shift + len(edit.new) - len(edit.old)
    assert kept_before == kept_after
    assert before[position:] == after[position + shift :]


def test_what_cannot_be_parsed_says_where() -> None:
    with pytest.raises(Exception, match="line 2"):
        findings("import torch\nx = torch.bfloat16 )")
