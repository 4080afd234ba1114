"""Reads JSON: the settings of model configs, DeepSpeed, accelerate, trainers and verl, known by their content.

Only the outermost object of a file says what it is, never the file's name; which keys make a config of a known form is
for ``vocabulary/forms.yaml``. JSON that is none of these (tokenizers, datasets, packages) gives no mention, and
neither does text in it; ``other.py`` says whether such a file sets something. Only whole values
under the keys of a setting count.

Facts that a mention can carry, besides those of the forms (accelerate, deepspeed, hf-config, primary-config, trainer):
    escaped: the text shows the value only after its escapes are undone.
    other-device: the path names a device that is not an NVIDIA GPU.
"""

from __future__ import annotations

import json

from precpatch.languages import spell
from precpatch.languages.base import SiteReading, path_facts
from precpatch.languages.json.encoding import JsonBytes, open_json
from precpatch.languages.json.sites import Sites, could_hold_a_mention, is_settings
from precpatch.languages.json.tree import load, parse
from precpatch.languages.mention import Mention
from precpatch.languages.site import BOOLEAN, NUMBER, Site, Slot
from precpatch.languages.source import ReadError, SourceFile
from precpatch.languages.tell import Teller
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary


class JsonLanguage(JsonBytes):
    """The reader of JSON files."""

    name = "json"
    suffixes: tuple[str, ...] = (".json",)

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> JsonReading:
        """Read a file; with ``text`` the same, for JSON has no comments.

        Raises:
            ReadError: the file is not JSON, and could hold a mention.
        """
        try:
            boxes = parse(source) if is_settings(load(source), vocabulary) else []
        except ReadError:
            if could_hold_a_mention(source.text, vocabulary):
                raise
            boxes = []
        return JsonReading(source, vocabulary, Sites(source.text, boxes, vocabulary, path_facts(source, vocabulary)))


class JsonReading(SiteReading):
    """One JSON file.

    Attributes:
        is_known: whether it is a config of a known form.
    """

    def __init__(self, source: SourceFile, vocabulary: Vocabulary, sites: Sites) -> None:
        super().__init__(source, vocabulary, Teller(source, vocabulary, JsonLanguage.name, quiet=True, keyed=True))
        self._sites = sites
        self.is_known = sites.is_known
        self.tell(sites)

    def written(self, site: Site, mention: Mention, value: str) -> str | None:
        """A value in the form that it has: a string stays a string; None for what a boolean cannot say."""
        if site.form == BOOLEAN:
            return value if value in ("true", "false") else None
        if site.form == NUMBER and value.isdecimal():
            return value
        return json.dumps(spell.word(self.vocabulary, mention, site.word, value))

    def holds(self, box: int, key: str) -> bool:
        """Whether the object has this key, whatever stands under it."""
        return self._sites.holds(box, key)

    def renamed(self, slot: Slot, key: str) -> tuple[Edit, ...]:
        """The edit that gives a member another key; a key is always in one piece, also where it holds escapes."""
        return (self.edit(slot.start, slot.end, json.dumps(key)[1:-1]),)

    def check(self, data: bytes) -> str | None:
        """Parse the file again after an edit; None when it is well, else what is wrong."""
        try:
            load(open_json(self.source.path, data))
        except ReadError as error:
            return str(error)
        return None
