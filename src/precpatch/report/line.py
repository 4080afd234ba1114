"""Styled lines: what a person reads, as plain bytes for a pipe or a file and in colour for a terminal."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_SENTENCE = re.compile(r'(?:"[^"]*"|[^"])*?(?<!\.)(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)\.(?=\s|$)')

Line = tuple[tuple[str, str], ...]
"""Pieces of one line: text and the name of a rich style, "" for none."""


def line(*pieces: str | tuple[str, str]) -> Line:
    """A Line from plain strings and (text, style) pairs."""
    return tuple((piece, "") if isinstance(piece, str) else piece for piece in pieces)


def visible(text: str) -> str:
    r"""``text`` on one line, with everything that cannot be seen written as an escape, such as ``\n`` or ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def visible_lines(data: bytes) -> str:
    """``data`` as text of many lines that is safe to show: tabs and line feeds stay, the rest is as in ``visible``."""
    lines = data.decode("utf-8", "backslashreplace").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


def command_line(words: Iterable[str]) -> str:
    r"""``words`` quoted for a shell, on one line: a word that cannot be seen is written as ``$'\x1b'``."""
    return " ".join(shlex.quote(word) if word.isprintable() else _in_dollar_quotes(word) for word in words)


def _in_dollar_quotes(word: str) -> str:
    plain = set(range(32, 127)) - set(b"\\'")
    return "$'" + "".join(chr(byte) if byte in plain else f"\\x{byte:02x}" for byte in os.fsencode(word)) + "'"


def first_sentence(text: str) -> str:
    """The first sentence of ``text`` on one line; a stop inside double quotes, an ellipsis or "e.g." ends none."""
    joined = " ".join(text.split())
    found = _SENTENCE.match(joined)
    return found.group() if found else joined.rstrip(".") + "."


def shorten(text: str, width: int = 60) -> str:
    """``text`` on one line of at most ``width`` characters: white space becomes one space, a long middle ``...``."""
    joined = visible(" ".join(text.split()))
    if len(joined) <= width:
        return joined
    tail = width // 3
    return f"{joined[: width - tail - 3]}...{joined[-tail:]}"


def plural(number: int, one: str, many: str = "") -> str:
    """ "1 file", "2 files"."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def plain(lines: Iterable[Line]) -> bytes:
    """The lines as UTF-8, without colours; nothing in them drives a terminal."""
    text = "".join("".join(visible(piece) for piece, _ in pieces).rstrip() + "\n" for pieces in lines)
    return text.encode("utf-8", "backslashreplace")


def styled(pieces: Line) -> Text:
    """One line as a rich Text; nothing in it is read as markup, and nothing drives a terminal."""
    from rich.text import Text

    return Text.assemble(*((visible(piece), style) for piece, style in pieces), no_wrap=True)
