"""Small YAML files of strangers as plain data, each value with its line. Nothing is run, and nothing grows.

What an anchor names is read once, however often it is used, so a file that would unfold to something huge does not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from precpatch.errors import UserError

MAX_BYTES = 1_000_000
MAX_VALUES = 20_000
MAX_DEPTH = 50
_MAX_DIGITS = 15
_MAX_SHOWN = 40
_TAG = "tag:yaml.org,2002:"
_MAY_BE_OTHER = frozenset({"", *"~=<.+-0123456789yYnNtTfFoO"})
"""First characters of plain scalars that may be something else than text."""

_NO_KEYS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Odd:
    """A scalar that is neither text, a number, true or false: a date, a fraction, a number of many digits."""

    shown: str


class Value:
    """One value of a file.

    Attributes:
        data: text, a whole number, true or false, None, ``Odd``, a list of Values, or a mapping of text to Values.
        line: where it stands, from 1.
        keys: of a mapping, the line of each key.
    """

    __slots__ = ("data", "keys", "line")

    def __init__(self, data: Any, line: int, keys: Mapping[str, int] = _NO_KEYS) -> None:
        self.data = data
        self.line = line
        self.keys = keys

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if isinstance(self.data, Odd):
            return self.data.shown
        names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
        return names.get(type(self.data)) or f"{self.data!r}"


def read_values(path: Path, *, before: bytes | None = None) -> Value:
    """The values of a file; where ``before`` is given, of what stands before these bytes.

    Raises:
        UserError: it cannot be read or is too big, or it is not YAML of one document, with the line where known.
    """
    import yaml

    data = _read(path)
    data = data.partition(before)[0] if before else data
    try:
        return _Reader(path, getattr(yaml, "CSafeLoader", yaml.SafeLoader)(data)).document()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}:{line}: not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = data.count(b"\n", 0, error.position) + 1
        raise UserError(f"{path}:{line}: not YAML: {error.reason}") from None


def _read(path: Path) -> bytes:
    """The bytes of a file that is no device, no pipe and not too big."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{path}: is no regular file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(MAX_BYTES + 1) if size <= MAX_BYTES else b""
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    if max(size, len(data)) > MAX_BYTES:
        raise UserError(f"{path}: is bigger than {MAX_BYTES:,} bytes")
    return data


class _Reader:
    """Turns the parser's events for one file into Values."""

    def __init__(self, path: Path, loader: Any) -> None:
        import yaml

        self.path = path
        self.loader = loader
        self._scalar_node = yaml.ScalarNode
        self._scalar_event = yaml.ScalarEvent
        self._starts = {
            yaml.ScalarEvent: self._scalar,
            yaml.SequenceStartEvent: self._list,
            yaml.AliasEvent: self._alias,
        }
        self._end = (yaml.SequenceEndEvent, yaml.MappingEndEvent)
        self._nothing = yaml.StreamEndEvent
        self._anchors: dict[str, Value] = {}
        self._count = 0

    def fail(self, line: int, text: str) -> NoReturn:
        """Refuse the file."""
        raise UserError(f"{self.path}:{line}: {text}")

    def document(self) -> Value:
        """The only document of the file; nothing where it is empty."""
        next_event = self.loader.get_event
        next_event()  # the stream starts
        event = next_event()  # the document starts, or the stream ends
        if isinstance(event, self._nothing):
            return Value(None, 1)
        value = self._value(next_event(), 0)
        next_event()  # the document ends
        event = next_event()
        if not isinstance(event, self._nothing):
            self.fail(event.start_mark.line + 1, "not YAML of one document: another one starts here")
        return value

    def _value(self, event: Any, depth: int) -> Value:
        line: int = event.start_mark.line + 1
        self._add(1, line)
        if depth > MAX_DEPTH:
            self.fail(line, f"is nested more than {MAX_DEPTH} deep")
        value = self._starts.get(type(event), self._mapping)(event, line, depth)
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _add(self, number: int, line: int) -> None:
        self._count += number
        if self._count > MAX_VALUES:
            self.fail(line, f"holds more than {MAX_VALUES:,} values")

    def _alias(self, event: Any, line: int, depth: int) -> Value:
        if event.anchor not in self._anchors:
            self.fail(line, f"not YAML: nothing before it is called '{event.anchor[:_MAX_SHOWN]}'")
        return self._anchors[event.anchor]

    def _list(self, event: Any, line: int, depth: int) -> Value:
        self._refuse_tag(event, "seq", line)
        items: list[Value] = []
        while not isinstance(event := self.loader.get_event(), self._end):
            items.append(self._value(event, depth + 1))
        return Value(items, line)

    def _mapping(self, event: Any, line: int, depth: int) -> Value:
        self._refuse_tag(event, "map", line)
        entries: dict[str, Value] = {}
        keys: dict[str, int] = {}
        merged: dict[str, Value] = {}
        while not isinstance(event := self.loader.get_event(), self._end):
            key = self._value(event, depth + 1)
            value = self._value(self.loader.get_event(), depth + 1)
            if key.data == "<<" and isinstance(event, self._scalar_event) and event.implicit[0]:
                merged = self._merged(value)
                continue
            if not isinstance(key.data, str):
                self.fail(key.line, f"the name of a field must be text, not {key.kind}")
            if key.data in entries:
                self.fail(key.line, f"field '{key.data}' stands twice, first on line {keys[key.data]}")
            entries[key.data], keys[key.data] = value, key.line
        if merged:
            return Value({**merged, **entries}, line, {**dict.fromkeys(merged, line), **keys})
        return Value(entries, line, keys)

    def _merged(self, value: Value) -> dict[str, Value]:
        """What the mappings under ``<<`` hold together; of the same field, the first one counts."""
        merged: dict[str, Value] = {}
        for each in value.data if isinstance(value.data, list) else [value]:
            if not isinstance(each.data, dict):
                self.fail(each.line, f"'<<' takes mappings, not {each.kind}")
            self._add(len(each.data), each.line)
            for name, item in each.data.items():
                merged.setdefault(name, item)
        return merged

    def _scalar(self, event: Any, line: int, depth: int) -> Value:
        tag, text = event.tag, event.value
        if tag is None or tag == "!":
            if not event.implicit[0] or text[:1] not in _MAY_BE_OTHER:
                return Value(text, line)
            tag = self.loader.resolve(self._scalar_node, text, event.implicit)
        return Value(self._data(tag.removeprefix(_TAG), text, line), line)

    def _data(self, kind: str, text: str, line: int) -> object:
        if kind in {"str", "merge"}:
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in {"yes", "true", "on"}
        if kind == "int" and len(text) <= _MAX_DIGITS:
            return _number(text)
        if kind in {"int", "float", "timestamp"}:
            return Odd(text if len(text) <= _MAX_SHOWN else "a number of that size")
        return self._refused(kind, line)

    def _refuse_tag(self, event: Any, plain: str, line: int) -> None:
        if event.tag is not None and event.tag not in {"!", f"{_TAG}{plain}"}:
            self._refused(event.tag, line)

    def _refused(self, tag: str, line: int) -> NoReturn:
        self.fail(line, f"not plain YAML: the tag '{tag.removeprefix(_TAG)[:_MAX_SHOWN]}'")


def _number(text: str) -> object:
    """The number that YAML reads, in plain digits; ``Odd`` for its rarer ways to write one."""
    digits = text.lstrip("+-")
    return int(text) if digits.isdecimal() and (digits == "0" or digits[0] != "0") else Odd(text)
