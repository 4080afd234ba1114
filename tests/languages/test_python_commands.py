"""Commands, arguments and mappings in the strings of Python: what they set is reported, and left as it is."""

from __future__ import annotations

import pytest

from precpatch.engine.finding import REPORT, REWRITE, Finding
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings

P40 = Policy(load_rules(), resolve_target("p40"))

SETTINGS = {
    "python -m m a.model.use_remove_padding=True n=1": ["True"],
    "python -m m a.actor.ulysses_sequence_parallel_size=2 n=1": ["2"],
    "python -m m a.rollout.name=vllm n=1": ["vllm"],
    "VLLM_ATTENTION_BACKEND=FLASH_ATTN python x.py": ["FLASH_ATTN"],
    "torchrun train.py --bf16 --lr 1": ["--bf16"],
    "python -m m a.rollout.dtype=bfloat16 n=1": ["bfloat16"],
    "a.model.use_remove_padding=True critic.model.use_remove_padding=true": ["True", "true"],
    "torchrun train.py --use_remove_padding True --lr 1": ["True"],
}
"""A command, and the words of it that need a change."""

STARTS = {
    "os.system": "os.system({0!r})",
    "a shell of subprocess": "subprocess.run({0!r}, shell=True)",
    "a shell by name": "subprocess.run(['bash', '-c', {0!r}])",
    "split": "args = {0!r}.split()",
    "split as a shell does": "subprocess.run(shlex.split({0!r}))",
    "given a name": "command = {0!r}",
    "an f-string": "os.system(f'{{before}} && ' f{0!r})",
}


def told(code: str) -> list[Finding]:
    found = file_findings("module.py", code.encode(), P40)
    assert not [each for each in found if each.verdict == REWRITE]
    return [each for each in found if each.verdict == REPORT]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("command", SETTINGS)
def test_what_a_command_in_a_string_sets_is_reported(command: str, start: str) -> None:
    assert [each.mention.text for each in told(STARTS[start].format(command))] == SETTINGS[command]


@pytest.mark.parametrize("command", SETTINGS)
def test_a_command_for_people_is_not(command: str) -> None:
    for code in (f"print({command!r})", f"raise ValueError({command!r})", f"def f():\n    {command!r}", f"# {command}"):
        assert not told(code)


@pytest.mark.parametrize(
    "text", ["use_remove_padding=False n=1", "a.b.use_remove_padding=false c=1", "we use --bf16 here"]
)
def test_what_is_off_and_prose_say_nothing(text: str) -> None:
    assert not told(f"x = {text!r}")


def test_each_setting_is_told_at_its_own_place() -> None:
    code = 'os.system("""python -m m a.use_remove_padding=True\n a.dtype=bfloat16 --attn_implementation flash_attention_2""")'  # noqa: E501
    assert [(each.mention.line, each.mention.text) for each in told(code)] == [
        (1, "True"),
        (2, "bfloat16"),
        (2, "flash_attention_2"),
    ]


@pytest.mark.parametrize("load", ["json.loads", "yaml.safe_load", "OmegaConf.create"])
def test_a_mapping_in_a_string(load: str) -> None:
    found = told(
        load
        + """('{"torch_dtype": "bfloat16", "attn_implementation": "flash_attention_2", "use_remove_padding": true}')"""
    )
    assert [each.mention.value for each in found] == ["bfloat16", "flash_attention_2", "true"]
