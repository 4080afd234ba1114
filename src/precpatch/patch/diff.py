"""A unified diff as bytes, for ``git apply`` and for people.

Lines end at ``\\n`` and nowhere else, as git has it: a carriage return, a form feed or a byte that is
no UTF-8 is part of its line and comes out as it went in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from operator import itemgetter
from typing import NamedTuple

CONTEXT = 3
"""Unchanged lines shown before and after each change."""

# Above this many lines, lines that recur often are not tried as anchors: the diff stays correct, in bounded time.
_MANY_LINES = 2000

_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}


def unified_diff(changes: Iterable[tuple[str, bytes | None, bytes | None]]) -> bytes:
    """The diff of ``(path, bytes before, bytes after)`` items that ``git apply`` takes, ordered by path.

    Paths are relative, with ``/``. None stands for no file: before, the file is added; after, it is deleted.
    Items without a difference are left out; the reverse diff is the same call with the two sides swapped.
    """
    ordered = sorted(changes, key=itemgetter(0))
    return b"".join(_file_diff(*change) for change in ordered if change[1] != change[2])


def quote_path(path: bytes) -> bytes:
    """``path`` as git writes it in a diff header: in C quotes where it holds anything but printable ASCII."""
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in path):
        return path
    return b'"' + b"".join(map(_quote_byte, path)) + b'"'


def _quote_byte(byte: int) -> bytes:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte


def _file_diff(path: str, before: bytes | None, after: bytes | None) -> bytes:
    name = os.fsencode(path)
    old, new = quote_path(b"a/" + name), quote_path(b"b/" + name)
    head = b"diff --git " + old + b" " + new + b"\n"
    if before is None:
        old = b"/dev/null"
        head += b"new file mode 100644\n"
    if after is None:
        new = b"/dev/null"
        head += b"deleted file mode 100644\n"
    if not before and not after:  # no lines to show: git wants no names either
        return head
    # A tab ends a name with blanks, so that no reader takes its last word for a time stamp.
    names = b"".join(
        mark + side + (b"\t\n" if b" " in side else b"\n") for mark, side in ((b"--- ", old), (b"+++ ", new))
    )
    return head + names + b"".join(_hunks(_lines(before or b""), _lines(after or b"")))


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(before: Sequence[bytes], after: Sequence[bytes]) -> Iterable[bytes]:
    for changes in _close_together(_changes(before, after)):
        start, end = changes[0], changes[-1]
        head = min(CONTEXT, start.old)
        tail = min(CONTEXT, len(before) - end.old_end)
        old = _range(start.old - head, end.old_end + tail)
        new = _range(start.new - head, end.new_end + tail)
        yield b"@@ -%s +%s @@\n" % (old, new)
        done = start.old - head
        for change in changes:
            yield from _marked(b" ", before[done : change.old])
            yield from _marked(b"-", before[change.old : change.old_end])
            yield from _marked(b"+", after[change.new : change.new_end])
            done = change.old_end
        yield from _marked(b" ", before[done : done + tail])


class _Change(NamedTuple):
    """The lines ``old`` to ``old_end`` before that become ``new`` to ``new_end`` after; counted from 0, ends apart."""

    old: int
    old_end: int
    new: int
    new_end: int


def _changes(before: Sequence[bytes], after: Sequence[bytes]) -> Iterable[_Change]:
    head, tail = _common_ends(before, after)
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    matcher = SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > _MANY_LINES)
    for kind, *ends in matcher.get_opcodes():
        if kind != "equal":
            yield _Change(*(head + end for end in ends))


def _close_together(changes: Iterable[_Change]) -> Iterable[list[_Change]]:
    """The changes that share a hunk: their context would touch."""
    group: list[_Change] = []
    for change in changes:
        if group and change.old - group[-1].old_end > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _common_ends(before: Sequence[bytes], after: Sequence[bytes]) -> tuple[int, int]:
    """Number of lines that both sides share at the start, and after those at the end."""
    shorter = min(len(before), len(after))
    head = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    return head, tail


def _range(start: int, end: int) -> bytes:
    """``first,count`` of a hunk header; an empty range names the line before it."""
    count = end - start
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


def _marked(mark: bytes, lines: Iterable[bytes]) -> Iterable[bytes]:
    for line in lines:
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"
