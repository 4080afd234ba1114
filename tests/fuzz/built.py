"""Hypothesis strategies that build files of each language around places that a run changes."""

from __future__ import annotations

import json

from hypothesis import strategies as st

ENDS = st.sampled_from(["\n", "\n", "\r\n"])
DTYPES = ["bfloat16", "bf16", "BF16", "torch.bfloat16", "float16", "float32", "auto"]
ATTENTION = ["flash_attention_2", "flash_attention_3", "sdpa", "eager"]
KEYS = [
    "dtype",
    "torch_dtype",
    "param_dtype",
    "mixed_precision",
    "attn_implementation",
    "bf16",
    "fp16",
    "name",
    "précision",
]
FREE = st.text(st.sampled_from("ab é中😀_-.:"), min_size=1, max_size=6)


def _indented(block: str) -> str:
    return "".join(f"    {line}" for line in block.splitlines(keepends=True))


# --- Python ----------------------------------------------------------------------------------------------------------

_VALUES = st.sampled_from(
    [
        *(
            "torch.bfloat16",
            "bfloat16",
            "b",
            "th.bfloat16",
            '"bfloat16"',
            "'bf16'",
            '"torch.bfloat16"',
            "torch.float16",
        ),
        *(
            '"flash_attention_2"',
            'f"{x}.dtype=bfloat16"',
            '"a.dtype=bfloat16 b=1"',
            "True",
            "(\n    'bfloat'\n    '16')",
        ),
        *(
            "x.bfloat16()",
            "torch.\\\n    bfloat16",
            'getattr(torch, "bfloat16")',
            "{'bf16': torch.bfloat16}",
            "[torch.bfloat16]",
        ),
        *(
            "('bfloat16'  # é\n    )",
            "'é', torch.bfloat16",
            "lambda: torch.bfloat16",
            "torch.bfloat16 if a else bfloat16",
        ),
    ]
)
_IMPORTS = st.sampled_from(
    [
        *("import torch", "import torch as th", "from torch import bfloat16", "from torch import bfloat16 as b"),
        *(
            "from torch import (\n    float16,\n    bfloat16,\n)",
            "from jax.numpy import bfloat16",
            "from torch import float32",
        ),
        *("try:\n    from torch import bfloat16\nexcept ImportError:\n    bfloat16 = None", "from torch import *"),
        *("from numpy import float32", "from torch import bfloat16  # precpatch: ignore", "import flash_attn"),
    ]
)
_STATEMENTS = st.sampled_from(
    [
        *(
            "x = {v}",
            "f(dtype={v})",
            "f({v}, bf16=True, fp16=False)",
            "dtype = {v}",
            "self.dtype = {v}",
            "cfg.bf16 = True",
        ),
        *(
            "if x.dtype == {v}:\n    x = x.to({v})",
            "assert dtype in [{v}, {w}]",
            "assert self.dtype in (\n    {v},\n    {w},\n)",
        ),
        *(
            "x = f(a,  # precpatch: ignore\n    dtype={v},\n    torch_dtype={w})",
            "with torch.autocast('cuda', dtype={v}):\n    pass",
        ),
        *(
            "del bfloat16",
            "bfloat16 = {v}",
            "d = {{'dtype': {v}, 'bf16': True}}",
            "print({v}, {w})",
            "d['dtype'] = {v}",
        ),
        *("parser.add_argument('--dtype', default={v}, choices=[{v}, {w}])", "x: str = {v}", "return_ = {v}; y = {w}"),
        *(
            "for bfloat16 in z:\n    f(dtype=bfloat16)",
            "x = [f(dtype=bfloat16) for bfloat16 in z]",
            "__all__ = ['bfloat16']",
        ),
    ]
)
_SCOPES = st.sampled_from(
    [
        *(
            "def f(x, dtype={v}):\n{b}",
            "class A(B):\n{b}",
            "if a == {v}:\n{b}",
            "else_ = 1\nif a:\n    pass\nelse:\n{b}",
        ),
        *(
            "async def g(*, bf16=True):\n{b}",
            "@g(dtype={v})\ndef h(bfloat16=bfloat16):\n{b}",
            "while a:\n{b}",
            "try:\n{b}finally:\n    pass",
        ),
        *(
            "def is_bf16(x):\n    global bfloat16\n{b}",
            "if is_npu_available():\n{b}",
            "if torch.cuda.is_bf16_supported():\n{b}",
        ),
    ]
)


