"""A training log as blocks of whole lines: from a file, a gzip file or standard input, in bounded memory."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

from precpatch.errors import UserError

BLOCK = 1 << 20
"""Bytes read at a time. A line that is longer is read in pieces."""

# As git does it: a NUL byte near the start makes a file binary.
_SAMPLE = 8192
_CONTROLS = bytes(byte for byte in (*range(32), 127) if byte not in b"\t\n\v\f\r\b\a\x1b")


@contextmanager
def open_log(name: str) -> Iterator[IO[bytes]]:
    """The bytes of the log ``name``, "-" for standard input; gzip is unpacked on the way.

    Raises:
        UserError: it cannot be read, is empty, or is not text.
    """
    title = title_of(name)
    try:
        with _opened(name) as plain, _unpacked(plain) as stream:
            _check_text(stream, title)
            yield stream
    except (OSError, EOFError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"{title}: cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def title_of(name: str) -> str:
    """What a person calls the log ``name``."""
    return "standard input" if name == "-" else name


def read_blocks(stream: IO[bytes], size: int = BLOCK) -> Iterator[bytes]:
    """The bytes of ``stream`` in order, cut after a newline; only a line longer than ``size`` is cut inside."""
    rest = b""
    while data := stream.read(size):
        line = b"" if data.endswith(b"\n") else stream.readline(size)
        text = b"".join((rest, data, line))
        cut = _cut_inside(text) if len(line) == size and not line.endswith(b"\n") else len(text)
        rest = text[cut:]
        yield text[:cut]
    if rest:
        yield rest


def _cut_inside(text: bytes) -> int:
    """Where to cut a line that is too long: where a progress bar or a word ends."""
    return max(text.rfind(b"\r"), text.rfind(b" ", len(text) // 2)) + 1 or len(text)


def _opened(name: str) -> AbstractContextManager[io.BufferedReader]:
    if name == "-":
        return _standard_input()
    return Path(name).open("rb")


@contextmanager
def _standard_input() -> Iterator[io.BufferedReader]:
    """Standard input, left open afterwards."""
    stream = sys.stdin.buffer
    yield stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[arg-type]


@contextmanager
def _unpacked(stream: io.BufferedReader) -> Iterator[IO[bytes]]:
    if stream.peek(2)[:2] != b"\x1f\x8b":
        yield stream
        return
    import gzip
    import zlib

    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield io.BufferedReader(unpacked)
    except zlib.error as error:
        raise OSError(f"damaged gzip data: {error}") from error


def _check_text(stream: IO[bytes], title: str) -> None:
    assert isinstance(stream, io.BufferedReader)
    start = stream.peek(_SAMPLE)[:_SAMPLE]
    if not start:
        raise UserError(f"{title}: is empty.")
    controls = len(start) - len(start.translate(None, _CONTROLS))
    if b"\0" in start or controls > len(start) // 20:
        raise UserError(f"{title}: is not a text log: it holds binary data.")
