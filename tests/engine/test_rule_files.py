"""Rule files: what a user's own folder can do, and what each mistake in one is told."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent

import pytest

import precpatch.languages
from precpatch.config import Settings
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules, read_rule
from precpatch.errors import UserError
from precpatch.gpu.resolve import resolve_target
from precpatch.session import file_findings, plan, policy_for
from precpatch.vocabulary.facts import load_facts
from precpatch.vocabulary.load import builtin_folder as builtin_vocabulary_folder

OWN = dedent("""\
    id: my-tensor-type
    name: Our own setting
    what: Rewrites it.
    why: Our trainer reads it.
    safety: safe
    band: known
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


def test_a_users_rule_is_asked_first_in_its_band(tmp_path: Path) -> None:
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
    "not YAML": ("id: [", ":2: not YAML: did not find expected node content"),
    "a list": ("- id", ":1: a rule file must be a mapping, not a list"),
    "no id": (OWN.replace("id: my-tensor-type\n", ""), ":1: field 'id' is missing"),
    "unknown field": (OWN + "mach: {}\n", ":18: unknown field 'mach' in the rule; did you mean 'match'?"),
    "a number for the band": (OWN.replace("band: known", "order: 52"), ":6: 'order' is no field any more; 'band' says"),
    "unknown band": (
        OWN.replace("band: known", "band: knwon"),
        ":6: band: unknown word 'knwon'; did you mean 'known'?",
    ),
    "unknown question": (
        OWN.replace("uses_bf16", "use_bf16"),
        ":8: unknown field 'use_bf16' in when; did you mean 'uses_bf16'?",
    ),
    "unknown role": (OWN.replace("role: value", "role: valu"), ":12: match.role: unknown role 'valu'; did you mean"),
    "unknown language": (
        OWN.replace("role: value", "language: pyhton"),
        ":12: match.language: unknown language 'pyhton'; did you mean 'python'?",
    ),
    "unknown spelling": (
        OWN.replace("role: value", "spelling: logn"),
        ":12: match.spelling: unknown spelling 'logn'; did you mean 'long'?",
    ),
    "unknown fact": (
        OWN.replace("role: value", "facts: guarderd"),
        ":12: match.facts: unknown fact 'guarderd'; did you mean 'guarded'?",
    ),
    "unknown fact that must not be": (
        OWN.replace("role: value", "without: [asks-bf61]"),
        ":12: match.without: unknown fact 'asks-bf61'; did you mean 'asks-bf16'?",
    ),
    "unknown kind": (OWN.replace("kind: dtype", "kind: dtpye"), ":10: match.kind: unknown kind 'dtpye'; did you mean"),
    "unknown value": (OWN.replace("value: bfloat16", "value: bfloat61"), ":11: match.value: unknown value 'bfloat61'"),
    "a glob like no role": (OWN.replace("role: value", "role: 'x*'"), ":12: match.role: no role is like 'x*'"),
    "unknown placeholder": (
        OWN.replace("{key} of", "{keey} of"),
        ":17: message: unknown placeholder 'keey'; did you mean 'key'?",
    ),
    "unknown value to write": (
        OWN.replace("to: dtype", "to: flaot32"),
        ":16: then.to: unknown value 'flaot32'; did you mean 'float32'?",
    ),
    "a brace to write": (OWN.replace("to: dtype", "to: '{'"), ":16: then.to: '{' is no single word"),
    "unknown action": (OWN.replace("action: rewrite", "action: delete"), ":15: then.action: unknown word 'delete'"),
    "a fact that the language does not tell": (
        OWN.replace("role: value", "language: json\n  facts: guarded"),
        "the fact 'guarded' is only told in python",
    ),
    "a number for text": (OWN.replace("key: tensor_kind", "key: 5"), ":13: field 'match.key' must be text, not 5"),
    "a boolean for text": (OWN.replace("to: dtype", "to: false"), "must be text, not true or false; put it in quotes"),
    "a key of many digits": (f"{OWN}? 0x{'f' * 5000}\n: 1\n", "must be text, not a number of that size"),
    "many digits": (OWN.replace("key: tensor_kind", f"key: {'9' * 5000}"), "must be text, not a number of that size"),
    "a date that is none": (OWN.replace("key: tensor_kind", "key: 2001-02-31"), "must be text, not 2001-02-31"),
    "an answer that is none": (OWN.replace("uses_bf16: false", "uses_bf16: 'no'"), ":8: field 'when.uses_bf16' must"),
    "code": (OWN + "more: !!python/object/apply:os.system ['true']\n", ":18: not plain YAML: the tag"),
    "a glob without end": (OWN.replace("key: tensor_kind", f"key: '{'*a' * 20}'"), "stars at most"),
    "nothing": ("", ":1: a rule file must be a mapping, not nothing"),
    "a field twice": (OWN + "name: again\n", "field 'name' stands twice, first on line 2"),
    "deep": (f"{OWN}references: {'[' * 100}{']' * 100}\n", "is nested more than 50 deep"),
    "many values": (f"{OWN}references: [{'1, ' * 30_000}]\n", "holds more than 20,000 values"),
    "an alias without an anchor": (OWN + "references: *gone\n", "nothing before it is called 'gone'"),
    "too big": (OWN + "#" * 1_100_000, ": is bigger than 1,000,000 bytes"),
    "unknown target": (
        OWN + "examples: [{title: t, language: python, target: p4o, before: x}]\n",
        ":18: examples.target: ",
    ),
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


def test_an_alias_bomb_is_read_once(tmp_path: Path) -> None:
    levels = "\n".join(f"  - &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 30))
    bomb = f"{OWN}references:\n  - &a0 [x]\n{levels}\n"
    with pytest.raises(UserError, match="'references' must be a mapping"):
        read_rule(folder(tmp_path, own=bomb) / "own.yaml")


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.yaml")
    with pytest.raises(UserError, match="is no regular file"):
        load_rules([tmp_path])


def test_a_sparse_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "own.yaml").open("wb") as file:
        file.truncate(5 * 1024**3)
    with pytest.raises(UserError, match="is bigger than"):
        load_rules([tmp_path])


def test_every_fact_that_a_reader_lists_stands_in_its_code() -> None:
    """A fact that no code states would be another way for a rule to claim nothing."""
    languages = Path(precpatch.languages.__file__).parent
    # What is in a here-document has the language of what it holds, and the facts of the script around it.
    shared = "".join(path.read_text() for path in (*languages.glob("*.py"), *(languages / "shell").glob("*.py")))
    data = "".join(path.read_text() for path in builtin_vocabulary_folder().glob("*.yaml") if path.stem == "forms")
    missing = [
        (fact.name, reader)
        for fact in load_facts().values()
        for reader in fact.readers
        if f'"{fact.name}"' not in shared + "".join(path.read_text() for path in (languages / reader).rglob("*.py"))
        and f"{fact.name}:" not in data
        and not fact.name.startswith("taken-")
    ]
    assert missing == []


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
        policy_for(Settings(select=("dtype-valeu",)), target)
