"""Text of one language inside another: Python in a here-document, commands in YAML, cells in the strings of a notebook.

The inner text is read by the reader of what it holds; what is found there, and the edits, are carried to the outer
file, through the escapes that the outer language writes. An edit that cannot be carried exactly is not made.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import PurePosixPath

from precpatch.languages.base import Language, Reading
from precpatch.languages.mention import Mention, place
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit

_SETUP_BITS = 72
"""Numbers of setups in the inner text are below the bit of this number."""

MAX_DEPTH = 3
"""Texts inside texts inside texts are read to this depth."""

BY_SUFFIX = {
    **dict.fromkeys((".py",), "python"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    **dict.fromkeys((".json",), "json"),
    **dict.fromkeys((".sh", ".bash", ".slurm", ".sbatch"), "shell"),
}
"""The languages that other files hold, by the end of the name that a text is given there."""

_BARE = re.compile(r"[\w.,+/:@%=$-]+", re.ASCII)
"""A word of a command that needs no quotes."""

Unescape = Callable[[str], str]
"""From the text of the outer file to what it says."""

Escape = Callable[[str, str], str]
"""From what is to be said, and the outer text that it replaces, to outer text."""


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of the inner text that stand in a row in the outer file, or one that is written as an escape.

    Attributes:
        at: index in the inner text.
        raw: index in the outer text; -1 for characters that only stand in for something.
        raw_end: index after it in the outer text.
        string: which literal of the outer file it is in; an edit may not cross from one to another.
        plain: whether it is written without escapes, one character for one.
    """

    at: int
    raw: int
    raw_end: int
    string: int = 0
    plain: bool = True


def cut(runs: Iterable[Run], start: int, end: int, at: int) -> list[Run]:
    """The runs of the characters ``start`` to ``end`` of an inner text, which stand at ``at`` of another one."""
    found = []
    for run, after in pairwise([*runs, Run(end, 0, 0)]):
        first = max(run.at, start)
        if first < min(after.at, end):
            raw = run.raw + (first - run.at if run.plain else 0)
            found.append(replace(run, at=first - start + at, raw=raw))
    return found


