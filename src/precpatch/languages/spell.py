"""From a value back to a word: dtype families, booleans and case, the same for every language.

How a word is quoted and escaped is a matter of each language's grammar and stays with its reader.
"""

from __future__ import annotations

import re

from precpatch.languages.mention import Mention
from precpatch.languages.site import BOOLEAN, NUMBER, TEXT
from precpatch.vocabulary import Vocabulary

_BOOLEANS = (("true", "false"), ("yes", "no"), ("on", "off"), ("1", "0"))
_PAIRS = {word: pair for pair in _BOOLEANS for word in pair}
_PADDING = "\"'\\ \t\r\n"

NOT_STRINGS = frozenset({*(word for pair in _BOOLEANS[:3] for word in pair), "null", "y", "n"})
"""Plain words that YAML takes for a boolean or for nothing."""

SWEPT = re.compile(r"[A-Za-z0-9_][\w./-]*")
"""One of several values that a sweep gives a setting."""

SWEEP = re.compile(r"(?:choice\(\s*)?(?P<items>['\"]?[\w./-]+['\"]?(?:[ \t]*,[ \t]*['\"]?[\w./-]+['\"]?)*)(?:\s*\))?")
"""Several values with commas between them, one a run: ``1,2`` and ``choice(1, 2)``."""


def is_boolean(word: str, numbers: bool = False) -> bool:
    """Whether a word is one for true or false; ``1`` and ``0`` only with ``numbers``."""
    lowered = word.lower()
    return lowered in _PAIRS and (numbers or not lowered.isdigit())


def form_of(word: str, numbers: bool = False) -> str:
    """The form of a plain word; ``1`` and ``0`` are booleans with ``numbers``."""
    return BOOLEAN if is_boolean(word, numbers) else NUMBER if word.isdigit() else TEXT


def truth(word: str) -> str:
    """ "true" or "false", for a word that is a boolean."""
    lowered = word.lower()
    return "true" if lowered == _PAIRS[lowered][0] else "false"


def boolean(old: str, value: str) -> str | None:
    """The boolean ``value`` ("true" or "false") in the words and the case of ``old``; None where that is none."""
    pair = _PAIRS.get(old.lower())
    if pair is None or truth(old) == value:
        return old if pair else None
    new = pair[value == "false"]
    return new.upper() if old.isupper() else new.title() if old.istitle() else new


def word(vocabulary: Vocabulary, mention: Mention, old: str, value: str) -> str:
    """The canonical ``value`` as a word in the place of ``old``, which is what the mention says, without quotes."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    if mention.kind == "dtype" and value in vocabulary.canonical_dtypes:
        return vocabulary.spell(value, mention.spelling, like=old)
    if mention.kind == "switch" and value in _BOOLEANS[0]:
        return boolean(old, value) or value
    return value


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The span from ``start`` to ``end`` without the blanks, quotes and backslashes around what it holds."""
    found = text[start:end].lstrip(_PADDING)
    first = end - len(found)
    return first, first + len(found.rstrip(_PADDING))
