"""The fast half of reading a log: which lines can hold one of many strings.

A log repeats itself. What is left of a line without digits, marks, white space and the commonest letters is its shape,
and a gigabyte of progress bars and metrics has some hundred shapes. So every line is reduced to its shape, which costs
one pass in C, and only a shape that was not seen before is searched. Colour codes leave no trace in a shape, so none
can hide a string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

# No "m", which ends a colour code, and not the six letters that say least.
_KEPT = b"bcdfgjknopqrsuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\n"
_DROPPED = bytes(byte for byte in range(256) if byte not in _KEPT)

# Letters of a part that many strings may share: shorter ones would stop too many lines.
_SHARED = 6
# Shapes to remember, some 10 MB of them; text that never repeats would fill the memory.
_REMEMBERED = 100_000


def shape(text: bytes) -> bytes:
    """``text`` without everything that does not count in the search."""
    return text.translate(None, _DROPPED)


class Sieve:
    """Finds the lines whose shape holds the shape of an anchor; the caller looks at those in full."""

    def __init__(self, anchors: Iterable[str], ordinary: str = "") -> None:
        """A sieve for ``anchors``, strings of which every line that matters holds one.

        Words that ``ordinary`` lines are full of do not stop a line.
        """
        self._needles = shared_parts(frozenset(shape(each.encode()) for each in anchors), shape(ordinary.encode()))
        self._plain: set[bytes] = set()

    def sift(self, text: bytes) -> tuple[int, list[int]]:
        """How many newlines ``text`` has, and which of its lines, counted from 0, may hold an anchor."""
        shapes = shape(text).split(b"\n")
        marked = self._marked(set(shapes) - self._plain)
        chosen = [index for index, each in enumerate(shapes) if each in marked] if marked else []
        return len(shapes) - 1, chosen

    def _marked(self, fresh: set[bytes]) -> set[bytes]:
        """Those of the new shapes that hold an anchor; the others are remembered."""
        together = b"\n".join(fresh)
        marked = {each for needle in self._needles for each in _lines_with(needle, together)}
        if len(self._plain) > _REMEMBERED:
            self._plain.clear()
        self._plain |= fresh - marked
        return marked


def _lines_with(needle: bytes, text: bytes) -> Iterator[bytes]:
    found = text.find(needle)
    while found >= 0:
        end = text.find(b"\n", found)
        end = len(text) if end < 0 else end
        yield text[text.rfind(b"\n", 0, found) + 1 : end]
        found = text.find(needle, end)


@cache
def shared_parts(words: frozenset[bytes], ordinary: bytes = b"", size: int = _SHARED) -> tuple[bytes, ...]:
    """Few strings such that each word holds one, and ``ordinary`` none.

    They are parts of ``size`` letters that many words share, and the words that are shorter.
    """
    parts = [word for word in words if len(word) <= size]
    left = {word for word in words if not any(part in word for part in parts)}
    while left:
        uses = Counter(part for word in sorted(left) for part in _windows(word, size) if part not in ordinary)
        best = max(uses, key=lambda part: (uses[part], part))
        parts.append(best)
        left = {word for word in left if best not in word}
    return tuple(sorted(parts))


def _windows(word: bytes, size: int) -> set[bytes]:
    return {word[start : start + size] for start in range(len(word) - size + 1)}
