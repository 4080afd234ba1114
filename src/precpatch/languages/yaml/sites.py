"""From scalars, and the gaps between them, to sites: values, overrides, defaults, commands and words."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

from precpatch.languages import spell
from precpatch.languages.base import path_facts
from precpatch.languages.site import BOOLEAN, NUMBER, TEXT, UNRESOLVED, Site, Slot
from precpatch.languages.source import SourceFile
from precpatch.languages.words_of_text import settings_in
from precpatch.languages.yaml.interpolation import defaults
from precpatch.languages.yaml.texts import ENVIRONMENT, NOTHING
from precpatch.languages.yaml.walk import BREAKS, Box, Scalar, last_part
from precpatch.vocabulary import Form, Vocabulary

_DEVICE_KEYS = frozenset({"device", "device_name"})
_DOCUMENTS = 1 << 60
"""Added to the number of a document, lest it is that of something else in the file."""

_BOOLEAN_TAGS = (None, "tag:yaml.org,2002:bool")
_QUOTED_BOOLEANS = frozenset({"true", "false"})
"""What means a boolean in quotes as well, under the key of a switch."""

_MAX_WORD = 200
_LINE = re.compile(rf"[^{BREAKS}]*")
_GAP = re.compile(rf"(?P<comment>#[^{BREAKS}]*)|(?P<tag>!(?:<[^>\s]*>|[^\s,\]}}]*))|[&*][^\s,\]}}]*")
_OPTION = re.compile(r"--([A-Za-z][\w-]*)")
_OVERRIDE = re.compile(r"(?P<mark>\+{1,2}|-{1,2})?(?P<path>\w[\w.@/-]*)=")
_IN_COMMAND = re.compile(
    r"(?<![\w.])\+{0,2}(?P<path>(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)=['\"]?(?P<value>[A-Za-z][\w.]*)(?![\w.-])"
)


class Sites:
    """The sites of one file, in order of position.

    With ``prose`` also the words in comments and in longer text; scalars that are ``taken`` are read by others.
    """

    def __init__(
        self,
        source: SourceFile,
        scalars: list[Scalar],
        vocabulary: Vocabulary,
        prose: bool,
        taken: Container[int] = frozenset(),
    ) -> None:
        self.source = source
        self.text = source.text
        self.vocabulary = vocabulary
        self.prose = prose
        self.scalars = scalars
        self.taken = taken
        self.stem = Slot(PurePosixPath(source.path).stem, renames=False)
        self.facts = path_facts(source, vocabulary) | self._forms()
        self._paths: dict[tuple[int, str], int] = {}
        if any(map(self._chooses_other_device, scalars)):
            self.facts |= {"other-device"}

    def _forms(self) -> frozenset[str]:
        """What kind of config the file is, by the keys of its documents, its path and what it says."""
        found = set()
        documents = {id(scalar.document): scalar.document for scalar in self.scalars}.values()
        for form in self.vocabulary.forms:
            if "yaml" not in form.languages or form.fact == "primary-config":
                continue
            fits = any(form.fits(document.keys) for document in documents) or form.fits_path(self.source.path)
            if fits or (form.says and any(self._says(form, scalar) for scalar in self.scalars)):
                found.add(form.fact)
        return frozenset(found)

    @staticmethod
    def _says(form: Form, scalar: Scalar) -> bool:
        return scalar.slot == "value" and form.fits_value(scalar.key, scalar.value)

    def _chooses_other_device(self, scalar: Scalar) -> bool:
        """Whether the scalar says that the file is for a device that is not an NVIDIA GPU."""
        return scalar.slot == "value" and scalar.key in _DEVICE_KEYS and self.vocabulary.is_other_device(scalar.value)

    def __iter__(self) -> Iterator[Site]:
        position = 0
        for scalar in self.scalars:
            start = scalar.start
            if scalar.style in ("|", ">"):
                start = self._body(scalar)
            if self.prose:
                yield from self._gap(position, start)
            if id(scalar) not in self.taken:
                yield from self._scalar(scalar, start)
            position = max(position, scalar.end)
        if self.prose:
            yield from self._gap(position, len(self.text))

    def _body(self, scalar: Scalar) -> int:
        """Where the text of a block scalar starts: at the end of the line of its ``|`` or ``>``."""
        line = _LINE.match(self.text, scalar.start, scalar.end)
        return line.end() if line else scalar.start

    def _gap(self, start: int, end: int) -> Iterator[Site]:
        """Comments and tags between two scalars."""
        for match in _GAP.finditer(self.text, start, end):
            if match.lastgroup is not None:
                role = "comment" if match.lastgroup == "comment" else "text"
                yield from self._words(*match.span(), Site(0, 0, TEXT, "", role, facts=self.facts))

    # --- one scalar --------------------------------------------------------------------------------------------

    def _scalar(self, scalar: Scalar, start: int) -> Iterator[Site]:
        """The sites in one scalar, whose text starts at ``start``."""
        end = scalar.end
        if scalar.style in ("'", '"'):
            start, end = start + 1, end - 1
        if scalar.style in ("|", ">"):
            yield from self._block(scalar, start, end)
        elif swept := list(self._swept(scalar, start, end)):
            yield from swept
        elif (form := self._form(scalar)) is not None:
            if scalar.slot != "root" or self.prose:
                yield self._whole(scalar, form, scalar.value == self.text[start:end])
        elif scalar.slot == "key":
            if self.vocabulary.names.search(self.text, start, end):
                yield from self._words(start, end, self._site(scalar))
        else:
            yield from self._parts(scalar, start, end)

    def _swept(self, scalar: Scalar, start: int, end: int) -> Iterator[Site]:
        """The values that a sweep gives a setting: Hydra's in one scalar, those of ``values`` each in its own."""
        box = scalar.box
        if box is None or box.parent is None or scalar.slot == "key":
            return
        named, several = scalar.named, True
        if scalar.slot == "item" and box.key == "values":
            named, box = box.parent.named, box.parent.parent
        elif scalar.slot == "value" and scalar.key == "value":
            named, box, several = box.named, box.parent, False
        is_sweep = (
            box is not None and box.parent is not None and (box.key == "parameters" or box.parent.key == "sweeper")
        )
        if box is None or named is None or not is_sweep or (box is scalar.box and box.key == "parameters"):
            return
        above, _, key = named.value.rpartition(".")
        if self.vocabulary.setting(key, last_part(above)) is None:
            return
        slot = Slot(key, above=Slot(last_part(above) or "") if above else None, renames=False)
        site = replace(
            self._site(scalar), key=key, key_path=named.value, slot=slot, setup=self._setup_of_document(scalar)
        )
        site = replace(site, facts=site.facts - {"in-list"} | ({"in-list"} if several else set()))
        if box is not scalar.box:
            form = TEXT if scalar.style else spell.form_of(scalar.value)
            yield replace(self._whole_of(site, scalar, form, scalar.value == self.text[start:end]), role="value")
        elif "," in scalar.value and (match := spell.SWEEP.fullmatch(self.text, start, end)):
            for item in spell.SWEPT.finditer(self.text, *match.span("items")):
                yield from self._choice(item.span(), site, "value")

    def _form(self, scalar: Scalar) -> str | None:
        """The form of a scalar that is one value as a whole and may say something; None for any other."""
        word = scalar.value
        if not word or len(word) > _MAX_WORD:
            return None
        if self._setting_takes(scalar, word):
            if spell.is_boolean(word):
                is_word = scalar.style != "" and word.lower() not in _QUOTED_BOOLEANS
                return TEXT if is_word or scalar.tag not in _BOOLEAN_TAGS else BOOLEAN
            return NUMBER if word.isdigit() and not scalar.style else TEXT
        return TEXT if self._is_name(word) else None

    def _is_name(self, word: str) -> bool:
        """Whether a word is a name of a dtype or an implementation, quiet ones too."""
        return (self.vocabulary.dtype_of(word) or self.vocabulary.attention_of(word)) is not None

    def _setting_takes(self, scalar: Scalar, word: str) -> bool:
        """Whether the scalar stands under the key of a setting for which a word like it can say something."""
        if self._is_one_of_several(scalar):
            return True
        key = scalar.key if scalar.slot == "value" else self._option_before(scalar)
        setting = self.vocabulary.setting(key, self._key_above(scalar)) if key else None
        if setting is None:
            return False
        if setting.variable:
            return bool(scalar.style) or word.lower() not in NOTHING
        if spell.is_boolean(word):
            return BOOLEAN in setting.takes
        return setting.tells(TEXT, word)

    def _is_one_of_several(self, scalar: Scalar) -> bool:
        """Whether the scalar is an item of the list that a setting takes, and says something of it."""
        setting = self.vocabulary.setting(scalar.key) if scalar.slot == "item" else None
        return setting is not None and setting.several and setting.tells(TEXT, scalar.value)

    def _whole(self, scalar: Scalar, form: str, bare: bool) -> Site:
        return self._whole_of(self._site(scalar), scalar, form, bare)

    @staticmethod
    def _whole_of(site: Site, scalar: Scalar, form: str, bare: bool) -> Site:
        facts = site.facts if bare else site.facts | {"escaped"}
        return replace(site, start=scalar.start, end=scalar.end, form=form, word=scalar.value, facts=facts)

    def _site(self, scalar: Scalar) -> Site:
        """What every site in a scalar has: its role, its key and its facts."""
        facts = set(self.facts)
        facts.update(self._facts_of_document(scalar))
        if scalar.slot == "item":
            facts.add("in-list")
        if scalar.elsewhere:
            facts.add("aliased-elsewhere")
        if self._is_environment(scalar.box):
            facts.add("variable")
        role = {"key": "key", "value": "value", "item": "lookup"}.get(scalar.slot, "text")
        option = self._option_before(scalar)
        if self._is_one_of_several(scalar):
            role = "value"
        if option:
            facts = facts - {"in-list"} | {"argv"}
            words = frozenset(facts)
            return Site(0, 0, TEXT, "", "value", key=option, key_path=option, facts=words, setup=self._setup(scalar))
        callee = scalar.box.target if scalar.box else None
        slot = self._slot(scalar) if scalar.slot == "value" else None
        return Site(
            *(0, 0, TEXT, "", role),
            slot=slot, key=scalar.key, key_path=scalar.key_path, callee=callee, facts=frozenset(facts),
            setup=self._setup(scalar),
        )  # fmt: skip

    def _setup(self, scalar: Scalar) -> int:
        """What a scalar is set in with others: the arguments of one list, the text of one block, else its document."""
        if scalar.style in ("|", ">"):
            return scalar.start + 1
        if scalar.slot == "item" and scalar.box is not None:
            return -scalar.box.number
        return self._setup_of_document(scalar)

    def _setup_of_document(self, scalar: Scalar) -> int:
        return _DOCUMENTS + self._documents[id(scalar.document)]

    @cached_property
    def _documents(self) -> dict[int, int]:
        """The number of each document."""
        documents = dict.fromkeys(id(scalar.document) for scalar in self.scalars)
        return {document: number for number, document in enumerate(documents)}

    def _facts_of_document(self, scalar: Scalar) -> frozenset[str]:
        return frozenset({"primary-config"}) if self._primary[id(scalar.document)] else frozenset()

    @cached_property
    def _primary(self) -> dict[int, bool]:
        """Document -> whether it is a whole trainer config, whose paths are Hydra's."""
        forms = [form for form in self.vocabulary.forms if form.fact == "primary-config" and "yaml" in form.languages]
        documents = {id(scalar.document): scalar.document for scalar in self.scalars}
        return {number: any(form.fits(each.keys) for form in forms) for number, each in documents.items()}

    def _is_environment(self, box: Box | None) -> bool:
        return box is not None and box.key in ENVIRONMENT

    def _option_before(self, scalar: Scalar) -> str | None:
        """``dtype`` for the item after ``--dtype`` in a list of arguments."""
        if scalar.slot != "item" or scalar.named is None:
            return None
        match = _OPTION.fullmatch(scalar.named.value)
        return match[1].replace("-", "_") if match else None

    # --- slots -------------------------------------------------------------------------------------------------

    def _key_above(self, scalar: Scalar) -> str | None:
        """The key that the key of a value stands under; at the top the name of the file, as Hydra's groups have it."""
        box, named = scalar.box, scalar.named
        if named is not None and scalar.slot == "value" and "." in named.value:
            return last_part(named.value.rpartition(".")[0])
        if box is None or box.is_list:
            return None
        return self.stem.key if box.parent is None else box.key

    def _slot(self, scalar: Scalar) -> Slot | None:
        """The slot of a value: its key, and what the mapping stands under."""
        box = scalar.box
        if box is None or box.is_list or scalar.key is None:
            return None
        named = scalar.named
        if named is not None and "." in named.value:
            return self._dotted(named, scalar.key, box)
        above = self.stem
        if box.parent is not None:
            above = self._in_box(box.named, box.key or "", box.parent, None)
        return self._in_box(named, scalar.key, box, above)

    @staticmethod
    def _in_box(named: Scalar | None, key: str, box: Box, above: Slot | None) -> Slot:
        """A key of a mapping; one that is merged in, or is no plain scalar, is not given another name."""
        alone, is_merged = box.keys == 1, box.named is not None and box.named.value == "<<"
        if named is None or is_merged or box.is_list:
            return Slot(key, box=box.number, above=above, alone=alone, renames=False)
        quotes = named.style in ("'", '"')
        return Slot(key, named.start + quotes, named.end - quotes, box.number, above, alone)

    def _dotted(self, named: Scalar, key: str, box: Box) -> Slot:
        """The last part of a dotted key, which stands beside those of the same path before it."""
        path, end = named.value.rpartition(".")[0], named.end - (named.style in ("'", '"'))
        number = self._paths.setdefault((box.number, path), -len(self._paths) - 1_000_000)
        return Slot(key, end - len(key), end, number, Slot(last_part(path) or ""))

    def _list_slot(self, box: Box | None, path: str, start: int) -> Slot:
        """The slot of an override in a list: two overrides of one list that only differ in the last key are beside."""
        return Slot(path, start, start + len(path), -box.number if box is not None else 0)

    # --- longer text -------------------------------------------------------------------------------------------

    def _block(self, scalar: Scalar, start: int, end: int) -> Iterator[Site]:
        """A block scalar is prose or a script, unless a name is all that it holds."""
        site = self._site(scalar)
        told: set[int] = set()
        if scalar.slot == "value" and len(scalar.value) < _MAX_WORD and len(scalar.value.split()) == 1:
            yield from self._told(self._choice(spell.stripped(self.text, start, end), site, "value"), told)
        yield from self._told(self._commands(start, end, site), told)
        yield from self._words(start, end, replace(site, role="text"), told)

    def _parts(self, scalar: Scalar, start: int, end: int) -> Iterator[Site]:
        """What stands inside a scalar: an override's value, interpolation defaults, and words."""
        text = self.text[start:end]
        has_override = scalar.slot == "item" and "=" in text
        has_default = "${" in text
        if not (has_override or has_default or "=" in text or self.prose):
            return
        site = self._site(scalar)
        told: set[int] = set()
        match = _OVERRIDE.match(self.text, start, end) if has_override else None
        if match:
            site = self._override(match, site, scalar.box)
            yield from self._told(self._choice(spell.stripped(self.text, match.end(), end), site, "value"), told)
        for first, last, path in defaults(text) if has_default else ():
            key, key_path = (site.key, site.key_path) if site.key else (last_part(path), path)
            chosen = replace(site, key=key, key_path=key_path)
            span = start + first, start + last
            yield from self._told(self._choice(span, chosen, "interpolation-default"), told)
        if match is None:
            yield from self._told(self._commands(start, end, site), told)
        yield from self._words(start, end, replace(site, role="text"), told)

    def _told(self, sites: Iterator[Site], told: set[int]) -> Iterator[Site]:
        """The sites, the places of those that are a name noted."""
        for site in sites:
            if self.vocabulary.dtype_of(site.word) or self.vocabulary.attention_of(site.word):
                told.add(site.start)
            yield site

    def _override(self, match: re.Match[str], site: Site, box: Box | None) -> Site:
        """The site of the value in an override, or of a variable in a list of an environment."""
        path = match["path"]
        if "variable" in site.facts and "." not in path:
            return replace(site, key=path, key_path=path, facts=site.facts - {"in-list"}, slot=None)
        facts = site.facts - {"in-list"} | {"override"}
        if (match["mark"] or "").startswith("-"):
            facts |= {"option"}
        slot = self._list_slot(box, path, match.start("path"))
        return replace(site, key=last_part(path), key_path=path, facts=facts, slot=slot)

    def _choice(self, span: tuple[int, int], site: Site, role: str) -> Iterator[Site]:
        """The word at ``span`` as the value of a setting, if it is one word."""
        word = self.text[slice(*span)]
        if not word or len(word) > _MAX_WORD:
            return
        form = spell.form_of(word)
        found = self._part(span, form, site)
        if "override" in site.facts and "$" in word:
            found = replace(found, form=UNRESOLVED, word="")
        yield replace(found, role=role)

    def _commands(self, start: int, end: int, site: Site) -> Iterator[Site]:
        """Settings inside a longer text, such as a command of a CI workflow."""
        for match in _IN_COMMAND.finditer(self.text, start, end):
            if self.vocabulary.is_looked_for(match["value"]):
                found = self._part(match.span("value"), TEXT, site)
                key, facts = last_part(match["path"]), found.facts | {"embedded"}
                yield replace(found, role="text", key=key, key_path=match["path"], facts=facts, slot=None)
        for word in settings_in(self.text[start:end], self.vocabulary):
            if not self.vocabulary.is_looked_for(word.value):
                found = self._part((start + word.start, start + word.end), word.form, site)
                facts = found.facts | word.facts | {"embedded"}
                found = replace(found, word=word.value, key=word.key, key_path=word.path, facts=facts)
                yield replace(found, role="value", slot=None, setup=start + 1)  # set by this text, not by the document

    def _words(self, start: int, end: int, site: Site, told: Container[int] = ()) -> Iterator[Site]:
        """Each name that stands as a word between ``start`` and ``end``, but not where one is ``told`` already."""
        if site.role in ("comment", "text") and not self.prose:
            return
        for match in self.vocabulary.names.finditer(self.text, start, end):
            if match.start() not in told:
                found = self._part(match.span(), TEXT, site)
                yield replace(found, facts=site.facts) if site.role == "comment" else found

    def _part(self, span: tuple[int, int], form: str, site: Site) -> Site:
        word = self.text[slice(*span)]
        return replace(site, start=span[0], end=span[1], form=form, word=word, facts=site.facts | {"part"})