@st.composite
def _line(draw: st.DrawFn) -> str:
    comment = draw(st.sampled_from(["", "", "  # bfloat16 é", "  # precpatch: ignore"]))
    return draw(_STATEMENTS).format(v=draw(_VALUES), w=draw(_VALUES)) + comment + "\n"


@st.composite
def _block(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    body = "".join(draw(st.lists(inner, min_size=1, max_size=4)))
    return draw(_SCOPES).format(v=draw(_VALUES), b=_indented(body))


_PYTHON = st.recursive(_line() | _IMPORTS.map("{}\n".format), _block, max_leaves=12)


@st.composite
def python(draw: st.DrawFn) -> bytes:
    """A module."""
    text = "".join(draw(st.lists(_PYTHON, max_size=6)))
    codec = draw(st.sampled_from(["utf-8", "utf-8", "gbk", "utf-8-sig"]))
    head = f"# -*- coding: {codec} -*-\n" if codec == "gbk" else ""
    return (head + text).replace("\n", draw(ENDS)).encode(codec, "ignore")


# --- YAML ------------------------------------------------------------------------------------------------------------

_SCALARS = st.sampled_from(
    [
        *DTYPES,
        *ATTENTION,
        *(
            '"bfloat16"',
            "'bf16'",
            "!!str bfloat16",
            "&a bfloat16",
            "true",
            "false",
            '"true"',
            "${oc.select:a.b,bfloat16}",
        ),
        *(
            "python3 train.py --dtype bfloat16 a.dtype=bf16",
            "a.b.dtype=bfloat16",
            '"b\\u0066loat16"',
            "~",
            '"é bfloat16"',
        ),
        *("[bfloat16, float16]", "{dtype: bfloat16, 'bf16': true, fp16: false}", "{? dtype : bf16}", "'a\n  bfloat16'"),
    ]
)


@st.composite
def _mapping(draw: st.DrawFn, inner: st.SearchStrategy[list[str]]) -> list[str]:
    lines: list[str] = []
    for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)):
        quoted = draw(st.sampled_from(["{}", "'{}'", '"{}"', "? {}\n", "!!str {}"])).format(key)
        comment = draw(st.sampled_from(["", "", "  # bf16", "  # precpatch: ignore"]))
        how = draw(st.integers(0, 5))
        if how <= 2 or "\n" in quoted:
            lines.append(f"{quoted}: {draw(_SCALARS)}{comment}")
        elif how == 3:
            lines += [f"{quoted}:{comment}", *(f"  {line}" for line in draw(inner))]
        elif how == 4:
            lines += [f"{quoted}:", *(f"- {draw(_SCALARS)}{comment}" for _ in range(draw(st.integers(1, 3))))]
        else:
            mark = draw(st.sampled_from(["|", ">", "|-", ">+"]))
            lines += [f"{quoted}: {mark}", *(f"    {line}" for line in draw(script()).decode().split("\n")[:3])]
    return lines


@st.composite
def yaml_file(draw: st.DrawFn) -> bytes:
    """A file of one or more documents."""
    tree = st.recursive(_mapping(st.just(["dtype: bf16"])), _mapping, max_leaves=4)
    documents = ["\n".join(draw(tree)) for _ in range(draw(st.integers(1, 2)))]
    return ("\n---\n".join(documents) + "\n").replace("\n", draw(ENDS)).encode()


# --- shell -----------------------------------------------------------------------------------------------------------

