"""From the bytes of a JSON file to text; the same for notebooks."""

from __future__ import annotations

import json
import re

from precpatch.languages.source import ReadError, SourceFile

_ESCAPE = re.compile(rb"\\u00(?:3[0-9]|[46][1-9a-f]|[57][0-9a]|5f)", re.IGNORECASE)
"""An ASCII letter, digit or underscore that is written as an escape."""

_MARKS_OF_ORDER = {
    "utf-8-sig": ("utf-8", 3),
    "utf-16": ("utf-16", 2),
    "utf-32": ("utf-32", 4),
}


class JsonBytes:
    """How the reader of a file that is written in JSON gets from its bytes to text."""

    def open(self, path: str, data: bytes) -> SourceFile:
        """Find the encoding of ``data``: UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

        Raises:
            ReadError: the bytes are not text in that encoding.
        """
        return open_json(path, data)

    def hides(self, data: bytes) -> bool:
        """Whether a word can stand in the text without standing in the bytes: in UTF-16 or UTF-32, or as escapes."""
        return _is_wide(data) or _ESCAPE.search(data) is not None


def open_json(path: str, data: bytes) -> SourceFile:
    """The file in its encoding, as RFC 4627 finds it from the first four bytes.

    Raises:
        ReadError: the bytes are not text in that encoding.
    """
    encoding, bom = _encoding(data)
    source = SourceFile(path, data, encoding, bom)
    try:
        _ = source.text
    except UnicodeDecodeError as error:
        offset = bom + error.start
        codec = encoding.upper().removesuffix("-LE").removesuffix("-BE")
        raise ReadError(f"not text: byte 0x{data[offset]:02x} at offset {offset} is not {codec}") from None
    return source


def _encoding(data: bytes) -> tuple[str, int]:
    """The codec of a JSON file and the length of its byte order mark."""
    encoding = json.detect_encoding(data)
    codec, bom = _MARKS_OF_ORDER.get(encoding, (encoding, 0))
    if bom in (2, 4):
        codec += "-le" if data[0] == 0xFF else "-be"
    return codec, bom


def _is_wide(data: bytes) -> bool:
    """Whether the bytes look like UTF-16 or UTF-32, in which no name can be searched for."""
    return json.detect_encoding(data) not in ("utf-8", "utf-8-sig")