class InnerText:
    """A text that is put together from pieces of an outer file and characters that only stand in for something."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.runs: list[Run] = []
        self.size = 0

    def stand_in(self, text: str) -> None:
        """Add characters that do not stand in the outer file."""
        self.runs.append(Run(self.size, -1, -1, plain=False))
        self._add(text)

    def piece(self, text: str, runs: Iterable[Run], start: int = 0, end: int | None = None) -> None:
        """Add the characters ``start`` to ``end`` of a text, whose runs are those of all of it."""
        stop = len(text) if end is None else end
        self.runs += cut(runs, start, stop, self.size)
        self._add(text[start:stop])

    def word(self, text: str, runs: Iterable[Run], start: int = 0) -> None:
        """Add a text from its character ``start`` on as one word of a command, in quotes where it needs them."""
        if _BARE.fullmatch(text, start):
            self.piece(text, runs, start)
            return
        self.stand_in("'")
        self.piece(text.replace("'", '"'), runs, start)
        self.stand_in("'")

    def _add(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.parts)


def reader_of(language: str) -> Language:
    """The reader of a language that a file of another one holds, loaded by its name and only when there is one.

    Texts hold texts without end (a script a YAML file, that a script), so no reader can import the others.
    """
    module = import_module(f"precpatch.languages.{language}")
    found: Language = getattr(module, f"{language.title()}Language")()
    return found


def language_by_name(name: str) -> str | None:
    """The language of a text that is given the name of a file."""
    return BY_SUFFIX.get(PurePosixPath(name).suffix.lower())


def inner_source(outer: SourceFile, text: str) -> SourceFile:
    """A text inside a file, as a file of its own."""
    return SourceFile(outer.path, text.encode("utf-8", "surrogatepass"), depth=outer.depth + 1)


def same(text: str) -> str:
    """The text as it is: nothing is escaped."""
    return text


def unchanged(new: str, old: str) -> str:
    """The new text as it is: nothing has to be escaped."""
    return new


class Embedded:
    """A reading of text inside another file.

    Attributes:
        outer: the file that it stands in.
        reading: what was read there; its source is the inner text.
        runs: where each stretch of the inner text stands, in the order of the inner text.
        facts: what the place adds to every mention.
        scope: the scope around the place.
    """

    def __init__(
        self,
        outer: SourceFile,
        reading: Reading,
        runs: Sequence[Run],
        *,
        facts: frozenset[str] = frozenset(),
        scope: str = "",
        unescape: Unescape = same,
        escape: Escape = unchanged,
    ) -> None:
        self.outer = outer
        self.reading = reading
        self.runs = runs
        self.facts = facts
        self.scope = scope
        self._unescape = unescape
        self._escape = escape
        self._starts = [run.at for run in runs]

    @cached_property
    def mentions(self) -> list[Mention]:
        """The mentions of the inner text, at their places in the outer file; none of what only stands in for it."""
        carried = [(mention, self._carried(mention)) for mention in self.reading.mentions]
        self._inner = {(out.start, out.kind): mention for mention, out in carried if out is not None}
        return [out for _, out in carried if out is not None]

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make a mention of this text say ``value``, in the outer file: all of them or none."""
        inner = self.inner(mention)
        return self._all(self.reading.rewrite(inner, value)) if inner is not None else ()

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that add ``value`` to a set of allowed values, in the outer file: all of them or none."""
        inner = self.inner(mention)
        return self._all(self.reading.extend(inner, value)) if inner is not None else ()

    def inner(self, mention: Mention) -> Mention | None:
        """The mention of the inner text that ``mention`` of the outer file is; None where it is not of this text."""
        found = self._inner.get((mention.start, mention.kind)) if self.mentions else None
        return replace(found, facts=mention.facts) if found else None

    def _run(self, index: int) -> Run | None:
        at = bisect_right(self._starts, index) - 1
        return self.runs[at] if at >= 0 else None

    def _out(self, start: int, end: int) -> tuple[int, int] | None:
        """Where the characters ``start`` to ``end`` of the inner text stand in the outer text."""
        first, last = self._run(start), self._run(max(end - 1, start))
        if first is None or last is None or first.raw < 0 or last.raw < 0:
            return None
        return (
            first.raw + (start - first.at if first.plain else 0),
            last.raw + end - last.at if last.plain else last.raw_end,
        )

    def _index(self, byte: int) -> int:
        return self.reading.source.index(byte)

    def _carried(self, mention: Mention) -> Mention | None:
        span = self._out(self._index(mention.start), self._index(mention.end))
        if span is None or span[1] < span[0]:
            return None
        follows = [self._out(at, at + 1) for at in map(self._index, mention.follows)]
        also = map(self._carried, mention.also)
        return replace(
            mention,
            **place(self.outer, *span),
            facts=mention.facts | self.facts,
            scope=".".join(filter(None, (self.scope, mention.scope))),
            setup=self._setup(mention),
            follows=tuple(self.outer.offset(each[0]) for each in follows if each is not None),
            also=tuple(each for each in also if each is not None),
        )

    def _setup(self, mention: Mention) -> int:
        """The number of what a mention is set in, which no other text of the file has."""
        first = next((run.raw for run in self.runs if run.raw >= 0), 0)
        return (first + 1 << _SETUP_BITS) + mention.setup if mention.setup else 0

    def _all(self, edits: Iterable[Edit]) -> tuple[Edit, ...]:
        carried = [self._edit(edit) for edit in edits]
        return tuple(edit for edit in carried if edit is not None) if all(carried) else ()

    def _edit(self, edit: Edit) -> Edit | None:
        """One edit in the outer file; None where its text is not that of one literal there."""
        start, end = self._index(edit.start), self._index(edit.end)
        first, last = self._run(start), self._run(max(end - 1, start))
        span = self._out(start, end)
        if start == end or span is None or first is None or last is None or first.string != last.string:
            return None
        raw = self.outer.text[slice(*span)]
        if self._unescape(raw) != edit.old.decode(self.reading.source.encoding):
            return None
        new = self._escape(edit.new.decode(self.reading.source.encoding), raw)
        begin, stop = self.outer.offset(span[0]), self.outer.offset(span[1])
        return Edit(self.outer.path, begin, self.outer.data[begin:stop], new.encode(self.outer.encoding))


class Parts:
    """The texts in one file, asked for the one that a mention was told of."""

    def __init__(self, parts: Iterable[Embedded] = ()) -> None:
        self.parts = list(parts)

    @cached_property
    def mentions(self) -> list[Mention]:
        """The mentions of all of them."""
        return [mention for part in self.parts for mention in part.mentions]

    @cached_property
    def _at(self) -> dict[tuple[int, str, str], Embedded]:
        return {_identity(mention): part for part in self.parts for mention in part.mentions}

    def of(self, mention: Mention) -> Embedded | None:
        """The text that a mention was told of."""
        return self._at.get(_identity(mention))


def _identity(mention: Mention) -> tuple[int, str, str]:
    return mention.start, mention.kind, mention.language
