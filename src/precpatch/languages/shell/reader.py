"""Reads shell scripts: Hydra overrides, options, variables, dicts in words, and files in here-documents.

The tree of tree-sitter's bash grammar says where the words are and what they belong to; what stands inside one word
(``+a.b.dtype="${DTYPE:-bfloat16}"``) is read here. Strings that hold words (``CONFIG="a.b=c d.e=f"``, ``bash -c``)
are parsed once more, and Python, YAML and JSON in a here-document are read by their readers.

A value that a variable is given (``sp_size=4``) is told where it stands, as that of the settings that take the
variable (``actor.ulysses_sequence_parallel_size=${sp_size}``); one that does not stand in the script is told where it
is taken.

Facts that a mention can carry:
    argument: a bare name among the arguments of a command.
    asks-bf16, asks-flash-attention: it stands in a branch that tests for that name.
    capability-guard: it stands in a branch that is only taken where the compute capability is that of native bfloat16.
    cli-flag: a switch given as an option that stands alone, such as ``--bf16``.
    default: it is the default of a variable, as in ``${DTYPE:-bfloat16}``.
    exported: a variable that programs see: ``export``, ``env`` or set in front of a command.
    given: a setting that takes what does not stand in the script: an argument, the environment, a command's output.
    heredoc: it stands in a here-document or in ``python -c``. What the Python reader tells there has the language
        "python" and the facts of that reader as well.
    in-list: an item of an array or of a ``for``.
    install: a requirement of a package installer such as pip.
    option: the value of ``--name value`` or ``--name=value``.
    other-device: the file, or the branch around it, is for a device that is not an NVIDIA GPU.
    override: the value of a Hydra override ``path.to.key=value``; after ``~``, which takes a key away, it compares.
    shared: the value of a variable that something else takes as well; as a switch it is not changed.
    variable: the value of a variable.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest

from precpatch.languages import spell
from precpatch.languages.base import SiteReading, path_facts
from precpatch.languages.embedded import MAX_DEPTH, Embedded, Parts, Run, inner_source, reader_of
from precpatch.languages.mention import Mention
from precpatch.languages.shell.grammar import BashTree, Span
from precpatch.languages.shell.script import Region, Script, box_span
from precpatch.languages.shell.variables import Variables
from precpatch.languages.site import TEXT, Site, Slot
from precpatch.languages.source import ReadError, SourceFile
from precpatch.languages.tell import Teller
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary

_ASCII = bytes(range(128)) + b"_" * 128
_EXPANSION = re.compile(r"\$\{[^}\n]*\}|\$\([^)\n]*\)|\$\w+")
_NAME = re.compile(r"[\w.-]+", re.ASCII)
_DASHES = re.compile(r"-+")
_TITLES = {"python": "Python", "yaml": "YAML", "json": "JSON"}
_SAFE = re.compile(r"[\w.,+/:@%-]+", re.ASCII)


MAX_NAME = 200
"""The parts of a name with more characters than this are not looked at."""


class ShellLanguage:
    """The reader of bash and sh scripts: launch scripts, tests, installers."""

    name = "shell"
    suffixes: tuple[str, ...] = (".sh", ".bash", ".slurm", ".sbatch")

    def open(self, path: str, data: bytes) -> SourceFile:
        """The file as UTF-8, or byte for byte as Latin-1 where it is not: bash does not ask.

        Raises:
            ReadError: it holds null bytes.
        """
        if b"\0" in data:
            raise ReadError(f"not text: byte 0x00 at offset {data.index(0)}")
        bom = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        try:
            data.decode()
        except UnicodeDecodeError:
            return SourceFile(path, data, "latin-1", 0)
        return SourceFile(path, data, "utf-8", bom)

    def hides(self, data: bytes) -> bool:
        """Whether a word can stand in the text without standing in the bytes: never."""
        return False

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> ShellReading:
        """Read a script; with ``text`` also the words in comments, names and prose.

        Raises:
            ReadError: it is nested too deeply.
        """
        return ShellReading(source, vocabulary, text)

    def read_parts(
        self, source: SourceFile, vocabulary: Vocabulary, parts: Sequence[Span], text: bool = False
    ) -> ShellReading:
        """Read several scripts that stand in one text, at ``parts``, and know the same variables.

        Raises:
            ReadError: one is nested too deeply.
        """
        return ShellReading(source, vocabulary, text, parts)


class ShellReading(SiteReading):
    """One script that was read."""

    def __init__(
        self, source: SourceFile, vocabulary: Vocabulary, text: bool = False, parts: Sequence[Span] | None = None
    ) -> None:
        super().__init__(source, vocabulary, Teller(source, vocabulary, ShellLanguage.name))
        self.code = _code(source)
        if parts is None:
            self.script = Script(self.code, vocabulary)
        else:
            spans = [(source.offset(start) - source.bom, source.offset(end) - source.bom) for start, end in parts]
            self.script = Script.joined(self.code, vocabulary, spans)
        self.facts = path_facts(source, vocabulary)
        self._text = text
        self.broken: list[str] = []
        self._elsewhere = _Spans(self.script.elsewhere)
        self.tell(self._sites())
        self._parts = Parts(part for region in self.script.regions if (part := self._embedded(region)) is not None)

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """Every mention, in order of position."""
        found = [mention for mention, _ in self._told.values()]
        found += self._parts.mentions
        if self._text:
            found += self._leftovers(found)
        return sorted(found, key=lambda mention: (mention.start, mention.end))

    def _character(self, index: int) -> int:
        """The character of the text that stands at byte ``index`` after the byte order mark."""
        return self.source.index(index + self.source.bom)

    def _sites(self) -> Iterator[Site]:
        """The sites of the script; a value that settings take by a variable as theirs, and as the variable's own."""
        own = dict(self.script.sites)
        uses = [use for use in self.script.uses if not self._elsewhere.hold(use.site.start)] or self.script.uses
        for site in Variables(self.script.all).sites(uses):
            own[site.start] = self._joined(site, own.get(site.start))
        return (self._placed(site) for site in own.values() if any(map(self.teller.name, (site, *site.also))))

    def _joined(self, site: Site, known: Site | None) -> Site:
        """A value as settings take it, and as the variable's own name says; of the environment, that comes first."""
        if known is None or (known.key or "").lower() == (site.key or "").lower():
            return site
        setting = self.teller.setting(known)
        if setting is None:
            return site
        if setting.variable:
            return replace(known, used_by=site.used_by, also=(replace(site, also=()), *site.also))
        return replace(site, also=(*site.also, known))

    def tell(self, sites: Iterable[Site]) -> None:
        """Take over the sites that say something, for one of the settings that take the value if not for the first."""
        for site in sites:
            told = [(mention, each) for each in (site, *site.also) if (mention := self.teller.tell(each)) is not None]
            if told:
                mention, each = told[0]
                if len(told) > 1 or each is not site:
                    mention = replace(mention, used_by=site.used_by, also=tuple(other for other, _ in told[1:]))
                self._told.setdefault((mention.start, mention.kind), (mention, each))

    def _placed(self, site: Site) -> Site:
        """A site of the script with its place in the text of the file."""
        facts = site.facts | self._facts_at(site.start)
        start, end = self._character(site.start), self._character(site.end)
        also = tuple(map(self._placed, site.also))
        return replace(site, start=start, end=end, slot=self._placed_slot(site.slot), facts=facts, also=also)

    def _placed_slot(self, slot: Slot | None) -> Slot | None:
        if slot is None or slot.start < 0:
            return slot
        start, end = self._character(slot.start), self._character(slot.end)
        return replace(slot, start=start, end=end, above=self._placed_slot(slot.above))

    def _facts_at(self, index: int) -> frozenset[str]:
        """The facts of the file and of the branch at ``index``."""
        return self.facts | {"other-device"} if self._elsewhere.hold(index) else self.facts

    # --- other languages ---------------------------------------------------------------------------------------

    def _embedded(self, region: Region) -> Embedded | None:
        """A text as its reader reads it; Python indented as a whole as a block. None where it does not parse."""
        if self.source.depth >= MAX_DEPTH:
            return None
        start, end = self._character(region.start), self._character(region.end)
        text = self.source.text[start:end]
        if region.expands:
            text = _EXPANSION.sub(lambda match: "x" * len(match[0]), text)
        if region.language != "python" and "\n" not in text:  # of printf, or of echo -e
            text = text.replace("\\n", " \n")
        elif text.endswith("\\n"):
            text = text[:-2] + " \n"
        for head in ("", "if 1:\n") if region.language == "python" else ("",):
            inner = inner_source(self.source, head + text)
            try:
                reading = reader_of(region.language).read(inner, self.vocabulary, self._text)
            except ReadError:
                continue
            facts = region.facts | self._facts_at(region.start)
            return Embedded(self.source, reading, [Run(len(head), start, end)], facts=facts, scope=region.scope)
        self.broken.append(region.language)
        return None

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits that make ``mention`` say ``value`` in its own spelling; none where that cannot be done."""
        part = self._part_of(mention)
        return part.rewrite(mention, value) if part is not None else super().rewrite(mention, value)

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """In Python the edits of its reader; none else, for a script declares no set of allowed values."""
        part = self._part_of(mention)
        return part.extend(mention, value) if part is not None else ()

    def _part_of(self, mention: Mention) -> Embedded | None:
        """The text of another language that a mention was told of; a script may stand inside that again."""
        if mention.language == ShellLanguage.name and self.site_of(mention) is not None:
            return None
        return self._parts.of(mention)

    # --- writing -----------------------------------------------------------------------------------------------

    def written(self, site: Site, mention: Mention, value: str) -> str | None:
        """The value as one plain word; None where it would not be one, or where a flag or a package has none."""
        if mention.kind == "import" or "cli-flag" in mention.facts or not _may_change(site, mention):
            return None
        new = spell.word(self.vocabulary, mention, mention.text, value)
        return new if _SAFE.fullmatch(new) else None

    def turned(self, site: Site, value: str) -> tuple[Edit, ...] | None:
        """The edit that turns a switch; None where its value is that of something else as well."""
        return super().turned(site, value) if site.facts.isdisjoint({"shared", "in-list", "given"}) else None

    def renamed(self, slot: Slot, key: str) -> tuple[Edit, ...] | None:
        """The switch under the name of its twin; None where that name is used already in the same command."""
        start, end = box_span(slot.box)
        places = self._names.get(key, ())
        at = bisect_left(places, start)
        if at < len(places) and places[at] < end:
            return None
        return super().renamed(slot, key)

    @cached_property
    def _names(self) -> dict[str, list[int]]:
        """Where each key, option or path of the script stands, also without the dashes or the ``no-`` before it."""
        names: dict[str, list[int]] = {}
        for match in _NAME.finditer(self.code):
            word = match[0]
            starts = [0, *(dash.end() for dash in _DASHES.finditer(word))] if len(word) <= MAX_NAME else [0]
            for start in dict.fromkeys(starts):
                names.setdefault(word[start:], []).append(match.start() + start)
        return names

    def check(self, data: bytes) -> str | None:
        """Parse the changed script again, and the Python in it; None when neither is worse than before."""
        try:
            source = ShellLanguage().open(self.source.path, data)
            after = ShellReading(source, self.vocabulary) if self.script.regions else None
            tree = after.script.tree if after is not None else BashTree(_code(source))
        except ReadError as error:
            return str(error)
        faults = tree.faults()
        if len(faults) > len(self.script.tree.faults()):
            line = data[: faults[-1]].count(b"\n") + 1
            return f"line {line}: not a shell script that bash can parse"
        if after is not None and len(after.broken) > len(self.broken):
            language = next((new for new, old in zip_longest(after.broken, self.broken) if new != old), "")
            return f"the {_TITLES[language or after.broken[-1]]} in it no longer parses"
        return None

    # --- prose -------------------------------------------------------------------------------------------------

    def _leftovers(self, mentions: Sequence[Mention]) -> Iterator[Mention]:
        """A mention for each name that none of ``mentions`` covers."""
        bom = self.source.bom
        taken = _Spans((mention.start - bom, mention.end - bom) for mention in mentions)
        slots = (site.slot for site in self.script.sites.values() if site.slot is not None)
        keys = _Spans((slot.start, slot.end) for slot in slots)
        for match in self.vocabulary.names_in(self.code):
            if taken.hold(match.start()):
                continue
            role = "key" if keys.hold(match.start()) else self.script.prose_role(match.start())
            mention = self.teller.tell(self._placed(Site(*match.span(), TEXT, match[0], role)))
            if mention is not None:
                yield mention


def _code(source: SourceFile) -> str:
    """The script with one character for each byte: that of the byte in ASCII, else one of a name."""
    return source.data[source.bom :].translate(_ASCII).decode("ascii")


def _may_change(site: Site, mention: Mention) -> bool:
    """Whether the value can be written anew: not where it is one of several in a row, or what else takes it minds."""
    if "given" in site.facts or (site.role == "value" and "in-list" in site.facts):
        return False
    return mention.kind != "switch" or "shared" not in site.facts


class _Spans:
    """Spans, asked whether one of them holds a place."""

    def __init__(self, spans: Iterator[Span] | set[Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def hold(self, at: int) -> bool:
        """Whether one of them holds the place."""
        last = bisect_right(self._starts, at) - 1
        return last >= 0 and at < self._ends[last]
