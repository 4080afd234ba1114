"""The JSON reader: which files it takes for settings, what it tells of them, and what its edits leave alone."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers import Reader
from words import SWITCH_KEYS

from precpatch.languages.base import Language, ReadError
from precpatch.languages.json import MAX_DEPTH, MAX_PATH, JsonLanguage
from precpatch.languages.mention import KINDS, ROLES, Mention
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit, PatchSet

READER = Reader(JsonLanguage())

MODEL = """\
{
  "architectures": [
    "Qwen2ForCausalLM"
  ],
  "_attn_implementation": "flash_attention_2",
  "hidden_size": 896,
  "initializer_range": 0.02,
  "rms_norm_eps": 1e-06,
  "rope_theta": 1000000.0,
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.43.1",
  "_name_or_path": "demo/qwen-bf16"
}"""

ZERO_3 = """\
{
    "bf16": {
        "enabled": true
    },
    "fp16": {"enabled": false, "loss_scale": 0},
    "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1e9},
    "communication_data_type": "bf16"
}
"""

TRAINER = {"output_dir": "out", "learning_rate": 1e-6}
ACCELERATE = {"compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU"}


def opened(text: str | bytes, path: str = "config.json") -> SourceFile:
    return READER.open(path, text if isinstance(text, bytes) else text.encode())


def read(text: str | bytes, path: str = "config.json") -> list[Mention]:
    source = opened(text, path)
    mentions = READER.read(source)
    assert READER.read(source, text=True) == mentions
    for mention in mentions:
        assert mention.kind in KINDS
        assert mention.role in ROLES
        raw = source.data[mention.start : mention.end]
        assert raw.decode(source.encoding) == mention.text
    return mentions


def dumped(*parts: dict[str, Any], **more: object) -> str:
    return json.dumps({key: value for part in (*parts, more) for key, value in part.items()})


def told(text: str) -> dict[str | None, str]:
    return {mention.key_path: mention.value for mention in read(text)}


def only(text: str | bytes, path: str = "config.json") -> Mention:
    (mention,) = read(text, path)
    return mention


def rewritten(text: str | bytes, value: str, key: str | None = None) -> bytes:
    """The file after every mention (under ``key``) was made to say ``value``."""
    source = opened(text)
    edits = [
        edit
        for mention in READER.read(source)
        if key is None or mention.key == key
        for edit in READER.rewrite(source, mention, value)
    ]
    after = PatchSet.of(edits, lambda _: source.data).apply_to(source.path, source.data)
    assert READER.check(source, after) is None
    return after


def error_of(data: str | bytes) -> str:
    with pytest.raises(ReadError) as caught:
        read(data)
    return str(caught.value)


def test_is_a_language() -> None:
    reader: Language = READER.language
    assert reader.name == "json"
    assert reader.suffixes == (".json",)
    source = opened(MODEL)
    assert all(READER.extend(source, mention, "float32") == () for mention in READER.read(source))


# Model configs.


def test_a_model_config() -> None:
    attention, dtype = read(MODEL)
    assert (attention.kind, attention.value, attention.role) == ("attention", "flash_attention_2", "value")
    assert (attention.key, attention.line, attention.column) == ("_attn_implementation", 5, 27)
    assert (dtype.kind, dtype.value, dtype.spelling, dtype.role) == ("dtype", "bfloat16", "long", "value")
    assert (dtype.key, dtype.key_path, dtype.text) == ("torch_dtype", "torch_dtype", '"bfloat16"')
    assert (dtype.line, dtype.column, dtype.end_line, dtype.end_column) == (11, 18, 11, 28)
    assert dtype.language == "json"
    assert dtype.facts == {"hf-config"}


def test_a_model_config_keeps_its_bytes() -> None:
    once = rewritten(rewritten(MODEL, "float16", "torch_dtype"), "sdpa", "_attn_implementation")
    assert once.decode() == MODEL.replace("bfloat16", "float16").replace("flash_attention_2", "sdpa")


def test_parts_of_a_model_config() -> None:
    config = {
        "model_type": "llava",
        "text_config": {"torch_dtype": "bfloat16", "_attn_implementation_internal": "flash_attention_2"},
        "vision_config": {"dtype": "torch.bfloat16"},
        "quantization_config": {"bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "BF16"},
        "experts": [{"router_dtype": "bf16"}],
    }
    assert told(json.dumps(config)) == {
        "text_config.torch_dtype": "bfloat16",
        "text_config._attn_implementation_internal": "flash_attention_2",
        "vision_config.dtype": "bfloat16",
        "quantization_config.bnb_4bit_compute_dtype": "bfloat16",
        "quantization_config.bnb_4bit_quant_storage": "bfloat16",
        "experts[0].router_dtype": "bfloat16",
    }
    assert {mention.facts for mention in read(json.dumps(config))} == {frozenset({"hf-config"})}
    again = rewritten(json.dumps(config), "float32").decode()
    assert json.loads(again)["vision_config"] == {"dtype": "torch.float32"}
    assert json.loads(again)["quantization_config"]["bnb_4bit_quant_storage"] == "FP32"


def test_a_value_for_each_sub_model() -> None:
    mentions = read(dumped(model_type="llava", attn_implementation={"": "sdpa", "vision_config": "flash_attention_2"}))
    assert [(m.key, m.key_path, m.value) for m in mentions] == [
        ("attn_implementation", "attn_implementation.", "sdpa"),
        ("attn_implementation", "attn_implementation.vision_config", "flash_attention_2"),
    ]


@pytest.mark.parametrize(
    "marks",
    [
        {"model_type": "x"},
        {"architectures": []},
        {"transformers_version": "5"},
        {"_name_or_path": "", "hidden_size": 1},
    ],
)
def test_marks_of_a_model_config(marks: dict[str, object]) -> None:
    assert only(dumped(marks, dtype="bf16")).facts == {"hf-config"}


def test_switches_of_a_model_config() -> None:
    text = dumped(model_type="qwen", bf16=True, fp16=False, use_flash_attn=True)
    assert told(text) == {"bf16": "true", "fp16": "false", "use_flash_attn": "true"}
    assert {mention.kind for mention in read(text)} == {mention.role for mention in read(text)} == {"switch"}


# Files that are no settings.


@pytest.mark.parametrize(
    "text",
    [
        '{"chat_template": "{% if x %}bfloat16{% endif %}", "model_max_length": 32768}',
        '{"chat_template": "", "model_type": "x", "dtype": "bfloat16"}',
        '{"added_tokens_decoder": {}, "transformers_version": "5", "dtype": "bfloat16"}',
        '{"name": "x", "version": "1.0.0", "scripts": {"bf16": "bf16"}, "dtype": "bf16"}',
        '{"dtype": "bfloat16", "attn_implementation": "flash_attention_2", "bf16": true}',
        '{"data": {"model_type": "x", "torch_dtype": "bfloat16"}}',
        '[{"model_type": "x", "torch_dtype": "bfloat16"}]',
        '{"_name_or_path": "x", "dtype": "bfloat16"}',
        '{"mixed_precision": "bf16"}',
        '{"learning_rate": 1, "bf16": true}',
        '"bf16"',
        "1",
        "{}",
    ],
)
def test_other_files_tell_nothing(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "more",
    [
        {"run_name": "bf16"},
        {"dtype": "auto"},
        {"dtype": None},
        {"dtype": ["bfloat16"]},
        {"dtype": [{"x": "bfloat16"}]},
        {"bf16": [{"enabled": True}]},
        {"torch_dtype": "a bfloat16"},
        {"attn_implementation": "kernels-community/metal-sdpa"},
        {"label2id": {"dtype": 1}},
        {"bf16": "true"},
        {"bf16": 1},
        {"flash_attention_2": "dtype"},
    ],
)
def test_other_values_tell_nothing(more: dict[str, object]) -> None:
    assert read(dumped({"model_type": "x"}, more)) == []


# DeepSpeed.


def test_deepspeed() -> None:
    bf16, fp16, wire = read(ZERO_3)
    assert (bf16.kind, bf16.role, bf16.value, bf16.text, bf16.line) == ("switch", "switch", "true", "true", 3)
    assert bf16.key == bf16.key_path == "bf16.enabled"
    assert (fp16.key, fp16.value) == ("fp16.enabled", "false")
    assert (wire.kind, wire.role, wire.key, wire.spelling) == ("dtype", "value", "communication_data_type", "short")
    assert {mention.facts for mention in (bf16, fp16, wire)} == {frozenset({"deepspeed"})}


@pytest.mark.parametrize("value", ["float32", "false"])
def test_deepspeed_in_float32(value: str) -> None:
    assert rewritten(ZERO_3, value, "bf16.enabled").decode() == ZERO_3.replace("true", "false")
    wire = ZERO_3.replace('type": "bf16"', 'type": "fp32"')
    assert rewritten(ZERO_3, "float32", "communication_data_type").decode() == wire


def test_deepspeed_in_float16() -> None:
    after = ZERO_3.replace("true", "0").replace("false", "true").replace("0\n", "false\n", 1)
    assert rewritten(ZERO_3, "float16", "bf16.enabled").decode() == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"bf16": {"enabled": true}}', '{"fp16": {"enabled": true}}'),
        ('{"bfloat16":{"enabled":true}}', '{"fp16":{"enabled":true}}'),
        ('{"bf1\\u0036": {"enabled": true}}', '{"fp16": {"enabled": true}}'),
        (
            '{"bf16": {"enabled": true}, "fp16": {"enabled": true}}',
            '{"bf16": {"enabled": false}, "fp16": {"enabled": true}}',
        ),
        (
            '{"fp16": {"enabled": false}, "fp16": {"enabled": false}, "bf16": {"enabled": true}}',
            '{"fp16": {"enabled": true}, "fp16": {"enabled": true}, "bf16": {"enabled": false}}',
        ),
    ],
)
def test_the_twin_comes_on(text: str, after: str) -> None:
    assert rewritten(text, "float16").decode() == after


@pytest.mark.parametrize(
    "text",
    [
        '{"bf16": {"enabled": true}, "fp16": {"enabled": "auto"}}',
        '{"bf16": {"enabled": true}, "fp16": {}}',
        '{"bf16": {"enabled": true}, "fp16": false}',
        '{"bf16": {"enabled": true, "immediate_grad_update": true}}',
        '{"train_micro_batch_size_per_gpu": 1, "tf32": true}',
        '{"train_micro_batch_size_per_gpu": 1, "bf16": {"tf32": true}}',
        '{"zero_optimization": {}, "fp16": {"enabled": true}}',
        '{"zero_optimization": {}, "bf16.enabled": true}',
    ],
)
def test_no_twin_can_come_on(text: str) -> None:
    assert rewritten(text, "float16").decode() == text


def test_a_switch_of_another_file() -> None:
    assert READER.rewrite(opened("{}"), read(ZERO_3)[0], "float16") == ()


def test_deepspeed_that_follows_the_trainer() -> None:
    assert read('{"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}') == []


@pytest.mark.parametrize(
    "text",
    [
        '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}',
        '{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}}',
        '{"data_types": {"grad_accum_dtype": "bf16"}}',
        '{"communication_data_type": "bf16"}',
    ],
)
def test_marks_of_deepspeed(text: str) -> None:
    assert only(text).facts == {"deepspeed"}


# Accelerate and trainers.


def test_accelerate() -> None:
    mention = only(dumped(ACCELERATE, mixed_precision="bf16"))
    assert (mention.kind, mention.role, mention.key) == ("dtype", "value", "mixed_precision")
    assert (mention.value, mention.facts) == ("bfloat16", {"accelerate"})
    assert read(dumped(ACCELERATE, mixed_precision="no", downcast_bf16="no")) == []
    assert only(dumped(mixed_precision="bf16", num_processes=8)).facts == {"accelerate"}


@pytest.mark.parametrize(("value", "word"), [("'no'", "no"), ("no", "no"), ("float16", "fp16")])
def test_accelerate_says_no_for_full_precision(value: str, word: str) -> None:
    before = dumped(ACCELERATE, mixed_precision="bf16")
    assert json.loads(rewritten(before, value)) == {**ACCELERATE, "mixed_precision": word}


def test_a_section_called_mixed_precision() -> None:
    before = dumped(TRAINER, mixed_precision={"param_dtype": "bf16", "note": "bf16"})
    assert only(before).key_path == "mixed_precision.param_dtype"
    assert json.loads(rewritten(before, "float32"))["mixed_precision"] == {"param_dtype": "fp32", "note": "bf16"}


def test_trainer_arguments() -> None:
    text = dumped(
        TRAINER,
        bf16=True,
        fp16=False,
        tf32=True,
        bf16_full_eval=False,
        torch_dtype="bfloat16",
        attn_implementation="flash_attention_2",
        run_name="bf16",
        model_init_kwargs={"torch_dtype": "bfloat16"},
    )
    assert told(text) == {
        "bf16": "true",
        "fp16": "false",
        "tf32": "true",
        "bf16_full_eval": "false",
        "torch_dtype": "bfloat16",
        "attn_implementation": "flash_attention_2",
        "model_init_kwargs.torch_dtype": "bfloat16",
    }
    assert {mention.facts for mention in read(text)} == {frozenset({"trainer"})}


@pytest.mark.parametrize(
    ("switches", "after"),
    [
        ({"bf16": True, "fp16": False}, {"bf16": False, "fp16": True}),
        ({"bf16": True}, {"fp16": True}),
        ({"bf16_full_eval": True, "fp16": False}, {"fp16_full_eval": True, "fp16": False}),
        ({"use_bf16": True, "use_fp16": True}, {"use_bf16": False, "use_fp16": True}),
        ({"bf16": True, "fp16": None}, {"bf16": True, "fp16": None}),
        ({"bf16": True, "fp16": {"enabled": False}}, {"bf16": True, "fp16": {"enabled": False}}),
        ({"tf32": True}, {"tf32": True}),
    ],
)
def test_trainer_arguments_in_float16(switches: dict[str, object], after: dict[str, object]) -> None:
    before = dumped({"num_train_epochs": 1.0}, switches)
    key = next(iter(switches))
    assert rewritten(before, "float16", key).decode() == dumped({"num_train_epochs": 1.0}, after)


def test_a_deepspeed_config_inside_trainer_arguments() -> None:
    text = dumped(TRAINER, deepspeed={"bf16": {"enabled": True}})
    assert only(text).facts == {"deepspeed", "trainer"}
    assert only(text).key_path == "deepspeed.bf16.enabled"
    assert json.loads(rewritten(text, "float16"))["deepspeed"] == {"fp16": {"enabled": True}}


@pytest.mark.parametrize(
    ("word", "new"),
    [("fa2", "disabled"), ("fa2", "sdpa"), ("fa3", "disabled")],
)
def test_flash_attn_of_llama_factory(word: str, new: str) -> None:
    text = dumped({"finetuning_type": "lora", "flash_attn": word})
    mention = only(text)
    assert (mention.kind, mention.role, mention.key, mention.value) == ("switch", "switch", "flash_attn", word)
    assert json.loads(rewritten(text, new))["flash_attn"] == new


def test_flash_attn_words_are_only_for_flash_attn() -> None:
    assert read(dumped(TRAINER, some_implementation="fa2", flash_attn="auto")) == []


# Rewriting.


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ('"bfloat16"', "float32", '"float32"'),
        ('"bf16"', "float32", '"fp32"'),
        ('"BF16"', "float16", '"FP16"'),
        ('"torch.bfloat16"', "float32", '"torch.float32"'),
        ('"b\\u0066loat16"', "float32", '"float32"'),
        ('"\\u0042F16"', "float32", '"FP32"'),
        ('"bf16"', "auto", '"auto"'),
        ('"bf16"', "a\"b\\é'", '"a\\"b\\\\\\u00e9\'"'),
    ],
)
def test_rewrite(before: str, value: str, after: str) -> None:
    text = '{"model_type":"x",  "dtype"\t:\n%s }'
    assert rewritten(text % before, value).decode() == text % after


def test_nothing_to_rewrite() -> None:
    text = '{"model_type": "x", "dtype": "bfloat16", "bf16": false, "attn_implementation": "sdpa"}'
    source = opened(text)
    for mention in READER.read(source):
        assert READER.rewrite(source, mention, mention.value) == ()
    assert rewritten(text, "float16", "bf16") == rewritten(text, "no", "bf16") == text.encode()


def test_check_finds_what_broke() -> None:
    assert READER.check(opened(MODEL), MODEL[:-2].encode()) == "line 13, column 36: expecting ',' delimiter"
    assert READER.check(opened(MODEL), b"\xff\xff\xff\xff") == "not text: byte 0xff at offset 0 is not UTF-8"


def test_the_same_key_twice() -> None:
    text = '{"model_type": "x", "dtype": "bf16", "dtype": "bfloat16"}'
    assert [mention.text for mention in read(text)] == ['"bf16"', '"bfloat16"']
    assert rewritten(text, "float32").decode() == '{"model_type": "x", "dtype": "fp32", "dtype": "float32"}'


# Positions and encodings.


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be"])
def test_encodings(encoding: str) -> None:
    text = '{\r\n "é🙂": "\\ud83d\\ude00", "model_type": "🙂\\\\",\r\n "ключ": 1, "dtype": "bf16"}\r\n'
    data = text.encode(encoding)
    assert READER.mentions(data)
    mention = only(data)
    assert (mention.line, mention.column, mention.end_column) == (3, 22, 28)
    assert rewritten(data, "float32") == text.replace("bf16", "fp32").encode(encoding)
    switch = dumped(TRAINER, run="?", bf16=True).replace("?", "🙂").encode(encoding)
    assert rewritten(switch, "float16") == switch.decode(encoding).replace("bf", "fp").encode(encoding)


def test_escapes() -> None:
    mention = only('{"model_type": "x", "torch_dtyp\\u0065": "b\\u00660at16", "dtype": "b\\u0066loat16"}')
    assert (mention.value, mention.text) == ("bfloat16", '"b\\u0066loat16"')
    assert mention.facts == {"hf-config", "escaped"}
    assert only('{"model_type": "x", "d\\u0074ype": "bf16"}').key == "dtype"


def test_numbers_of_any_kind() -> None:
    text = '{"model_type": [NaN, -Infinity, Infinity, 1e999, %s, -0.0, null], "dtype": "bf16"}' % ("9" * 5000)
    assert rewritten(text, "float32").decode() == text.replace("bf16", "fp32")


@pytest.mark.parametrize("path", ["examples/npu/config.json", "run_ascend.json", "a-hccl.json"])
def test_other_devices_by_path(path: str) -> None:
    assert only(MODEL.replace('"flash_attention_2"', "null"), path).facts == {"hf-config", "other-device"}


# Files that do not read.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\n{"torch_dtype": "bfloat16", "a": [1, 2', "line 2, column 39: expecting ',' delimiter"),
        ('{"bf16": 1}\n{"bf16": 2}\n', "line 2, column 1: more than one JSON value"),
        ('{"bf16": 1}{"bf16": 2}', "line 1, column 12: more than one JSON value"),
        ('{"é": "bf16",\r\n // no\r\n}', "line 2, column 2: expecting property name enclosed in double quotes"),
        ('{"bf16": 01}', "line 1, column 11: expecting ',' delimiter"),
        ("{'a': \"bf16\"}", "line 1, column 2: expecting property name enclosed in double quotes"),
        ('{"bf16": "\t"}', "line 1, column 11: invalid control character at"),
        ('{"bf16": "\\x"}', "line 1, column 11: invalid \\escape"),
    ],
)
def test_does_not_parse(text: str, message: str) -> None:
    assert error_of(text) == message


@pytest.mark.parametrize("text", ["", '{"a": 1', '// bf16\n{"a": 1}', '{"x": "float"}\n{"x": "y"}\n', "{{ dtype }}"])
def test_broken_files_without_a_needle_are_nothing(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": "\xff"}', "not text: byte 0xff at offset 7 is not UTF-8"),
        (b'\xef\xbb\xbf{"a": "\xe9"}', "not text: byte 0xe9 at offset 10 is not UTF-8"),
        (b'\xff\xfe{\x00"', "not text: byte 0x22 at offset 4 is not UTF-16"),
    ],
)
def test_not_text(data: bytes, message: str) -> None:
    assert error_of(data) == message


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 200_000])
def test_deep_nesting(depth: int) -> None:
    text = '{"model_type": "x", "a": ' + "[" * depth + '"bf16"' + "]" * depth + "}"
    assert "nested deeper than 500 levels" in error_of(text)


def test_nesting_that_is_still_read() -> None:
    depth = MAX_DEPTH - 2
    text = f'{{"model_type": "x", "a": {"[" * depth}{{"dtype": "bf16"}}{"]" * depth}}}'
    assert only(text).key_path == f"a{'[0]' * depth}.dtype"


def test_a_path_that_is_too_long_is_not_told() -> None:
    assert only('{"model_type": "x", "%s": {"a": {"dtype": "bf16"}}}' % ("k" * MAX_PATH)).key_path is None


@pytest.mark.parametrize(
    "text",
    [
        dumped({"model_type": "x"}, a=[{"é": {"dtype": "bf16"}}] * 3_000).replace("\\u00e9", "é"),
        '{"model_type": "%s", "dtype": "bf16"}' % ("\\\\" * 500_000),
        '{"model_type": "x", "dtype": "bf16", "a": [%s1]}' % ("1," * 200_000),
        '"' * 1_000_000 + "bf16",
    ],
)
def test_hostile_files_are_cheap(text: str) -> None:
    started = time.process_time()
    with suppress(ReadError):
        read(text)
    assert time.process_time() - started < 10


# The filter.


@pytest.mark.parametrize("key", SWITCH_KEYS)
def test_filter_knows_the_switches(key: str) -> None:
    value: object = True
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    text = dumped(ACCELERATE, value)
    assert only(text).key == key
    assert READER.mentions(text.encode())


def test_filter() -> None:
    assert READER.mentions(b'{"x": "BFloat16"}')
    assert READER.mentions(b'{"x": "torch.half"}')
    assert READER.mentions(b'{"bf16.enabled": true}')
    assert READER.mentions(b'{"x": "b\\u0066loat16"}')
    assert not READER.mentions(b'{"name": "demo", "text": "half and \\u00e9 \\u003c", "type": "float"}')
    assert not READER.mentions(b"")


# Properties.


WORDS = ("bfloat16", "bf16", "BF16", "torch.bfloat16", "float16", "flash_attention_2", "fa2", "x-bf16", "é", "🙂", "")
KEYS = ("dtype", "param_dtype", "attn_implementation", "bf16", "fp16", "flash_attn", "mixed_precision", "ключ", "a.b")
FORMS = ({"model_type": "x"}, {"zero_optimization": {}}, ACCELERATE, TRAINER, {})
SAME = {
    **dict.fromkeys(
        ("bfloat16", "bf16", "BF16", "torch.bfloat16", "float32", "fp32", "FP32", "torch.float32", "no"), "32"
    ),
    **dict.fromkeys(("flash_attention_2", "fa2", "eager", "disabled"), "eager"),
}
REWRITES = {"bfloat16": "float32", "flash_attention_2": "eager", "true": "float32"}


def values() -> st.SearchStrategy[Any]:
    scalars = st.sampled_from(WORDS) | st.booleans() | st.none() | st.floats() | st.integers()
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
            | st.fixed_dictionaries({"enabled": st.booleans() | st.just("auto")})
        ),
        max_leaves=12,
    )


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    tree = draw(st.sampled_from(FORMS)) | draw(st.dictionaries(st.sampled_from(KEYS), values(), max_size=6))
    text = json.dumps(tree, indent=draw(st.sampled_from([None, 0, 2, "\t"])), ensure_ascii=draw(st.booleans()))
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])))


def fixes(source: SourceFile) -> list[Edit]:
    wanted = [m for m in READER.read(source) if m.value in REWRITES]
    return [edit for m in wanted for edit in READER.rewrite(source, m, REWRITES[m.value])]


@given(documents())
@settings(max_examples=300)
def test_rewriting_changes_only_what_was_told(data: bytes) -> None:
    source = opened(data)
    edits = sorted(fixes(source), key=lambda edit: edit.start)
    assert not edits or READER.mentions(data)
    after = PatchSet.of(edits, lambda _: data).apply_to(source.path, data)
    before_rest, after_rest, shift, done = b"", b"", 0, 0
    for edit in edits:
        before_rest += data[done : edit.start]
        after_rest += after[done + shift : edit.start + shift]
        shift, done = shift + len(edit.new) - len(edit.old), edit.end
    assert before_rest + data[done:] == after_rest + after[done + shift :]
    assert fixes(opened(after)) == []


def settled(value: Any, key: str = "", above: str = "") -> Any:
    """A parsed tree in which a value that the rewrites change and what it becomes look the same."""
    if isinstance(value, dict):
        return {name: settled(inner, name, key) for name, inner in value.items()}
    if isinstance(value, list):
        return [settled(inner, "", key) for inner in value]
    if isinstance(value, str):
        return SAME.get(value, value)
    if isinstance(value, bool) and not {key, f"{above}.{key}"}.isdisjoint(SWITCH_KEYS):
        return "switched"
    return repr(value)


@given(documents())
@settings(max_examples=200)
def test_the_rest_of_the_tree_is_equal(data: bytes) -> None:
    source = opened(data)
    after = PatchSet.of(fixes(source), lambda _: data).apply_to(source.path, data)
    assert settled(json.loads(opened(after).text)) == settled(json.loads(source.text))
    assert READER.check(source, after) is None


@given(st.text(st.sampled_from('{}[]",:\\ \r\n\tub0f16t\ufeffé🙂'), max_size=40))
@settings(max_examples=500)
def test_any_text_is_read_or_refused(text: str) -> None:
    refusal = ""
    try:
        read(text)
    except ReadError as error:
        refusal = str(error)
    assert "\n" not in refusal
