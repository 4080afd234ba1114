"""From a log to a LogDiagnosis: what failed first, what followed, what is unknown, and how the run was."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from precpatch.doctor import health, tracebacks
from precpatch.doctor.failures import SEVERITIES, Failure, Recogniser, load_failures
from precpatch.doctor.logline import LogLine, read_line
from precpatch.doctor.shapes import Sieve

# A line of source in a traceback: the text of an error that is raised there, or of one that is not.
_SOURCE = re.compile(r"[\s│|❱>\d]*[\s│|](?:raise\b|assert\b|[fr]?[\"'])")
# What most lines of a training log are made of.
_ORDINARY = "step: - actor/grad_norm: - critic/grad_norm: - train/loss: - actor/pg_loss: - actor/kl_loss: - perf/"
# Addresses, sizes and ranks: two exceptions that differ in nothing else are the same.
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+")

# Lines after an exception in which its message may go on, and say what it is.
_MESSAGE_LINES = 5
# Unknown exceptions to keep apart; more of them are only counted.
_KEPT_UNKNOWN = 100


@dataclass(slots=True)
class Seen:
    """A message in the log.

    Attributes:
        line: where it was seen first, from 1.
        count: how often.
        message: the first of them.
        last_line: where it was seen last.
    """

    line: int
    count: int
    message: str
    last_line: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """A message that precpatch knows, and where it was seen."""

    failure: Failure
    seen: Seen


@dataclass(frozen=True, slots=True)
class LogDiagnosis:
    """What a log says.

    Attributes:
        lines, size: how long the log is, in lines and bytes.
        known: the known messages: the first cause, other errors, warnings, information, echoes.
        unknown: exceptions that no entry recognises, by line.
        unlisted: how many unknown exceptions there were beyond those.
        ailments: what is wrong with the run, by line.
    """

    lines: int
    size: int
    known: tuple[Known, ...]
    unknown: tuple[Seen, ...]
    unlisted: int
    ailments: tuple[health.Ailment, ...]

    @property
    def first_cause(self) -> Known | None:
        """The earliest known error that is not an echo; None where there is none."""
        first = self.known[0] if self.known else None
        return first if first and first.failure.severity == "error" and not first.failure.echo else None

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.known or self.unknown or self.ailments)


def diagnose_log(blocks: Iterable[bytes]) -> LogDiagnosis:
    """Read a log in blocks that are cut after a newline, and say what is in it."""
    reading = _Reading()
    for block in blocks:
        reading.block(block)
    return reading.diagnosis()


@dataclass(slots=True)
class _Reading:
    """The state of a log that is being read."""

    recogniser: Recogniser = field(default_factory=lambda: Recogniser(load_failures()))
    health: health.Health = field(default_factory=health.Health)
    tracebacks: tracebacks.Tracebacks = field(default_factory=tracebacks.Tracebacks)
    sieve: Sieve = field(init=False)
    newlines: int = 0
    size: int = 0
    ends_open: bool = False
    known: dict[str, Seen] = field(default_factory=dict)
    unknown: dict[str, Seen] = field(default_factory=dict)
    unlisted: int = 0
    # Exceptions whose message may still turn out to be known.
    doubtful: list[tuple[LogLine, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        own = chain.from_iterable(failure.anchors for failure in self.recogniser.failures)
        self.sieve = Sieve([*own, *health.ANCHORS, *tracebacks.ANCHORS], _ORDINARY)

    def block(self, text: bytes) -> None:
        """Read the next block."""
        newlines, marked = self.sieve.sift(text)
        self.health.block(text, self.newlines + 1)
        if marked or self.tracebacks.open:
            self._look_at(text, set(marked))
        self.newlines += newlines
        self.size += len(text)
        self.ends_open = not text.endswith(b"\n")

    def diagnosis(self) -> LogDiagnosis:
        """What was found."""
        self._settle(None)
        by_id = {failure.id: failure for failure in self.recogniser.failures}
        known = sorted((Known(by_id[name], seen) for name, seen in self.known.items()), key=_rank)
        unknown = sorted(self.unknown.values(), key=lambda seen: seen.line)
        lines = self.newlines + self.ends_open
        ailments = tuple(self.health.ailments())
        return LogDiagnosis(lines, self.size, tuple(known), tuple(unknown), self.unlisted, ailments)

    def _look_at(self, text: bytes, marked: set[int]) -> None:
        for index, raw in enumerate(text.split(b"\n")):
            if index in marked or self.tracebacks.open:
                for line in read_line(raw, self.newlines + 1 + index):
                    self._line(line, index in marked)

    def _line(self, line: LogLine, marked: bool) -> None:
        self._settle(None if tracebacks.BEGIN in line.message else line.number)
        recognised = marked and self._recognise(line)
        exception = self.tracebacks.exception(line)
        if exception and not recognised:
            self.doubtful.append((line, exception))
        if marked:
            self.health.line(line)

    def _recognise(self, line: LogLine) -> bool:
        """Note the known messages in a line; whether there is any. The source lines of a traceback do not count."""
        if self.tracebacks.awaits_end_of(line.who) and _SOURCE.match(line.message):
            return False
        matching = self.recogniser.recognise(line.text)
        for failure in matching:
            _count(self.known, failure.id, line, line.message.strip())
        if any(not failure.echo for failure in matching):
            self.doubtful = [(earlier, text) for earlier, text in self.doubtful if earlier.who != line.who]
        return bool(matching)

    def _settle(self, number: int | None) -> None:
        """Take those exceptions for unknown whose message has ended before line ``number``; None for all of them."""
        while self.doubtful and (number is None or number - self.doubtful[0][0].number > _MESSAGE_LINES):
            line, exception = self.doubtful.pop(0)
            kind = _VARIABLE.sub("0", exception)[:300]
            if kind in self.unknown or len(self.unknown) < _KEPT_UNKNOWN:
                _count(self.unknown, kind, line, exception)
            else:
                self.unlisted += line.times


def _count(messages: dict[str, Seen], key: str, line: LogLine, message: str) -> None:
    """Count a message, once a line."""
    seen = messages.setdefault(key, Seen(line.number, 0, message))
    if seen.last_line != line.number:
        seen.count += line.times
        seen.last_line = line.number


def _rank(known: Known) -> tuple[bool, int, int]:
    """Errors first, echoes last, and by line."""
    return known.failure.echo, SEVERITIES.index(known.failure.severity), known.seen.line
