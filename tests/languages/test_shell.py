"""The shell reader: what it tells of a script, and what its edits leave alone."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import Reader
from words import DEVICE_WORDS, NAMED_SWITCHES, NUMBER_KEYS, SWITCH_KEYS

from precpatch.languages.base import ReadError
from precpatch.languages.mention import KINDS, ROLES, Mention
from precpatch.languages.shell import ShellLanguage
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import PatchSet
from precpatch.vocabulary import builtin_vocabulary
from precpatch.vocabulary.words import ANY, ATTENTION, BOOLEAN, CHOICE, DTYPE, NUMBER, Setting

READER = Reader(ShellLanguage())
BASH = shutil.which("bash")
PATH = "examples/run_demo.sh"

LAUNCH = """\
#!/usr/bin/env bash
# GRPO demo. Use rollout.dtype=bfloat16 on A100.
set -xeuo pipefail

MODEL_PATH=${MODEL_PATH:-"$HOME/models/Demo-30B-BF16"}
DTYPE=${DTYPE:-bfloat16}
export VLLM_ATTENTION_BACKEND=FLASH_ATTN
pip install --no-build-isolation flash_attn==2.8.3

ACTOR_ARGS=(
    actor_rollout_ref.actor.fsdp_config.model_dtype=bfloat16
    +actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=bf16
    "++actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"
)

python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path="$MODEL_PATH" \\
    actor_rollout_ref.model.use_remove_padding=True \\
    actor_rollout_ref.rollout.dtype='bfloat16' \\
    actor_rollout_ref.rollout.enforce_eager=True \\
    actor_rollout_ref.ref.fsdp_config.model_dtype="${DTYPE}" \\
    trainer.experiment_name="demo_bf16_run" \\
    "${ACTOR_ARGS[@]}" "$@"
"""

ASCEND = """\
#!/bin/bash
export HCCL_CONNECT_TIMEOUT=1500
python3 -m verl.trainer.main_ppo \\
    actor_rollout_ref.rollout.dtype=bfloat16 \\
    +actor_rollout_ref.actor.megatron.override_transformer_config.use_flash_attn=True "$@"
"""

BOTH_DEVICES = """\
case "${DEVICE}" in
    gpu)
        ARGS=(actor.dtype=bfloat16) ;;
    npu)
        export HCCL_BUFFSIZE=300
        ARGS=(actor.dtype=bfloat16) ;;
