"""The exceptions in a log: the last line of each traceback, and lines that have its form without one."""

from __future__ import annotations

import re

from precpatch.doctor.logline import LogLine

BEGIN = "Traceback (most recent call last)"

ANCHORS = (
    BEGIN,
    "Error:",
    "Exception:",
    "Fatal Python error",
    "Segmentation fault",
    "core dumped",
    "terminate called after throwing",
)
"""Every line that matters here, outside a traceback, holds one of them."""

# Names of a module come with dots; those without are Python's own.
_LAST_LINE = re.compile(
    r"(?:(?:[A-Za-z_]\w*\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration|Group))"
    r"(?:\([\w.]+\))?(?::(?:\s|$)|$)"
)
_BARE = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:\([\w.]+\))?: ")
_CRASH = re.compile(r"Fatal Python error: |Segmentation fault|terminate called after throwing|.{0,200}\(core dumped\)")
# Frames are indented; rich draws a box around them.
_INSIDE = (" ", "\t", "│", "╭", "╰", "|", "+")

# Lines of the log after which a traceback without a last line is given up: its process may have died.
_PATIENCE = 2000


class Tracebacks:
    """Follows the tracebacks of several processes whose lines are mixed."""

    def __init__(self) -> None:
        """No traceback is open yet."""
        # Who printed it -> the last line at which its end is still awaited.
        self._open: dict[str, int] = {}

    @property
    def open(self) -> bool:
        """Whether a traceback has begun and not ended: every line matters then."""
        return bool(self._open)

    def awaits_end_of(self, who: str) -> bool:
        """Whether a traceback of the process ``who`` has begun and not ended."""
        return who in self._open

    def exception(self, line: LogLine) -> str | None:
        """The exception that ``line`` ends a traceback with, or that it names by itself; None for any other line."""
        text = line.message.strip()
        self._open = {who: last for who, last in self._open.items() if line.number <= last}
        if BEGIN in text:
            self._open[line.who] = line.number + _PATIENCE
            return None
        if line.who in self._open and not line.message.startswith(_INSIDE) and _LAST_LINE.match(text):
            del self._open[line.who]
            return text
        return text if _BARE.match(text) or _CRASH.match(text) else None
