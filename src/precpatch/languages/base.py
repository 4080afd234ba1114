"""What a language reader is: bytes in, Mentions out, and how a value is spelled in that language."""

from __future__ import annotations

from typing import Protocol

from precpatch.languages.mention import Mention
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit


class ReadError(Exception):
    """The file cannot be decoded or parsed; the text says where and why, and becomes a row under "errors"."""


class Language(Protocol):
    """One reader. Every method is pure: nothing is opened, written, imported or run."""

    name: str
    suffixes: tuple[str, ...]

    def open(self, path: str, data: bytes) -> SourceFile:
        """Find the encoding of ``data``.

        Raises:
            ReadError: the bytes are not text that this language can hold.
        """
        ...

    def mentions(self, data: bytes) -> bool:
        """Whether the bytes can hold a mention at all: a cheap filter before any parsing."""
        ...

    def read(self, source: SourceFile, text: bool = False) -> list[Mention]:
        """Every mention in the file, in order of position.

        Args:
            source: the file.
            text: also list words that decide nothing: in comments, docstrings, messages and longer text.

        Raises:
            ReadError: the file does not parse.
        """
        ...

    def rewrite(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make ``mention`` say the canonical ``value`` in its own spelling."""
        ...

    def extend(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that add ``value`` to the set of allowed values ``mention``; empty where it cannot be done."""
        ...

    def check(self, before: SourceFile, data: bytes) -> str | None:
        """Parse the file again after an edit; None when it is well, else what is wrong."""
        ...
