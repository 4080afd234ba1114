"""Reads YAML: every scalar, key and comment that speaks of a dtype, an attention implementation or a switch.

Positions come from the marks of PyYAML's parser events, each checked against the text. No object is built and no
alias is followed, so a document that unfolds to something huge is read like any other.

Facts that a mention can carry:
    accelerate: the file is a settings file of accelerate, which has its own words for precisions.
    aliased-elsewhere: its anchor is also used under a key of another name.
    argv: an item of a list that follows an option such as "--dtype".
    embedded: an override inside a longer text, such as a command.
    escaped: a quoted scalar whose text shows the value only after its escapes are undone.
    generated: the file says that it is generated, or its name begins with ``_generated_``.
    megatron: the file is for the Megatron engine.
    in-list: it is an item of a list, and not an override.
    option: an override with leading dashes, such as ``--dtype=bfloat16``; always with ``override``.
    other-device: the path or a ``device`` key in the file names a device that is not an NVIDIA GPU.
    override: a list item of the form ``path.to.key=value``, of which it is the value.
    part: it is only a part of its scalar, without the quotes of that scalar.
    primary-config: the document is a whole trainer config, so ``key_path`` is a full Hydra path.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

import yaml

from precpatch.languages.base import ReadError
from precpatch.languages.mention import Mention, place
from precpatch.languages.settings import DEVICE_WORDS, NAMED_SWITCHES, NUMBER_KEYS, OTHER_DEVICES, SWITCH_KEYS
from precpatch.languages.source import SourceFile
from precpatch.languages.values import ATTENTION_NAMES, DTYPE_NAMES, attention_of, dtype_of, spell_dtype
from precpatch.patch.edits import Edit

MAX_DEPTH = 500
"""Collections nested deeper than this are refused; libyaml itself stops at 1000."""

MAX_PATH = 4096
"""A key path of more characters than this is not kept, so that hostile files stay cheap to read."""

MAX_DEFAULT = 200
"""A default of more characters than this, blanks included, is not looked at."""

_DEVICE_KEYS = frozenset({"device", "device_name"})
_PRIMARY_KEYS = (frozenset({"actor_rollout_ref"}), frozenset({"data", "trainer"}))
_ACCELERATE_KEYS = frozenset({"compute_environment", "distributed_type"})
_BOOLEANS = {"true": ("true", "false"), "yes": ("yes", "no"), "on": ("on", "off")}
_BOOLEAN_PAIRS = {word: pair for pair in _BOOLEANS.values() for word in pair}
_SWITCH_WORDS = frozenset(_BOOLEAN_PAIRS).union(*NAMED_SWITCHES.values())
_BOOLEAN_TAGS = (None, "tag:yaml.org,2002:bool")
_PROSE = frozenset({"comment", "text"})
_ENGLISH = frozenset({"half", "float", "eager"})
_NAMES = ATTENTION_NAMES | DTYPE_NAMES.keys() | {f"torch.{name}" for name in DTYPE_NAMES}
_NEEDLES = tuple(
    name.encode()
    for name in (
        *("kernels-community", "bf16", "fp16", "fp32", "fp64", "float", "half"),
        *sorted(ATTENTION_NAMES),
        *(key.split(".")[0] for key in SWITCH_KEYS),
        *sorted(NUMBER_KEYS),
        *(name for key, names in NAMED_SWITCHES.items() for name in (names if "." in key else (key,))),
    )
)
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_LOADERS: tuple[type[yaml.CSafeLoader] | type[yaml.SafeLoader], ...] = (
    *([yaml.CSafeLoader] if yaml.__with_libyaml__ else []),
    yaml.SafeLoader,
)

_BREAKS = "\r\n\x85\u2028\u2029"
_WORD = re.compile(
    r"(?<![^\W_])(?:torch\.(?:half|float)|(?:torch\.)?(?:{}))(?![^\W_])".format(
        "|".join(sorted((DTYPE_NAMES.keys() | ATTENTION_NAMES) - _ENGLISH, reverse=True))
    ),
    re.IGNORECASE,
)
_ESCAPE = re.compile(rb"\\[xuU][0-9a-fA-F]{2}")
_PROPERTIES = re.compile(rf"(?:[&!]\S*|\s+|#[^{_BREAKS}]*)*")
_GAP = re.compile(rf"(?P<comment>#[^{_BREAKS}]*)|(?P<tag>!(?:<[^>\s]*>|[^\s,\]}}]*))|[&*][^\s,\]}}]*")
_GENERATED = re.compile(
    r"@generated|auto(?:matically)?[- ]?generated|generated (?:by|from|via|with)\b|do not (?:edit|modify)",
    re.IGNORECASE,
)
_LINE = re.compile(rf"[^{_BREAKS}]*")
_OVERRIDE = re.compile(r"(?P<mark>\+{1,2}|-{1,2})?(?P<path>\w[\w.@/-]*)=")
_COMMAND = re.compile(
    r"(?<![\w.])\+{0,2}(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*=['\"]?(?P<value>bfloat16|bf16|flash_attention_[234])\b"
)
_INTERPOLATION = re.compile(r"\\\$\{|\$\{|[{}\[\](),]|\"[^\"$]*\"|'[^'$]*'")
_START = re.compile(r"(?<!\\)\$\{")
_WITH_DEFAULT = frozenset({"oc.select", "oc.env", "env"})
_PADDING = "\"'\\ \t\r\n"
_PLAIN = re.compile(r"[A-Za-z_][\w.+/-]*", re.ASCII)
_NOT_STRINGS = frozenset({*_BOOLEAN_PAIRS, "null", "y", "n"})


class YamlLanguage:
    """The reader of YAML files: Hydra configs, DeepSpeed and accelerate settings, CI workflows."""

    name = "yaml"
    suffixes: tuple[str, ...] = (".yaml", ".yml")

    def open(self, path: str, data: bytes) -> SourceFile:
        """Find the encoding of ``data``: UTF-8, or UTF-16 where a byte order mark says so.

        Raises:
            ReadError: the bytes are not text in that encoding.
        """
        encoding, bom = _encoding(data)
        try:
            text = data[bom:].decode(encoding)
        except UnicodeDecodeError as error:
            offset = bom + error.start
            codec = "UTF-16" if encoding in _UTF16.values() else "UTF-8"
            raise ReadError(f"not text: byte 0x{data[offset]:02x} at offset {offset} is not {codec}") from None
        source = SourceFile(path, data, encoding, bom, _file_facts(path, text))
        if "\0" in text:
            raise ReadError(f"not text: byte 0x00 at offset {source.offset(text.index(chr(0)))}")
        return source

    def mentions(self, data: bytes) -> bool:
        """Whether the bytes can hold a mention at all. UTF-16 is always read, and so is what holds escapes."""
        if data[:2] in _UTF16:
            return True
        lowered = data.lower()
        return any(needle in lowered for needle in _NEEDLES) or _ESCAPE.search(data) is not None

    def read(self, source: SourceFile, text: bool = False) -> list[Mention]:
        """Every mention in the file, in order of position; comments and longer text only with ``text``.

        Raises:
            ReadError: the file does not parse.
        """
        return _Teller(source, _walk(source), text).mentions()

    def rewrite(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edit that makes ``mention`` say ``value``; none where it says so already.

        Quotes, quote style, spelling family and the case of booleans stay. A plain scalar that would no longer be a
        string is quoted, and a ``value`` that brings its own quotes is written as it is. A dtype for a bf16 switch
        means: off for "float32", and the fp16 switch on in its place for "float16".
        """
        if mention.kind == "switch" and value in {"float32", "float16"}:
            return self._pair(source, mention, value)
        new = _spelled(mention, value)
        if value == mention.value or new == mention.text:
            return ()
        old = source.data[mention.start : mention.end]
        return (Edit(source.path, mention.start, old, new.encode(source.encoding)),)

    def _pair(self, source: SourceFile, mention: Mention, dtype: str) -> tuple[Edit, ...]:
        """Turn a bf16 switch off and, for float16, its fp16 twin beside it on; where it has none, rename its key."""
        off = self.rewrite(source, mention, "false")
        if dtype == "float32":
            return off
        path = mention.key_path or ""
        twin_path = path.replace("bfloat16", "fp16").replace("bf16", "fp16")
        twins = [each for each in self.read(source) if each.kind == "switch" and each.key_path == twin_path != path]
        if twins:
            return (*off, *self.rewrite(source, twins[0], "true"))
        keys = [each for each in _walk(source) if each.slot == "key" and each.key_path == path.removesuffix(".enabled")]
        if len(keys) != 1 or keys[0].value not in {"bf16", "use_bf16", "enable_bf16", "bf16_full_eval"}:
            return ()
        start = source.text.index(keys[0].value, keys[0].start)
        old = keys[0].value.encode(source.encoding)
        return (
            Edit(source.path, source.offset(start), old, keys[0].value.replace("bf16", "fp16").encode(source.encoding)),
        )

    def extend(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """None: YAML declares no set of allowed values."""
        return ()

    def check(self, before: SourceFile, data: bytes) -> str | None:
        """Parse the file again after an edit; None when it is well, else what is wrong."""
        try:
            _walk(self.open(before.path, data))
        except ReadError as error:
            return str(error)
        return None


def _encoding(data: bytes) -> tuple[str, int]:
    """The codec of a YAML file and the length of its byte order mark."""
    if data[:2] in _UTF16:
        return _UTF16[data[:2]], 2
    return "utf-8", 3 if data.startswith(b"\xef\xbb\xbf") else 0


def _file_facts(path: str, text: str) -> frozenset[str]:
    """What the path and the head of a file say of all of it."""
    facts = set()
    head = [line for line in text[:4096].splitlines()[:10] if line.lstrip().startswith("#")]
    if PurePosixPath(path).name.startswith("_generated_") or any(map(_GENERATED.search, head)):
        facts.add("generated")
    if not DEVICE_WORDS.isdisjoint(re.split(r"[/_.-]", path.lower())):
        facts.add("other-device")
    return frozenset(facts)


# From text to scalars.


@dataclass(slots=True)
class _Document:
    """One document of the stream: its top level keys, and the scalar (None: a collection) behind each anchor."""

    keys: set[str] = field(default_factory=set)
    anchors: dict[str, _Scalar | None] = field(default_factory=dict)


@dataclass(slots=True)
class _Box:
    """A mapping or a list that is being read.

    Attributes:
        path: dotted path to it, "" at the top, None where it is too long.
        key: the key that it is the value of.
        is_list: whether it is a list.
        count: number of items seen, of a list.
        at_key: whether a key comes next, in a mapping.
        pending: the text of the key whose value comes next.
        target: the value of ``_target_`` in a mapping.
    """

    path: str | None
    key: str | None
    is_list: bool
    count: int = 0
    at_key: bool = True
    pending: str | None = None
    target: str | None = None


@dataclass(slots=True)
class _Scalar:
    """One scalar of the file.

    Attributes:
        start: index in the text of its first character, quotes included, anchor and tag not.
        end: index after its last character.
        value: what it says once escapes and folding are undone.
        style: ``""`` for plain, a quote, or ``|`` or ``>`` for a block.
        tag: its explicit tag, if any.
        slot: "key", "value", "item" (of a list) or "root".
        key: the key that it is, or that it stands under.
        key_path: dotted path to it.
        box: what holds it.
        document: the document that it is in.
        elsewhere: whether an alias of it stands under a key of another name.
    """

    start: int
    end: int
    value: str
    style: str
    tag: str | None
    slot: str
    key: str | None
    key_path: str | None
    box: _Box | None
    document: _Document
    elsewhere: bool = False


class _MisplacedError(Exception):
    """A mark of the parser does not point at its scalar."""


def _walk(source: SourceFile) -> list[_Scalar]:
    """Every scalar of the file in order, each once.

    Raises:
        ReadError: the file does not parse.
    """
    for loader in _LOADERS:
        try:
            return _Walk(source).run(yaml.parse(source.text, Loader=loader))
        except _MisplacedError:
            continue
        except yaml.YAMLError as error:
            raise ReadError(_complaint(source, error)) from None
    raise ReadError("the parser gives no usable positions for this file")


def _complaint(source: SourceFile, error: yaml.YAMLError) -> str:
    """Where the parser stopped and why, in one line."""
    if isinstance(error, yaml.reader.ReaderError):
        character = chr(int(error.character))
        return _located(source, source.text.find(character), f"found character {character!r} that is not allowed")
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    index = error.problem_mark.index
    found = f"found character {source.text[index : index + 1]!r} that"
    return _located(source, index, (error.problem or "").replace("found character that", found))


def _located(source: SourceFile, index: int, problem: str) -> str:
    """``problem`` with the line and column of ``index`` before it."""
    line, column = source.position(min(max(index, 0), len(source.text)))
    return f"line {line}, column {column}: {problem}"


class _Walk:
    """Turns the events of one file into scalars that know their place."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.scalars: list[_Scalar] = []
        self.stack: list[_Box] = []
        self.document = _Document()

    def run(self, events: Iterable[Any]) -> list[_Scalar]:
        """Read all ``events``."""
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.stack.pop()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                self.document = _Document()
        return self.scalars

    def _scalar(self, event: Any) -> None:
        slot, key, path = self._next()
        value: str = event.value
        box = self.stack[-1] if self.stack else None
        if slot == "key" and box is not None:
            self._key(box, value)
            key, path = _last(value), _join(box.path, value)
        elif key == "_target_" and box is not None:
            box.target = value
        start, end = _span(self.source.text, event)
        style, tag = event.style or "", event.tag
        scalar = _Scalar(start, end, value, style, tag, slot, key, path or None, box, self.document)
        self.scalars.append(scalar)
        if event.anchor is not None:
            self.document.anchors[event.anchor] = scalar

    def _open(self, event: Any) -> None:
        _, key, path = self._next()
        self.stack.append(_Box(path, key, isinstance(event, yaml.SequenceStartEvent)))
        if len(self.stack) > MAX_DEPTH:
            problem = f"nested deeper than {MAX_DEPTH} levels"
            raise ReadError(_located(self.source, event.start_mark.index, problem))
        if event.anchor is not None:
            self.document.anchors[event.anchor] = None

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.document.anchors:
            raise ReadError(_located(self.source, event.start_mark.index, f"found undefined alias {event.anchor!r}"))
        slot, key, _ = self._next()
        scalar = self.document.anchors[event.anchor]
        if scalar is None:
            return
        if slot == "key" or key != scalar.key:
            scalar.elsewhere = True
        if slot == "key":
            self._key(self.stack[-1], scalar.value)

    def _key(self, box: _Box, text: str) -> None:
        box.pending = text
        if len(self.stack) == 1:
            self.document.keys.add(text)

    def _next(self) -> tuple[str, str | None, str | None]:
        """Slot, key and path of the node that comes next."""
        if not self.stack:
            return "root", None, ""
        box = self.stack[-1]
        if box.is_list:
            box.count += 1
            return "item", box.key, None if box.path is None else f"{box.path}[{box.count - 1}]"
        box.at_key = not box.at_key
        if not box.at_key:
            box.pending = None
            return "key", None, box.path
        return "value", _last(box.pending), _join(box.path, box.pending)


def _join(path: str | None, key: str | None) -> str | None:
    """The path of ``key`` under ``path``; what is merged in by ``<<`` stands where the merge key stands."""
    if path is None or key is None or key == "<<":
        return path
    joined = f"{path}.{key}" if path else key
    return joined if len(joined) <= MAX_PATH else None


def _last(key: str | None) -> str | None:
    """The last part of a dotted key."""
    return key.rpartition(".")[2] if key else key


def _span(text: str, event: Any) -> tuple[int, int]:
    """Where the scalar stands in the text, without its anchor and tag.

    Raises:
        _MisplacedError: that is not where the marks point.
    """
    start, end = event.start_mark.index, event.end_mark.index
    if not event.style and not event.value:
        return end, end
    if text[start : start + 1] in ("&", "!"):
        match = _PROPERTIES.match(text, start, end)
        start = match.end() if match else start
    if not _stands(text[start:end], event.value, event.style or ""):
        raise _MisplacedError
    return start, end


def _stands(raw: str, value: str, style: str) -> bool:
    """Whether ``raw`` can be the source text of a scalar that says ``value``."""
    if style in ("'", '"'):
        return len(raw) > 1 and raw[0] == raw[-1] == style
    if style:
        return raw[:1] == style
    return raw == value or raw.split() == value.split()


# From scalars and the gaps between them to mentions.


@dataclass(frozen=True, slots=True)
class _Name:
    """What a word says: its kind, its canonical value and how it is spelled."""

    kind: str
    value: str
    spelling: str


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a stretch of text is about: the place that its mentions inherit."""

    role: str
    key: str | None = None
    key_path: str | None = None
    callee: str | None = None
    facts: frozenset[str] = frozenset()


class _Teller:
    """Tells the mentions of one file from its scalars."""

    def __init__(self, source: SourceFile, scalars: list[_Scalar], prose: bool) -> None:
        self.source = source
        self.text = source.text
        self.prose = prose
        self.scalars = scalars
        self.positions = {id(scalar): position for position, scalar in enumerate(scalars)}
        self.facts = source.facts
        self.stem = PurePosixPath(source.path).stem
        self.found: list[Mention] = []
        if any(map(_other_device, scalars)):
            self.facts |= {"other-device"}
        if "megatron" in re.split(r"[/_.-]", source.path.lower()) or any(map(_is_megatron, scalars)):
            self.facts |= {"megatron"}
        if any(scalar.document.keys >= _ACCELERATE_KEYS for scalar in scalars):
            self.facts |= {"accelerate"}

    def mentions(self) -> list[Mention]:
        """Every mention, in order of position."""
        position = 0
        for scalar in self.scalars:
            start = scalar.start
            if scalar.style in ("|", ">"):
                start = self._body(scalar)
            self._gap(position, start)
            self._scalar(scalar, start)
            position = max(position, scalar.end)
        self._gap(position, len(self.text))
        return sorted(self.found, key=lambda mention: mention.start)

    def _body(self, scalar: _Scalar) -> int:
        """Where the text of a block scalar starts: at the end of the line of its ``|`` or ``>``."""
        line = _LINE.match(self.text, scalar.start, scalar.end)
        return line.end() if line else scalar.start

    def _gap(self, start: int, end: int) -> None:
        """Comments and tags between two scalars."""
        gap = self.text[start:end] if self.prose else ""
        if "#" not in gap and "!" not in gap:
            return
        for match in _GAP.finditer(self.text, start, end):
            if match.lastgroup is not None:
                role = "comment" if match.lastgroup == "comment" else "text"
                self._words(*match.span(), _Setting(role, facts=self.facts))

    def _scalar(self, scalar: _Scalar, start: int) -> None:
        """The mentions in one scalar, whose text starts at ``start``."""
        end = scalar.end
        if scalar.style in ("'", '"'):
            start, end = start + 1, end - 1
        if not self._may_mention(scalar, start, end):
            return
        setting = self._setting(scalar)
        if scalar.style in ("|", ">"):
            self._block(scalar, start, end, setting)
        elif not self._whole(scalar, setting, scalar.value == self.text[start:end]):
            if scalar.slot == "key":
                self._words(start, end, setting)
            else:
                self._parts(start, end, scalar.slot, setting)

    def _block(self, scalar: _Scalar, start: int, end: int, setting: _Setting) -> None:
        """A block scalar is prose or a script, unless a name is all that it holds."""
        told: set[int | None] = set()
        if scalar.slot == "value" and _named(scalar.value.strip()):
            told.add(self._choice(_stripped(self.text, start, end), "value", setting))
        told |= self._commands(start, end, setting)
        self._words(start, end, replace(setting, role="text"), told)

    def _commands(self, start: int, end: int, setting: _Setting) -> set[int | None]:
        """Tell Hydra overrides inside a longer text, such as a command of a CI workflow; give back where they start."""
        told: set[int | None] = set()
        for match in _COMMAND.finditer(self.text, start, end):
            name = _named(match["value"])
            if name:
                facts = setting.facts | {"embedded"}
                self._part(*match.span("value"), name, replace(setting, role="text", facts=facts))
                told.add(match.start("value"))
        return told

    def _may_mention(self, scalar: _Scalar, start: int, end: int) -> bool:
        """A cheap look before anything is built."""
        word = scalar.value.lower()
        if word in _SWITCH_WORDS or (scalar.key in NUMBER_KEYS and word.isdigit()):
            return self._name(word, scalar.key, scalar.key_path) is not None
        if word.strip() in _NAMES or "${" in word or "=" in word or attention_of(word.strip()):
            return True
        return (self.prose or scalar.slot == "key") and _WORD.search(self.text, start, end) is not None

    def _setting(self, scalar: _Scalar) -> _Setting:
        facts = set(self.facts)
        if any(keys <= scalar.document.keys for keys in _PRIMARY_KEYS):
            facts.add("primary-config")
        if scalar.slot == "item":
            facts.add("in-list")
        if scalar.elsewhere:
            facts.add("aliased-elsewhere")
        role = {"key": "key", "value": "value", "item": "lookup"}.get(scalar.slot, "text")
        option = self._option_before(scalar)
        if option:
            return _Setting("value", option, option, None, frozenset(facts - {"in-list"} | {"argv"}))
        callee = scalar.box.target if scalar.box else None
        return _Setting(role, scalar.key, scalar.key_path, callee, frozenset(facts))

    def _option_before(self, scalar: _Scalar) -> str | None:
        """``dtype`` for the item after ``--dtype`` in a list of arguments."""
        position = self.positions.get(id(scalar), 0)
        before = self.scalars[position - 1] if position else None
        if scalar.slot != "item" or before is None or before.box is not scalar.box or before.slot != "item":
            return None
        match = re.fullmatch(r"--([A-Za-z][\w-]*)", before.value)
        return match[1].replace("-", "_") if match else None

    def _whole(self, scalar: _Scalar, setting: _Setting, bare: bool) -> bool:
        """Tell a scalar that is a name, or the boolean of a switch, and nothing else."""
        under = setting.key if scalar.slot == "value" else None
        found = self._name(scalar.value, under, setting.key_path)
        if found is None or (found[1].kind == "switch" and _is_quoted_boolean(scalar)):
            return False
        if scalar.slot == "root" and not self.prose:
            return True
        known, name = found
        if name.kind == "switch":
            setting = replace(setting, role="switch", key=known)
        facts = setting.facts if bare else setting.facts | {"escaped"}
        self._add(scalar.start, scalar.end, name, replace(setting, facts=facts))
        return True

    def _parts(self, start: int, end: int, slot: str, setting: _Setting) -> None:
        """Tell what stands inside a scalar: an override's value, interpolation defaults, and words."""
        told: set[int | None] = set()
        match = _OVERRIDE.match(self.text, start, end) if slot == "item" else None
        if match:
            setting = _override_setting(match, setting)
            told.add(self._choice(_stripped(self.text, match.end(), end), "value", setting))
        for first, last, path in _defaults(self.text[start:end]):
            key, key_path = (setting.key, setting.key_path) if setting.key else (_last(path), path)
            chosen = replace(setting, key=key, key_path=key_path)
            told.add(self._choice((start + first, start + last), "interpolation-default", chosen))
        if match is None:
            told |= self._commands(start, end, setting)
        self._words(start, end, replace(setting, role="text"), told)

    def _choice(self, span: tuple[int, int], role: str, setting: _Setting) -> int | None:
        """Tell the word at ``span`` if it is the value of a setting, and give back where it starts if so."""
        found = self._name(self.text[slice(*span)], setting.key, setting.key_path)
        if found is None:
            return None
        known, name = found
        role = "switch" if name.kind == "switch" and role == "value" else role
        self._part(*span, name, replace(setting, role=role, key=known))
        return span[0]

    def _words(self, start: int, end: int, setting: _Setting, told: Container[int | None] = ()) -> None:
        """Tell each name that stands as a word between ``start`` and ``end``, but not where one is ``told`` already."""
        if setting.role in _PROSE and not self.prose:
            return
        for match in _WORD.finditer(self.text, start, end):
            name = _named(match[0])
            if name and match.start() not in told:
                add = self._add if setting.role == "comment" else self._part
                add(*match.span(), name, setting)

    def _part(self, start: int, end: int, name: _Name, setting: _Setting) -> None:
        self._add(start, end, name, replace(setting, facts=setting.facts | {"part"}))

    def _add(self, start: int, end: int, name: _Name, setting: _Setting) -> None:
        spot: dict[str, Any] = place(self.source, start, end)
        self.found.append(
            Mention(
                **spot,
                language=YamlLanguage.name,
                kind=name.kind,
                value=name.value,
                spelling=name.spelling,
                role=setting.role,
                key=setting.key,
                key_path=setting.key_path,
                callee=setting.callee,
                facts=setting.facts,
            )
        )

    def _name(self, word: str, key: str | None, key_path: str | None) -> tuple[str | None, _Name] | None:
        """What ``word`` says under ``key``: a name, or a switch and then under which of the known keys."""
        name = _named(word)
        if name or key is None:
            return (key, name) if name else None
        lowered = word.lower()
        for known in (key, self._qualified(key, key_path)):
            if known in SWITCH_KEYS and lowered in _BOOLEAN_PAIRS:
                truth = "true" if lowered == _BOOLEAN_PAIRS[lowered][0] else "false"
                return known, _Name("switch", truth, "name")
            if lowered in NAMED_SWITCHES.get(known, ()) or (known in NUMBER_KEYS and _is_more_than_one(lowered)):
                return known, _Name("switch", lowered, "name")
        return None

    def _qualified(self, key: str, key_path: str | None) -> str:
        """``key`` with the key above it; at the top, with the name of the file, as Hydra's groups have it."""
        parts = (key_path or key).split(".")
        return f"{parts[-2] if len(parts) > 1 else self.stem}.{key}"


def _named(word: str) -> _Name | None:
    """The dtype or the attention implementation that ``word`` names."""
    dtype = dtype_of(word)
    if dtype:
        return _Name("dtype", *dtype)
    attention = attention_of(word)
    return _Name("attention", attention, "name") if attention else None


def _is_more_than_one(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10 and int(word) > 1


def _is_quoted_boolean(scalar: _Scalar) -> bool:
    """Whether the scalar looks like a boolean and is a string, by its quotes or its tag."""
    return scalar.value.lower() in _BOOLEAN_PAIRS and (bool(scalar.style) or scalar.tag not in _BOOLEAN_TAGS)


def _other_device(scalar: _Scalar) -> bool:
    """Whether the scalar says that the file is for a device that is not an NVIDIA GPU."""
    if scalar.slot != "value" or scalar.key not in _DEVICE_KEYS:
        return False
    return scalar.value.lower().partition(":")[0] in OTHER_DEVICES


def _is_megatron(scalar: _Scalar) -> bool:
    """Whether the scalar chooses the Megatron engine for the file."""
    if scalar.slot != "value":
        return False
    return (scalar.key == "strategy" and scalar.value == "megatron") or (
        scalar.key == "_target_" and re.search(r"Mcore|Megatron", scalar.value) is not None
    )


def _override_setting(match: re.Match[str], setting: _Setting) -> _Setting:
    """The setting of the value in an override."""
    facts = setting.facts - {"in-list"} | {"override"}
    if (match["mark"] or "").startswith("-"):
        facts |= {"option"}
    return replace(setting, key=_last(match["path"]), key_path=match["path"], facts=facts)


def _defaults(raw: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and selected path of each default in the ``${oc.select:path,default}`` of ``raw``.

    Nested interpolations come before those around them. ``${oc.env:NAME,default}`` counts as well.
    """
    opened: list[list[int] | None] = []
    position = 0
    while match := (_INTERPOLATION if opened else _START).search(raw, position):
        position = match.end()
        mark = match[0]
        if mark == "${":
            opened.append([position])
        elif mark in ("\\${", "{", "[", "("):
            opened.append(None)
        elif mark == "," and opened and opened[-1] is not None:
            opened[-1].append(match.start())
        elif mark in ("}", "]", ")"):
            marks = opened.pop() if opened else None
            if marks and mark == "}":
                yield from _default(raw, [*marks, match.start()])


def _default(raw: str, marks: list[int]) -> Iterator[tuple[int, int, str]]:
    """The default of one interpolation: ``marks`` are its start, its commas and its end."""
    if len(marks) < 3 or marks[2] - marks[1] > MAX_DEFAULT:
        return
    resolver, colon, path = raw[marks[0] : marks[1]].partition(":")
    if colon and resolver.strip() in _WITH_DEFAULT:
        yield *_stripped(raw, marks[1] + 1, marks[2]), path.strip()


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The span from ``start`` to ``end`` without the blanks and quotes around what it holds."""
    word = text[start:end].lstrip(_PADDING)
    first = end - len(word)
    return first, first + len(word.rstrip(_PADDING))


# From a value to text.


def _spelled(mention: Mention, value: str) -> str:
    """The source text that makes ``mention`` say ``value``."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value
    quote = mention.text[0] if mention.text[:1] in ("'", '"') else ""
    new = _word(mention, mention.text.strip(quote) if quote else mention.text, value)
    if quote == '"':
        return f'"{new.translate({34: chr(92) + chr(34), 92: chr(92) * 2})}"'
    if quote or _needs_quotes(mention, new):
        return "'{}'".format(new.replace("'", "''"))
    return new


def _word(mention: Mention, old: str, value: str) -> str:
    """``value`` in the spelling of the mention, whose word is ``old``."""
    if mention.kind == "dtype" and value in {canonical for canonical, _ in DTYPE_NAMES.values()}:
        return spell_dtype(value, mention.spelling, like=old)
    if mention.kind == "switch" and value in _BOOLEANS["true"]:
        new = _BOOLEAN_PAIRS.get(old.lower(), _BOOLEANS["true"])[value == "false"]
        return new.upper() if old.isupper() else new.title() if old.istitle() else new
    return value


def _needs_quotes(mention: Mention, new: str) -> bool:
    """Whether ``new`` would not be a string as a plain scalar that takes the place of the mention."""
    if mention.kind == "switch" or "part" in mention.facts or mention.role == "comment":
        return False
    return _PLAIN.fullmatch(new) is None or new.lower() in _NOT_STRINGS
