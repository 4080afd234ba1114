"""Rewrites of one name or word, by its place in the source text: everything around it stays byte for byte.

What changes more than a name (an import, a list that grows) is in ``structure``.
"""

from __future__ import annotations

import re

_WORD = r"(?<![\w.-])(?:torch\.)?{word}(?![\w-])"
_NAME = re.compile(r"[^\W\d]\w*\Z")
_METHOD = re.compile(r"(\.[ \t]*)([^\W\d]\w*)")


def replace_name(expression: str, name: str) -> str:
    """``torch.bfloat16`` -> ``torch.NAME``; ``bf`` -> ``NAME``: the last name of a dotted expression.

    Raises:
        ValueError: the expression does not end in a name.
    """
    match = _NAME.search(expression)
    if match is None:
        raise ValueError(f"not a dotted name: {expression!r}")
    return expression[: match.start()] + name


def replace_method(call: str, old: str, name: str) -> str:
    """``.bfloat16()`` -> ``.NAME()``, whatever stands between the dot and the brackets.

    Raises:
        ValueError: the text does not begin with the method ``old``.
    """
    match = _METHOD.match(call)
    if match is None or match[2] != old:
        raise ValueError(f"not the method {old}: {call!r}")
    return match[1] + name + call[match.end() :]


def replace_in_string(expression: str, old: str, new: str) -> str:
    """Replace the last whole word ``old`` in a string literal: plain, raw, concatenated or an f-string.

    Prefix, quotes and every other character stay. A word that is split over two literals is not found.

    Raises:
        ValueError: the word does not stand in one piece in the literal.
    """
    if "#" in expression:  # a comment between two literals may hold the word as well
        from precpatch.languages.python.structure import replace_in_literals

        return replace_in_literals(expression, word_pattern(old), new)
    found = list(word_pattern(old).finditer(expression))
    if not found:
        raise ValueError(f"{old!r} does not stand in one piece in {expression!r}")
    return expression[: found[-1].start()] + new + expression[found[-1].end() :]


def word_pattern(word: str) -> re.Pattern[str]:
    """A whole word in a string, with ``torch.`` before it or without."""
    return re.compile(_WORD.format(word=re.escape(word)))
