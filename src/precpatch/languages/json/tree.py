"""From the text of a JSON file to its objects and lists, each value with its place; the same for notebooks.

tree-sitter's grammar says where everything stands. What is JSON at all is for the standard library to say, whose
complaints people know; it also takes ``NaN``, ``Infinity`` and ``1e+5``, which the grammar does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from precpatch.languages.source import ReadError, SourceFile, located

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 500
"""Objects and lists nested deeper than this are refused."""

MAX_PATH = 4096
"""A key path of more characters than this is not kept, so that hostile files stay cheap to read."""

_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_NUMBER = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:NaN|Infinity|[0-9][0-9.]*[eE]\+[0-9]+)')
_BOXES = frozenset({"object", "array"})


@dataclass(slots=True, eq=False)
class Scalar:
    """A value that holds no others.

    Attributes:
        start: index of its first character in the file's text, a string's with its quotes.
        end: index after its last character.
        value: the text of a string, a boolean, or None for all else.
        kind: "string", "number", "true", "false" or "null".
    """

    start: int
    end: int
    value: str | bool | None
    kind: str


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
    """

    parent: Box | None
    key: str | None
    path: str | None
    is_list: bool
    members: list[Member] = field(default_factory=list)
    items: list[Scalar | Box] = field(default_factory=list)

    def get(self, key: str) -> Scalar | Box | None:
        """The value that ``key`` has in the end: of a key given twice the last one counts."""
        return next((member.value for member in reversed(self.members) if member.key == key), None)

    def keys(self) -> frozenset[str]:
        """Its keys; none for a list."""
        return frozenset(member.key for member in self.members)


def parse(source: SourceFile) -> list[Box]:
    """Every object and list of the file, the outermost first and each before those in it.

    Raises:
        ReadError: the file is not one JSON value, or is nested too deeply.
    """
    load(source)
    return _Walk(source, _root(source)).boxes


def load(source: SourceFile) -> Any:
    """The value of the file as plain data. Numbers stay text, for some are too long to be read.

    Raises:
        ReadError: the file is not one JSON value, or is nested too deeply for the standard library.
    """
    try:
        return json.loads(source.text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        problem = error.msg[:1].lower() + error.msg[1:]
        if error.msg == "Extra data":
            problem = "more than one JSON value"
        raise ReadError(located(source, error.pos, problem)) from None
    except RecursionError:
        raise ReadError(_TOO_DEEP) from None


def join(path: str | None, key: str) -> str | None:
    """The path of ``key`` under ``path``."""
    if path is None or len(path) + len(key) >= MAX_PATH:
        return None
    return f"{path}.{key}" if path else key


@cache
def _parser() -> Parser:
    from tree_sitter import Language, Parser
    from tree_sitter_json import language

    return Parser(Language(language()))


def _root(source: SourceFile) -> Node:
    """The root of the tree of text that is JSON.

    Raises:
        ReadError: the grammar does not take it.
    """
    root = _parser().parse(source.text.encode()).root_node
    if root.has_error:
        root = _parser().parse(_NUMBER.sub(_plain_number, source.text).encode()).root_node
    if root.has_error:
        raise ReadError("the parser gives no usable positions for this file")
    return root


def _plain_number(match: re.Match[str]) -> str:
    """Digits in the place of a number that the grammar does not take; a string as it is."""
    return match[0] if match[0][0] == '"' else "1" * len(match[0])


class _Walk:
    """Turns the tree of valid JSON into objects and lists."""

    def __init__(self, source: SourceFile, root: Node) -> None:
        self.source = source
        self.text = source.text
        self.boxes: list[Box] = []
        self._index = _indexer(source.text)
        self._open: list[tuple[Box, Iterator[Node]]] = []
        for node in root.named_children:
            self._value(node, None)
        while self._open:
            box, nodes = self._open[-1]
            inner = next(nodes, None)
            if inner is None:
                self._open.pop()
            elif box.is_list:
                box.items.append(self._value(inner, None))
            else:
                self._member(box, inner)

    def _member(self, box: Box, pair: Node) -> None:
        key, value = pair.named_children
        start, end = self._index(key.start_byte), self._index(key.end_byte)
        text = _string(self.text[start:end])
        box.members.append(Member(text, start, end, self._value(value, text)))

    def _value(self, node: Node, key: str | None) -> Scalar | Box:
        kind = node.type
        start = self._index(node.start_byte)
        if kind in _BOXES:
            return self._box(node, start, key)
        end = self._index(node.end_byte)
        value = _string(self.text[start:end]) if kind == "string" else {"true": True, "false": False}.get(kind)
        return Scalar(start, end, value, kind)

    def _box(self, node: Node, start: int, key: str | None) -> Box:
        if len(self._open) == MAX_DEPTH:
            raise ReadError(located(self.source, start, _TOO_DEEP))
        parent = self._open[-1][0] if self._open else None
        path = "" if parent is None else _path(parent, key)
        box = Box(parent, key, path, node.type == "array")
        self.boxes.append(box)
        self._open.append((box, iter(node.named_children)))
        return box


def _path(parent: Box, key: str | None) -> str | None:
    """The path of what comes next in ``parent``."""
    if key is not None:
        return join(parent.path, key)
    return None if parent.path is None else f"{parent.path}[{len(parent.items)}]"


def _indexer(text: str) -> Callable[[int], int]:
    """From byte offsets in the UTF-8 of ``text`` to indexes of its characters."""
    return int if text.isascii() else SourceFile("", text.encode()).index


def _string(raw: str) -> str:
    """The text of a string token."""
    return str(json.loads(raw)) if "\\" in raw else raw[1:-1]
