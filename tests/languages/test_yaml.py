"""The YAML reader: what it tells of a file, and what its edits leave alone."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import pairwise

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from readers import Reader
from words import NAMED_SWITCHES, SWITCH_KEYS

from precpatch.languages.base import Language, ReadError
from precpatch.languages.mention import KINDS, ROLES, Mention
from precpatch.languages.source import SourceFile
from precpatch.languages.yaml import MAX_DEPTH, YamlLanguage
from precpatch.languages.yaml import walk as module
from precpatch.patch.edits import Edit
from precpatch.vocabulary import builtin_vocabulary

READER = Reader(YamlLanguage())

TRAINER = """\
# Generated, but people edit it. dtype: bfloat16 is the default below.
actor_rollout_ref:
  model:
    path: ~/models/demo-7b-bf16   # folder name, keep
    override_config: {}

  actor:
    fsdp_config:
      dtype: bfloat16 # ["bfloat16", "float16"]
      mixed_precision:
        param_dtype:   'bf16'
        reduce_dtype: fp32
        buffer_dtype: "fp32"
  rollout:
    dtype: "bfloat16"     # should align with FSDP
    dtypes_tried: [bfloat16, float16]
    attn_implementation: ${oc.select:actor_rollout_ref.actor.attn_implementation,flash_attention_2}
    mode: async
  ref:
    attn_implementation: flash_attention_2
    # attn_implementation: flash_attention_2
    note: >-
      bfloat16 needs compute capability 8.0
critic:
  bf16: true
  model_dtype: null
"""

ENGINES = """\
---
defaults: &eng
  dtype: &bf16 bfloat16
  attn_implementation: flash_attention_2
actor:
  <<: *eng
  lr: 1e-6
ref:
  <<: *eng
  dtype: *bf16
---
rollout: {name: vllm, dtype: bfloat16, tp: 2}
stages:
  - {id: warm, param_dtype: bf16}
  - id: main
    param_dtype: "bf16"