esac
python3 -m verl.trainer.main_ppo rollout.dtype=bfloat16 "${ARGS[@]}"
"""

GET_MODEL = """\
cat > get_model.py << EOF
import torch
output_dir = "$HOME/models/gpt-oss-20b-bf16"
model = load("größe", torch_dtype=torch.bfloat16)
EOF
python get_model.py
"""


def opened(text: str | bytes, path: str = PATH) -> SourceFile:
    return READER.open(path, text.encode() if isinstance(text, str) else text)


def read(text: str | bytes, path: str = PATH) -> list[Mention]:
    """The mentions that decide something, each checked against the contract of a Mention."""
    source = opened(text, path)
    everything = READER.read(source, text=True)
    found = READER.read(source)
    assert set(found) <= set(everything)
    assert [m.start for m in everything] == sorted(m.start for m in everything)
    for m in everything:
        assert source.data[m.start : m.end].decode(source.encoding) == m.text
        assert m.kind in KINDS
        assert m.role in ROLES
        assert source.position(source.line_starts[m.line - 1]) == (m.line, 1)
        assert source.line_text(m.line)[m.column - 1 :].startswith(m.text.split("\n")[0].rstrip("\r"))
    if found:
        assert READER.mentions(source.data)
    return found


def only(text: str | bytes, path: str = PATH) -> Mention:
    found = read(text, path)
    assert len(found) == 1, found
    return found[0]


def words(text: str) -> list[tuple[str, str]]:
    """Role and text of everything, also of what decides nothing."""
    return [(m.role, m.text) for m in READER.read(opened(text), text=True)]


def patched(source: SourceFile, mentions: Iterable[Mention], value: str) -> bytes:
    edits = [edit for mention in mentions for edit in READER.rewrite(source, mention, value)]
    return PatchSet.of(edits, lambda _: source.data).apply_to(source.path, source.data)


def rewritten(text: str | bytes, value: str, *kinds: str) -> bytes:
    """``text`` with every value of the ``kinds`` rewritten."""
    source = opened(text)
    chosen = [m for m in READER.read(source) if m.kind in kinds and m.role in ("value", "switch")]
    after = patched(source, chosen, value)
    assert READER.check(source, after) is None
    return after


# --- overrides -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "spelled"),
    [
        ("a.b.dtype=bfloat16", "bfloat16"),
        ("+a.b.dtype=bf16", "bf16"),
        ("++a.b.dtype=bf16", "bf16"),
        ("'a.b.dtype=bf16'", "bf16"),
        ('"a.b.dtype=bf16"', "bf16"),
        ("a.b.dtype='bf16'", "bf16"),
        ('a.b.dtype="bf16"', "bf16"),
        ("'a.b.dtype=\"bf16\"'", "bf16"),
        ("a.b.dtype=\\'bf16\\'", "bf16"),
        ("a.b.dtype=torch.bfloat16", "torch.bfloat16"),
        ("a.b.dtype=BF16", "BF16"),
    ],
)
def test_the_value_of_an_override(argument: str, spelled: str) -> None:
    for text in (f"python3 -m x {argument} c=1\n", f"ARGS=(\n  {argument} # why\n)\n", f"ARGS+=({argument})\n"):
        mention = only(text)
        assert (mention.kind, mention.value, mention.role) == ("dtype", "bfloat16", "value")
        assert (mention.text, mention.key, mention.key_path) == (spelled, "dtype", "a.b.dtype")
        assert mention.facts == {"override"}
        assert mention.language == "shell"


def test_a_key_that_is_taken_away_is_only_compared() -> None:
    assert only("python x.py ~a.dtype=bf16\n").role == "comparison"


@pytest.mark.parametrize("default", ["${D:-bfloat16}", '"${D:-bfloat16}"', "${A:-${B:-bfloat16}}", '${D-"bfloat16"}'])
def test_the_default_of_a_variable_in_an_override(default: str) -> None:
    mention = only(f"python x.py a.dtype={default}\n")
    assert (mention.text, mention.key, mention.key_path) == ("bfloat16", "dtype", "a.dtype")
    assert mention.facts == {"override", "default"}


def test_what_comes_from_outside_is_told_where_it_is_taken() -> None:
    text = 'python x.py a.dtype="${DTYPE}" b.bf16=$BF16 c.rollout.name=$ENGINE --bf16 $BF16 d.name=$NAME\n'
    found = read(text)
    assert [(m.text, m.key, m.kind, m.value) for m in found] == [
        ("${DTYPE}", "dtype", "switch", "variable"),
        ("$BF16", "bf16", "switch", "variable"),
        ("$ENGINE", "rollout.name", "switch", "variable"),
    ]
    assert [m.used_by for m in found] == [("a.dtype",), ("b.bf16", "bf16"), ("c.rollout.name",)]
    assert all("given" in m.facts and READER.rewrite(opened(text), m, "float32") == () for m in found)


@pytest.mark.parametrize("quote", ["'", '"'])
def test_overrides_in_a_string_variable(quote: str) -> None:
    text = f"CONFIG={quote}\n  a.dtype=bfloat16 \\\n  b.note=x +c.param_dtype=bf16 \\\n  d.bf16.enabled=true{quote}\n"
    found = read(text)
    assert [(m.line, m.text, m.key_path) for m in found] == [
        (2, "bfloat16", "a.dtype"),
        (3, "bf16", "c.param_dtype"),
        (4, "true", "d.bf16.enabled"),
    ]
    assert all(m.facts == {"override"} for m in found)


@pytest.mark.parametrize(
    "text",
    [
        'bash -c "python x.py a.dtype=bf16"\n',
        "eval 'python x.py a.dtype=bf16'\n",
        'CMD="python3 -m verl.main a.dtype=bf16"\n',
        "X=a.dtype=bf16\n",
        "bash <<EOF\npython x.py a.dtype=bf16\nEOF\n",
        "cat > args.txt <<'EOF'\n+a.dtype=bf16\nEOF\n",
        "x=$(python x.py a.dtype=bf16)\n",
    ],
)
def test_commands_in_strings_and_here_documents(text: str) -> None:
    mention = only(text)
    assert (mention.text, mention.role, mention.key_path) == ("bf16", "value", "a.dtype")
    assert ("heredoc" in mention.facts) == ("<<" in text)


def test_prose_and_names_decide_nothing() -> None:
    text = (
        "# dtype=bfloat16 is the default\n"
        'NOTE="use rollout.dtype=bfloat16 on A100"\n'
        "MODEL=$HOME/models/Demo-30B-BF16\n"
        "python x.py trainer.experiment_name=demo_bf16_run optim.strategy=adamw_bf16\n"
        "cat <<EOF\nbf16 is nice\nEOF\n"
    )
    assert read(text) == []
    assert words(text) == [
        ("comment", "bfloat16"),
        ("text", "bfloat16"),
        ("text", "BF16"),
        ("text", "bf16"),
        ("text", "bf16"),
        ("text", "bf16"),
    ]


@pytest.mark.parametrize("text", ['echo "a.dtype=bf16"\n', "echo a.dtype=bf16 >&2\n", "printf '%s\\n' bf16\n"])
def test_what_is_echoed_is_a_message(text: str) -> None:
    assert only(text).role == "message"


def test_the_name_of_a_switch_is_a_key() -> None:
    assert words("python x.py a.bf16=True\n") == [("key", "bf16"), ("switch", "True")]


# --- variables and options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key", "facts"),
    [
        ("DTYPE=bfloat16\n", "DTYPE", set()),
        ('DTYPE="bfloat16" # why\n', "DTYPE", set()),
        ("DTYPE=${DTYPE:-bfloat16}\n", "DTYPE", {"default"}),
        ("DTYPE=${1:-bfloat16}\n", "DTYPE", {"default"}),
        (': "${DTYPE:=bfloat16}"\n', "DTYPE", {"default"}),
        ("export DTYPE=bfloat16\n", "DTYPE", {"exported"}),
        ("declare -x DTYPE=bfloat16\n", "DTYPE", {"exported"}),
        ("env A=1 DTYPE=bfloat16 python x.py\n", "DTYPE", {"exported"}),
        ("DTYPE=bfloat16 python x.py\n", "DTYPE", {"exported"}),
        ("docker run -e DTYPE=bfloat16 image\n", "DTYPE", {"exported"}),
        ("readonly DTYPE=bfloat16\n", "DTYPE", set()),
        ("SETTINGS[dtype]=bfloat16\n", "dtype", set()),
    ],
)
def test_the_value_of_a_variable(text: str, key: str, facts: set[str]) -> None:
    mention = only(text)
    assert (mention.text, mention.role, mention.key, mention.key_path) == ("bfloat16", "value", key, None)
    assert mention.facts == facts | {"variable"}


def test_a_variable_of_a_function_knows_its_scope() -> None:
    assert only("setup() {\n  local dtype=bf16\n}\n").scope == "setup"


@pytest.mark.parametrize(
    ("text", "key", "facts"),
    [
        ("vllm bench m --dtype bfloat16\n", "dtype", {"option"}),
        ("vllm bench m --dtype=bfloat16\n", "dtype", {"option"}),
        ('vllm bench m --dtype "${D:-bfloat16}"\n', "dtype", {"option", "default"}),
        ("x --torch-dtype bfloat16\n", "torch_dtype", {"option"}),
        ("ARGS=(--torch_dtype bfloat16)\n", "torch_dtype", {"option"}),
        ('ARGS="--seed 1 --torch_dtype bfloat16"\n', "torch_dtype", {"option"}),
        ("x --model.dtype=bfloat16\n", "dtype", {"option", "override"}),
        ("convert in out bfloat16\n", None, {"argument"}),
    ],
)
def test_the_value_of_an_option(text: str, key: str | None, facts: set[str]) -> None:
    mention = only(text)
    assert (mention.text, mention.role, mention.key) == ("bfloat16", "value", key)
    assert mention.facts == facts


def test_items_of_arrays_and_loops() -> None:
    found = read("DTYPES=(bf16 fp16)\nfor dtype in bfloat16; do run $dtype; done\n")
    assert [(m.role, m.key, m.value) for m in found] == [
        ("lookup", "DTYPES", "bfloat16"),
        ("lookup", "DTYPES", "float16"),
        ("lookup", "dtype", "bfloat16"),
    ]
    assert all(m.facts == {"in-list"} for m in found)


# --- switches, environment, installs -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", SWITCH_KEYS)
def test_switches(key: str) -> None:
    for text in (f"python x.py +a.{key}=True\n", f'python x.py "a.{key}=${{X:-true}}"\n'):
        mention = only(text)
        assert (mention.kind, mention.role, mention.value, mention.key) == ("switch", "switch", "true", key)
        assert mention.key_path == f"a.{key}"
        assert mention.text.lower() == "true"
    assert only(f"python x.py a.{key}=$ON\n").value == "variable"


@pytest.mark.parametrize("key", sorted(NAMED_SWITCHES))
def test_named_switches(key: str) -> None:
    for value in sorted(NAMED_SWITCHES[key] - {"???"}):
        mention = only(f"python x.py a.{key}='{value}'\n")
        assert (mention.kind, mention.value, mention.key) == ("switch", value, key)
    assert read(f"python x.py a.{key}=somethingelse\n") == []


@pytest.mark.parametrize("key", sorted(NUMBER_KEYS))
def test_numbers(key: str) -> None:
    assert only(f"python x.py a.{key}=10\n").value == "10"
    assert read(f"N=1\npython x.py a.{key}=1 b.{key}=$N\n") == []


@pytest.mark.parametrize(
    ("text", "span", "value"),
    [
        ("x --bf16\n", "--bf16", "true"),
        ("x --bf16 --other\n", "--bf16", "true"),
        ('x --bf16 "$@"\n', "--bf16", "true"),
        ("x --bf16 true\n", "true", "true"),
        ("x --bf16 False\n", "False", "false"),
        ("x --bf16=True\n", "True", "true"),
        ("x --train.bf16 True\n", "True", "true"),
        ("x --train.bf16\n", "--train.bf16", "true"),
        ("FLAGS='--bf16 --seed 1'\n", "--bf16", "true"),
    ],
)
def test_flags(text: str, span: str, value: str) -> None:
    mention = only(text)
    assert (mention.kind, mention.role, mention.key) == ("switch", "switch", "bf16")
    assert (mention.text, mention.value) == (span, value)
    assert mention.facts == {"cli-flag" if span.startswith("--") else "option"}


def test_options_after_a_placeholder_in_angle_brackets() -> None:
    text = "x --root <your_root> \\\n --seed 1 \\\n --bf16 true \\\n --torch_dtype bfloat16\n"
    assert [(m.key, m.text) for m in read(text)] == [("bf16", "true"), ("torch_dtype", "bfloat16")]


def test_environment_variables_that_decide_kernels() -> None:
    text = (
        "export VLLM_ATTENTION_BACKEND=${B:-FLASH_ATTN} NVTE_FLASH_ATTN=1 TORCH_DTYPE=bf16 VLLM_USE_V1=$V\n"
        "export VLLM_DTYPE=float32\n"
    )
    assert [(m.kind, m.key, m.value) for m in read(text)] == [
        ("switch", "VLLM_ATTENTION_BACKEND", "FLASH_ATTN"),
        ("switch", "NVTE_FLASH_ATTN", "1"),
        ("dtype", "TORCH_DTYPE", "bfloat16"),
        ("switch", "VLLM_DTYPE", "float32"),
    ]
    assert all({"variable", "exported"} <= m.facts for m in read(text))


@pytest.mark.parametrize(
    ("text", "value", "span"),
    [
        ("pip install -U flash_attn==2.8.3\n", "flash_attn", "flash_attn==2.8.3"),
        ('uv pip install "flash-attn>=2"\n', "flash_attn", "flash-attn>=2"),
        ("python3 -m pip install transformer_engine[pytorch]\n", "transformer_engine", "transformer_engine[pytorch]"),
    ],
)
def test_installs(text: str, value: str, span: str) -> None:
    mention = only(text)
    assert (mention.kind, mention.role, mention.value, mention.key) == ("import", "import", value, None)
    assert (mention.text, mention.facts) == (span, {"install"})
    assert READER.rewrite(opened(text), mention, "float32") == ()


def test_an_uninstall_installs_nothing() -> None:
    assert read("pip uninstall -y flash-attn\nls flash_attn==2\n") == []


# --- conditions and devices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "test", ['[ "$D" = bf16 ]', '[[ $D == "bf16" ]]', "test $D = bf16", '[[ $D != "bf16" ]]', "grep -q bf16 file"]
)
def test_comparisons(test: str) -> None:
    assert only(f"if {test}; then run; fi\n").role == "comparison"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('if [ "$X" = bf16 ]; then D=bfloat16; fi', True),
        ('if [ "$X" = bf16 ]; then :; else D=bfloat16; fi', False),
        ('if [ "$X" != bf16 ]; then :; else D=bfloat16; fi', True),
        ('if ! [[ "$X" == bf16 ]]; then D=bfloat16; fi', False),
        ('if [ "$X" = fp32 ]; then :; elif [ "$X" = bf16 ]; then D=bfloat16; fi', True),
        ('[ "$X" = bf16 ] && D=bfloat16', True),
        ('[ "$X" = bf16 ] || D=bfloat16', False),
        ('if [ "$USE_BF16" = true ]; then D=bfloat16; fi', True),
        ('if [ "$USE_BF16" = false ]; then D=bfloat16; fi', False),
        ("case $X in bf16) D=bfloat16 ;; esac", True),
        ("case $X in --bf16) D=bfloat16 ;; esac", True),
        ("case $X in fp32) D=bfloat16 ;; esac", False),
        ('if [ "$X" = bf16 ]; then ARGS="a.dtype=bfloat16 b=c"; fi', True),
    ],
)
def test_branches_that_ask_for_bf16(text: str, asked: bool) -> None:
    decides = [m for m in read(f"{text}\n") if m.text == "bfloat16"]
    assert [("asks-bf16" in m.facts, m.role) for m in decides] == [(asked, "value")]


def test_a_branch_that_asks_for_flash_attention() -> None:
    found = read('if [ "$A" = flash_attention_2 ]; then x a.attn_implementation=flash_attention_2; fi\n')
    assert [("asks-flash-attention" in m.facts, m.role) for m in found] == [(False, "comparison"), (True, "value")]


@pytest.mark.parametrize("word", sorted(DEVICE_WORDS))
def test_the_path_of_another_device(word: str) -> None:
    assert only("x a.dtype=bf16\n", f"examples/run_demo_{word}.sh").facts == {"override", "other-device"}


@pytest.mark.parametrize(
    "line",
    [
        "trainer.device=npu",
        "x trainer.device='npu'",
        "device_name=npu",
        "DEVICE=${DEVICE:-npu}",
        "export ASCEND_LAUNCH_BLOCKING=1",
        "export HCCL_IF_IP=$(hostname -I)",
    ],
)
def test_a_script_for_another_device(line: str) -> None:
    assert all("other-device" in m.facts for m in read(f"x a.dtype=bf16\n{line}\ny a.dtype=bf16\n"))


@pytest.mark.parametrize(
    "line", ["x trainer.device=cuda", "device=${DEVICE:-cuda}", "echo trainer.device=npu", "unset HCCL_X"]
)
def test_a_script_for_cuda(line: str) -> None:
    assert only(f"x a.dtype=bf16\n{line}\n").facts == {"override"}


def test_branches_for_another_device() -> None:
    assert ["other-device" in m.facts for m in read(BOTH_DEVICES)] == [False, True, False]


@pytest.mark.parametrize(
    ("test", "other"),
    [
        ('[ "$DEVICE" = npu ]', True),
        ("command -v npu-smi", True),
        ('[ "$DEVICE" = npu ] || [ "$DEVICE" = cuda ]', False),
        ('[ "$DEVICE" != npu ]', False),
    ],
)
def test_conditions_on_the_device(test: str, other: bool) -> None:
    assert ("other-device" in only(f"if {test}; then x a.dtype=bf16; fi\n").facts) is other


def test_a_function_for_another_device() -> None:
    text = "run_a() { export HCCL_X=1; x a.dtype=bf16; }\nrun_b() { x a.dtype=bf16; }\n"
    assert [(m.scope, "other-device" in m.facts) for m in read(text)] == [("run_a", True), ("run_b", False)]


# --- Python in scripts ---------------------------------------------------------------------------------------------


def test_python_in_a_here_document() -> None:
    mention = only(GET_MODEL)
    assert (mention.language, mention.text, mention.role) == ("python", "torch.bfloat16", "value")
    assert (mention.key, mention.line, mention.facts) == ("torch_dtype", 4, {"heredoc"})
    after = rewritten(GET_MODEL, "float32", "dtype")
    assert after == GET_MODEL.replace("torch.bfloat16", "torch.float32").encode()


@pytest.mark.parametrize(
    "text",
    [
        "python - <<'PY'\nimport torch\nx = torch.bfloat16\nPY\n",
        "uv run python3 - <<PY | tee log\nimport torch\nx = torch.bfloat16  # $HOME\nPY\n",
        "python - <<-PY\n\timport torch\n\tx = torch.bfloat16\n\tPY\n",
        "python3 -c 'import torch; x = torch.bfloat16'\n",
        'python3 -c "import torch; x = torch.bfloat16"\n',
        "f() {\npython <<'PY'\nimport torch\nx = m.to(torch.bfloat16)\nPY\n}\n",
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_python_for_the_interpreter(text: str, mark: bytes) -> None:
    data = mark + "# größer\n".encode() + text.encode()
    mention = only(data)
    assert (mention.language, mention.text) == ("python", "torch.bfloat16")
    assert "heredoc" in mention.facts
    assert rewritten(data, "float16", "dtype") == data.replace(b"torch.bfloat16", b"torch.float16")


def test_python_that_does_not_parse_is_left_alone() -> None:
    assert read("python - <<'PY'\nx = (torch.bfloat16\nPY\n") == []


def test_an_edit_that_breaks_python_is_noticed() -> None:
    source = opened(GET_MODEL)
    problem = READER.check(source, source.data.replace(b"torch.bfloat16", b"(torch.float32"))
    assert problem == "the Python in it no longer parses"


# --- rewriting -----------------------------------------------------------------------------------------------------


def test_a_launch_script() -> None:
    source = opened(LAUNCH)
    dtypes = [m for m in READER.read(source) if m.kind == "dtype"]
    attention = [m for m in READER.read(source) if m.kind == "attention"]
    edits = [edit for m in dtypes for edit in READER.rewrite(source, m, "float16")]
    edits += [edit for m in attention for edit in READER.rewrite(source, m, "sdpa")]
    after = PatchSet.of(edits, lambda _: source.data).apply_to(PATH, source.data)
    expected = LAUNCH
    for old, new in (
        ("${DTYPE:-bfloat16}", "${DTYPE:-float16}"),
        ("model_dtype=bfloat16", "model_dtype=float16"),
        ("param_dtype=bf16", "param_dtype=fp16"),
        ("=flash_attention_2", "=sdpa"),
        ("dtype='bfloat16'", "dtype='float16'"),
    ):
        expected = expected.replace(old, new)
    assert after == expected.encode()
    assert READER.check(source, after) is None
    rest = [(m.kind, m.key, m.value) for m in read(after) if m.kind in ("switch", "import")]
    assert rest == [
        ("switch", "VLLM_ATTENTION_BACKEND", "FLASH_ATTN"),
        ("import", None, "flash_attn"),
        ("switch", "use_remove_padding", "true"),
        ("switch", "enforce_eager", "true"),
    ]


def test_every_mention_of_a_script_for_ascend_says_so() -> None:
    found = read(ASCEND)
    assert [m.text for m in found] == ["bfloat16", "True"]
    assert all("other-device" in m.facts for m in found)


@pytest.mark.parametrize(
    ("before", "off", "half"),
    [
        ("x a.bf16=True\n", "x a.bf16=False\n", "x a.fp16=True\n"),
        ("x a.bf16=true a.fp16=false\n", "x a.bf16=false a.fp16=false\n", "x a.bf16=false a.fp16=true\n"),
        ("x a.bf16=true b.fp16=false\n", "x a.bf16=false b.fp16=false\n", "x a.fp16=true b.fp16=false\n"),
        ("A=(a.bf16=1\na.fp16=0)\n", "A=(a.bf16=0\na.fp16=0)\n", "A=(a.bf16=0\na.fp16=1)\n"),
        ("x a.bf16.enabled=true\n", "x a.bf16.enabled=false\n", "x a.fp16.enabled=true\n"),
        ("x --bf16 True\n", "x --bf16 False\n", "x --fp16 True\n"),
        ("C='a.bf16=true b=c'\n", "C='a.bf16=false b=c'\n", "C='a.fp16=true b=c'\n"),
        ("x a.bf16=true a.fp16=$FP16\n", "x a.bf16=false a.fp16=$FP16\n", "x a.bf16=true a.fp16=$FP16\n"),
        ("BF16=True\n", "BF16=False\n", "BF16=True\n"),
        ("x --bf16\n", "x --bf16\n", "x --bf16\n"),
    ],
)
def test_bf16_switches(before: str, off: str, half: str) -> None:
    source = opened(before)
    bf16 = [m for m in READER.read(source) if "bf16" in (m.key or "").lower()]
    assert patched(source, bf16, "float32").decode() == off
    assert patched(source, bf16, "float16").decode() == half


def test_a_switch_keeps_its_case() -> None:
    text = "x a.use_remove_padding=True b.use_remove_padding=true C.use_remove_padding=TRUE\n"
    assert rewritten(text, "false", "switch").decode().split() == [
        "x",
        "a.use_remove_padding=False",
        "b.use_remove_padding=false",
        "C.use_remove_padding=FALSE",
    ]


def test_words_that_would_not_stay_one_word_are_not_written() -> None:
    source = opened("x a.attn_implementation=flash_attention_2\n")
    assert READER.rewrite(source, READER.read(source)[0], "a b") == ()
    assert READER.rewrite(source, READER.read(source)[0], "$(x)") == ()


def test_nothing_to_rewrite_or_extend() -> None:
    source = opened("x a.dtype=bf16\n")
    mention = READER.read(source)[0]
    assert READER.rewrite(source, mention, "bfloat16") == ()
    assert READER.extend(source, mention, "float32") == ()


def test_a_script_that_no_longer_parses_is_noticed() -> None:
    source = opened("x a.dtype=bf16\n")
    assert READER.check(source, b"if x; then a.dtype=fp32\n") == "line 2: not a shell script that bash can parse"
    assert READER.check(source, b"x\0") == "not text: byte 0x00 at offset 1"


def test_a_script_that_never_parsed_may_change() -> None:
    source = opened("if x; then a.dtype=bf16\n")
    assert READER.check(source, b"if x; then a.dtype=fp32\n") is None


# --- bytes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_line_ends_and_byte_order_marks(line_end: bytes, mark: bytes) -> None:
    data = mark + LAUNCH.replace("demo", "démo").encode().replace(b"\n", line_end)
    plain = [(m.line, m.column, m.text, m.role) for m in read(LAUNCH.replace("demo", "démo"))]
    assert [(m.line, m.column, m.text, m.role) for m in read(data)] == plain
    assert rewritten(data, "float32", "dtype") == (
        data.replace(b"=bfloat16", b"=float32").replace(b"rollout.dtype=float32 on", b"rollout.dtype=bfloat16 on")
        .replace(b":-bfloat16", b":-float32").replace(b"'bfloat16'", b"'float32'").replace(b"=bf16", b"=fp32")
    )  # fmt: skip


def test_bytes_that_are_not_utf_8_stay() -> None:
    data = b"# caf\xe9\nx a.note='\xff' a.dtype=bf16\n"
    mention = only(data)
    assert (mention.line, mention.column) == (2, 22)
    assert rewritten(data, "float32", "dtype") == data.replace(b"bf16", b"fp32")


def test_null_bytes_are_refused() -> None:
    with pytest.raises(ReadError, match="byte 0x00 at offset 2"):
        READER.open(PATH, b"x \0")


def test_the_filter_passes_what_can_hold_a_mention() -> None:
    assert READER.mentions(b"x --use-flash-attn")
    assert READER.mentions(b"python <<E\nx.half()\nE\n")
    assert not READER.mentions(b"#!/bin/bash\necho hello\npython train.py --seed 1\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "if [ bf16",
        "a.dtype=",
        "x 'bf16",
        "cat <<EOF\na.dtype=bf16\n",
        "x=(bf16",
        "}} a.dtype=bf16\n",
        "${A:-" * 500 + "bf16" + "}" * 500,
        "[ x = bf16 ] && " * 300 + "Y=bf16\n",
        "! " * 600 + "[ x = bf16 ] && Y=bf16\n",
        'eval "' * 200 + "a.dtype=bf16",
        "$(" * 300 + "x --dtype bf16" + ")" * 300,
    ],
)
def test_broken_and_strange_scripts_are_read(text: str) -> None:
    read(text)


# --- properties ----------------------------------------------------------------------------------------------------

DTYPE_WORDS = st.sampled_from(["bf16", "bfloat16", "torch.bfloat16", "BF16"])
LINES = st.sampled_from(
    [
        "python x.py a.dtype={} +b.param_dtype='{}' \\\n  \"++c.dtype={}\" --dtype {}",
        "DTYPE=${{DTYPE:-{}}}",
        "export TORCH_DTYPE={}",
        "ARGS+=( a.dtype={} # naïve\n  --kv-cache-dtype {} )",
        'CONFIG="a.dtype={} \\\n  b.dtype={}"',
        'if [ "$D" = {} ]; then D={}; fi',
        "# größer {}",
        "echo 'naïve {} run'",
        "case $D in {}) x --dtype {} ;; esac",
        ': "${{D:={}}}"',
        "run() {{ local d={}; }}",
        "bash -c 'python x.py a.dtype={}'",
        "cat <<EOF > notes.txt\nsome {} words\nEOF",
    ]
)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    lines = draw(st.lists(LINES, min_size=1, max_size=8))
    return "".join(line.format(*(draw(DTYPE_WORDS) for _ in range(line.count("{}")))) + "\n" for line in lines)


@settings(max_examples=150)
@given(scripts(), st.sampled_from(["float32", "float16"]))
def test_only_the_values_change_and_a_second_run_finds_none(script: str, dtype: str) -> None:
    source = opened(script)
    chosen = [m for m in read(script) if m.kind == "dtype" and m.role == "value"]
    after = patched(source, chosen, dtype)
    assert READER.check(source, after) is None
    spelled = {"bf16": "fp", "BF16": "FP", "bfloat16": "float", "torch.bfloat16": "torch.float"}
    expected, done = b"", 0
    for m in chosen:
        expected += source.data[done : m.start] + (spelled[m.text] + dtype[-2:]).encode()
        done = m.end
    assert after == expected + source.data[done:]
    again = read(after)
    assert [m for m in again if m.value == "bfloat16" and m.role == "value"] == []
    others = [m.text for m in read(script) if m.kind == "dtype" and m.role != "value"]
    assert [m.text for m in again if m.kind == "dtype" and m.value != dtype] == others


@pytest.mark.skipif(BASH is None, reason="no bash")
@pytest.mark.parametrize("text", [LAUNCH, ASCEND, BOTH_DEVICES, GET_MODEL])
def test_bash_accepts_the_result(text: str) -> None:
    for value in ("float32", "float16"):
        after = rewritten(text, value, "dtype", "switch")
        run = subprocess.run([str(BASH), "-n"], input=after, capture_output=True, check=False)
        assert (run.returncode, run.stderr) == (0, b"")


@settings(max_examples=200)
@given(st.text(alphabet="bf16 =\"'${}()\\\n<>-.adtypEOF&|;#[]é", max_size=60))
def test_any_text_is_read(text: str) -> None:
    read(f"{text} a.dtype=bf16\n")


# --- settings in one word ------------------------------------------------------------------------------------------


def test_settings_with_commas_between_them() -> None:
    mention = only("lm_eval --model_args pretrained=$MODEL,dtype=bfloat16,tp=2\n")
    assert (mention.text, mention.key, mention.role, mention.spelling) == ("bfloat16", "dtype", "value", "long")
    assert "override" in mention.facts


@pytest.mark.parametrize("word", ["tags=a,bf16,b", "kinds=bf16,fp16", "names=[a,dtype=bf16]"])
def test_a_list_with_commas_is_no_setting(word: str) -> None:
    assert read(f"python x.py {word}\n") == []


def test_jobs_of_slurm_are_scripts() -> None:
    assert {".slurm", ".sbatch"} <= set(ShellLanguage.suffixes)


# --- what stands before && and in a condition ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [
        "python train.py a.dtype=bfloat16",
        "mkdir -p out/bf16",
        "export D=bf16",
        "(python train.py a.dtype=bf16)",
        "{ python train.py a.dtype=bf16; }",
    ],
)
def test_a_command_before_another_asks_for_nothing(before: str) -> None:
    assert read(f"{before} && python eval.py a.dtype=bfloat16\n")[-1].facts == {"override"}


@pytest.mark.parametrize(
    "before",
    [
        '[ "$A" = bf16 ]',
        "test $A = bf16",
        "grep -q bf16 file 2>/dev/null",
        "echo $A | grep -q bf16",
        "(( USE_BF16 ))",
        '( [ "$A" = bf16 ] )',
        '{ [ "$A" = bf16 ]; }',
        "$USE_BF16",
        '"$USE_BF16"',
    ],
)
def test_a_test_before_a_command_asks(before: str) -> None:
    assert read(f"{before} && python eval.py a.dtype=bfloat16\n")[-1].facts == {"override", "asks-bf16"}


@pytest.mark.parametrize(
    ("before", "other"),
    [
        ("command -v npu-smi >/dev/null 2>&1", True),
        ("which npu-smi", True),
        ("npu-smi info", True),
        ('python3 -c "import torch_npu" 2>/dev/null', True),
        ("python3 train.py --out npu", False),
        ("mkdir -p out/npu", False),
        ("./run_npu.sh", False),
    ],
)
def test_a_command_before_another_looks_for_a_device(before: str, other: bool) -> None:
    assert ("other-device" in only(f"{before} && x a.dtype=bf16\n").facts) is other


@pytest.mark.parametrize(
    ("test", "asks"),
    [
        ("is_bf16_supported", True),
        ("supports bf16", True),
        ("supports --bf16", True),
        ("$USE_BF16", True),
        ("python -c 'import torch; assert torch.cuda.is_bf16_supported()'", True),
        ("x --dtype=bf16", False),
        ("x --dtype bf16", False),
        ("x --bf16 true", False),
        ("x a.dtype=bf16", False),
        ("D=bf16 x", False),
        ("bash -c 'x a.dtype=bf16'", False),
        ("bash -c 'x a.use_bf16=true'", False),
        ("bash -c 'x --use_bf16 true'", False),
        ("python -c 'import torch; torch.zeros(1, dtype=torch.bfloat16)'", False),
        ('[ "$(x --dtype bf16)" = 1 ]', False),
    ],
)
def test_what_a_condition_sets_it_does_not_ask_for(test: str, asks: bool) -> None:
    found = read(f"if {test}; then y a.dtype=bfloat16; fi\n")[-1]
    assert (found.text, "asks-bf16" in found.facts) == ("bfloat16", asks)


# --- every setting, in every place -----------------------------------------------------------------------------------

SETTINGS = builtin_vocabulary().all_settings


def values_of(setting: Setting) -> list[str]:
    """Values that are told of a setting."""
    examples = {
        BOOLEAN: ["true", "False", "1"],
        CHOICE: sorted(setting.choices - {"???"}),
        NUMBER: ["4"],
        DTYPE: ["bfloat16"],
        ATTENTION: ["flash_attention_2"],
        ANY: ["1", "some"],
    }
    return [value for takes in sorted(setting.takes) for value in examples[takes]]


@pytest.mark.parametrize("setting", [each for each in SETTINGS if not each.variable], ids=lambda each: each.name)
def test_every_setting_is_told(setting: Setting) -> None:
    name = setting.name.replace("*", "x")
    dashed = name.replace("_", "-")
    for value in values_of(setting):
        for text in (
            f"x a.{name}={value}",
            f"x ++a.{name}='{value}'",
            f"A=(a.{name}={value})",
            f'A="a.{name}={value} b=c"',
            f"x a.{name}=${{X:-{value}}}",
            f"x --{name} {value}",
            f"x --{name}={value}",
            f"x --{dashed} {value}",
            f"x --{dashed}={value}",
            f"A=(--{name} {value})",
        ):
            assert [m.text for m in read(f"{text}\n") if m.text == value] == [value], text


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.variable], ids=lambda each: each.name)
def test_every_variable_is_told(setting: Setting) -> None:
    name = setting.name.replace("*", "x")
    for value in values_of(setting):
        for text in (
            f"{name}={value}",
            f"export {name}='{value}'",
            f"export {name}=${{{name}:-{value}}}",
            f"{name}={value} x",
            f"env {name}={value} x",
            f"docker run -e {name}={value} x",
        ):
            assert [m.text for m in read(f"{text}\n") if m.text == value] == [value], text


# --- variables that settings take ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assigned",
    [
        "X=bf16",
        'X="bf16"',
        "readonly X=bf16",
        "export A Y=1 X='bf16'",
        "declare -x X=bf16",
        "X=${1:-bf16}",
        'X="${X:-bf16}"',
        "X=${A:-${B:-bf16}}",
        ': "${X:=bf16}"',
        "Y=bf16; X=$Y",
        'Y=bf16; X="${A:-$Y}"',
        "if a; then X=fp32; else X=bf16; fi",
        "X=fp32; X=bf16",
        "a && X=bf16",
        "declare -A M=([k]=bf16)\nX=${M[k]}",
        "M[k]=bf16; X=${M[k]}",
        "f() { X=$1; }\nf bf16",
        'case "$2" in b) X=bf16 ;; esac',
    ],
)
@pytest.mark.parametrize(
    ("taken", "key", "path"),
    [
        ("x a.b.dtype=$X", "dtype", "a.b.dtype"),
        ('x "+a.b.dtype=${X}"', "dtype", "a.b.dtype"),
        ("x a.b.dtype=${X:-fp32}", "dtype", "a.b.dtype"),
        ('ARGS=(\n  a.b.dtype="$X"\n)\nx "${ARGS[@]}"', "dtype", "a.b.dtype"),
        ('x --torch-dtype "$X"', "torch_dtype", None),
        ("x --torch_dtype=${X}", "torch_dtype", None),
        ('x --args "pretrained=$M,dtype=$X,n=1"', "dtype", None),
        ('bash -c "x a.b.dtype=$X"', "dtype", "a.b.dtype"),
        ("""x a.b='{"dtype": "'$X'"}'""", "dtype", "a.b.dtype"),
    ],
)
def test_a_value_is_told_where_it_is_assigned(assigned: str, taken: str, key: str, path: str | None) -> None:
    text = f"{assigned}\n{taken}\n"
    mention = only_of(text, "bfloat16")
    assert (mention.text, mention.role, mention.key, mention.key_path) == ("bf16", "value", key, path)
    assert mention.used_by == (path or key,)
    assert mention.start < len(assigned)
    assert "variable" in mention.facts


def only_of(text: str, value: str) -> Mention:
    """The only mention of a dtype, but for those of float16."""
    found = [m for m in read(text) if m.kind != "switch" and m.value != "float16"]
    assert [m.value for m in found] == [value], found
    return found[0]


@pytest.mark.parametrize("setting", [each for each in SETTINGS if not each.variable], ids=lambda each: each.name)
def test_every_setting_takes_a_variable(setting: Setting) -> None:
    name = setting.name.replace("*", "x")
    for value in values_of(setting):
        for taken in (f"x a.{name}=$V_1", f"A=(a.{name}='${{V_1}}')", f"x --{name}=$V_1", f"x --{name} $V_1"):
            mention = only(f"V_1={value}\n{taken}\n")
            assert (mention.text, mention.line, len(mention.used_by)) == (value, 1, 1), taken


def test_several_settings_that_take_one_variable_are_one_finding() -> None:
    text = "SP=4\nx " + " ".join(f"{name}.ulysses_sequence_parallel_size=$SP" for name in "abcde") + "\n"
    paths = [f"{name}.ulysses_sequence_parallel_size" for name in "abc"]
    assert only(text).used_by == (*paths, "2 more")


def test_settings_of_different_kinds_that_take_one_variable_are_told_together() -> None:
    mention = only("ON=True\nx a.bf16=$ON b.use_remove_padding=$ON\n")
    assert (mention.key, [other.key for other in mention.also]) == ("bf16", ["use_remove_padding"])


@pytest.mark.parametrize(
    ("other", "changes"),
    [
        ("", True),
        ("y name=run-$ON", True),
        ("echo $ON", True),
        ("y c.save=$ON", False),
        ('[ "$ON" = True ] && y', False),
        ("y --deterministic $ON", False),
    ],
)
def test_a_switch_that_something_else_takes_as_well_is_not_changed(other: str, changes: bool) -> None:
    text = f"ON=True\nx a.bf16=$ON\n{other}\n"
    mention = only(text)
    assert bool(READER.rewrite(opened(text), mention, "float32")) is changes


def test_a_dtype_that_names_a_run_as_well_changes() -> None:
    assert rewritten("D=bf16\nx a.dtype=$D exp=run_$D\n", "float32", "dtype") == b"D=fp32\nx a.dtype=$D exp=run_$D\n"


def test_one_of_many_values_in_a_row_is_not_changed() -> None:
    for text in ("for d in bf16 fp32; do x a.dtype=$d; done\n", "D=(bf16 fp32)\nx a.dtype=${D[0]}\n"):
        mention = only_of(text, "bfloat16")
        assert (mention.role, READER.rewrite(opened(text), mention, "float32")) == ("value", ())


@pytest.mark.parametrize(
    "assigned", ["X=$1", "X=$(choose)", "X=${P}bf16", "X=`choose`", "read X", "source env.sh", "X+=6"]
)
def test_a_value_that_a_run_alone_knows_is_told_once_where_it_is_taken(assigned: str) -> None:
    mention = only(f"{assigned}\nx a.dtype=$X b.dtype=$X\n")
    assert (mention.line, mention.text, mention.value) == (2, "$X", "variable")
    assert mention.used_by == ("a.dtype", "b.dtype")


@pytest.mark.parametrize("text", ['x a.dtype="${P}bf16"\n', "x a.dtype=$(choose)\n", "x --dtype $1\n"])
def test_a_text_made_of_parts_is_told_where_it_stands(text: str) -> None:
    assert only(text).value == "variable"


@pytest.mark.parametrize("text", ["exp=bf16-run\nx a.name=$exp\n", "D=float32\nx a.dtype=$D\n", "X=$1\nx a.name=$X\n"])
def test_a_variable_that_decides_nothing_is_not_told(text: str) -> None:
    assert read(text) == []


def test_a_local_variable_is_that_of_its_function() -> None:
    text = "f() { local d=bf16; x a.dtype=$d; }\ng() { local d=bf16; x b.param_dtype=$d; }\n"
    assert [(m.key, m.scope) for m in read(text)] == [("dtype", "f"), ("param_dtype", "g")]


def test_a_variable_for_another_device_is_left_to_it() -> None:
    text = "if [ $DEVICE = npu ]; then\n  D=bf16\n  x device=npu a.dtype=$D\nfi\n"
    assert {"other-device"} <= only(text).facts


def test_twins_in_variables_change_together() -> None:
    text = "BF=True\nFP=False\nx --bf16 $BF --fp16 $FP\n"
    source = opened(text)
    chosen = [m for m in READER.read(source) if m.key == "bf16"]
    assert patched(source, chosen, "float16") == b"BF=False\nFP=True\nx --bf16 $BF --fp16 $FP\n"


# --- dicts in words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "before"),
    [
        ("x a.b={dtype:@,c:1}", "a.b."),
        ("x +a.b='{dtype: @}'", "a.b."),
        ("""x a.b='{"c": 1, "dtype": "@"}'""", "a.b."),
        ("""x a.b='{"p": "/m:8/{x}", "dtype": "@"}'""", "a.b."),
        ('x a.b="{\\"dtype\\": \\"@\\"}"', "a.b."),
        ("""x --json-config '{"dtype": "@"}'""", ""),
        ("""A=('{"dtype": "@"}')""", ""),
        ("""J='{\n  "dtype": "@"\n}'""", ""),
        ("""x a='[{"dtype": "@"}]'""", "a."),
        ("""x a.b='{"c": {"dtype": "@"}, "d": 1}'""", "a.b.c."),
    ],
)
def test_a_dict_in_a_word(word: str, before: str) -> None:
    text = word.replace("@", "bf16") + "\n"
    mention = only(text)
    assert (mention.text, mention.key) == ("bf16", "dtype")
    if before.count(".") != 1:
        assert mention.key_path == f"{before}dtype"
    assert rewritten(text, "float32", "dtype").decode() == word.replace("@", "fp32") + "\n"


def test_switches_and_variables_in_dicts() -> None:
    text = (
        """x a='{"use_remove_padding": true}' --deepspeed '{"bf16": {"enabled": true}}'\n"""
        """ray job submit --runtime-env-json='{"env_vars": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}}' -- x\n"""
    )
    assert [(m.key, m.text) for m in read(text)] == [
        ("use_remove_padding", "true"),
        ("bf16.enabled", "true"),
        ("VLLM_ATTENTION_BACKEND", "FLASH_ATTN"),
    ]


@pytest.mark.parametrize(
    "text", ["f() { dtype:bf16; }\n", "x {dtype,bf16}\n", "x ${dtype:-1}\n", 'echo \'{"dtype": "bf16"}\'\n']
)
def test_what_is_no_dict_or_only_shown(text: str) -> None:
    assert [m for m in read(text) if m.role != "message"] == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("cat > c.yaml <<EOF\nmodel:\n  dtype: @\n  path: $HOME\nEOF\n", "yaml"),
        ("cat <<'EOF' > c.yml\nmodel: {dtype: @}\nEOF\n", "yaml"),
        ("tee -a c.yaml <<EOF\ndtype: @\nEOF\n", "yaml"),
        ("kubectl apply -f - <<EOF\ndtype: @\nEOF\n", "yaml"),
        ('cat > c.json <<EOF\n{"model_type": "x", "torch_dtype": "@"}\nEOF\n', "json"),
        ("cat > f.py <<EOF\nload(dtype='@')\nEOF\n", "python"),
    ],
)
def test_a_whole_file_in_a_here_document(text: str, language: str) -> None:
    before = text.replace("@", "bfloat16")
    mention = only(before)
    assert (mention.language, mention.value) == (language, "bfloat16")
    assert "heredoc" in mention.facts
    assert rewritten(before, "float32", "dtype").decode() == text.replace("@", "float32")


# --- a second run ----------------------------------------------------------------------------------------------------

PLACES = st.sampled_from(
    [
        "x a.dtype=bf16",
        "x --dtype=bf16",
        "x --dtype bfloat16",
        "x --bf16 True",
        "x a.bf16=true a.fp16=false",
        "x b.bf16=true",
        "x a.attn_implementation=flash_attention_2",
        "export DTYPE=${DTYPE:-bfloat16}",
        "bash -c 'x a.dtype=bf16 a.bf16=true'",
        "python -c 'import torch; x = torch.bfloat16'",
        "grep -q bf16 f 2>/dev/null",
        '[ "$D" = bf16 ]',
        '[ "$(x --dtype bf16 --bf16 true)" = 1 ]',
        "mkdir -p out/bf16",
        "D=bf16",
        "x a.dtype=$D",
        "B=true",
        "x a.bf16=$B",
        "x a={dtype:bf16}",
    ]
)
JOINS = st.sampled_from(
    [
        "{} && {}",
        "{} || {}",
        "! {} || {}",
        "if {}; then {}; fi",
        "while ! {}; do {}; done",
        "if {}; then :; else {}; fi",
        "f() {{ {}; {}; }}",
        "({}) && {}",
        "{} | {}",
    ]
)


def once(script: str, dtype: str) -> str:
    """The script with what does not ask for it rewritten, as the rules do."""
    source = opened(script)
    edits = []
    for m in READER.read(source):
        if m.role not in ("value", "switch") or m.facts & {"asks-bf16", "asks-flash-attention"}:
            continue
        if m.kind == "attention" and m.value != "sdpa":
            edits += READER.rewrite(source, m, "sdpa")
        elif m.value == "bfloat16" or (m.value == "true" and m.key == "bf16"):
            edits += READER.rewrite(source, m, dtype)
    return PatchSet.of(edits, lambda _: source.data).apply_to(PATH, source.data).decode()


@settings(max_examples=200)
@given(st.lists(st.tuples(JOINS, PLACES, PLACES), min_size=1, max_size=4), st.sampled_from(["float32", "float16"]))
def test_a_second_run_changes_nothing(lines: list[tuple[str, str, str]], dtype: str) -> None:
    script = "".join(join.format(first, second) + "\n" for join, first, second in lines)
    after = once(script, dtype)
    assert once(after, dtype) == after


def test_commands_in_a_row_nest_nothing() -> None:
    assert len(read("x a.dtype=bf16 && " * 3_000 + "y\n")) == 3_000


# --- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["x=(" * 100_000, "x=(bf16\n" * 50_000, "x=(')' " * 50_000], ids=["x", "bf16", "quoted"]
)
def test_too_many_open_arrays_are_refused(text: str) -> None:
    with pytest.raises(ReadError, match="more than 200 arrays inside each other"):
        read(text)


def test_arrays_that_close_are_read() -> None:
    assert len(read("x=(bf16) # (\n" * 500)) == 500


def test_a_long_command_takes_no_square_of_its_length() -> None:
    source = opened("x " + "a.bf16=true " * 5_000 + "a." * 50_000 + "\n")
    found = READER.read(source)
    edits = [edit for m in found for edit in READER.rewrite(source, m, "float16")]
    assert (len(found), len(edits)) == (5_000, 5_000)


@pytest.mark.parametrize("option", ["-c ", "-uc ", " -c  ", "-c \\\n "])
def test_python_after_an_option_however_it_is_spaced(option: str) -> None:
    assert [m.text for m in read(f"python3 {option}'x.half()'\n")] == [".half()"]