_COMMANDS = st.sampled_from(
    [
        *(
            "python train.py a.dtype={d} +b.attn_implementation={a}",
            "python train.py --dtype={d} --bf16 True",
            "export DTYPE={d}",
        ),
        *(
            "mkdir -p out/{d}",
            "DTYPE=${{DTYPE:-{d}}}",
            "python train.py --dtype $DTYPE",
            'python x.py "a.dtype=$DTYPE" b=1',
        ),
        *(
            "ARGS=(a.dtype={d}\n  b.attn_implementation={a})",
            'python x.py "${{ARGS[@]}}"',
            "grep {d} x",
            '[ "$DTYPE" = {d} ]',
        ),
        *(
            "python - <<'EOF'\nimport torch\nx = f(dtype=torch.bfloat16)\nEOF",
            "cat > c.yaml <<EOF\ndtype: {d}\nEOF",
            "echo {d}",
        ),
        *(
            "python x.py \\\n  a.dtype={d} \\\n  --attn {a}",
            "! python x.py a.dtype={d}",
            "f a.dtype={d} # é {d}",
            'x=\'{{"dtype": "{d}"}}\'',
        ),
        *(
            "bash -c 'python x.py a.dtype={d}'",
            'eval "python x.py a.dtype={d}"',
            "a.dtype={d}  # precpatch: ignore",
            "local d={d}",
        ),
    ]
)
_AROUND = st.sampled_from(
    [
        *(
            "{0} && {1}",
            "{0} || {1}",
            "{0}; {1}",
            "{0} | {1}",
            "if {0}; then\n{1}\nfi",
            "if {0}; then\n{1}\nelse\n{1}\nfi",
        ),
        *(
            "f() {{\n{0}\n{1}\n}}",
            "for i in 1 2; do\n{0}\n{1}\ndone",
            "( {0}\n{1} )",
            "case $DTYPE in\nbf16) {0} ;;\n*) {1} ;;\nesac",
        ),
        *(
            "while {0}; do\n{1}\ndone",
            "x=$({0}\n{1})",
            "{0}\n{1}",
            "{0} &\n{1}",
            "{{ {0}\n{1}\n}} > out 2>&1",
            "[[ $D == bf16 ]] && {0}\n{1}",
        ),
    ]
)


@st.composite
def _command(draw: st.DrawFn) -> str:
    return draw(_COMMANDS).format(d=draw(st.sampled_from(DTYPES)), a=draw(st.sampled_from(ATTENTION)))


def _around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda how, one, other: how.format(one, other), _AROUND, inner, inner)


_SHELL = st.recursive(_command(), _around, max_leaves=5)


@st.composite
def script(draw: st.DrawFn) -> bytes:
    """A script."""
    return "".join(f"{each}\n" for each in draw(st.lists(_SHELL, min_size=1, max_size=4))).encode()


# --- JSON and notebooks ----------------------------------------------------------------------------------------------

_LEAVES = st.sampled_from([*DTYPES, *ATTENTION, True, False, None, 1, 1.5, "é", "python x.py a.dtype=bfloat16"]) | FREE
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | FREE, inner, max_size=5),
    max_leaves=12,
)


@st.composite
def _written(draw: st.DrawFn, tree: object) -> bytes:
    text = json.dumps(tree, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1, 4])))
    return (text + "\n").replace("\n", draw(ENDS)).encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-16"])))


@st.composite
def json_file(draw: st.DrawFn) -> bytes:
    """A config of a model, or of a trainer."""
    head = draw(
        st.sampled_from([{"model_type": "x"}, {"output_dir": "o", "learning_rate": 1}, {"train_batch_size": 1}])
    )
    rest = draw(st.dictionaries(st.sampled_from([*KEYS, "vision_config"]), _TREES, max_size=6))
    return draw(_written({**head, **rest}))


@st.composite
def notebook(draw: st.DrawFn) -> bytes:
    """A notebook of cells of every kind."""
    cells = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["", "!", "%%bash\n", "%%writefile c.yaml\n", "%%writefile m.py\n"]))
        made = {
            "": python(),
            "!": _command().map(str.encode),
            "%%bash\n": script(),
            "%%writefile c.yaml\n": yaml_file(),
        }
        body = draw(made.get(kind, python())).decode("utf-8", "ignore")
        source: object = (kind + body).splitlines(keepends=True)
        if draw(st.booleans()):
            source = "".join(source)  # type: ignore[arg-type]
        cells.append(
            {"cell_type": draw(st.sampled_from(["code", "code", "markdown"])), "metadata": {}, "source": source}
        )
    return draw(_written({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))


FILES = {".py": python(), ".yaml": yaml_file(), ".sh": script(), ".json": json_file(), ".ipynb": notebook()}
"""Suffix -> a strategy for files of that kind."""
