"""Reads JSON: the settings of model configs, DeepSpeed, accelerate and trainers, known by their content.

Only the outermost object of a file says what it is, never the file's name; JSON that is none of these (tokenizers,
datasets, packages) gives no mention, and neither does text in it. Only whole values under the keys of a setting count.

The standard library decides what is JSON (``NaN`` and ``Infinity`` are, comments are not). Of text that it has taken
all that is left to find is where each token starts and ends.

Facts that a mention can carry:
    accelerate: it stands in the settings of accelerate.
    deepspeed: it stands in a DeepSpeed config, or in one that a trainer's arguments hold.
    escaped: the text shows the value only after its escapes are undone.
    hf-config: it stands in the config of a Hugging Face model.
    other-device: the path names a device that is not an NVIDIA GPU.
    trainer: it stands in a file of trainer arguments (transformers, TRL, LLaMA-Factory).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from precpatch.languages.base import ReadError
from precpatch.languages.mention import Mention, place
from precpatch.languages.settings import DEVICE_WORDS, SWITCH_KEYS
from precpatch.languages.source import SourceFile
from precpatch.languages.values import ATTENTION_NAMES, DTYPE_NAMES, FLASH_VARIANT, attention_of, dtype_of, spell_dtype
from precpatch.patch.edits import Edit

MAX_DEPTH = 500
"""Objects and lists nested deeper than this are refused."""

MAX_PATH = 4096
"""A key path of more characters than this is not kept, so that hostile files stay cheap to read."""

_DTYPE_KEY = re.compile(r"(?:\w*_)?(?:dtype|data_type)|dtype_(?:name|str)|mixed_precision|bnb_4bit_quant_storage")
_ATTENTION_KEY = re.compile(r"\w*attn_implementation(?:_internal)?|attention_implementation|flash_attn")
_FLASH_ATTN = {
    "fa2": "flash_attention_2",
    "fa3": "flash_attention_3",
    "disabled": "eager",
}
"""What LLaMA-Factory writes under ``flash_attn`` -> the name for it that transformers takes."""

_CANONICAL = frozenset(canonical for canonical, _ in DTYPE_NAMES.values())
_SECTIONS = ("bf16", "bfloat16", "fp16")
"""The sections of a DeepSpeed config that an ``enabled`` turns on."""

_HF_MARKS = frozenset({"architectures", "model_type", "transformers_version"})
_HF_PAIR = frozenset({"_name_or_path", "hidden_size"})
_HF_OTHERS = frozenset({"added_tokens_decoder", "chat_template", "feature_extractor_type", "image_processor_type"})
_DEEPSPEED_MARKS = frozenset(
    {
        "communication_data_type",
        "train_micro_batch_size_per_gpu",
        "zero_allow_untested_optimizer",
        "zero_optimization",
    }
)
_ACCELERATE_MARKS = frozenset({"compute_environment", "distributed_type"})
_ACCELERATE_REST = frozenset({"downcast_bf16", "machine_rank", "num_machines", "num_processes", "use_cpu"})
_TRAINER_MARKS = frozenset(
    {"finetuning_type", "num_train_epochs", "per_device_eval_batch_size", "per_device_train_batch_size"}
)
_TRAINER_REST = frozenset(
    {
        "deepspeed",
        "gradient_accumulation_steps",
        "gradient_checkpointing",
        "learning_rate",
        "logging_steps",
        "lr_scheduler_type",
        "model_name_or_path",
        "output_dir",
        "save_steps",
        "warmup_ratio",
        "warmup_steps",
    }
)

_BF16 = re.compile("bf(?:loat)?16")
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\],:"]+')
_QUIET = frozenset({"eager", "float", "float32", "float64", "fp32", "fp64"})
_WORDS = {*(ATTENTION_NAMES - _QUIET), *_FLASH_ATTN, *SWITCH_KEYS, *(key.split(".")[0] for key in SWITCH_KEYS)}
_NEEDLE = re.compile(
    r'"(?:(?:torch\.)?(?:{})|{}|{})"'.format(
        "|".join(sorted(DTYPE_NAMES.keys() - _QUIET)), "|".join(map(re.escape, sorted(_WORDS))), FLASH_VARIANT
    ).encode()
)
_ESCAPE = re.compile(rb"\\u00(?:3[0-9]|[46][1-9a-f]|[57][0-9a]|5f)", re.IGNORECASE)
_MARKS_OF_ORDER = {
    "utf-8-sig": ("utf-8", 3),
    "utf-16": ("utf-16", 2),
    "utf-32": ("utf-32", 4),
}


class JsonLanguage:
    """The reader of JSON files."""

    name = "json"
    suffixes: tuple[str, ...] = (".json",)

    def open(self, path: str, data: bytes) -> SourceFile:
        """Find the encoding of ``data``: UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

        Raises:
            ReadError: the bytes are not text in that encoding.
        """
        return open_json(path, data)

    def mentions(self, data: bytes) -> bool:
        """Whether a name or a switch stands in the bytes as a whole string, or could once escapes are undone.

        A file whose only names are those of float32, float64 or eager asks for nothing, and is not read.
        """
        return is_wide(data) or _NEEDLE.search(data.lower()) is not None or hides_letters(data)

    def read(self, source: SourceFile, text: bool = False) -> list[Mention]:
        """Every mention in the file, in order of position; with ``text`` the same, for JSON has no comments.

        Raises:
            ReadError: the file is not JSON, and could hold a mention.
        """
        try:
            boxes = parse(source)
        except ReadError:
            if self.mentions(source.data):
                raise
            return []
        return sorted(_told(source, boxes), key=lambda mention: mention.start)

    def rewrite(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make ``mention`` say ``value``; none where it says so already or it cannot be done.

        A bf16 switch takes a dtype as well: "float32" turns it off, "float16" also turns its fp16 twin on, or gives
        the switch its twin's name where the file has no twin.
        """
        if mention.kind == "switch":
            return _switched(source, mention, value)
        new = json.dumps(_word(mention, value))
        if value == mention.value or new == mention.text:
            return ()
        return (_edit(source, mention.start, mention.end, new),)

    def extend(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """None: JSON declares no set of allowed values."""
        return ()

    def check(self, before: SourceFile, data: bytes) -> str | None:
        """Parse the file again after an edit; None when it is well, else what is wrong."""
        try:
            parse(self.open(before.path, data))
        except ReadError as error:
            return str(error)
        return None


# From bytes to objects and lists: what the notebook reader uses as well.


def open_json(path: str, data: bytes) -> SourceFile:
    """The file in its encoding, as RFC 4627 finds it from the first four bytes.

    Raises:
        ReadError: the bytes are not text in that encoding.
    """
    encoding, bom = _encoding(data)
    words = re.split(r"[/_.-]", path.lower())
    facts = frozenset() if DEVICE_WORDS.isdisjoint(words) else frozenset({"other-device"})
    try:
        data[bom:].decode(encoding)
    except UnicodeDecodeError as error:
        offset = bom + error.start
        codec = encoding.upper().removesuffix("-LE").removesuffix("-BE")
        raise ReadError(f"not text: byte 0x{data[offset]:02x} at offset {offset} is not {codec}") from None
    return SourceFile(path, data, encoding, bom, facts)


def _encoding(data: bytes) -> tuple[str, int]:
    """The codec of a JSON file and the length of its byte order mark."""
    encoding = json.detect_encoding(data)
    codec, bom = _MARKS_OF_ORDER.get(encoding, (encoding, 0))
    if bom in (2, 4):
        codec += "-le" if data[0] == 0xFF else "-be"
    return codec, bom


def is_wide(data: bytes) -> bool:
    """Whether the bytes look like UTF-16 or UTF-32, in which no name can be searched for."""
    return json.detect_encoding(data) not in ("utf-8", "utf-8-sig")


def hides_letters(data: bytes) -> bool:
    """Whether an ASCII letter, digit or underscore is written as an escape."""
    return _ESCAPE.search(data) is not None


@dataclass(slots=True, eq=False)
class Scalar:
    """A value that holds no others: ``value`` is the text of a string, a boolean, or None for all else.

    ``start`` and ``end`` are character indexes of the file's text, a string's with its quotes.
    """

    start: int
    end: int
    value: str | bool | None


@dataclass(slots=True, eq=False)
class Member:
    """A key of an object with its value; ``start`` and ``end`` are those of the key, with its quotes."""

    key: str
    start: int
    end: int
    value: Scalar | Box


@dataclass(slots=True, eq=False)
class Box:
    """An object or a list.

    Attributes:
        parent: what holds it, None for the outermost.
        key: the key that it is the value of, None in a list.
        path: dotted path to it, "" for the outermost, None where it is too long.
        is_list: whether it is a list.
        members: of an object, in order; a key given twice is there twice.
        items: of a list.
        facts: what is known of all that is in it.
    """

    parent: Box | None
    key: str | None
    path: str | None
    is_list: bool
    members: list[Member] = field(default_factory=list)
    items: list[Scalar | Box] = field(default_factory=list)
    facts: frozenset[str] = frozenset()

    def get(self, key: str) -> Scalar | Box | None:
        """The value that ``key`` has in the end: of a key given twice the last one counts."""
        return next((member.value for member in reversed(self.members) if member.key == key), None)

    def keys(self) -> frozenset[str]:
        """Its keys; none for a list."""
        return frozenset(member.key for member in self.members)


def parse(source: SourceFile) -> list[Box]:
    """Every object and list of the file, the outermost first.

    Raises:
        ReadError: the file is not one JSON value, or is nested too deeply.
    """
    _validate(source)
    walk = _Walk(source)
    for match in _TOKEN.finditer(source.text):
        walk.token(*match.span())
    return walk.boxes


def _validate(source: SourceFile) -> None:
    """Let the standard library say whether the text is JSON. Numbers stay text, for some are too long to be read."""
    try:
        json.loads(source.text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        problem = error.msg[:1].lower() + error.msg[1:]
        if error.msg == "Extra data":
            problem = "more than one JSON value"
        raise ReadError(_located(source, error.pos, problem)) from None
    except RecursionError:
        raise ReadError(f"nested deeper than {MAX_DEPTH} levels") from None


def _located(source: SourceFile, index: int, problem: str) -> str:
    """``problem`` with the line and column of ``index`` before it."""
    line, column = source.position(index)
    return f"line {line}, column {column}: {problem}"


class _Walk:
    """Turns the tokens of valid JSON into objects and lists."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.boxes: list[Box] = []
        self.stack: list[Box] = []
        self.key: tuple[str, int, int] | None = None

    def token(self, start: int, end: int) -> None:
        """Take the next token, which is no comma and no colon."""
        mark = self.source.text[start]
        if mark in "{[":
            self._open(start, is_list=mark == "[")
        elif mark in "}]":
            self.stack.pop()
        elif mark == '"':
            text = _string(self.source.text[start:end])
            if self.stack and not self.stack[-1].is_list and self.key is None:
                self.key = (text, start, end)
            else:
                self._add(Scalar(start, end, text))
        else:
            self._add(Scalar(start, end, {"true": True, "false": False}.get(self.source.text[start:end])))

    def _open(self, start: int, is_list: bool) -> None:
        parent = self.stack[-1] if self.stack else None
        if len(self.stack) == MAX_DEPTH:
            raise ReadError(_located(self.source, start, f"nested deeper than {MAX_DEPTH} levels"))
        if parent is None:
            box = Box(None, None, "", is_list)
        elif self.key is None:
            path = None if parent.path is None else f"{parent.path}[{len(parent.items)}]"
            box = Box(parent, None, path, is_list)
        else:
            box = Box(parent, self.key[0], _join(parent.path, self.key[0]), is_list)
        self._add(box)
        self.boxes.append(box)
        self.stack.append(box)

    def _add(self, value: Scalar | Box) -> None:
        """Put a value in the object or list around it."""
        if self.key is not None:
            self.stack[-1].members.append(Member(*self.key, value))
            self.key = None
        elif self.stack:
            self.stack[-1].items.append(value)


def _string(raw: str) -> str:
    """The text of a string token."""
    return str(json.loads(raw)) if "\\" in raw else raw[1:-1]


def _join(path: str | None, key: str) -> str | None:
    """The path of ``key`` under ``path``."""
    if path is None or len(path) + len(key) >= MAX_PATH:
        return None
    return f"{path}.{key}" if path else key


# From objects to mentions.


def _is_model(box: Box) -> bool:
    keys = box.keys()
    return _HF_OTHERS.isdisjoint(keys) and (not _HF_MARKS.isdisjoint(keys) or keys >= _HF_PAIR)


def _is_deepspeed(box: Box) -> bool:
    sections = [box.get(key) for key in _SECTIONS]
    if any(isinstance(section, Box) and section.get("enabled") is not None for section in sections):
        return True
    types = box.get("data_types")
    return not _DEEPSPEED_MARKS.isdisjoint(box.keys()) or (
        isinstance(types, Box) and types.get("grad_accum_dtype") is not None
    )


def _is_accelerate(box: Box) -> bool:
    keys = box.keys()
    return not _ACCELERATE_MARKS.isdisjoint(keys) or (
        "mixed_precision" in keys and not _ACCELERATE_REST.isdisjoint(keys)
    )


def _is_trainer(box: Box) -> bool:
    keys = box.keys()
    return not _TRAINER_MARKS.isdisjoint(keys) or len(_TRAINER_REST & keys) > 1


_FORMS: dict[str, Callable[[Box], bool]] = {
    "accelerate": _is_accelerate,
    "deepspeed": _is_deepspeed,
    "hf-config": _is_model,
    "trainer": _is_trainer,
}
"""Fact -> whether an object is of that form."""


def _forms(box: Box) -> frozenset[str]:
    """What the object is, by its keys, and what all around it is; none where the outermost object is nothing known."""
    around = box.parent.facts if box.parent else frozenset()
    if box.is_list or (box.parent and not around):
        return around
    return around | {fact for fact, is_form in _FORMS.items() if is_form(box)}


@dataclass(frozen=True, slots=True)
class _Name:
    """What a value says: its kind, its canonical value and spelling, and the key of the setting that it is for."""

    kind: str
    value: str
    spelling: str
    key: str


def _told(source: SourceFile, boxes: list[Box]) -> Iterator[Mention]:
    """The mentions in the objects of a file whose outermost object is of a known form."""
    for box in boxes:
        box.facts = _forms(box)
        if not box.facts:
            continue
        for member in box.members:
            name = _name(box, member)
            if name and isinstance(member.value, Scalar):
                yield _mention(source, box, member, member.value, name)


def _name(box: Box, member: Member) -> _Name | None:
    """What a member says, if it is a setting of interest."""
    value = member.value.value if isinstance(member.value, Scalar) else None
    if isinstance(value, bool):
        return _switch(member.key, box.key, value)
    if not isinstance(value, str):
        return None
    name = _setting(member.key, value)
    return _setting(box.key, value) if name is None and box.key and box.key != "mixed_precision" else name


def _switch(key: str, above: str | None, value: bool) -> _Name | None:
    """What a boolean says under ``key``, which is under the key ``above``."""
    known = next((each for each in (key, f"{above}.{key}") if each in SWITCH_KEYS), None)
    return _Name("switch", "true" if value else "false", "name", known) if known else None


def _setting(key: str, word: str) -> _Name | None:
    """What ``word`` says as the value of ``key``, or of an object under it that gives each sub-model its own."""
    if _DTYPE_KEY.fullmatch(key):
        dtype = dtype_of(word)
        return _Name("dtype", *dtype, key) if dtype else None
    if _ATTENTION_KEY.fullmatch(key):
        lowered = word.lower()
        value = attention_of(_FLASH_ATTN.get(lowered, lowered) if key == "flash_attn" else lowered)
        return _Name("attention", value, "name", key) if value else None
    return None


def _mention(source: SourceFile, box: Box, member: Member, scalar: Scalar, name: _Name) -> Mention:
    raw = source.text[scalar.start + 1 : scalar.end - 1]
    escaped = {"escaped"} if isinstance(scalar.value, str) and raw != scalar.value else set()
    return Mention(
        **place(source, scalar.start, scalar.end),
        language=JsonLanguage.name,
        kind=name.kind,
        value=name.value,
        spelling=name.spelling,
        role="switch" if name.kind == "switch" else "value",
        key=name.key,
        key_path=_join(box.path, member.key),
        facts=source.facts | box.facts | escaped,
    )


# From a value to edits.


def _edit(source: SourceFile, start: int, end: int, new: str) -> Edit:
    """The edit that puts ``new`` in the place of the bytes ``start`` to ``end``."""
    return Edit(source.path, start, source.data[start:end], new.encode(source.encoding))


def _word(mention: Mention, value: str) -> str:
    """``value`` in the spelling of the mention, without quotes; a value that brings its own quotes loses them."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    if mention.kind == "dtype" and value in _CANONICAL:
        if value == "float32" and mention.key == "mixed_precision":
            return "no"
        return spell_dtype(value, mention.spelling, like=_string(mention.text))
    if mention.key == "flash_attn":
        return {name: word for word, name in _FLASH_ATTN.items()}.get(value, value)
    return value


def _switched(source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
    """The edits that set a switch to a boolean, or that take bfloat16 back in favour of another dtype."""
    new = "false" if value in ("float32", "float16") else value
    if new not in ("true", "false") or new == mention.value:
        return ()
    edit = _edit(source, mention.start, mention.end, new)
    return _swapped(source, mention, edit) if value == "float16" else (edit,)


def _swapped(source: SourceFile, mention: Mention, off: Edit) -> tuple[Edit, ...]:
    """Turn bf16 ``off`` and its fp16 twin on, or rename bf16 where there is no twin; nothing where neither can be."""
    key = mention.key or ""
    if not _BF16.search(key):
        return ()
    index = len(source.data[source.bom : mention.start].decode(source.encoding))
    for box in parse(source):
        for member in box.members:
            if isinstance(member.value, Scalar) and member.value.start == index:
                return _swap_section(source, box, off) if "." in key else _swap_key(source, box, member, off)
    return ()


def _swap_key(source: SourceFile, box: Box, member: Member, off: Edit) -> tuple[Edit, ...]:
    """``_swapped`` for ``"bf16": true``."""
    twins = [each.value for each in box.members if each.key == _twin(member)]
    return _turned_on(source, off, twins) if twins else (_renamed(source, member),)


def _swap_section(source: SourceFile, box: Box, off: Edit) -> tuple[Edit, ...]:
    """``_swapped`` for ``"bf16": {"enabled": true}``; one that holds more than that is not renamed."""
    holder = box.parent.members if box.parent else []
    for owner in holder:
        if owner.value is box:
            twins = [each.value for each in holder if each.key == _twin(owner)]
            if twins:
                return _turned_on(
                    source, off, [twin.get("enabled") if isinstance(twin, Box) else None for twin in twins]
                )
            return (_renamed(source, owner),) if len(box.members) == 1 else ()
    return ()


def _twin(member: Member) -> str:
    """The key of the float16 switch that goes with a bfloat16 switch."""
    return _BF16.sub("fp16", member.key)


def _renamed(source: SourceFile, member: Member) -> Edit:
    """The edit that gives a bfloat16 switch the key of its twin."""
    return _edit(source, source.offset(member.start), source.offset(member.end), json.dumps(_twin(member)))


def _turned_on(source: SourceFile, off: Edit, twins: Sequence[Scalar | Box | None]) -> tuple[Edit, ...]:
    """``off`` and what turns every twin on; nothing where one of them is no boolean."""
    edits = [off]
    for twin in twins:
        if not isinstance(twin, Scalar) or not isinstance(twin.value, bool):
            return ()
        if not twin.value:
            edits.append(_edit(source, source.offset(twin.start), source.offset(twin.end), "true"))
    return tuple(edits)
