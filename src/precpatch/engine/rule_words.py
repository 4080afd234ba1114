"""The words that a rule may use where only some mean anything, and what is said of one that means nothing.

A rule with a slip of the pen would be read, claim nothing, and nobody would know. So every word of a closed set is
looked up, and a word of an open one is refused where it is nearly, but not quite, a word that means something.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache

from precpatch.languages.mention import KINDS, ROLES
from precpatch.vocabulary import builtin_vocabulary
from precpatch.vocabulary.facts import READERS, load_facts, load_spellings

PLACEHOLDERS = ("value", "key", "callee", "dtype", "attention", "target", "wanted", "pin")
"""What a message may hold in braces."""

EXAMPLE_LANGUAGES = (*READERS, "notebook")

BOOLEANS = ("true", "false")

_NEAR = 0.8
_MOST_KNOWN = 20
_POLICY = ("dtype", "attention")
_NO_DTYPE = "no"
"""What accelerate has in the place of a dtype where there is none."""

_GLOB = re.compile(r"[*?\[]")
_PLACEHOLDER = re.compile(r"\{([\w-]+)\}")
_WORD = re.compile(r"([\"']?)[\w.+-]{1,60}\1")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def hint(word: str, known: Collection[str]) -> str:
    """What to add to a complaint about a word: the known word nearest to it, else the known words."""
    near = get_close_matches(word.lower(), list(known), 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known are {', '.join(sorted(known))}" if len(known) <= _MOST_KNOWN else ""


def unknown(what: str, word: str, known: Collection[str]) -> str | None:
    """What is wrong with a word that must be one of ``known``, or a glob that fits one of them."""
    lowered = word.lower()
    if _GLOB.search(word):
        return (
            None
            if any(fnmatchcase(each, lowered) for each in known)
            else f"no {what} is like {word!r}{hint(word, known)}"
        )
    return None if lowered in known else f"unknown {what} {word!r}{hint(word, known)}"


def wrong_language(word: str) -> str | None:
    """What is wrong with the language of a match."""
    if word.lower() == "notebook":
        return "what stands in a notebook has the language 'python', or 'shell' in its commands"
    return unknown("language", word, READERS)


def wrong_kind(word: str) -> str | None:
    """What is wrong with the kind of a match."""
    return unknown("kind", word, KINDS)


def wrong_role(word: str) -> str | None:
    """What is wrong with the role of a match."""
    return unknown("role", word, ROLES)


def wrong_spelling(word: str) -> str | None:
    """What is wrong with the spelling of a match."""
    return unknown("spelling", word, load_spellings())


@cache
def names_of(concept: str) -> tuple[str, ...]:
    """The names of the settings of a concept, but for environment variables."""
    settings = builtin_vocabulary().all_settings
    return tuple(each.name for each in settings if each.concept == concept and not each.variable)


def wrong_concept(word: str) -> str | None:
    """What is wrong with the concept of a match: it is one whose settings have names."""
    known = {each.concept for each in builtin_vocabulary().all_settings if not each.variable}
    return None if word in known else f"unknown concept {word!r}{hint(word, known)}"


CLOSED = {"language": wrong_language, "kind": wrong_kind, "role": wrong_role, "spelling": wrong_spelling}
"""The fields of a match in which only some words mean anything."""


def wrong_fact(name: str) -> str | None:
    """What is wrong with a fact that a match asks for, or asks not to be there."""
    facts = load_facts()
    return None if name in facts else f"unknown fact {name!r}{hint(name, facts)}"


def told_elsewhere(name: str, languages: Sequence[str]) -> str | None:
    """What is wrong with a fact where none of the languages that a match asks for tells it."""
    readers = load_facts()[name].readers
    if any(fnmatchcase(reader, glob.lower()) for glob in languages for reader in readers):
        return None
    return f"the fact {name!r} is only told in {', '.join(readers)}, and language is {', '.join(languages)}"


def wrong_value(word: str, kinds: set[str]) -> str | None:
    """What is wrong with a value: that it is nearly one which the kinds of mention have.

    Other values are fine: a user's rule may bring a name that is new.
    """
    if kinds == {"switch"}:
        return _slip("value", word, BOOLEANS)
    return _slip("value", word, _values_of(kinds)) if kinds <= {"dtype", "attention"} else None


def _values_of(kinds: Collection[str]) -> list[str]:
    """Every canonical dtype, attention implementation, or both."""
    words = builtin_vocabulary()
    dtypes = words.canonical_dtypes if "dtype" in kinds else ()
    attention = words.canonical_attention if "attention" in kinds else ()
    return sorted((*dtypes, *attention))


def unknown_placeholder(message: str) -> str | None:
    """What is wrong with the placeholders of a message."""
    complaints = (unknown("placeholder", name, PLACEHOLDERS) for name in _PLACEHOLDER.findall(message))
    return next((complaint for complaint in complaints if complaint), None)


def wrong_to(word: str, kinds: set[str]) -> str | None:
    """What is wrong with what a rule writes in the place of mentions of these kinds."""
    if kinds == {"import"}:
        return None if word == "padding" or _MODULE.fullmatch(word) else f"{word[:60]!r} is no module"
    if not _WORD.fullmatch(word):
        return f"{word[:60]!r} is no single word; it may have quotes around it"
    plain = word.strip("\"'")
    if kinds <= {"dtype", "attention"}:
        return unknown("value", plain, (*_POLICY, *_values_of(kinds), *([_NO_DTYPE] if "dtype" in kinds else [])))
    if plain == "padding":
        return "'padding' is for imports only"
    return _slip("value", plain, (*_POLICY, *BOOLEANS, "padding", *_values_of(("dtype", "attention"))))


def _slip(what: str, word: str, known: Iterable[str]) -> str | None:
    """A complaint about a word, or a glob that fits none of ``known``, if it is nearly one of them."""
    lowered, known = word.lower(), tuple(known)
    if any(fnmatchcase(each, lowered) for each in known):
        return None
    plain = _GLOB.sub("", lowered)
    turned = [each for each in known if sorted(each) == sorted(plain)]
    near = turned or get_close_matches(plain, known, 1, _NEAR)
    if not near or not (turned or _is_slip(plain, near[0])):
        return None
    return f"unknown {what} {word!r}; did you mean {near[0]!r}?"


def _is_slip(word: str, near: str) -> bool:
    """Whether a word is no name of its own: one with another number (float8), or a longer one (sdpa_paged)."""
    has_another_number = re.sub(r"\d", "", word) == re.sub(r"\d", "", near)
    return not has_another_number and not re.match(rf"{re.escape(near)}[_.-]", word)
