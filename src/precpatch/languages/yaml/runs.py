"""Where each character that a scalar says stands in the file: through quotes, escapes, folded lines and indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from precpatch.languages.embedded import Run
from precpatch.languages.yaml.walk import BREAKS, Scalar

_HEADER = re.compile(rf"[^{BREAKS}]*")
_PLAIN = re.compile(r"[^\s]+")
_SINGLE = re.compile(r"''|[^\s']+")
_DOUBLE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r\n|[\s\S])|[^\s\\]+")
_TOKENS = {"'": _SINGLE, '"': _DOUBLE}
_SAID = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b"}
_SAID |= {"N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}


def runs_of(text: str, scalar: Scalar) -> list[Run] | None:
    """The runs of what a scalar says; None where that is not certain.

    The text is gone through word by word: how the blanks between them are folded need not be known.
    """
    runs: list[Run] = []
    value, at = scalar.value, 0
    for start, end, said in _words(text, scalar):
        if not said.strip():
            continue
        while at < len(value) and value[at].isspace():
            at += 1
        if not value.startswith(said, at):
            return None
        plain = end - start == len(said) and text.startswith(said, start)
        last = runs[-1] if runs else None
        if last is not None and plain and last.plain and start - last.raw == at - last.at:
            runs[-1] = Run(last.at, last.raw, end)
        else:
            runs.append(Run(at, start, end, plain=plain))
        at += len(said)
    return runs if not value[at:].strip() else None


def _words(text: str, scalar: Scalar) -> Iterator[tuple[int, int, str]]:
    """Each word of a scalar, or each escape in it: where it stands and what it says."""
    start, end = scalar.start, scalar.end
    if scalar.style in ("|", ">"):
        header = _HEADER.match(text, start, end)
        start = header.end() if header else start
    elif scalar.style:
        start, end = start + 1, end - 1
    for match in _TOKENS.get(scalar.style, _PLAIN).finditer(text, start, end):
        yield *match.span(), _said(match[0], scalar.style)


def _said(raw: str, style: str) -> str:
    if style == "'" and raw == "''":
        return "'"
    if style != '"' or raw[0] != "\\":
        return raw
    if raw[1] in "xuU" and len(raw) > 2:
        return chr(int(raw[2:], 16))
    return _SAID.get(raw[1], "" if raw[1] in "\r\n" else raw[1])
