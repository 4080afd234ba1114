"""What a language reader is: bytes in, a Reading out, which knows its mentions and how to change them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

from precpatch.languages import spell, twins
from precpatch.languages.mention import Mention
from precpatch.languages.site import BOOLEAN, Site, Slot
from precpatch.languages.source import ReadError, SourceFile
from precpatch.languages.tell import Teller
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary

__all__ = ["Language", "ReadError", "Reading", "SiteReading", "path_facts"]


def path_facts(source: SourceFile, vocabulary: Vocabulary) -> frozenset[str]:
    """The facts of a file, with what its path says: ``other-device`` where it names one."""
    return source.facts | ({"other-device"} if vocabulary.is_path_of_other_device(source.path) else set())


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

    def hides(self, data: bytes) -> bool:
        """Whether a word can stand in the text without standing in the bytes: written as escapes, or in UTF-16."""
        ...

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> Reading:
        """Read a file once, for all that is asked of it afterwards.

        Args:
            source: the file.
            vocabulary: what words mean in this run.
            text: also list words that decide nothing: in comments, docstrings, messages and longer text.

        Raises:
            ReadError: the file does not parse.
        """
        ...


class Reading(Protocol):
    """One file that was read."""

    source: SourceFile

    @property
    def mentions(self) -> Sequence[Mention]:
        """Every mention, in order of position."""
        ...

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make ``mention`` say the canonical ``value`` in its own spelling.

        One that changes nothing where it says so already; none where it cannot be done in one piece.
        """
        ...

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that add ``value`` to the set of allowed values ``mention``; none where it cannot be done."""
        ...

    def check(self, data: bytes) -> str | None:
        """Parse the file again after an edit; None when it is as well as before, else what is wrong."""
        ...


class SiteReading:
    """A reading whose mentions are told from sites; each language says how a word is written, and checks a result.

    Attributes:
        source: the file.
        vocabulary: what words mean in this run.
        teller: names the sites.
    """

    def __init__(self, source: SourceFile, vocabulary: Vocabulary, teller: Teller) -> None:
        self.source = source
        self.vocabulary = vocabulary
        self.teller = teller
        self._told: dict[tuple[int, str], tuple[Mention, Site]] = {}

    def tell(self, sites: Iterable[Site]) -> None:
        """Take over the sites that say something; of two at the same place that say the same kind, the first."""
        for site in sites:
            mention = self.teller.tell(site)
            if mention is not None:
                self._told.setdefault((mention.start, mention.kind), (mention, site))

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """Every mention, in order of position."""
        return sorted((mention for mention, _ in self._told.values()), key=lambda each: (each.start, each.end))

    def site_of(self, mention: Mention) -> Site | None:
        """The site that a mention was told from."""
        found = self._told.get((mention.start, mention.kind))
        return found[1] if found else None

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make ``mention`` say ``value``; a dtype for a switch takes bfloat16 back in favour of it."""
        site = self.site_of(mention)
        if site is None:
            return ()
        if mention.kind == "switch" and value in self.vocabulary.canonical_dtypes:
            return twins.edits(self, site, value)
        new = self.written(site, mention, value)
        return () if new is None else (self.edit(site.start, site.end, new),)

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """None: most languages declare no set of allowed values."""
        return ()

    def written(self, site: Site, mention: Mention, value: str) -> str | None:
        """The source text that makes a site say ``value``; None where that cannot be in one piece."""
        raise NotImplementedError

    def edit(self, start: int, end: int, new: str) -> Edit:
        """The edit that puts ``new`` in the place of the characters ``start`` to ``end``."""
        first, last = self.source.offset(start), self.source.offset(end)
        return Edit(self.source.path, first, self.source.data[first:last], new.encode(self.source.encoding))

    # --- what the twins ask ------------------------------------------------------------------------------------

    @cached_property
    def _switches(self) -> dict[tuple[int, str], list[Site]]:
        """The boolean switches by box and key of the slot that names them."""
        found: dict[tuple[int, str], list[Site]] = {}
        for mention, site in self._told.values():
            slot = twins.named_slot(site)
            if mention.kind == "switch" and site.form == BOOLEAN and slot is not None:
                found.setdefault((slot.box, slot.key), []).append(site)
        return found

    def beside(self, box: int, key: str) -> Iterable[Site]:
        """The switches with this key in this box."""
        return self._switches.get((box, key), ())

    def holds(self, box: int, key: str) -> bool:
        """Whether something stands under this key in this box; readers that know of more than switches say so."""
        return (box, key) in self._switches

    def turned(self, site: Site, value: str) -> tuple[Edit, ...] | None:
        """The edit that gives a switch the value "true" or "false"; none where it says so, None where it is none."""
        old = self.source.text[site.start : site.end]
        new = spell.boolean(old, value)
        if new is None:
            return None
        return () if new == old else (self.edit(site.start, site.end, new),)

    def renamed(self, slot: Slot, key: str) -> tuple[Edit, ...] | None:
        """The edit that gives a slot another key; None where the key is not written out in one piece."""
        if slot.start < 0 or self.source.text[slot.start : slot.end] != slot.key:
            return None
        return (self.edit(slot.start, slot.end, key),)
