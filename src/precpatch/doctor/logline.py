"""One line of a log as a person reads it: without colours, progress bars apart, and who printed it set aside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Also codes whose escape character was lost on the way: "[0;36m".
_CODES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\^_])|\[[\d;]{1,12}m|[\0\x08]"
)

# Ray and vLLM "(WorkerDict pid=12, ip=10.0.0.1) ", "(raylet) "; torchrun "[rank0]: ", "[default0]:".
_WHO = re.compile(
    r"\((?:[^()\s][^()]{0,80} )?pid=\d+[^()]{0,80}\) ?|\((?:raylet|autoscaler)[^()]{0,80}\) ?|\[\w*\d+\]: ?"
)
_LEVEL = r"\[?(?:ERROR|WARNING|WARN|INFO|DEBUG|CRITICAL)\]?"
_DATE = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"
# "2025-12-01 10:00:00,123 ", "ERROR 12-01 10:00:00 [core.py:700] ", "ERROR:root:".
_WHEN = re.compile(
    rf"{_DATE}[ \t]?(?:- )?|{_LEVEL}(?: \d\d-\d\d \d\d:\d\d:\d\d)?(?: \[[\w./]+:\d+\])?(?::[\w.]*:|:)?(?: |$)"
    r"|[\w./]+\.py:\d+ -- "
)
_REPEATED = re.compile(r"\[repeated (\d+)x across cluster\]")

_LONGEST = 16_384
_OVERLAP = 2_048


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, or a part of one.

    Attributes:
        number: the number of the line, from 1.
        text: the line without colour codes.
        who: the process that printed it, as Ray, vLLM or torchrun name it; "" where none is named.
        message: the text without ``who``, time, level and Ray's note on repetition.
        times: how often it was printed, as Ray counts.
    """

    number: int
    text: str
    who: str
    message: str
    times: int


def read_line(raw: bytes, number: int) -> Iterator[LogLine]:
    """The parts of one line that carriage returns separate; a very long part comes in overlapping pieces."""
    text = _CODES.sub("", raw.decode("utf-8", "replace"))
    for part in text.split("\r"):
        for start in range(0, max(len(part), 1), _LONGEST - _OVERLAP):
            piece = part[start : start + _LONGEST]
            if piece.strip():
                yield _parse(piece, number)


def _parse(text: str, number: int) -> LogLine:
    who, rest = _without_prefix(text)
    repeated = _REPEATED.search(rest)
    message = rest[: repeated.start()] if repeated else rest
    return LogLine(number, text, who, message.rstrip(), int(repeated[1]) if repeated else 1)


def _without_prefix(text: str) -> tuple[str, str]:
    """Who printed the text, and the text itself with its indentation."""
    who, start = "", 0
    while True:
        if match := _WHO.match(text, start):
            who += match[0]
        elif not (match := _WHEN.match(text, start)):
            return who, text[start:]
        start = match.end()
