"""Rule files: what a user's own folder can do, and what each mistake in one is told."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

import precpatch.languages
from precpatch.config import Settings
from precpatch.engine import rule_words
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules, read_rule
from precpatch.errors import UserError
from precpatch.gpu.resolve import resolve_target
from precpatch.languages import languages
from precpatch.session import file_findings, plan, policy_for
from precpatch.vocabulary import builtin_vocabulary
from precpatch.vocabulary.facts import facts_in, load_facts, load_spellings
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
    assert "--unsafe makes it" in waiting.message
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
    "unknown concept": (
        OWN.replace("role: value", "concept: pakcing"),
        ":12: match.concept: unknown concept 'pakcing'; did you mean 'packing'?",
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
    "no attention implementation to write": (
        OWN.replace("kind: dtype\n  value: bfloat16", "kind: attention\n  value: sdpa").replace(
            "to: dtype", "to: quick"
        ),
        ":16: then.to: unknown value 'quick'",
    ),
    "a brace to write": (OWN.replace("to: dtype", "to: '{'"), ":16: then.to: '{' is no single word"),
    "unknown action": (OWN.replace("action: rewrite", "action: delete"), ":15: then.action: unknown word 'delete'"),
    "no value by a slip for a switch": (
        OWN.replace("kind: dtype\n  value: bfloat16", "kind: switch\n  value: 'true'").replace(
            "to: dtype", "to: flase"
        ),
        ":16: then.to: unknown value 'flase'; did you mean 'false'?",
    ),
    "a switch's value by a slip": (
        OWN.replace("kind: dtype\n  value: bfloat16", "kind: switch\n  value: ture"),
        ":11: match.value: unknown value 'ture'; did you mean 'true'?",
    ),
    "padding for no import": (
        OWN.replace("kind: dtype\n  value: bfloat16", "kind: switch\n  value: 'true'").replace(
            "to: dtype", "to: padding"
        ),
        ":16: then.to: 'padding' is for imports only",
    ),
    "something to write for a report": (
        OWN.replace("action: rewrite", "action: report"),
        ":16: 'then.to' only goes with the actions rewrite and extend",
    ),
    "another action where nothing is followed": (
        OWN.replace("  to: dtype", "  otherwise: report"),
        ":16: 'then.otherwise' only goes with 'follows: true'",
    ),
    "no alternative": (
        OWN[: OWN.index("match:")] + "match: []\n" + OWN[OWN.index("then:") :],
        ":9: field 'match' must hold a condition",
    ),
    "a place in a notebook": (
        OWN.replace("role: value", "language: notebook"),
        ":12: match.language: what stands in a",
    ),
    "a glob like no attention": (
        OWN.replace("kind: dtype\n  value: bfloat16", "kind: attention\n  value: 'flash_atention_*'"),
        ":11: match.value: unknown value 'flash_atention_*'; did you mean 'flash_attention_",
    ),
    "the second of a list": (
        OWN.replace("role: value", "role:\n    - value\n    - valeu"),
        ":14: match.role: unknown role 'valeu'; did you mean 'value'?",
    ),
    "an empty list": (OWN.replace("role: value", "role: []"), ":12: 'match.role': an empty list fits nothing"),
    "no condition": (
        OWN[: OWN.index("match:")] + "match: {}\n" + OWN[OWN.index("then:") :],
        ":9: 'match' must hold a condition",
    ),
    "a band of groups": (OWN.replace("band: known", "band: together"), ":6: band: 'together' is for rules with the"),
    "an id with a comma": (OWN.replace("my-tensor-type", "'a,b'"), ":1: id: may hold letters"),
    "unknown language of an example": (
        OWN + "examples:\n  - {title: t, language: pyhton, target: p40, before: x}\n",
        ":19: examples.language: unknown word 'pyhton'; did you mean 'python'?",
    ),
    "unknown dtype of an example": (
        OWN + "examples:\n  - {title: t, language: yaml, target: p40, before: x, dtype: flaot16}\n",
        ":19: examples.dtype: unknown word 'flaot16'; did you mean 'float16'?",
    ),
    "a target that differs from place to place": (
        OWN + "examples: [{title: t, language: python, target: auto, before: x}]\n",
        ":18: examples.target: name a GPU or a compute capability",
    ),
    "a merge of no mapping": (OWN + "references:\n  - <<: [a]\n", ":19: '<<' takes mappings, not text"),
    "a merge that grows": (
        f"x: &x {{{', '.join(f'k{number}: 1' for number in range(3000))}}}\ny:\n  <<: [{', '.join(['*x'] * 3000)}]\n",
        ":1: holds more than 20,000 values",
    ),
    "not text": ("id: \x00\n", ":1: not YAML: control characters are not allowed"),
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
    "code in a mapping": (OWN + "more: !!python/object:os.x {a: 1}\n", ":18: not plain YAML: the tag"),
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


@pytest.mark.parametrize("to", ["torch", "'no'", '"off"', "'1'", "eager", "32-true"])
def test_a_switch_takes_a_word_of_its_own(tmp_path: Path, to: str) -> None:
    own = OWN.replace("kind: dtype\n  value: bfloat16", "kind: switch\n  value: x").replace("to: dtype", f"to: {to!r}")
    assert read_rule(folder(tmp_path, own=own) / "own.yaml").to == to


@pytest.mark.parametrize(
    "value", ["float8_e4m3fn", "int8", "flash_attention_5", "flash_attention_2_with_sp", "xformers"]
)
def test_a_value_that_is_new_may_be_asked_for(tmp_path: Path, value: str) -> None:
    kind = "attention" if "attention" in value or value == "xformers" else "dtype"
    own = OWN.replace("kind: dtype\n  value: bfloat16", f"kind: {kind}\n  value: {value}")
    assert ("value", (value,)) in read_rule(folder(tmp_path, own=own) / "own.yaml").matches[0].globs


def test_globs_of_closed_words_and_words_in_any_case(tmp_path: Path) -> None:
    own = OWN.replace("role: value", "role: ['*-cast', Value]\n  language: [Py*, yaml]\n  spelling: torch*")
    globs = dict(read_rule(folder(tmp_path, own=own) / "own.yaml").matches[0].globs)
    assert globs["role"] == ("*-cast", "Value")
    assert globs["spelling"] == ("torch*",)


def test_an_anchor_saves_writing_things_twice(tmp_path: Path) -> None:
    first, second = OWN.index("match:"), OWN.index("then:")
    own = (
        OWN[:first]
        + "match:\n  - &same {kind: dtype, value: bfloat16}\n  - {<<: *same, key: a, value: float16}\n"
        + OWN[second:]
    )
    plain, merged = read_rule(folder(tmp_path, own=own) / "own.yaml").matches
    assert dict(plain.globs) == {"kind": ("dtype",), "value": ("bfloat16",)}
    assert dict(merged.globs) == {"kind": ("dtype",), "value": ("float16",), "key": ("a",)}


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config.yaml").write_text("x")
    (tmp_path / ".#own.yaml").symlink_to("nowhere")
    assert [rule for rule in load_rules([tmp_path]) if rule.source.is_relative_to(tmp_path)] == []


def test_a_folder_full_of_other_things_is_no_rule_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precpatch.engine.rules._MAX_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(UserError, match=r"holds more than 3 files; --rules takes a folder of rule files"):
        load_rules([tmp_path])


def test_a_link_to_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").symlink_to("nowhere")
    with pytest.raises(UserError, match=r"own\.yaml: cannot be read: No such file"):
        load_rules([tmp_path])


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own.yaml")
    with pytest.raises(UserError, match="is no regular file"):
        load_rules([tmp_path])


def test_a_sparse_file_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "own.yaml").open("wb") as file:
        file.truncate(5 * 1024**3)
    with pytest.raises(UserError, match="is bigger than"):
        load_rules([tmp_path])


def test_the_words_that_rules_may_use_are_those_of_the_vocabulary() -> None:
    vocabulary = builtin_vocabulary()
    spellings = {spelling for _, spelling in (*vocabulary.spellings, *vocabulary.dtypes.values())}
    assert set(load_spellings()) == spellings | {"torch", "torch-name", "name"}
    assert set(rule_words.EXAMPLE_LANGUAGES) == {reader.name for reader in languages().values()}


def test_every_placeholder_is_filled(tmp_path: Path) -> None:
    message = " ".join(f"{name}={{{name}}}" for name in rule_words.PLACEHOLDERS)
    own = OWN.replace('"{key} of {target}"', f'"{message}"')
    ((_, _, told),) = rules_decide(folder(tmp_path, own=own), 'f(tensor_kind="bf16")\n')
    filled = "value=bfloat16 key=tensor_kind callee=f dtype=float32 attention=eager target=p40 wanted=float32 pin="
    assert told == filled


FACTS_MISTAKES = {
    "no sentence": ("facts: {a: {readers: [python]}}", "a: 'says' must be text"),
    "no reader": ("facts: {a: {says: x}}", "a: 'readers' must be some of python, yaml, shell, json"),
    "a reader that is none": ("facts: {a: {says: x, readers: [pyhton]}}", "a: 'readers' must be some of"),
    "an unknown field": ("facts: {a: {says: x, readers: [python], needel: y}}", "a: unknown field 'needel'"),
    "an unknown part": ("fatcs: {}", "unknown field 'fatcs'"),
}


@pytest.mark.parametrize("name", FACTS_MISTAKES)
def test_the_file_of_facts_is_checked(tmp_path: Path, name: str) -> None:
    text, expected = FACTS_MISTAKES[name]
    path = tmp_path / "facts.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        facts_in(path)
    assert str(caught.value).startswith(f"{path}: {expected}")


def test_every_fact_that_a_reader_lists_stands_in_its_code() -> None:
    """A fact that no code states would be another way for a rule to claim nothing."""
    languages = Path(precpatch.languages.__file__).parent
    # What is in a here-document has the language of what it holds, and the facts of the script around it.
    # What stands beside a place is the same question in every language, and asked in the engine.
    engine = languages.parent / "engine" / "setups.py"
    files = (engine, *languages.glob("*.py"), *(languages / "shell").glob("*.py"))
    shared = "".join(path.read_text() for path in files)
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


def test_what_decides_is_all_of_a_builtin_rule_but_its_references_and_examples(tmp_path: Path) -> None:
    whole = [replace(rule, references=(), examples=()) for rule in load_rules()]
    assert list(load_rules(deciding=True)) == whole
    folder(tmp_path, own=OWN.replace("safety: safe", "safety: sfae"))
    with pytest.raises(UserError, match="sfae"):
        load_rules([tmp_path], deciding=True)


def test_a_concept_stands_for_all_its_names_and_keys_add_to_them(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("role: value", "concept: packing"))
    (rule,) = (each for each in load_rules([tmp_path]) if each.id == "my-tensor-type")
    keys = dict(rule.matches[0].globs)["key"]
    names = {each.name for each in builtin_vocabulary().all_settings if each.concept == "packing"}
    assert names
    assert set(keys) == names | {"tensor_kind"}
