"""Rule files: what a user's own folder can do, and what each mistake in one is told."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from precpatch.config import Settings
from precpatch.engine.decide import Policy
from precpatch.engine.rules import load_rules, read_rule
from precpatch.errors import UserError
from precpatch.gpu.resolve import resolve_target
from precpatch.session import chosen_rules, file_findings, plan

OWN = dedent("""\
    id: my-tensor-type
    name: Our own setting
    what: Rewrites it.
    why: Our trainer reads it.
    safety: safe
    order: 52
    when:
      uses_bf16: false
    match:
      kind: dtype
      value: bfloat16
      role: value
      key: tensor_kind
    then:
      action: rewrite
      to: dtype
    message: "{key} of {target}"
""")


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def rules_decide(rules_folder: Path, code: str) -> list[tuple[str, str, str]]:
    policy = Policy(load_rules([rules_folder]), resolve_target("p40"))
    return [(each.rule, each.action, each.message) for each in file_findings("a.py", code.encode(), policy)]


def test_a_users_rule_works_like_a_built_in_one(tmp_path: Path) -> None:
    code = 'tensor_kind = "bf16"\n'
    assert rules_decide(folder(tmp_path, own=OWN), code) == [("my-tensor-type", "rewrite", "tensor_kind of p40")]


def test_a_users_rule_is_asked_first_at_the_same_order(tmp_path: Path) -> None:
    own = OWN.replace("key: tensor_kind", "key: dtype").replace("action: rewrite\n  to: dtype", "action: keep")
    assert rules_decide(folder(tmp_path, own=own), 'dtype = "bf16"\n')[0][:2] == ("my-tensor-type", "keep")


def test_an_unsafe_fix_waits_for_the_option(tmp_path: Path) -> None:
    rules = load_rules([folder(tmp_path, own=OWN.replace("safety: safe", "safety: unsafe"))])
    target = resolve_target("p40")
    code = b'tensor_kind = "bf16"\n'
    (waiting,) = file_findings("a.py", code, Policy(rules, target))
    (made,) = file_findings("a.py", code, Policy(rules, target, unsafe=True))
    assert (waiting.action, waiting.after) == ("report", '"fp32"')
    assert (made.action, made.after) == ("rewrite", '"fp32"')


MISTAKES = {
    "not YAML": ("id: [", "own.yaml:2: not YAML"),
    "a list": ("- id", "a rule file must be a mapping, not a list"),
    "no id": (OWN.replace("id: my-tensor-type\n", ""), "field 'id' is missing"),
    "unknown field": (OWN + "mach: {}\n", "unknown field 'mach' in the rule; did you mean 'match'?"),
    "unknown question": (OWN.replace("uses_bf16", "use_bf16"), ":8: unknown field 'use_bf16' in when."),
    "unknown role": (OWN.replace("role: value", "role: valu"), "field 'match.role' is 'valu'; it must be one of"),
    "unknown action": (OWN.replace("action: rewrite", "action: delete"), "'then.action' is 'delete'"),
    "a number for text": (OWN.replace("key: tensor_kind", "key: 5"), "field 'match.key' must be text, not 5"),
    "a boolean for text": (OWN.replace("to: dtype", "to: false"), "must be text, not true or false; put it in quotes"),
    "text for a number": (OWN.replace("order: 52", "order: first"), "field 'order' must be a whole number"),
    "many digits": (OWN.replace("order: 52", f"order: {'9' * 5000}"), "holds a number or a date that cannot be read"),
    "many digits in hex": (
        OWN.replace("order: 52", f"order: 0x{'f' * 5000}"),
        "'order' must be from 0 to 1000, not a n",
    ),
    "a key of many digits": (f"{OWN}? 0x{'f' * 5000}\n: 1\n", "holds a number or a date that cannot be read"),
    "text of many digits": (
        OWN.replace("key: tensor_kind", f"key: 0x{'f' * 5000}"),
        "must be text, not a number of that",
    ),
    "too high": (OWN.replace("order: 52", "order: 1001"), "field 'order' must be from 0 to 1000, not 1001"),
    "too low": (OWN.replace("order: 52", "order: -1"), "field 'order' must be from 0 to 1000, not -1"),
    "no number": (OWN.replace("order: 52", "order: .nan"), "field 'order' must be a whole number, not nan"),
    "a date that is none": (
        OWN.replace("key: tensor_kind", "key: 2001-02-31"),
        "a number or a date that cannot be read",
    ),
    "an answer that is none": (OWN.replace("uses_bf16: false", "uses_bf16: 'no'"), "must be true or false"),
    "code": (OWN + "message: !!python/object/apply:os.system ['true']\n", "not YAML"),
    "a glob without end": (OWN.replace("key: tensor_kind", f"key: '{'*a' * 20}'"), "stars at most"),
    "nothing": ("", "a rule file must be a mapping, not nothing"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_says_where(tmp_path: Path, name: str) -> None:
    text, expected = MISTAKES[name]
    path = folder(tmp_path, own=text) / "own.yaml"
    with pytest.raises(UserError) as caught:
        read_rule(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert expected in message
    assert "\n" not in message


def test_an_id_may_stand_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'dtype-value' is already used by"):
        load_rules([folder(tmp_path, own=OWN.replace("my-tensor-type", "dtype-value"))])


def test_no_folder_and_not_a_text_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such rule folder"):
        load_rules([tmp_path / "missing"])
    (tmp_path / "binary.yaml").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(UserError, match=r"binary\.yaml"):
        load_rules([tmp_path])


def test_select_and_ignore_choose_rules_and_know_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\nx = torch.bfloat16\ny = z.bfloat16()\n")
    target = resolve_target("p40")

    def rewritten(**settings: tuple[str, ...]) -> set[str]:
        planned = plan(tmp_path, (), target, Settings(**settings))
        return {each.rule for each in planned.of("rewrite")}

    assert rewritten() == {"dtype-value", "dtype-method-cast"}
    assert rewritten(select=("dtype-v*",)) == {"dtype-value"}
    assert rewritten(ignore=("dtype-value",)) == {"dtype-method-cast"}
    with pytest.raises(UserError, match="dtype-value"):
        chosen_rules(Settings(select=("dtype-valeu",)))
