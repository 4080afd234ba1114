"""Dicts that stand in a word of a script: ``{param_dtype:bf16}`` of Hydra, ``'{"dtype": "bfloat16"}'`` of JSON.

What the shell takes away around and inside them, quotes and backslashes, is passed over; each key and value keeps its
place, so that a plain word can stand for another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from precpatch.languages import spell
from precpatch.languages.shell.grammar import Span

MAX_LEVELS = 50
"""Deeper in each other than this, dicts are not looked into."""

_TOKEN = re.compile(
    r"""\s+|[{}\[\],]|:(?=[^/]|$)|(?P<quote>\\*["'])|(?:[^\s{}\[\],:"'\\$]|:(?=/)|\$\{[^}]*\}|\$|\\)+"""
)
"""A blank, a sign of the dict, an opening quote, or a piece of a plain word."""

BEGINS = re.compile(r"[{\[]")


@dataclass(slots=True)
class Entry:
    """One key of a dict with its place, the dict that it stands in, and the key above.

    Attributes:
        key: without quotes.
        span: where it stands.
        box: the span of the dict.
        above: the entry whose value the dict is.
    """

    key: str
    span: Span
    box: Span
    above: Entry | None

    @property
    def path(self) -> str:
        """The keys down to it, with dots between them."""
        parts: list[str] = []
        entry: Entry | None = self
        while entry is not None:
            parts.append(entry.key)
            entry = entry.above
        return ".".join(reversed(parts))


@dataclass(frozen=True, slots=True)
class Value:
    """A plain value: where it stands without its quotes, the entry that it is the value of, and whether of a list."""

    span: Span
    entry: Entry
    in_list: bool


def values_in(text: str, start: int, end: int) -> Iterator[Value]:
    """The plain values of the dict or the list that stands in ``text`` between ``start`` and ``end``.

    What is no dict after all yields nothing more from where that shows.
    """
    above: list[Entry | None] = []
    lists: list[bool] = []
    boxes: list[Span] = []
    entry: Entry | None = None
    held: Span | None = None
    for sign, span in _tokens(text, start, end):
        if sign in ("{", "["):
            if len(lists) == MAX_LEVELS or held is not None:
                return
            above.append(entry)
            lists.append(sign == "[")
            boxes.append((span[0], end))
            entry = entry if sign == "[" else None
        elif sign == ":" and held is not None and lists and not lists[-1] and entry is None:
            first, last = spell.stripped(text, *held)
            entry, held = Entry(text[first:last], (first, last), boxes[-1], above[-1]), None
        elif sign in (",", "}", "]"):
            if not lists or (sign != "," and lists[-1] is not (sign == "]")):
                return
            if held is not None and entry is not None:
                yield Value(spell.stripped(text, *held), entry, lists[-1])
            held = None
            if sign == ",":
                entry = above[-1] if lists[-1] else None
            else:
                entry = above.pop()
                lists.pop()
                boxes.pop()
        else:
            held = span if held is None else (held[0], span[1])


def _tokens(text: str, start: int, end: int) -> Iterator[tuple[str, Span]]:
    """The signs of a dict, and what stands between them: a quoted text in one, with its quotes."""
    at = start
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:  # a backslash or a colon that is no sign
            yield text[at], (at, at + 1)
            at += 1
            continue
        stop = match.end()
        if match["quote"]:
            closing = text.find(match["quote"], stop, end)
            stop = closing + len(match["quote"]) if closing >= 0 else end
        if not match[0].isspace():
            yield match[0], (at, stop)
        at = stop