...
"""

DECIDING = ("value", "interpolation-default", "switch")


def opened(text: str | bytes, path: str = "conf/demo.yaml") -> SourceFile:
    return READER.open(path, text.encode() if isinstance(text, str) else text)


def read(text: str | bytes, path: str = "conf/demo.yaml") -> list[Mention]:
    """The mentions of ``text``, each checked against the contract of a Mention."""
    source = opened(text, path)
    found = READER.read(source, text=True)
    assert READER.read(source) == [m for m in found if m.role not in ("comment", "text") or "embedded" in m.facts]
    assert [m.start for m in found] == sorted(m.start for m in found)
    for before, after in pairwise(found):
        assert before.end <= after.start
    for m in found:
        assert source.data[m.start : m.end].decode(source.encoding) == m.text
        assert m.kind in KINDS
        assert m.role in ROLES
        assert (m.path, m.language, m.scope, m.allowed, m.follows) == (path, "yaml", "", None, ())
        assert source.position(source.line_starts[m.line - 1]) == (m.line, 1)
    looked_for = [m for m in found if m.value not in builtin_vocabulary().quiet and m.text.strip("'\"") != "half"]
    if looked_for and source.encoding == "utf-8" and not any("escaped" in m.facts for m in found):
        assert READER.mentions(source.data)
    return found


def only(text: str | bytes, path: str = "conf/demo.yaml") -> Mention:
    found = read(text, path)
    assert len(found) == 1, found
    return found[0]


def rows(text: str | bytes) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in read(text)]


def spliced(data: bytes, edits: list[Edit]) -> bytes:
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        assert data[edit.start : edit.end] == edit.old
        data = data[: edit.start] + edit.new + data[edit.end :]
    return data


def rewritten(text: str | bytes, values: dict[str, str], roles: tuple[str, ...] = DECIDING) -> bytes:
    """``text`` with every mention in ``roles`` whose value is in ``values`` rewritten."""
    source = opened(text)
    edits = [
        edit
        for mention in READER.read(source)
        if mention.role in roles and mention.value in values
        for edit in READER.rewrite(source, mention, values[mention.value])
    ]
    after = spliced(source.data, edits)
    assert READER.check(source, after) is None
    return after


def error_of(text: str | bytes) -> str:
    with pytest.raises(ReadError) as caught:
        READER.read(opened(text))
    return str(caught.value)


@pytest.fixture(params=["fastest", "pure"])
def _each_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "pure":
        monkeypatch.setattr(module, "_LOADERS", (yaml.SafeLoader,))


# The contract.


def test_is_a_language() -> None:
    language: Language = YamlLanguage()
    assert language.name == "yaml"
    assert language.suffixes == (".yaml", ".yml")


def test_extends_nothing() -> None:
    source = opened("dtype: bf16\n")
    assert READER.extend(source, READER.read(source)[0], "float32") == ()


@pytest.mark.usefixtures("_each_loader")
def test_a_trainer_config() -> None:
    told = [(m.line, m.column, m.role, m.text, m.key) for m in read(TRAINER)]
    assert told == [
        (1, 41, "comment", "bfloat16", None),
        (4, 28, "text", "bf16", "path"),
        (9, 14, "value", "bfloat16", "dtype"),
        (9, 27, "comment", "bfloat16", None),
        (9, 39, "comment", "float16", None),
        (11, 24, "value", "'bf16'", "param_dtype"),
        (12, 23, "value", "fp32", "reduce_dtype"),
        (13, 23, "value", '"fp32"', "buffer_dtype"),
        (15, 12, "value", '"bfloat16"', "dtype"),
        (16, 20, "lookup", "bfloat16", "dtypes_tried"),
        (16, 30, "lookup", "float16", "dtypes_tried"),
        (17, 82, "interpolation-default", "flash_attention_2", "attn_implementation"),
        (20, 26, "value", "flash_attention_2", "attn_implementation"),
        (21, 28, "comment", "flash_attention_2", None),
        (23, 7, "text", "bfloat16", "note"),
        (25, 3, "key", "bf16", "bf16"),
        (25, 9, "switch", "true", "bf16"),
    ]


def test_a_trainer_config_rewritten() -> None:
    after = rewritten(TRAINER, {"bfloat16": "float32", "flash_attention_2": "eager", "true": "false"}).decode()
    changed = {
        number: line
        for number, (old, line) in enumerate(zip(TRAINER.splitlines(), after.splitlines(), strict=True), 1)
        if old != line
    }
    assert changed == {
        9: '      dtype: float32 # ["bfloat16", "float16"]',
        11: "        param_dtype:   'fp32'",
        15: '    dtype: "float32"     # should align with FSDP',
        17: "    attn_implementation: ${oc.select:actor_rollout_ref.actor.attn_implementation,eager}",
        20: "    attn_implementation: eager",
        25: "  bf16: false",
    }
    assert rewritten(after, {"bfloat16": "float32", "flash_attention_2": "eager", "true": "false"}) == after.encode()


@pytest.mark.usefixtures("_each_loader")
def test_anchors_flow_style_and_documents() -> None:
    told = [(m.line, m.role, m.text, m.key_path) for m in read(ENGINES)]
    assert told == [
        (3, "value", "bfloat16", "defaults.dtype"),
        (4, "value", "flash_attention_2", "defaults.attn_implementation"),
        (12, "switch", "vllm", "rollout.name"),
        (12, "value", "bfloat16", "rollout.dtype"),
        (14, "value", "bf16", "stages[0].param_dtype"),
        (16, "value", '"bf16"', "stages[1].param_dtype"),
    ]
    after = rewritten(ENGINES, {"bfloat16": "float16", "flash_attention_2": "sdpa"}, ("value",)).decode()
    first, second = yaml.safe_load_all(after)
    assert [first[name]["dtype"] for name in ("defaults", "actor", "ref")] == ["float16"] * 3
    assert second["stages"] == [{"id": "warm", "param_dtype": "fp16"}, {"id": "main", "param_dtype": "fp16"}]
    assert "&bf16 float16" in after
    assert "dtype: *bf16" in after


# Names and spellings.


@pytest.mark.parametrize(
    ("word", "kind", "value", "spelling"),
    [
        ("bfloat16", "dtype", "bfloat16", "long"),
        ("BF16", "dtype", "bfloat16", "short"),
        ("half", "dtype", "float16", "long"),
        ("Float16", "dtype", "float16", "long"),
        ("fp32", "dtype", "float32", "short"),
        ("torch.bfloat16", "dtype", "bfloat16", "torch-name"),
        ("flash_attention_3", "attention", "flash_attention_3", "name"),
        ("SDPA", "attention", "sdpa", "name"),
        ("eager", "attention", "eager", "name"),
    ],
)
@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_names(word: str, kind: str, value: str, spelling: str, quote: str) -> None:
    (mention,) = READER.read(
        opened(f"{kind}_{'implementation' if kind == 'attention' else 'dtype'}: {quote}{word}{quote}\n")
    )
    assert (mention.kind, mention.value, mention.spelling) == (kind, value, spelling)
    assert (mention.role, mention.text) == ("value", f"{quote}{word}{quote}")
    assert "part" not in mention.facts


@pytest.mark.parametrize(
    "word", ["fp8", "bf16x3", "w8bf16", "float128", "flash_attention_23", "half_life", "auto", "~"]
)
def test_not_names(word: str) -> None:
    assert read(f"dtype: {word}\n") == []


# Roles.


def test_keys() -> None:
    assert rows("bfloat16: torch.bfloat16\n") == [("key", "bfloat16"), ("value", "torch.bfloat16")]
    assert rows("? 'bf16'\n: 1\n") == [("key", "'bf16'")]
    assert [(m.role, m.text, m.key, sorted(m.facts)) for m in read("downcast_bf16: 'no'\n")] == [
        ("key", "bf16", "downcast_bf16", ["part"])
    ]


def test_dotted_keys_count_by_their_last_part() -> None:
    mention = only("actor.fsdp.dtype: bf16\n")
    assert (mention.key, mention.key_path) == ("dtype", "actor.fsdp.dtype")


def test_lists_are_lookups() -> None:
    found = read("a:\n  choices:\n  - bf16\n  - [fp16, 'sdpa']\n")
    assert [(m.role, m.key, m.key_path) for m in found] == [
        ("lookup", "choices", "a.choices[0]"),
        ("lookup", "choices", "a.choices[1][0]"),
        ("lookup", "choices", "a.choices[1][1]"),
    ]
    assert all(m.facts == {"in-list"} for m in found)


def test_a_list_at_the_top() -> None:
    assert (only("- bf16\n").key, only("- bf16\n").key_path) == (None, "[0]")
    mention = only("- {dtype: bf16}\n")
    assert (mention.role, mention.key_path, mention.facts) == ("value", "[0].dtype", set())


def test_a_lone_scalar_is_text() -> None:
    assert (only("bfloat16\n").role, only("bfloat16\n").key, only("bfloat16\n").key_path) == ("text", None, None)


@pytest.mark.parametrize(
    ("item", "text", "key_path", "option"),
    [
        ("actor.rollout.dtype=bfloat16", "bfloat16", "actor.rollout.dtype", False),
        ("+actor.rollout.dtype=bfloat16", "bfloat16", "actor.rollout.dtype", False),
        ("++actor.dtype=bf16", "bf16", "actor.dtype", False),
        ("'actor.dtype=bf16'", "bf16", "actor.dtype", False),
        ("actor.dtype='bf16'", "bf16", "actor.dtype", False),
        ('"actor.dtype=\\"bf16\\""', "bf16", "actor.dtype", False),
        ("--dtype=bfloat16", "bfloat16", "dtype", True),
    ],
)
def test_overrides_in_lists(item: str, text: str, key_path: str, option: bool) -> None:
    mention = only(f"overrides:\n- {item}\n")
    assert (mention.role, mention.text, mention.key, mention.key_path) == ("value", text, "dtype", key_path)
    assert mention.facts == {"override", "part"} | ({"option"} if option else set())


def test_overrides_of_switches_and_with_interpolations() -> None:
    mention = only("- actor.use_torch_compile=True\n")
    assert (mention.kind, mention.role, mention.key, mention.text) == ("switch", "switch", "use_torch_compile", "True")
    mention = only("- actor.dtype=${oc.env:DTYPE,bf16}\n")
    assert (mention.role, mention.key_path) == ("interpolation-default", "actor.dtype")
    assert only("- override: bf16\n").role == "value"
    assert rows("- a.bf16_dir=/models/x-bf16\n") == [("text", "bf16"), ("text", "bf16")]
    assert rows("cmd: actor.dtype=bf16\n") == [("text", "bf16")]
    assert "embedded" in only("cmd: actor.dtype=bf16\n").facts


def test_callee_is_the_target_of_the_mapping() -> None:
    before, after = read("a: {dtype: bf16, _target_: pkg.A}\nb:\n  _target_: pkg.B\n  c: {dtype: bf16}\n")
    assert (before.callee, after.callee) == ("pkg.A", None)


# Switches.


@pytest.mark.parametrize("key", [key for key in SWITCH_KEYS if "." not in key])
def test_switch_keys(key: str) -> None:
    switch = next(m for m in read(f"a:\n  {key}: True\n") if m.role == "switch")
    assert (switch.kind, switch.value, switch.spelling, switch.key) == ("switch", "true", "name", key)
    assert (switch.text, switch.key_path) == ("True", f"a.{key}")


@pytest.mark.parametrize(
    ("word", "value", "other"),
    [
        ("true", "true", "false"),
        ("False", "false", "True"),
        ("TRUE", "true", "FALSE"),
        ("yes", "true", "no"),
        ("Off", "false", "On"),
        ("NO", "false", "YES"),
        ("tRUE", "true", "false"),
    ],
)
def test_booleans_keep_their_style(word: str, value: str, other: str) -> None:
    source = opened(f"tf32: {word} # x\n")
    (mention,) = READER.read(source)
    assert mention.value == value
    (edit,) = READER.rewrite(source, mention, "false" if value == "true" else "true")
    assert spliced(source.data, [edit]).decode() == f"tf32: {other} # x\n"
    assert READER.rewrite(source, mention, value) == ()


@pytest.mark.parametrize("value", ["'yes'", "!!str true", "1", "auto", "null", "", "[true]"])
def test_only_booleans_switch(value: str) -> None:
    assert read(f"tf32: {value}\n") == []


def test_a_tagged_boolean_switches() -> None:
    assert only("tf32: !!bool true\n").text == "true"


def test_deepspeed_sections() -> None:
    found = [m for m in read("ds:\n  bf16: {enabled: true}\n  fp16:\n    enabled: false\n") if m.role == "switch"]
    assert [(m.key, m.key_path, m.value) for m in found] == [
        ("bf16.enabled", "ds.bf16.enabled", "true"),
        ("fp16.enabled", "ds.fp16.enabled", "false"),
    ]
    assert read("profiler: {enabled: true}\n") == []


def test_mixed_precision_is_a_dtype_or_a_switch() -> None:
    assert (only("mixed_precision: bf16\n").kind, only("mixed_precision: bf16\n").role) == ("dtype", "value")
    assert (only("mixed_precision: true\n").kind, only("mixed_precision: true\n").role) == ("switch", "switch")


@pytest.mark.parametrize("key", [key for key in NAMED_SWITCHES if "." not in key])
def test_named_switches(key: str) -> None:
    for name in NAMED_SWITCHES[key]:
        (mention,) = (each for each in read(f"{key}: {name}\n") if each.role != "key")
        assert (mention.kind, mention.role, mention.value, mention.key) == ("switch", "switch", name, key)
    assert [each for each in read(f"{key}: something\n") if each.role != "key"] == []


def test_the_rollout_engine() -> None:
    assert only("rollout:\n  name: ???\n").key == "rollout.name"
    assert only("name: vllm\n", "conf/rollout/rollout.yaml").key == "rollout.name"
    assert read("name: vllm\n", "conf/model.yaml") == []
    source = opened("rollout: {name: vllm}\n")
    (edit,) = READER.rewrite(source, READER.read(source)[0], "hf")
    assert edit.new == b"hf"


# Interpolations.


@pytest.mark.parametrize(
    ("scalar", "text"),
    [
        ("${oc.select:a.b.attn_implementation,flash_attention_2}", "flash_attention_2"),
        ("${oc.env:DTYPE,bfloat16}", "bfloat16"),
        ("${env:DTYPE,bfloat16}", "bfloat16"),
        ("${oc.select:a,${oc.select:b,bfloat16}}", "bfloat16"),
        ("${oc.select:a,'${oc.env:B,bf16}'}", "bf16"),
        ("'${ oc.select : a.b , bf16 }'", "bf16"),
        ("'${oc.select:a,bf16}'", "bf16"),
        ('"${oc.select:a,bf16}"', "bf16"),
        ("'${oc.select:a,\"bf16\"}'", "bf16"),
        ("'${oc.select:a,''bf16''}'", "bf16"),
        ('"${oc.select:a,\\"bf16\\"}"', "bf16"),
        ("prefix-${oc.select:a,bf16}/suffix", "bf16"),
        ("${a.b}-${oc.select:${c},torch.bfloat16}", "torch.bfloat16"),
        ("${oc.select:a,\n    bf16}", "bf16"),
        ("it's ${oc.select:a,fp16}", "fp16"),
    ],
)
def test_interpolation_defaults(scalar: str, text: str) -> None:
    mention = only(f"m:\n  setting: {scalar}\n")
    assert (mention.role, mention.text) == ("interpolation-default", text)
    assert (mention.key, mention.key_path) == ("setting", "m.setting")
    assert "part" in mention.facts


@pytest.mark.parametrize(
    "scalar", ["${a.b.dtype}", "${oc.select:a.b}", "${oc.env:DTYPE}", "${dtype", "}", "${}", "${,}"]
)
def test_no_default_no_mention(scalar: str) -> None:
    assert read(f"dtype: '{scalar}'\n") == []


@pytest.mark.parametrize(
    "scalar",
    [
        "${a.bf16.x}",
        "${to_dtype:bf16}",
        "${choose:a,bf16}",
        "${oc.select:a,bf16-model}",
        "${oc.select:a,b,bf16}",
        "\\${oc.select:a,bf16}",
        "${oc.select:a,[bf16]}",
    ],
)
def test_other_words_in_interpolations_are_text(scalar: str) -> None:
    assert only(f"x: {scalar}\n").role == "text"


def test_default_of_a_switch() -> None:
    mention = only("use_remove_padding: ${oc.select:a.use_remove_padding,False}\n")
    assert (mention.kind, mention.role, mention.value) == ("switch", "interpolation-default", "false")
    assert read("other: ${oc.select:a.other,False}\n") == []


def test_key_of_a_default_without_a_key() -> None:
    mention = only("- ${oc.select:actor.dtype,bf16}\n")
    assert (mention.key, mention.key_path) == ("dtype", "actor.dtype")


def test_rewriting_defaults() -> None:
    text = "a: ${oc.select:x,${oc.env:Y, 'bf16'}} # bf16\n"
    assert rewritten(text, {"bfloat16": "float32"}) == b"a: ${oc.select:x,${oc.env:Y, 'fp32'}} # bf16\n"


# Text and comments.


def test_block_scalars_are_text() -> None:
    text = "about: | # bf16 here\n  train dtype=bfloat16  # fp16\n  dtype: bf16\nnext: >-\n  flash_attention_2\n"
    assert rows(text) == [
        ("comment", "bf16"),
        ("text", "bfloat16"),
        ("text", "fp16"),
        ("text", "bf16"),
        ("value", "flash_attention_2"),
    ]


def test_a_block_scalar_that_is_one_name_is_a_value() -> None:
    mention = only("torch_dtype: >-\n  bfloat16\n")
    assert (mention.role, mention.key, mention.text) == ("value", "torch_dtype", "bfloat16")


def test_an_argument_after_its_option_is_a_value() -> None:
    mention = only('more: ["--dtype", "bfloat16"]\n')
    assert (mention.role, mention.key, mention.facts >= {"argv"}) == ("value", "dtype", True)


def test_a_setting_in_a_text_that_may_be_a_command_is_told_as_embedded() -> None:
    mention = only("about: |\n  start it with a.b.dtype=bfloat16 c=1\n")
    assert (mention.role, mention.text, mention.facts >= {"embedded"}) == ("text", "bfloat16", True)


def test_words_in_scalars_are_text() -> None:
    text = "path: ~/models/demo-7b-bf16\nnotes: adamw_bf16\nnote: use torch.float16 or sdpa, half a float eager\n"
    assert rows(text) == [("text", "bf16"), ("text", "bf16"), ("text", "torch.float16"), ("text", "sdpa")]


@pytest.mark.usefixtures("_each_loader")
def test_comments() -> None:
    text = (
        "# bf16 and veomni_flash_attention_2_with_sp\n"
        "a: 1 # bf16_stochastic_round: true\n"
        "b: 'x # bf16' # fp16/bf16\n"
        "c: x#bf16\n"
        "d: !foo-bf16 # fp16\n"
        "  y\n"
        "e: [1, # fp16\n  2] # bf16\n"
        "f:\n"
        "# last, half of it eager: fp16"
    )
    assert rows(text) == [
        ("comment", "bf16"),
        ("comment", "veomni_flash_attention_2_with_sp"),
        ("comment", "bf16"),
        ("text", "bf16"),
        ("comment", "fp16"),
        ("comment", "bf16"),
        ("text", "bf16"),
        ("text", "bf16"),
        ("comment", "fp16"),
        ("comment", "fp16"),
        ("comment", "bf16"),
        ("comment", "fp16"),
    ]


def test_a_file_of_comments() -> None:
    assert rows("# bf16\n") == [("comment", "bf16")]
    assert read("") == []


def test_tags_are_text_and_anchors_are_nothing() -> None:
    text = "a: !!python/name:torch.bfloat16 ''\nb: &fp16 1\nc: *fp16\n"
    assert rows(text) == [("text", "torch.bfloat16")]


# Positions.


@pytest.mark.usefixtures("_each_loader")
@pytest.mark.parametrize(
    "text",
    [
        "dtype: !!str bfloat16\n",
        "dtype: &x bfloat16\n",
        "dtype: &x !!str bfloat16\n",
        "dtype: !<tag:yaml.org,2002:str> &x bfloat16\n",
        "dtype: ! bfloat16\n",
        "dtype: !custom bfloat16\n",
        "dtype: &x # why\n\n  bfloat16\n",
        "dtype:\n    bfloat16\n",
        "dtype:\r\n  bfloat16\r\n",
        "x: 1\rdtype: bfloat16\r",
        "é: ü\n\U0001f600: \U0001f680 # \u4e2d\ndtype: bfloat16",
        "x: 'a'\x85dtype: bfloat16\n",
        "x: a\u2028dtype: bfloat16\u2029",
        "%YAML 1.1\n---\ndtype: bfloat16\n...\n",
        "--- !map\n? dtype\n: bfloat16\n",
        "x: 'it''s'\ny: \"\\u0041\\\n  b\"\ndtype: bfloat16\n",
        "x: |+\n  é\n\n\ndtype: bfloat16\n",
        "x: a\n  b\n\n  c\ndtype: bfloat16\n",
        "{dtype: bfloat16 , x}",
        "dtype: bfloat16\ndtype: 1\n",
        "x: \ufeff1\ndtype: bfloat16\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_positions(text: str, encoding: str) -> None:
    mention = only(text.encode(encoding))
    assert (mention.role, mention.text, mention.key, mention.value) == ("value", "bfloat16", "dtype", "bfloat16")


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="the pure loader refuses tabs")
def test_tabs_in_flow_style() -> None:
    mention = only("{x: 1,\tdtype:\tbfloat16\t}")
    assert (mention.column, mention.end_column) == (15, 23)


def test_line_and_column_count_characters() -> None:
    mention = only("\ufeff# é\r\n\U0001f600: {dtype: 'bf16'}\r\n".encode())
    assert (mention.line, mention.column, mention.end_line, mention.end_column) == (2, 12, 2, 18)


def test_two_byte_order_marks_are_read_by_the_pure_loader() -> None:
    assert only("\ufeff\ufeffdtype: bf16\n").text == "bf16"


def test_positions_that_no_loader_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_stands", lambda raw, value, style: False)
    assert error_of("dtype: bf16\n") == "the parser gives no usable positions for this file"


def test_escapes() -> None:
    source = opened('dtype: "b\\x66loat16" # x\n')
    (mention,) = READER.read(source)
    assert (mention.role, mention.value, mention.text) == ("value", "bfloat16", '"b\\x66loat16"')
    assert mention.facts == {"escaped"}
    assert READER.mentions(source.data)
    assert spliced(source.data, [*READER.rewrite(source, mention, "float32")]) == b'dtype: "float32" # x\n'


def test_crlf_and_bom_survive_a_rewrite() -> None:
    text = "\ufeffactor:\r\n  dtype: bfloat16   # keep me\r\n  name: \"café\"\r\nrollout:\r\n  dtype: 'bfloat16'"
    assert rewritten(text, {"bfloat16": "float32"}).decode() == text.replace("bfloat16", "float32")


def test_utf_16_survives_a_rewrite() -> None:
    data = "é: 1\ndtype: bf16\n".encode("utf-16")
    assert READER.mentions(data)
    assert rewritten(data, {"bfloat16": "float32"}).decode("utf-16") == "é: 1\ndtype: fp32\n"


# Facts.


@pytest.mark.parametrize(
    "head",
    [
        "# This reference yaml is automatically generated via 'scripts/x.sh'\n",
        "# This file is auto-generated\n",
        "---\n# @generated\n",
        "# one\n# Do not modify this file directly.\n",
        "# DO NOT EDIT\n",
        "# generated by print_cfg\n",
    ],
)
def test_generated_files(head: str) -> None:
    assert "generated" in only(head + "dtype: bf16\n").facts


def test_generated_by_name_or_not() -> None:
    assert "generated" in only("dtype: bf16\n", "c/_generated_ppo.yaml").facts
    assert only("# previously generated rollout data\ndtype: bf16\n").facts == set()
    assert only("x: auto-generated\ndtype: bf16\n").facts == set()


def test_primary_config() -> None:
    assert "primary-config" in only("actor_rollout_ref: {dtype: bf16}\n").facts
    assert "primary-config" in only("dtype: bf16\ndata: 1\ntrainer: 2\n").facts
    assert only("data: {trainer: 1, dtype: bf16}\n").facts == set()
    first, second = read("a: bf16\n---\ndata: bf16\ntrainer: 1\n")
    assert (first.facts, second.facts) == (set(), {"primary-config"})


@pytest.mark.parametrize("device", ["npu", "NPU", "npu:0", "hpu", "xpu", "mlu", "musa"])
def test_other_devices(device: str) -> None:
    found = read(f"trainer:\n  device: {device}\n---\ndtype: bf16 # fp16\n")
    assert [m.facts for m in found] == [{"other-device"}] * 2


@pytest.mark.parametrize("path", ["a/npu/x.yaml", "a/run_npu.yaml", "ascend-ci.yml", "x.hccl.yaml", "NPU_a.yaml"])
def test_other_devices_by_path(path: str) -> None:
    assert only("dtype: bf16\n", path).facts == {"other-device"}


def test_usual_devices() -> None:
    assert only("device: cuda\ndtype: bf16\n", "inputs/descend/x.yaml").facts == set()
    assert only("device: [npu]\nother_device: npu\ndtype: bf16\n").facts == set()


@pytest.mark.parametrize(
    ("text", "elsewhere"),
    [
        ("dtype: &x bf16\nrun_name: *x\n", True),
        ("dtype: &x bf16\n*x : 1\n", True),
        ("dtype: &x bf16\nnames: [*x]\n", True),
        ("dtype: &x bf16\nb: {dtype: *x}\n", False),
        ("dtype: &x bf16\n", False),
        ("dtype: &x bf16\nb: &x 1\nc: *x\n", False),
    ],
)
def test_aliases(text: str, elsewhere: bool) -> None:
    assert only(text).facts == ({"aliased-elsewhere"} if elsewhere else set())


def test_merged_mappings_stand_where_they_are_merged() -> None:
    assert only("a:\n  <<: {dtype: bf16}\n").key_path == "a.dtype"


# Rewriting.


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("d: bf16", "float32", "d: fp32"),
        ("d: BF16", "float16", "d: FP16"),
        ("d: 'bfloat16'", "float32", "d: 'float32'"),
        ('d: "torch.bfloat16"', "float32", 'd: "torch.float32"'),
        ("dtype: half", "float32", "dtype: float32"),
        ("d: flash_attention_2", "eager", "d: eager"),
        ("mixed_precision: bf16", "'no'", "mixed_precision: 'no'"),
        ("mixed_precision: 'bf16'", "'no'", "mixed_precision: 'no'"),
        ("mixed_precision: bf16", "no", "mixed_precision: 'no'"),
        ('mixed_precision: "bf16"', "no", 'mixed_precision: "no"'),
        ("d: bf16", "null", "d: 'null'"),
        ("d: bf16", "1e5", "d: '1e5'"),
        ("d: bf16", "it's: #1", "d: 'it''s: #1'"),
        ("d: 'bf16'", "it's", "d: 'it''s'"),
        ('d: "bf16"', 'a"\\', 'd: "a\\"\\\\"'),
        ("[d: bf16]", "no", "[d: 'no']"),
        ("- d=bf16", "no", "- d=no"),
    ],
)
def test_rewrite(before: str, value: str, after: str) -> None:
    source = opened(before)
    (mention,) = READER.read(source)
    edits = READER.rewrite(source, mention, value)
    assert spliced(source.data, [*edits]).decode() == after
    assert READER.check(source, after.encode()) is None


def test_nothing_to_rewrite() -> None:
    source = opened("d: bf16\n")
    assert READER.rewrite(source, READER.read(source)[0], "bfloat16") == ()


def test_check_finds_what_broke() -> None:
    source = opened("d: bf16\n")
    assert READER.check(source, b"d: {\n") is not None
    assert READER.check(source, b"d: \xff\n") == "not text: byte 0xff at offset 3 is not UTF-8"
    assert READER.check(source, b"d: *gone\n") == "line 1, column 4: found undefined alias 'gone'"


# Files that do not read.


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: \xff\n", "not text: byte 0xff at offset 3 is not UTF-8"),
        (b"\xef\xbb\xbfa: \xe9\n", "not text: byte 0xe9 at offset 6 is not UTF-8"),
        (b"\xff\xfea", "not text: byte 0x61 at offset 2 is not UTF-16"),
        (b"a: b\0\n", "not text: byte 0x00 at offset 4"),
        ("a: b\n".encode("utf-16-le"), "not text: byte 0x00 at offset 1"),
    ],
)
def test_not_text(data: bytes, message: str) -> None:
    assert error_of(data) == message


@pytest.mark.usefixtures("_each_loader")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("actor:\n\tdtype: bfloat16\n", "line 2, column 1: found character '\\t' that cannot start any token"),
        ("a: *x\n", "line 1, column 4: found undefined alias 'x'"),
        ("é: é\r\na: \x07bf16\n", "line 2, column 4: found character '\\x07' that is not allowed"),
    ],
)
def test_does_not_parse(text: str, message: str) -> None:
    assert error_of(text) == message


@pytest.mark.parametrize(
    "text", ["{{ x }}: {{ y }}z\n", "a: {% if x %}bf16\n", "a: [bf16\n", "a: 'bf16\n", "a: b: bf16\n"]
)
def test_templates_and_broken_files(text: str) -> None:
    message = error_of(text)
    assert message.startswith("line ")
    assert "\n" not in message


def test_what_the_error_says_when_the_parser_gives_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise yaml.YAMLError("no more")

    monkeypatch.setattr(yaml, "parse", broken)
    assert error_of("a: bf16\n") == "no more"


@pytest.mark.usefixtures("_each_loader")
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 2_000])
def test_deep_nesting(depth: int) -> None:
    assert "nest" in error_of("[" * depth + "]" * depth)
    assert error_of("- " * depth + "bf16\n") == f"line 1, column {2 * MAX_DEPTH + 1}: nested deeper than 500 levels"


def test_nesting_that_is_still_read() -> None:
    assert only("- " * MAX_DEPTH + "bf16\n").key_path == "[0]" * MAX_DEPTH


def test_aliases_that_unfold_to_something_huge_cost_nothing() -> None:
    lines = ["a0: &a0 [bf16, bf16]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 40)]
    assert len(read("\n".join(lines))) == 2


def test_a_mapping_that_holds_itself() -> None:
    assert only("a: &a\n  dtype: bf16\n  self: *a\n").key_path == "a.dtype"


@pytest.mark.parametrize(
    "text",
    [
        "a: '" + "${" * 50_000 + "'\n",
        "a: '" + "${oc.select:a," * 20_000 + "bf16" + "}" * 20_000 + "'\n",
        "- x=" + " " * 50_000 + "y ${oc.select:a," + " " * 50_000 + "b}\n",
        "a: '" + '"' * 50_000 + "${" + '"' * 50_001 + "'\n",
        "a: !" + "x" * 100_000 + " bf16\n",
        "".join(f"{' ' * n}{'k' * 1000}:\n" for n in range(400)) + f"{' ' * 400}- bf16\n" * 1000,
        "[" * 100_000,
        "k" * 1000 + ": {" + ", ".join(f"k{n}: bf16" for n in range(5_000)) + "}\n",
    ],
)
def test_hostile_files_are_cheap(text: str) -> None:
    start = time.process_time()
    with suppress(ReadError):
        read(text)
    assert time.process_time() - start < 3


def test_a_path_that_is_too_long_is_not_told() -> None:
    levels = "".join(f"{' ' * n}{'k' * 1000}:\n" for n in range(5))
    mention = only(f"{levels}     dtype: bf16\n")
    assert (mention.key, mention.key_path) == ("dtype", None)
    assert only(f"{levels}     - bf16\n").key_path is None


# The filter.


@pytest.mark.parametrize("key", SWITCH_KEYS)
def test_filter_knows_the_switches(key: str) -> None:
    assert READER.mentions(f"{key}: on".encode())


def test_filter() -> None:
    assert READER.mentions(b"x: BFloat16")
    assert READER.mentions(b"x: Flash_Attention_2")
    assert not READER.mentions(b"lr: 1e-6\nname: demo\npath: /a/b\n")
    assert not READER.mentions(b"")


# Properties.


WORDS = (
    "bfloat16",
    "bf16",
    "BF16",
    "torch.bfloat16",
    "float16",
    "fp32",
    "flash_attention_2",
    "true",
    "x-bf16",
    "é",
    "3",
)
KEYS = ("dtype", "param_dtype", "attn_implementation", "bf16", "use_torch_compile", "note", "ключ", "🙂", "a.b")
REWRITES = {"bfloat16": "float32", "flash_attention_2": "eager", "true": "false"}


@st.composite
def scalars(draw: st.DrawFn) -> str:
    word = draw(st.sampled_from(WORDS))
    shape = draw(
        st.sampled_from(["{}", "'{}'", '"{}"', "!!str {}", "${{oc.select:a.b,{}}}", "'${{oc.env:A, {}}}'", '"# {}"'])
    )
    return shape.format(word)


@st.composite
def lines(draw: st.DrawFn, depth: int = 0) -> list[str]:
    """The lines of a mapping, without line ends."""
    written: list[str] = []
    for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True)):
        comment = draw(st.sampled_from(["", "", " # bf16", "  # é flash_attention_2"]))
        shape = draw(st.sampled_from(["scalar", "scalar", "flow", "list", "map", "block", "anchor"]))
        if shape == "scalar" or (shape == "map" and depth > 2):
            written.append(f"{key}: {draw(scalars())}{comment}")
        elif shape == "anchor":
            anchor = f"bf16-{draw(st.uuids())}"
            written += [f"{key}: &{anchor} {draw(scalars())}{comment}", f"{key}_again: *{anchor}"]
        elif shape == "flow":
            written.append(f"{key}: {{dtype: '{draw(st.sampled_from(WORDS))}', l: [bf16, {{bf16: true}}]}}{comment}")
        elif shape == "list":
            written += [
                f"{key}:{comment}",
                *(f"- {item}" for item in draw(st.lists(scalars(), min_size=1, max_size=3))),
            ]
        elif shape == "block":
            written += [f"{key}: >-{comment}", "  about bf16", "", "  # not a comment: fp16"]
        else:
            written += [f"{key}:{comment}", *(f"  {line}" for line in draw(lines(depth + 1)))]
    return written


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    parts = draw(st.lists(lines(), min_size=1, max_size=3))
    text = f"{end}---{end}".join(end.join(part) for part in parts) + draw(st.sampled_from(["", end, f"{end}...{end}"]))
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))


@given(documents())
@settings(max_examples=300)
def test_rewriting_changes_only_what_was_told(data: bytes) -> None:
    source = opened(data)
    told = [m for m in read(data) if m.role in DECIDING and m.value in REWRITES]
    edits = [edit for m in told for edit in READER.rewrite(source, m, REWRITES[m.value])]
    assert len(edits) == len(told)
    after = spliced(data, edits)
    again = opened(after)
    assert [m for m in READER.read(again) if m.role in DECIDING and m.value in REWRITES] == []
    gone, came = list(data), list(after)
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        del gone[edit.start : edit.end]
    for edit, shift in zip(edits, shifts(edits), strict=True):
        came[edit.start + shift : edit.start + shift + len(edit.new)] = [-1] * len(edit.new)
    assert [byte for byte in came if byte >= 0] == gone


def shifts(edits: list[Edit]) -> list[int]:
    """How far each edit has moved in the edited file."""
    moved, found = 0, []
    for edit in edits:
        found.append(moved)
        moved += len(edit.new) - len(edit.old)
    return found


@given(documents())
@example(b"bf16: 'true'")
@example(b'bf16: "true"\nname: "true"')
@settings(max_examples=200)
def test_the_rest_of_the_tree_is_equal(data: bytes) -> None:
    after = rewritten(data, REWRITES)
    before_text, after_text = opened(data).text, opened(after).text
    trees = []
    for text in (before_text, after_text):
        trees.append([plain(node) for node in yaml.compose_all(text, Loader=yaml.SafeLoader)])
    assert trees[0] == trees[1]


def plain(node: object) -> object:
    """A composed node as plain data in which a rewritten value and what it becomes look the same."""
    if isinstance(node, yaml.ScalarNode):
        value = node.value
        for old, new in (
            ("torch.bfloat16", "torch.float32"),
            ("BF16", "FP32"),
            ("bf16", "fp32"),
            ("bfloat16", "float32"),
        ):
            value = value.replace(old, new)
        value = value.replace("flash_attention_2", "eager").replace("true", "false")
        if value == "false" and node.style in ("'", '"'):  # a switch in quotes loses them: the text "false" is true
            return ("tag:yaml.org,2002:bool", None, value)
        return (node.tag, node.style, value)
    assert isinstance(node, yaml.CollectionNode)
    return (node.tag, [plain(x) for pair in node.value for x in (pair if isinstance(pair, tuple) else [pair])])


@given(st.text(st.sampled_from("ab:-#'\"{}[]&*!|>\n\r\t $,bf16\ufeff\x85\u2028é🙂"), max_size=60))
@settings(max_examples=500)
def test_any_text_is_read_or_refused(text: str) -> None:
    refusal = ""
    try:
        read(text)
    except ReadError as error:
        refusal = str(error)
    assert "\n" not in refusal
