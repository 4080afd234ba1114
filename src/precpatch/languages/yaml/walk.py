"""From the text of a YAML file to its scalars, each with its place, its key and what holds it.

Positions come from the marks of PyYAML's parser events, each checked against the text. No object is built and no
alias is followed, so a document that unfolds to something huge is read like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from precpatch.languages.source import ReadError, SourceFile, located

MAX_DEPTH = 500
"""Collections nested deeper than this are refused; libyaml itself stops at 1000."""

MAX_PATH = 4096
"""A key path of more characters than this is not kept, so that hostile files stay cheap to read."""

BREAKS = "\r\n\x85\u2028\u2029"
"""What ends a line in YAML."""

_LOADERS: tuple[type[yaml.CSafeLoader] | type[yaml.SafeLoader], ...] = (
    *([yaml.CSafeLoader] if yaml.__with_libyaml__ else []),
    yaml.SafeLoader,
)
_PROPERTIES = re.compile(rf"(?:[&!]\S*|\s+|#[^{BREAKS}]*)*")


@dataclass(slots=True)
class Document:
    """One document of the stream: its top level keys, and the scalar (None: a collection) behind each anchor."""

    keys: set[str] = field(default_factory=set)
    anchors: dict[str, Scalar | None] = field(default_factory=dict)


@dataclass(slots=True)
class Box:
    """A mapping or a list that is being read.

    Attributes:
        number: its number among all of the file.
        path: dotted path to it, "" at the top, None where it is too long.
        key: the key that it is the value of.
        is_list: whether it is a list.
        parent: what holds it.
        named: the scalar that is its key.
        keys: number of its keys, of a mapping.
        count: number of items seen, of a list.
        at_key: whether a key comes next, in a mapping.
        pending: the text of the key whose value comes next.
        target: the value of ``_target_`` in a mapping.
        last: the key, of a mapping, or the item, of a list, that was read last, where it is a scalar.
    """

    number: int
    path: str | None
    key: str | None
    is_list: bool
    parent: Box | None = None
    named: Scalar | None = None
    keys: int = 0
    last: Scalar | None = None
    count: int = 0
    at_key: bool = True
    pending: str | None = None
    target: str | None = None


@dataclass(slots=True)
class Scalar:
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
        named: the scalar that is the key of a value, or the item before an item of a list.
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
    box: Box | None
    named: Scalar | None
    document: Document
    elsewhere: bool = False


class _MisplacedError(Exception):
    """A mark of the parser does not point at its scalar."""


def walk(source: SourceFile) -> list[Scalar]:
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
        return located(source, source.text.find(character), f"found character {character!r} that is not allowed")
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    index = error.problem_mark.index
    found = f"found character {source.text[index : index + 1]!r} that"
    return located(source, index, (error.problem or "").replace("found character that", found))


class _Walk:
    """Turns the events of one file into scalars that know their place."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.scalars: list[Scalar] = []
        self.stack: list[Box] = []
        self.boxes = 0
        self.document = Document()

    def run(self, events: Iterable[Any]) -> list[Scalar]:
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
                self.document = Document()
        return self.scalars

    def _scalar(self, event: Any) -> None:
        slot, key, path = self._next()
        value: str = event.value
        box = self.stack[-1] if self.stack else None
        named = box.last if box is not None and slot != "key" else None
        if slot == "key" and box is not None:
            self._key(box, value)
            box.keys += 1
            key, path = last_part(value), _join(box.path, value)
        elif key == "_target_" and box is not None:
            box.target = value
        start, end = _span(self.source.text, event)
        style, tag = event.style or "", event.tag
        scalar = Scalar(start, end, value, style, tag, slot, key, path or None, box, named, self.document)
        self.scalars.append(scalar)
        if box is not None:
            box.last = scalar if slot in ("key", "item") else None
        if event.anchor is not None:
            self.document.anchors[event.anchor] = scalar

    def _open(self, event: Any) -> None:
        slot, key, path = self._next()
        parent = self.stack[-1] if self.stack else None
        named = parent.last if parent is not None and slot == "value" else None
        if parent is not None:
            parent.last = None
        self.boxes += 1
        self.stack.append(Box(self.boxes, path, key, isinstance(event, yaml.SequenceStartEvent), parent, named))
        if len(self.stack) > MAX_DEPTH:
            problem = f"nested deeper than {MAX_DEPTH} levels"
            raise ReadError(located(self.source, event.start_mark.index, problem))
        if event.anchor is not None:
            self.document.anchors[event.anchor] = None

    def _alias(self, event: Any) -> None:
        if event.anchor not in self.document.anchors:
            raise ReadError(located(self.source, event.start_mark.index, f"found undefined alias {event.anchor!r}"))
        slot, key, _ = self._next()
        if self.stack:
            self.stack[-1].last = None
        scalar = self.document.anchors[event.anchor]
        if scalar is None:
            return
        if slot == "key" or key != scalar.key:
            scalar.elsewhere = True
        if slot == "key":
            self._key(self.stack[-1], scalar.value)

    def _key(self, box: Box, text: str) -> None:
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
        return "value", last_part(box.pending), _join(box.path, box.pending)


def _join(path: str | None, key: str | None) -> str | None:
    """The path of ``key`` under ``path``; what is merged in by ``<<`` stands where the merge key stands."""
    if path is None or key is None or key == "<<":
        return path
    joined = f"{path}.{key}" if path else key
    return joined if len(joined) <= MAX_PATH else None


def last_part(key: str | None) -> str | None:
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
