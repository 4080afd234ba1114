"""Defaults inside interpolations: ``${oc.select:path,default}`` and ``${oc.env:NAME,default}``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from precpatch.languages.spell import stripped

MAX_DEFAULT = 200
"""A default of more characters than this, blanks included, is not looked at."""

_INTERPOLATION = re.compile(r"\\\$\{|\$\{|[{}\[\](),]|\"[^\"$]*\"|'[^'$]*'")
_START = re.compile(r"(?<!\\)\$\{")
_WITH_DEFAULT = frozenset({"oc.select", "oc.env", "env"})


def defaults(raw: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and selected path of each default in ``raw``; nested ones come before those around them."""
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
        yield *stripped(raw, marks[1] + 1, marks[2]), path.strip()
