"""One file as the readers see it: its bytes, its text, and how positions map between the two."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate

BY_LOOK = "by-look"
"""The fact of a file that is known by its look only: its fixes are for a person to review."""

_LINE_END = re.compile(r"\r\n|\n|\r")
_PIECE = 256
"""Characters between two places whose byte offset is kept."""


class ReadError(Exception):
    """The file cannot be decoded or parsed; the text says where and why, and becomes a row under "errors"."""


@dataclass(frozen=True)
class SourceFile:
    """A file of the checkout, read once.

    Attributes:
        path: relative to the root of the run, with ``/``.
        data: the bytes on disk.
        encoding: the codec that turns ``data`` (without its byte order mark) into text.
        bom: length in bytes of the byte order mark that ``data`` begins with, else 0.
        facts: what is known of the file as a whole, such as ``generated``.
        depth: in how many texts it stands itself; 0 for a file on disk.
    """

    path: str
    data: bytes
    encoding: str = "utf-8"
    bom: int = 0
    facts: frozenset[str] = field(default_factory=frozenset)
    depth: int = 0

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
        if self.text.isascii():
            return starts_of_lines(self.text.encode("ascii"))
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def offset(self, index: int) -> int:
        """The byte offset in ``data`` of the character ``index`` of ``text``."""
        if self._one_byte_each:
            return self.bom + index
        piece = min(index // _PIECE, len(self._pieces) - 1)
        return self._pieces[piece] + len(self.text[piece * _PIECE : index].encode(self.encoding))

    def index(self, offset: int) -> int:
        """The character of ``text`` that starts at a byte offset of ``data``."""
        if self._one_byte_each:
            return offset - self.bom
        piece = max(bisect_right(self._pieces, offset) - 1, 0)
        return piece * _PIECE + len(self.data[self._pieces[piece] : offset].decode(self.encoding, "ignore"))

    def position(self, index: int) -> tuple[int, int]:
        """Line and column, both counted from 1 and the column in characters, of the character ``index``."""
        line = bisect_right(self.line_starts, index)
        return line, index - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of ``line`` (from 1), without its line end."""
        start = self.line_starts[line - 1]
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def checked(self) -> SourceFile:
        """The file itself, where every stretch of its text, encoded again, gives its bytes.

        Codecs that keep a state (ISO-2022-JP) or have several ways to write a character (UTF-7) do not: in such a
        file the place of a word in the bytes is not certain.

        Raises:
            ReadError: it does not.
            UnicodeError: it is not text in its encoding.
        """
        uncertain = f"{self.encoding} does not say for certain where a word stands, so left alone"
        if not _keeps_ascii(self.encoding) and not self.encoding.startswith(_WIDE):
            raise ReadError(uncertain)
        if not self._one_byte_each and b"".join(self._encoded_pieces) != self.data[self.bom :]:
            raise ReadError(uncertain)
        return self

    @cached_property
    def _one_byte_each(self) -> bool:
        return self.text.isascii() and self.data[self.bom :] == self.text.encode("ascii")

    @property
    def _encoded_pieces(self) -> list[bytes]:
        starts = range(0, len(self.text), _PIECE)
        return [self.text[start : start + _PIECE].encode(self.encoding) for start in starts]

    @cached_property
    def _pieces(self) -> list[int]:
        """The byte offset of every piece of the text, and of its end."""
        return list(accumulate(map(len, self._encoded_pieces), initial=self.bom))


@lru_cache(maxsize=16)
def _keeps_ascii(encoding: str) -> bool:
    """Whether the codec writes each character of ASCII as its own byte: UTF-7, punycode and others do not."""
    try:
        return _ASCII.encode(encoding) == _ASCII.encode("ascii") and _ASCII.encode("ascii").decode(encoding) == _ASCII
    except (ValueError, LookupError):
        return False


_ASCII = "".join(map(chr, range(32, 127))) + "\r\n\t "
_WIDE = ("utf-16", "utf-32")
"""Codecs of more bytes a character, which only readers of data choose, by a byte order mark."""


def starts_of_lines(data: bytes) -> list[int]:
    r"""Offset at which each line starts; lines end at ``\n``, ``\r\n`` or ``\r`` only, as those of bytes do."""
    lines = data.splitlines(keepends=True)
    starts = list(accumulate(map(len, lines), initial=0))
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        starts.pop()
    return starts


def located(source: SourceFile, index: int, problem: str) -> str:
    """``problem`` with the line and column of the character ``index`` before it."""
    line, column = source.position(min(max(index, 0), len(source.text)))
    return f"line {line}, column {column}: {problem}"
