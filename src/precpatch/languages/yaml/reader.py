"""Reads YAML: every scalar, key and comment that speaks of a dtype, an attention implementation or a switch.

Commands, the environments that they run in, and whole files in a scalar (``texts.py``) are read by the readers of what
they are; their mentions keep that language.

Facts that a mention can carry, besides those of the forms (accelerate, megatron, primary-config):
    aliased-elsewhere: its anchor is also used under a key of another name.
    argv: an item of a list that follows an option such as "--dtype".
    embedded: an override inside a longer text, such as a command.
    escaped: a quoted scalar whose text shows the value only after its escapes are undone.
    generated: the file says that it is generated, or its name begins with ``_generated_``.
    in-list: it is an item of a list, and not an override.
    option: an override with leading dashes, such as ``--dtype=bfloat16``; always with ``override``.
    other-device: the path or a ``device`` key in the file names a device that is not an NVIDIA GPU.
    override: a list item of the form ``path.to.key=value``, of which it is the value.
    part: it is only a part of its scalar, without the quotes of that scalar.
    variable: a variable of the environment, by the key that it stands under.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

from precpatch.languages import spell
from precpatch.languages.base import SiteReading
from precpatch.languages.mention import Mention
from precpatch.languages.site import BOOLEAN, Site
from precpatch.languages.source import ReadError, SourceFile
from precpatch.languages.tell import Teller
from precpatch.languages.yaml.sites import Sites
from precpatch.languages.yaml.texts import Texts
from precpatch.languages.yaml.walk import walk
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary

_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_ESCAPE = re.compile(rb"\\[xuU][0-9a-fA-F]{2}")
_PLAIN = re.compile(r"[A-Za-z_][\w.+/-]*", re.ASCII)
_GENERATED = re.compile(
    r"@generated|auto(?:matically)?[- ]?generated|generated (?:by|from|via|with)\b|do not (?:edit|modify)",
    re.IGNORECASE,
)


class YamlLanguage:
    """The reader of YAML files: Hydra configs, DeepSpeed and accelerate settings, CI workflows."""

    name = "yaml"
    suffixes: tuple[str, ...] = (".yaml", ".yml")

    def open(self, path: str, data: bytes) -> SourceFile:
        """Find the encoding of ``data``: UTF-8, or UTF-16 where a byte order mark says so.

        Raises:
            ReadError: the bytes are not text in that encoding.
        """
        encoding, bom = _encoding(data)
        try:
            text = data[bom:].decode(encoding)
        except UnicodeDecodeError as error:
            offset = bom + error.start
            codec = "UTF-16" if encoding in _UTF16.values() else "UTF-8"
            raise ReadError(f"not text: byte 0x{data[offset]:02x} at offset {offset} is not {codec}") from None
        source = SourceFile(path, data, encoding, bom, _file_facts(path, text))
        if "\0" in text:
            raise ReadError(f"not text: byte 0x00 at offset {source.offset(text.index(chr(0)))}")
        return source

    def hides(self, data: bytes) -> bool:
        """Whether a word can stand in the text without standing in the bytes: in UTF-16, or as escapes."""
        return data[:2] in _UTF16 or _ESCAPE.search(data) is not None

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> YamlReading:
        """Read a file; comments and longer text only with ``text``.

        Raises:
            ReadError: the file does not parse.
        """
        return YamlReading(source, vocabulary, text)


class YamlReading(SiteReading):
    """One YAML file that was read."""

    def __init__(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> None:
        super().__init__(source, vocabulary, Teller(source, vocabulary, YamlLanguage.name, quiet=True))
        self._keys: set[tuple[int, str]] = set()
        scalars = walk(source)
        for scalar in scalars:
            if scalar.slot == "key" and scalar.box is not None:
                self._keys.add((scalar.box.number, scalar.value))
        self.texts = Texts(source, scalars, vocabulary, text)
        sites = Sites(source, scalars, vocabulary, text, self.texts.taken)
        self.texts.add_facts(sites.facts)
        self._scalars = {scalar.start: scalar for scalar in scalars if scalar.slot != "key"}
        self.tell(sites)

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """Every mention, in order of position; those of the texts in other languages keep their language."""
        own = [mention for mention, _ in self._told.values()]
        return sorted([*own, *map(self._anchored, self.texts.mentions)], key=lambda each: (each.start, each.end))

    def _anchored(self, mention: Mention) -> Mention:
        """A mention of a text; an alias of its scalar may stand where it means something else."""
        at = bisect_right(self._starts, self.source.index(mention.start)) - 1
        elsewhere = at >= 0 and self._scalars[self._starts[at]].elsewhere
        return replace(mention, facts=mention.facts | {"aliased-elsewhere"}) if elsewhere else mention

    @cached_property
    def _starts(self) -> list[int]:
        return sorted(self._scalars)

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make ``mention`` say ``value``; of a text in another language those of its reader."""
        part = self.texts.of(mention)
        if part is None:
            return super().rewrite(mention, value)
        return tuple(map(self._still_text, part.rewrite(mention, value)))

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """In another language the edits of its reader; none else, for YAML declares no set of allowed values."""
        part = self.texts.of(mention)
        return part.extend(mention, value) if part is not None else ()

    def _still_text(self, edit: Edit) -> Edit:
        """An edit that makes a plain scalar something that is no string puts it in quotes."""
        scalar = self._scalars.get(self.source.index(edit.start))
        new = edit.new.decode(self.source.encoding)
        if scalar is None or scalar.style or self.source.offset(scalar.end) != edit.end:
            return edit
        if not _is_text(scalar.value) or _is_text(new):
            return edit
        return replace(edit, new=f"'{new}'".encode(self.source.encoding))

    def holds(self, box: int, key: str) -> bool:
        """Whether the mapping has this key, whatever stands under it."""
        return (box, key) in self._keys

    def turned(self, site: Site, value: str) -> tuple[Edit, ...] | None:
        """The edit that turns a switch; None for one of several values that a sweep gives."""
        return None if _is_one_of_several(site) else super().turned(site, value)

    def written(self, site: Site, mention: Mention, value: str) -> str | None:
        """A value in the quotes that are there; a plain scalar that would no longer be a string is quoted.

        None for a text of arguments, and for one of several values that a sweep gives.
        """
        if "embedded" in site.facts or _is_one_of_several(site):
            return None
        text = mention.text
        if site.form == BOOLEAN and text[:1] in ("'", '"') and spell.is_boolean(value):  # in quotes false would be true
            return spell.boolean(site.word, value)
        quote = text[0] if text[:1] in ("'", '"') else ""
        new = spell.word(self.vocabulary, mention, text.strip(quote) if quote else text, value)
        if quote == '"':
            return f'"{new.translate({34: chr(92) + chr(34), 92: chr(92) * 2})}"'
        if quote or self._needs_quotes(mention, new):
            return "'{}'".format(new.replace("'", "''"))
        return new

    def _needs_quotes(self, mention: Mention, new: str) -> bool:
        """Whether ``new`` would not be a string as a plain scalar that takes the place of the mention."""
        if mention.kind == "switch" or "part" in mention.facts or mention.role == "comment":
            return False
        return not _is_text(new)

    def check(self, data: bytes) -> str | None:
        """Parse the file again after an edit; None when it is well, else what is wrong."""
        try:
            walk(YamlLanguage().open(self.source.path, data))
        except ReadError as error:
            return str(error)
        return None


def _is_one_of_several(site: Site) -> bool:
    """Whether a value is one of those that a sweep gives a setting, one a run."""
    return site.role == "value" and "in-list" in site.facts


def _is_text(word: str) -> bool:
    """Whether a word is a string as a plain scalar: not a number, a boolean or nothing."""
    return _PLAIN.fullmatch(word) is not None and word.lower() not in spell.NOT_STRINGS


def _encoding(data: bytes) -> tuple[str, int]:
    """The codec of a YAML file and the length of its byte order mark."""
    if data[:2] in _UTF16:
        return _UTF16[data[:2]], 2
    return "utf-8", 3 if data.startswith(b"\xef\xbb\xbf") else 0


def _file_facts(path: str, text: str) -> frozenset[str]:
    """What the name and the head of a file say of all of it."""
    head = [line for line in text[:4096].splitlines()[:10] if line.lstrip().startswith("#")]
    is_generated = PurePosixPath(path).name.startswith("_generated_") or any(map(_GENERATED.search, head))
    return frozenset({"generated"}) if is_generated else frozenset()
