"""Words of the vocabulary by what they take, for tests that go through them."""

from __future__ import annotations

from precpatch.vocabulary import builtin_vocabulary
from precpatch.vocabulary.words import BOOLEAN, CHOICE, NUMBER

SWITCH_KEYS = tuple(each.name for each in builtin_vocabulary().all_settings if BOOLEAN in each.takes)
NAMED_SWITCHES = {
    each.name: frozenset(choice.replace("*", "x") for choice in each.choices)
    for each in builtin_vocabulary().all_settings
    if CHOICE in each.takes
}
NUMBER_KEYS = frozenset(each.name for each in builtin_vocabulary().all_settings if NUMBER in each.takes)
DEVICE_WORDS = frozenset().union(*(device.words for device in builtin_vocabulary().devices if device.paths))
