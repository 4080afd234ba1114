"""From objects to sites: the members of an object whose outermost object is a config of a known form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from precpatch.languages.json.tree import Box, Member, Scalar, join
from precpatch.languages.site import BOOLEAN, NUMBER, TEXT, Site, Slot
from precpatch.vocabulary import Form, Vocabulary
from precpatch.vocabulary.words import ATTENTION, DTYPE

_FORMS = {"string": TEXT, "true": BOOLEAN, "false": BOOLEAN, "number": NUMBER}


_STRING = re.compile(r'"([^"\\\n]{1,80})"')
_VALUES = frozenset({ATTENTION, DTYPE})


def is_settings(value: Any, vocabulary: Vocabulary) -> bool:
    """Whether the value of a file, as plain data, is a config of a known form."""
    if not isinstance(value, dict):
        return False
    keys = _keys((key, inner if isinstance(inner, dict) else ()) for key, inner in value.items())
    return any(form.fits(keys) for form in _forms(vocabulary))


def could_hold_a_mention(text: str, vocabulary: Vocabulary) -> bool:
    """Whether text that is not JSON holds the name of a value or a setting as a whole string."""
    words = (match[1] for match in _STRING.finditer(text))
    return any(vocabulary.is_looked_for(word) or vocabulary.setting(word) for word in words)


class Sites:
    """The sites of one file.

    Attributes:
        text: the file's text.
        facts: what is known of the file as a whole.
        is_known: whether it is a config of a known form.
    """

    def __init__(self, text: str, boxes: list[Box], vocabulary: Vocabulary, facts: frozenset[str]) -> None:
        self.text = text
        self.facts = facts
        self.is_known = bool(boxes)
        self._boxes = boxes
        self._vocabulary = vocabulary
        self._forms = _forms(vocabulary)
        self._around: dict[int, frozenset[str]] = {}
        self._above: dict[int, Slot] = {}
        self._keys = {(number, member.key) for number, box in enumerate(boxes) for member in box.members}

    def __iter__(self) -> Iterator[Site]:
        for number, box in enumerate(self._boxes):
            facts = self._around[id(box)] = self._facts(box)
            for member in box.members if facts else ():
                slot = self._slot(number, box, member)
                if isinstance(member.value, Box):
                    self._above[id(member.value)] = slot
                elif member.value.kind in _FORMS:
                    yield self._site(box, member.value, slot, facts)

    def holds(self, number: int, key: str) -> bool:
        """Whether the object of this number has this key."""
        return (number, key) in self._keys

    def _facts(self, box: Box) -> frozenset[str]:
        """What the object is, by its keys, and what all around it is; none where the outermost is nothing known."""
        around = self._around[id(box.parent)] if box.parent else frozenset()
        if box.is_list or (box.parent and not around):
            return around
        keys = _keys(
            (member.key, member.value.keys() if isinstance(member.value, Box) else ()) for member in box.members
        )
        return around.union(form.fact for form in self._forms if form.fits(keys))

    def _slot(self, number: int, box: Box, member: Member) -> Slot:
        above = self._above.get(id(box))
        alone = len(box.members) == 1
        renames = "." not in member.key  # a section has its keys under it, and not in its name
        return Slot(member.key, member.start + 1, member.end - 1, number, above, alone, renames)

    def _site(self, box: Box, scalar: Scalar, slot: Slot, facts: frozenset[str]) -> Site:
        raw = self.text[scalar.start : scalar.end]
        word = scalar.value if isinstance(scalar.value, str) else raw
        escaped = {"escaped"} if isinstance(scalar.value, str) and raw[1:-1] != word else set()
        return Site(
            scalar.start,
            scalar.end,
            _FORMS[scalar.kind],
            word,
            "value",
            slot=slot,
            key=self._key(slot),
            key_path=join(box.path, slot.key),
            facts=self.facts | facts | escaped,
            setup=1,
        )

    def _key(self, slot: Slot) -> str:
        """The setting of a value: its own key, or the one above where that gives each part of a model its own."""
        own, above = self._vocabulary.setting(slot.key), slot.above
        if above is None or (own is not None and not own.takes.isdisjoint(_VALUES)):
            return slot.key
        outer = self._vocabulary.setting(above.key)
        is_one = outer is not None and not outer.takes.isdisjoint(_VALUES) and BOOLEAN not in outer.takes
        return above.key if is_one else slot.key


def _forms(vocabulary: Vocabulary) -> tuple[Form, ...]:
    return tuple(form for form in vocabulary.forms if "json" in form.languages)


def _keys(sections: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    """The keys of an object, and "section.key" for the keys of the objects in it."""
    found = set()
    for key, inner in sections:
        found.add(key)
        found.update(f"{key}.{each}" for each in inner)
    return found
