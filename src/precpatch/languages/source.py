"""One file as the readers see it: its bytes, its text, and how positions map between the two."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class SourceFile:
    """A file of the checkout, read once.

    Attributes:
        path: relative to the root of the run, with ``/``.
        data: the bytes on disk.
        encoding: the codec that turns ``data`` (without its byte order mark) into text.
        bom: length in bytes of the byte order mark that ``data`` begins with, else 0.
        facts: what is known of the file as a whole, such as ``generated``.
    """

    path: str
    data: bytes
    encoding: str = "utf-8"
    bom: int = 0
    facts: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def text(self) -> str:
        """The decoded text without the byte order mark, line ends as they are on disk.

        Raises:
            UnicodeDecodeError: the bytes are not text in ``encoding``.
        """
        return self.data[self.bom :].decode(self.encoding)

    @cached_property
    def line_starts(self) -> list[int]:
        r"""Character index at which each line starts; lines end at ``\n``, ``\r\n`` or ``\r`` only."""
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def offset(self, index: int) -> int:
        """The byte offset in ``data`` of the character ``index`` of ``text``."""
        if self._one_byte_each:
            return self.bom + index
        return self.bom + len(self.text[:index].encode(self.encoding))

    def position(self, index: int) -> tuple[int, int]:
        """Line and column, both counted from 1 and the column in characters, of the character ``index``."""
        line = bisect_right(self.line_starts, index)
        return line, index - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of ``line`` (from 1), without its line end."""
        start = self.line_starts[line - 1]
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def lines_with(self, pattern: re.Pattern[str]) -> frozenset[int]:
        """The numbers (from 1) of the lines in which ``pattern`` matches."""
        return frozenset(bisect_right(self.line_starts, match.start()) for match in pattern.finditer(self.text))

    @cached_property
    def _one_byte_each(self) -> bool:
        return len(self.text) == len(self.data) - self.bom
