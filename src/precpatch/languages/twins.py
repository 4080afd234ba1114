"""bf16 and fp16 switches, which come in pairs and change together: once, for every language.

``bf16: true`` beside ``fp16: false``, ``bf16=True, fp16=False``, ``--bf16 True --fp16 False`` and the sections
``{"bf16": {"enabled": true}, "fp16": {"enabled": false}}`` all are two slots of one box, which is all that counts here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from precpatch.languages.site import Site, Slot
from precpatch.languages.spell import is_boolean, truth
from precpatch.patch.edits import Edit

_BF16 = re.compile(r"bf(?:loat)?16(?!.*bf)", re.IGNORECASE)


class Switches(Protocol):
    """What this needs of a reading."""

    def beside(self, box: int, key: str) -> Iterable[Site]:
        """The switches whose named slot (``named_slot``) has this key and stands in this box."""
        ...

    def holds(self, box: int, key: str) -> bool:
        """Whether something stands under this key in this box, a switch or not."""
        ...

    def turned(self, site: Site, value: str) -> tuple[Edit, ...] | None:
        """The edits that give a switch the value "true" or "false", none where it has it; None if it cannot be."""
        ...

    def renamed(self, slot: Slot, key: str) -> tuple[Edit, ...] | None:
        """The edits that give a slot another key; None where that cannot be."""
        ...


def edits(switches: Switches, site: Site, dtype: str) -> tuple[Edit, ...]:
    """Turn the bf16 switch ``site`` off; for "float16" turn its fp16 twin on, or make it the twin where it has none.

    Nothing where neither can be done: a person must look.
    """
    off = switches.turned(site, "false")
    if off is None or dtype == "float32":
        return off or ()
    slot = named_slot(site)
    if slot is None or not is_boolean(site.word, numbers=True) or truth(site.word) != "true":
        return ()
    twin_key = twin_of(slot.key)
    if twin_key == slot.key:
        return ()
    in_section = site.slot is not slot
    twins = [each for each in switches.beside(slot.box, twin_key) if (named_slot(each) is not each.slot) == in_section]
    if twins:
        on = [switches.turned(twin, "true") for twin in twins]
        return () if None in on else (*off, *(edit for turned in on for edit in turned or ()))
    inside = site.slot is slot or (site.slot is not None and site.slot.alone)
    if not inside or not slot.renames or switches.holds(slot.box, twin_key):
        return ()
    return switches.renamed(slot, twin_key) or ()


def twin_of(key: str) -> str:
    """The key of the float16 switch that goes with a bfloat16 switch, in the same case."""
    return _BF16.sub(lambda match: "FP16" if match[0].isupper() else "fp16", key)


def named_slot(site: Site) -> Slot | None:
    """The slot whose key names the precision: the switch's own, or that of the section that ``enabled`` stands in."""
    slot = site.slot
    if slot is not None and slot.key == "enabled" and slot.above is not None:
        return slot.above
    return slot
