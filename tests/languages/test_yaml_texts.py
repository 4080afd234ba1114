"""Texts of other languages in YAML: commands, environments, and files in a scalar."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from patched import run

from precpatch.languages.source import ReadError
from precpatch.languages.yaml import YamlLanguage
from precpatch.vocabulary import builtin_vocabulary

SKYPILOT = """\
envs:
  ROLLOUT_DTYPE: bfloat16
  MODEL: org/model-bf16
setup: |
  pip install flash-attn --no-build-isolation
run: |
  # python3 old.py --dtype bfloat16
  echo "training with dtype=bfloat16"
  python3 -m train \\
    actor.rollout.dtype=$ROLLOUT_DTYPE \\
    actor.model.use_remove_padding=True
  vllm serve $MODEL --dtype bfloat16 --kv-cache-dtype fp8
"""


def test_every_place_of_a_block_is_told_and_not_only_the_first() -> None:
    after = run("job.yaml", SKYPILOT)
    assert after.text == (
        SKYPILOT.replace("DTYPE: bfloat16", "DTYPE: float32")
        .replace("--dtype bfloat16 --kv", "--dtype float32 --kv")
        .replace("padding=True", "padding=False")
    )
    assert after.reports == [(5, "flash-attn-install"), (12, "fp8")]


def test_a_variable_of_the_environment_is_told_with_the_settings_that_take_it() -> None:
    assert run("job.yaml", SKYPILOT).used_by[2] == ("actor.rollout.dtype",)


ENVIRONMENTS = {
    "mapping": "env:\n  WANTED: {}\nrun: python t.py --dtype $WANTED\n",
    "names and values": "env:\n- name: WANTED\n  value: {}\ncommand: [python, t.py]\nargs: [--dtype, $(WANTED)]\n",
    "list": "environment:\n- WANTED={}\nentrypoint: python t.py --dtype ${{WANTED}}\n",
    "lines before": "script:\n- export WANTED={}\n- python t.py --dtype $WANTED\n",
    "in the document": "jobs:\n  a:\n    env: {{WANTED: {}}}\n    steps:\n    - run: python t.py dtype=$WANTED\n",
}


@pytest.mark.parametrize("shape", ENVIRONMENTS)
def test_environments_give_values_to_the_commands_of_their_document(shape: str) -> None:
    text = ENVIRONMENTS[shape]
    assert run("c.yaml", text.format("bfloat16")).text == text.format("float32")
    assert run("c.yaml", text.format("'bfloat16'" if "list" not in shape else "bfloat16")).reports == []
    assert run("c.yaml", text.format("run-bf16")).text == text.format("run-bf16")


def test_a_switch_that_a_line_sets_is_that_of_the_lines_after_it() -> None:
    text = "script:\n- ON=True\n- python t.py a.use_remove_padding=$ON\n"
    assert run("c.yaml", text).text == text.replace("True", "False")


def test_a_variable_that_no_command_of_its_document_takes_is_told_by_its_own_name_only() -> None:
    text = "env: {WANTED: bfloat16}\nrun: python t.py\n---\nrun: python t.py --dtype $WANTED\n"
    after = run("c.yaml", text)
    assert (after.text, after.reports) == (text, [(4, "dtype-given-outside")])


SCALARS = {
    "plain": "run: python t.py --dtype {}\n",
    "plain over lines": "run: python t.py\n  --name x\n  --dtype {}\n",
    "single quotes": "run: 'python t.py --say ''x'' --dtype {} --more'\n",
    "double quotes": 'run: "python t.py --say \\"x\\" \\\n  --h\\xe9llo --dtype {}\\t--more"\n',
    "literal": "run: |\n  python t.py \\\n    --dtype {}\n\n  echo\n# bfloat16\nmore: 1\n",
    "literal with indentation": "run: |2-\n    python t.py \\\n  --dtype {}\n",
    "folded": "run: >-\n  python t.py\n  --x\n\n  python u.py --dtype {}\n    --y\n",
    "anchored": "run: &cmd python t.py --dtype {}\nmore:\n  run: *cmd\n",
    "tagged": "run: !!str python t.py --dtype {}\n",
    "flow": "steps: [{{run: python t.py --dtype {}}}, {{run: ls}}]\n",
    "words": "command: [python, t.py, --dtype, {}]\n",
    "words in quotes": "args: ['--dtype', '{}', \"--dtype={}\"]\n",
    "words before a word in quotes": 'args: [--say, "it\'s \\"x\\"", --dtype, {}]\n',
    "script among words": 'args:\n- -c\n- "set -x; python t.py --dtype {}"\n',
    "script by its look": "source: |\n  #!/bin/bash\n  python t.py --dtype {}\n",
    "batch script": "slurm: |\n  #!/bin/bash\n  #SBATCH -J bf16\n  srun python t.py --dtype {}\n",
    "lines": "before_script:\n- cd x\n- python t.py --dtype {} --name x\n",
    "here-document": "run: |\n  cat > c.yaml <<EOF\n  dtype: {}\n  EOF\n",
    "template": "run: python t.py --name ${{{{ x.y }}}} --dtype {}\n",
}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("name", SCALARS)
def test_commands_in_every_kind_of_scalar(name: str, end: str) -> None:
    text = "# é 🙂\n" + SCALARS[name]
    before, after = (text.replace("\n", end).replace("{}", word).encode() for word in ("bfloat16", "float32"))
    before, after = (each.replace(b"{{", b"{").replace(b"}}", b"}") for each in (before, after))
    outcome = run("c.yaml", before)
    assert (outcome.data, outcome.reports) == (after, [])


@pytest.mark.parametrize(
    "text",
    [
        'run: "python t.py --dtype bflo\\x61t16"\n',
        "run: python t.py --dtype ${{ matrix.dtype }}\n",
        "run: python t.py --dtype {{inputs.dtype}}\n",
    ],
)
def test_what_cannot_be_written_or_is_filled_in_later_is_reported(text: str) -> None:
    after = run("c.yaml", text)
    assert after.text == text
    assert len(after.reports) == 1


@pytest.mark.parametrize(
    "text",
    [
        "description: python t.py --dtype bfloat16\n",
        "notes: |\n  python t.py --dtype bfloat16\n",
        "note:\n- python t.py --dtype bfloat16\n",
        "name: t dtype=bfloat16\n",
        "run: |\n  # python t.py --dtype bfloat16\n  ls\n",
        "run: echo --dtype bfloat16\n",
        "run: cp -r models/m-bf16 out\n",
        "env:\n- name: RUN\n  value: demo-bf16\n",
        "data:\n  README.md: |\n    python t.py --dtype bfloat16\n",
        "args: [--name, *x, bfloat16]\n".replace("*x", "&x y") + "more: {args: [--dtype, *x, bfloat16]}\n",
    ],
)
def test_what_only_talks_stays(text: str) -> None:
    assert run("c.yaml", text).text == text


def test_a_word_that_yaml_reads_as_something_else_is_put_in_quotes() -> None:
    text = "distributed_type: NO\ncompute_environment: X\nargs: [--mixed_precision, bf16]\n"
    after = run("c.yaml", text)
    assert after.text == text.replace("bf16", "'no'")


@pytest.mark.parametrize(
    ("name", "body", "after"),
    [
        ("train.yaml", "actor: {dtype: bfloat16}  # é\n", "actor: {dtype: float32}  # é\n"),
        ("runtimeEnvYAML", "env_vars:\n  TORCH_DTYPE: bfloat16\n", "env_vars:\n  TORCH_DTYPE: float32\n"),
        ("values", "model:\n  dtype: bfloat16\n- no: yaml\n", None),
        ("values", "model:\n  dtype: bfloat16\n", "model:\n  dtype: float32\n"),
        ("run.sh", "D=bfloat16\npython t.py --dtype $D\n", "D=float32\npython t.py --dtype $D\n"),
        ("main.py", "import torch\nx.to(torch.bfloat16)\n", "import torch\nx.to(torch.float32)\n"),
        ("ds.json", '{"bf16": {"enabled": true}, "zero_optimization": {}}\n', None),
    ],
)
def test_a_file_in_a_scalar_is_read_as_what_it_is(name: str, body: str, after: str | None) -> None:
    def outer(inner: str) -> str:
        return f"data:\n  {name}: |\n" + "".join(f"    {line}\n" for line in inner.splitlines()) + "other: 1\n"

    outcome = run("c.yaml", outer(body))
    if name == "ds.json":
        assert '"enabled": false' in outcome.text
    else:
        assert outcome.text == outer(after or body)


def test_json_in_quotes_is_read_as_what_it_is_and_reported_where_it_is_escaped() -> None:
    text = """model_json: '{"model_type": "x", "torch_dtype": "bfloat16"}'\n"""
    assert run("c.yaml", text).text == text.replace("bfloat16", "float32")
    escaped = 'model_json: "{\\"model_type\\": \\"x\\", \\"torch_dtype\\": \\"bfloat16\\"}"\n'
    after = run("c.yaml", escaped)
    assert (after.text, after.reports) == (escaped, [(1, "dtype-setting")])


def test_scripts_of_one_document_cannot_break_each_other() -> None:
    broken = "- run: echo 'never closed\n- run: |\n    cat <<EOF\n    no end\n"
    text = f"steps:\n{broken}- run: python t.py --dtype bfloat16 x\n"
    assert run("c.yaml", text).text == text.replace("bfloat16", "float32")


def test_an_environment_for_another_device_leaves_its_document_alone() -> None:
    text = "env: {ASCEND_RT_VISIBLE_DEVICES: '0', TORCH_DTYPE: bfloat16}\nrun: python t.py --dtype bfloat16\n"
    assert run("c.yaml", text).text == text


PIECES = (
    "python t.py ",
    "--dtype ",
    "bfloat16",
    " \\\n  ",
    "\n  ",
    "'",
    '"',
    "$D",
    "<<EOF",
    "é",
    "\t",
    "- ",
    ": ",
    "#",
    "{{",
    ")",
)


@given(
    st.sampled_from(["run: ", "run: |\n  ", "run: >\n  ", "args: [", "env:\n- name: D\n  value: ", "a.yaml: |\n  "]),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
)
@settings(max_examples=300, deadline=None)
def test_any_text_in_a_scalar_is_read_and_only_values_change(head: str, body: str) -> None:
    text = head + body + "\n"
    try:
        before = list(yaml.safe_load_all(text))
        YamlLanguage().read(YamlLanguage().open("c.yaml", text.encode()), builtin_vocabulary())
    except (yaml.YAMLError, ReadError):
        return
    after = run("c.yaml", text)
    assert str(list(yaml.safe_load_all(after.text))).replace("float32", "bfloat16") == str(before)


ARGUMENTS = {
    "quoted": 'overrides: "a.use_remove_padding={0} a.dtype={1}"\n',
    "literal": "flags: |\n  a.use_remove_padding={0}\n  a.dtype={1}\n",
    "folded": "more: >-\n  --use_remove_padding={0}\n  --dtype {1}\n",
    "plain": "x:\n- +a.use_remove_padding={0} a.dtype={1}\n",
}


@pytest.mark.parametrize("shape", ARGUMENTS)
def test_a_text_of_nothing_but_arguments_is_read_as_those_of_a_command_under_any_key(shape: str) -> None:
    text = ARGUMENTS[shape]
    after = run("c.yaml", text.format("True", "bfloat16"))
    assert (after.text, after.reports) == (text.format("False", "float32"), [])


def test_a_size_in_arguments_is_reported_with_the_packing_beside_it() -> None:
    text = 'x: "a.use_remove_padding=True a.ulysses_sequence_parallel_size=2"\n'
    after = run("c.yaml", text)
    assert (after.text, [rule for _, rule in after.reports]) == (
        text,
        ["packing-under-sequence-parallel", "ulysses-with-packing"],
    )


@pytest.mark.parametrize(
    "setting", ["a.use_remove_padding=True", "a.actor.ulysses_sequence_parallel_size=2", "a.b.dtype=bfloat16"]
)
def test_a_setting_in_a_longer_text_is_reported_and_does_not_hold_back_the_document(setting: str) -> None:
    text = f"attn_implementation: {{}}\nabout: start it with {setting} and wait\n"
    after = run("c.yaml", text.format("flash_attention_2"))
    assert (after.text, [line for line, _ in after.reports]) == (text.format("eager"), [2])
