"""Settings inside texts of Python: JSON, commands that values fill in, pairs of a path and a value, dotted keys."""

from __future__ import annotations

import pytest

from tests.languages.patched import run

JSON = [
    'cfg = json.loads(\'{"bf16": {"enabled": true}}\')',
    'cfg = json.loads(\'{"bf16":{"enabled":true},"zero_optimization":{"stage":3}}\')',
    'args = ["--deepspeed", \'{"fp16": {"enabled": false}, "bf16": {"enabled": true}}\']',
    'cmd = "deepspeed train.py --deepspeed \'{\\"bf16\\": {\\"enabled\\": true}}\'"',
]


@pytest.mark.parametrize("line", JSON)
def test_a_section_of_json_in_a_text(line: str) -> None:
    outcome = run("m.py", f"{line}\n")
    assert outcome.text == f"{line}\n"
    assert outcome.reports == [(1, "bf16-switch")]


def test_json_over_several_lines() -> None:
    code = 'cfg = json.loads("""\n{\n  "bf16": {\n    "enabled": true\n  },\n  "dtype":"bfloat16"\n}\n""")\n'
    assert run("m.py", code).reports == [(4, "bf16-switch"), (6, "embedded-command")]


@pytest.mark.parametrize("text", ['{"bf16": {"enabled": false}}', '{"offload": {"enabled": true}}', '{"bf16": {}}'])
def test_a_section_that_says_nothing(text: str) -> None:
    assert run("m.py", f"cfg = json.loads('{text}')\n").reports == []


FILLED = [
    'cmd = f"python t.py rollout.dtype={D} model.use_remove_padding={P}"',
    'cmd = f"python t.py --dtype {D} --use_remove_padding {P} --name {R}"',
    'cmd = "python t.py --dtype {} --use_remove_padding={p}".format(D, p=P)',
    'cmd = "python t.py --dtype %s --use_remove_padding %s" % (D, P)',
    'cmd = "python t.py --dtype " + D + " --use_remove_padding " + P',
]


@pytest.mark.parametrize("line", FILLED)
def test_a_command_that_named_values_fill_in(line: str) -> None:
    code = f'D = "bfloat16"\nP = "True"\nR = "bfloat16"\n{line}\n'
    assert run("m.py", code).text == code.replace('D = "bfloat16"', 'D = "float32"').replace("True", "False")


def test_a_command_that_values_fill_in_on_the_spot() -> None:
    code = 'cmd = "python t.py --dtype {d} --use_remove_padding {p}".format(d="bf16", p=True)\n'
    assert run("m.py", code).text == code.replace("bf16", "fp32").replace("True", "False")


@pytest.mark.parametrize("call", ["print", "logger.info", "raise ValueError"])
def test_a_message_is_no_command(call: str) -> None:
    code = f'D = "bfloat16"\n{call}(f"python t.py --dtype {{D}} --seed 1")\n'
    assert run("m.py", code).text == code


def test_pairs_of_a_path_and_a_value() -> None:
    code = 'todo = [("actor.dtype", "bfloat16"), ("model.use_remove_padding", True), ("run.name", "bfloat16")]\n'
    new = code.replace('dtype", "bfloat16"', 'dtype", "float32"').replace("True", "False")
    assert run("m.py", code).text == new


@pytest.mark.parametrize("line", ['cfg = {{"a.{}": {}}}', 'cfg["a.{}"] = {}'])
def test_a_dotted_key_names_its_section(line: str) -> None:
    assert run("m.py", line.format("bf16.enabled", True) + "\n").text == line.format("bf16.enabled", False) + "\n"
    assert [rule for _, rule in run("m.py", line.format("rollout.name", '"sglang"') + "\n").reports] != []
    assert run("m.py", line.format("run.name", '"sglang"') + "\n").reports == []


@pytest.mark.parametrize("command", ["python -m", "python3 -u -m", "CUDA_VISIBLE_DEVICES=0 python -Xu -m"])
def test_a_server_that_a_text_starts(command: str) -> None:
    code = f'os.system("{command} sglang.launch_server --model-path m")\n'
    assert [line for line, _ in run("m.py", code).reports] == [1]


CONVERTED = [
    ("to_dtype(to)", 'to="bf16"', 'to="fp32"'),
    ("Precision.to_dtype(kind)", 'kind="bfloat16"', 'kind="float32"'),
]


@pytest.mark.parametrize(("use", "old", "new"), CONVERTED)
def test_a_default_that_a_converter_takes(use: str, old: str, new: str) -> None:
    code = f"def load(model, {old}):\n    return model.to({use})\n"
    assert run("m.py", code).text == code.replace(old, new)


@pytest.mark.parametrize("table", ["STR2DTYPE", "self.dtypes", "TORCH_DTYPE_MAP", "tables.NAME_TO_DTYPE"])
@pytest.mark.parametrize("use", ['{}["bf16"]', '{}.get("bf16")', '{}.get("bf16", None)'])
def test_a_table_of_another_file(use: str, table: str) -> None:
    assert run("m.py", f"x = y.to({use.format(table)})\n").reports == [(1, "dtype-table-key-unknown")]
    assert run("m.py", f"ok = y.dtype == {use.format(table)}\n").reports == []
    assert run("m.py", f"n = {use.format('counts')}\n").reports == []


PUT_BEHIND = [
    'cmd.append(f"--dtype={x or {}}")',
    'cmd.append("--dtype=" + ({} if fast else "float32"))',
    'run(f"python t.py +model.dtype={({} if fast else None)}")',
    'cmd = f"python t.py --seed {s} --dtype {x or {}} --name {n}"',
    'python("t.py", "--dtype", {})',
]


@pytest.mark.parametrize("line", PUT_BEHIND)
def test_a_value_behind_the_text_that_names_its_setting(line: str) -> None:
    code = line.replace("{}", "'bfloat16'") + "\n"
    assert run("m.py", code).text == code.replace("bfloat16", "float32")


@pytest.mark.parametrize(
    "line",
    [
        "print(f\"dtype={x or 'bfloat16'}\")",
        'logger.info("dtype=" + ("bfloat16" if fast else "float32"))',
        "name = f\"run-{x or 'bfloat16'}\"",
        "path = f\"/models/{x or 'bfloat16'}/a\"",
        'python("t.py", "--name", "bfloat16")',
        'p.add_argument("--dtype", "bfloat16")',
        'note = "dtype=bfloat16 is fast"',
    ],
)
def test_a_value_behind_another_text(line: str) -> None:
    outcome = run("m.py", f"{line}\n")
    assert (outcome.text, outcome.reports) == (f"{line}\n", [])


@pytest.mark.parametrize(
    "line",
    [
        'kw = "dtype=bfloat16,utilization=0.5"',
        'args = ["--model_args", "pretrained=x,dtype=bfloat16"]',
        'cmd = f"lm_eval --model_args pretrained={m},dtype=bfloat16"',
    ],
)
def test_pairs_with_commas(line: str) -> None:
    assert run("m.py", f"{line}\n").reports == [(1, "embedded-command")]


@pytest.mark.parametrize(
    "value", ["(torch.float32, torch.bfloat16)[{}]", "{{True: torch.bfloat16, False: torch.float32}}[{}]"]
)
def test_one_of_two_dtypes_by_a_flag(value: str) -> None:
    code = f"import torch\nx = {value.format('int(fast)')}\n"
    assert run("m.py", code).text == code.replace("bfloat16", "float32")
    asked = f"import torch\nx = {value.format('args.bf16')}\n"
    assert run("m.py", asked).text == asked
