"""Texts of other languages in a YAML file: commands, the environments that they run in, and whole files.

A job file (SkyPilot, Kubernetes, Ray, compose, a CI workflow) starts programs. All commands of one document are read
as scripts that know the same variables, and what its environments set is assigned there:

    envs: {DTYPE: bfloat16}                     ->  export DTYPE=bfloat16
    env: [{name: DTYPE, value: bfloat16}]       ->  export DTYPE=bfloat16
    command: [vllm, serve]                      ->  vllm serve --dtype $DTYPE
    args: [--dtype, $(DTYPE)]
    run: |                                      ->  python3 -m train dtype=$DTYPE
      python3 -m train dtype=$DTYPE
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from precpatch.languages.embedded import (
    MAX_DEPTH,
    Embedded,
    InnerText,
    Parts,
    inner_source,
    language_by_name,
    reader_of,
)
from precpatch.languages.shell.looks import reads_as_commands
from precpatch.languages.source import ReadError, SourceFile
from precpatch.languages.words_of_text import are_arguments
from precpatch.languages.yaml.runs import runs_of
from precpatch.languages.yaml.walk import Box, Document, Scalar
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.needles import needles_of_words

ENVIRONMENT = frozenset({"env", "envs", "env_set", "environment", "env_vars", "envVars", "variables"})
"""Keys under which the variables of a program's environment stand."""

NOTHING = frozenset({"", "null", "~"})

_COMMAND = re.compile(
    r"(?:.*[a-z0-9][_.-])?(?:commands?|cmd|args|argv|arguments|entry_?point|script|run|runcmd|setup)|.*(?:Command|Args|EntryPoint)s?"
)
"""Keys that say that a command, or the arguments of one, stand under them."""

_LINES = re.compile(r"(?:.*[_.-])?(?:commands|script|run|runcmd|setup)")
"""Keys of lists in which each item is a command, not a word of one."""

_ORDER = {"entrypoint": 0, "command": 1}
"""Lists of words in one mapping make one command: first what is started, then its arguments."""

_MAX_KEY = 200
"""A longer key is not looked at, so that hostile files stay cheap to read."""

_PROSE = frozenset({"comment", "content", "description", "doc", "docs", "help", "message", "note", "notes", "prompt"})
_PROSE |= frozenset({"readme", "summary", "text", "title", "name", "experiment_name"})
"""Keys under which a text that looks like a command is for people."""

_DOCUMENT = re.compile(r".*\.(?:md|rst|txt)", re.IGNORECASE)
_FILE = re.compile(r".*(?P<language>yaml|json)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_UPPER = re.compile(r"[A-Z_][A-Z0-9_]*")
_ITEM = re.compile(r"\[(\d+)\]$")
_SCRIPT_NEXT = re.compile(r"-[a-z]*c")
_LEADING = re.compile(r"\s*(?:-|\+|[A-Za-z_][\w/@]*\.[\w.@/]*=)")
_TEMPLATE = re.compile(r"\$?\{\{[^{}\n]*\}\}|\$\((?P<variable>[A-Z_][A-Z0-9_]*)\)")
"""What another program fills in: ``${{ matrix.dtype }}``, ``{{inputs.dtype}}``, and ``$(DTYPE)`` of Kubernetes."""

_MAPPING_LINE = re.compile(r"\s*(?:#.*|-\s.*|-|(?:- )*[\w./-]+:(?:\s.*)?)?")


class Texts(Parts):
    """The texts in one file.

    Attributes:
        taken: the scalars, by identity, that are read as another language.
    """

    def __init__(self, source: SourceFile, scalars: Sequence[Scalar], vocabulary: Vocabulary, prose: bool) -> None:
        super().__init__()
        self.source = source
        self.vocabulary = vocabulary
        self.prose = prose
        self.taken: set[int] = set()
        if source.depth >= MAX_DEPTH:
            return
        for document in _documents(scalars):
            jobs = Jobs(source.text, document)
            self._read_commands(jobs)
            for scalar in document:
                if id(scalar) not in jobs.taken and (language := _file_in(scalar)) is not None:
                    self._read_file(scalar, language)

    def add_facts(self, facts: frozenset[str]) -> None:
        """Add what the file says of all of it to every text."""
        for part in self.parts:
            part.facts |= facts

    def _holds_words(self, text: str) -> bool:
        return needles_of_words(self.vocabulary).stand_in(text.encode("utf-8", "surrogatepass"))

    def _read_commands(self, jobs: Jobs) -> None:
        text = _filled_in(jobs.inner.text)
        worth = {span for span in jobs.spans if self._holds_words(text[slice(*span)])}
        if not worth:
            return
        spans = [span for span in jobs.spans if span in worth or span in jobs.shared]
        from precpatch.languages.shell import ShellLanguage

        inner = inner_source(self.source, text)
        try:
            reading = ShellLanguage().read_parts(inner, self.vocabulary, spans, self.prose)
        except ReadError:
            return
        is_elsewhere = any(map(self.vocabulary.device_variables.match, jobs.variables))
        facts = frozenset({"other-device"}) if is_elsewhere else frozenset()
        self.parts.append(Embedded(self.source, reading, jobs.inner.runs, facts=facts))
        self.taken |= jobs.taken

    def _read_file(self, scalar: Scalar, language: str) -> None:
        """A whole file in one scalar; left to the YAML reader where it cannot be read as that."""
        runs = runs_of(self.source.text, scalar) if self._holds_words(scalar.value) else None
        if runs is None:
            return
        try:
            reading = reader_of(language).read(inner_source(self.source, scalar.value), self.vocabulary, self.prose)
        except ReadError:
            return
        self.parts.append(Embedded(self.source, reading, runs))
        self.taken.add(id(scalar))


class Jobs:
    """The commands of one document, and what its environments set, as scripts in one text.

    Attributes:
        inner: the text.
        spans: where each script stands in it.
        shared: those of them that set variables for others; another one without a word need not be parsed.
        taken: the scalars, by identity, that it is made of.
        variables: the names of what is set.
    """

    def __init__(self, text: str, scalars: Sequence[Scalar]) -> None:
        self.text = text
        self.inner = InnerText()
        self.spans: list[tuple[int, int]] = []
        self.shared: set[tuple[int, int]] = set()
        self.taken: set[int] = set()
        self.variables: list[str] = []
        self._names: dict[int, Scalar] = {}
        lists: dict[int, list[Scalar]] = {}
        for scalar in scalars:
            if scalar.slot == "item" and scalar.box is not None and _is_command_key(scalar.box.key):
                lists.setdefault(scalar.box.number, []).append(scalar)
            if scalar.slot == "value" and scalar.key == "name" and scalar.box is not None and _is_variable(scalar.box):
                self._names[scalar.box.number] = scalar
        for scalar in scalars:
            self._take_variable(scalar)
        self._end_script(0, shared=True)
        for scalar in scalars:
            if scalar.slot in ("value", "item") and id(scalar) not in self.taken and _is_command(scalar):
                self._take_script(scalar)
        for words in _joined(lists.values()):
            self._take_words(words)

    # --- environments ------------------------------------------------------------------------------------------

    def _take_variable(self, scalar: Scalar) -> None:
        """A value of an environment, written as an assignment."""
        name, start = self._variable(scalar)
        if not _NAME.fullmatch(name) or (not scalar.style and scalar.value.lower() in NOTHING):
            return
        runs = runs_of(self.text, scalar)
        if runs is None:
            return
        self.inner.stand_in(f"export {name}=")
        self.inner.word(scalar.value, runs, start)
        self.inner.stand_in("\n")
        self.variables.append(name)
        self.taken.add(id(scalar))

    def _variable(self, scalar: Scalar) -> tuple[str, int]:
        """The name of the variable that a scalar is the value of, and where the value starts in it; else nothing."""
        box = scalar.box
        if box is None or scalar.slot == "key":
            return "", 0
        if scalar.slot == "item" and box.key in ENVIRONMENT:
            name, equals, _ = scalar.value.partition("=")
            return (name, len(name) + 1) if equals else ("", 0)
        if scalar.slot == "value" and scalar.key == "value" and box.number in self._names:
            return self._names[box.number].value, 0
        if scalar.slot == "value" and not box.is_list and box.key in ENVIRONMENT and scalar.named is not None:
            return (scalar.named.value, 0) if _UPPER.fullmatch(scalar.named.value) else ("", 0)
        return "", 0

    # --- commands ----------------------------------------------------------------------------------------------

    def _take_script(self, scalar: Scalar) -> None:
        """A scalar that is a script by itself."""
        runs = runs_of(self.text, scalar)
        if runs is None:
            return
        start, text = self.inner.size, scalar.value
        if are_arguments(text):  # of a program that is named elsewhere, also on several lines
            self.inner.stand_in("x ")
            text = text.replace("\n", " ")
        elif _LEADING.match(text):
            self.inner.stand_in("x ")
        self.inner.piece(text, runs)
        self.taken.add(id(scalar))
        self._end_script(start, shared=scalar.slot == "item" and _is_key_of_lines(scalar.key))

    def _take_words(self, items: list[Scalar]) -> None:
        """Lists of words as one command."""
        start, place, box = self.inner.size, 0, items[0].box
        if items[0].value.startswith("-"):
            self.inner.stand_in("x ")
        for item in items:
            place = place if item.box is box else 0
            box = item.box
            number = _number(item)
            runs = runs_of(self.text, item) if id(item) not in self.taken else None
            if number > place or runs is None:  # an alias, a list, or what is a script by itself
                self.inner.stand_in("x ")
            place = number + 1
            if runs is not None:
                self.inner.word(item.value, runs)
                self.inner.stand_in(" ")
                self.taken.add(id(item))
        self._end_script(start)

    def _end_script(self, start: int, *, shared: bool = False) -> None:
        if self.inner.size > start:
            self.spans.append((start, self.inner.size))
            self.shared |= {self.spans[-1]} if shared else set()
            self.inner.stand_in("\n")


def _documents(scalars: Iterable[Scalar]) -> Iterator[list[Scalar]]:
    """The scalars of each document."""
    document: Document | None = None
    found: list[Scalar] = []
    for scalar in scalars:
        if scalar.document is not document and found:
            yield found
            found = []
        document = scalar.document
        found.append(scalar)
    if found:
        yield found


def _joined(lists: Iterable[list[Scalar]]) -> Iterator[list[Scalar]]:
    """Lists of words, those that stand in one mapping as one."""
    found: dict[int, list[list[Scalar]]] = {}
    for items in lists:
        box = items[0].box
        if box is not None and not _is_key_of_lines(box.key):
            above = box.parent if box.parent is not None and not box.parent.is_list else box
            found.setdefault(above.number, []).append(items)
    for group in found.values():
        yield [item for items in sorted(group, key=_order) for item in items]


def _order(items: list[Scalar]) -> int:
    return _ORDER.get((items[0].box.key if items[0].box else None) or "", 2)


def _number(item: Scalar) -> int:
    """Which item of its list a scalar is."""
    match = _ITEM.search(item.key_path or "")
    return int(match[1]) if match else 0


def _is_variable(box: Box) -> bool:
    """Whether a mapping is an item of a list of variables: ``- name: X``."""
    return box.parent is not None and box.parent.is_list and box.parent.key in ENVIRONMENT


def _is_command_key(key: str | None) -> bool:
    return key is not None and len(key) <= _MAX_KEY and _COMMAND.fullmatch(key) is not None


def _is_key_of_lines(key: str | None) -> bool:
    return key is not None and len(key) <= _MAX_KEY and _LINES.fullmatch(key) is not None


def _is_command(scalar: Scalar) -> bool:
    """Whether a scalar is a script by itself: by the key that it stands under, or because it plainly is one."""
    value = scalar.value
    is_line = scalar.slot == "item" and _is_key_of_lines(scalar.key)
    is_word = len(value.split(None, 1)) < 2
    if is_word and not ("=" in value if is_line else scalar.slot == "value" and value.startswith("-")):
        return False
    if scalar.slot == "item":
        follows = scalar.named is not None and _SCRIPT_NEXT.fullmatch(scalar.named.value) is not None
        if follows or is_line:
            return True
    elif _is_command_key(scalar.key):
        return True
    return not _is_for_people(scalar) and (reads_as_commands(value) or are_arguments(value))


def _is_for_people(scalar: Scalar) -> bool:
    """Whether a scalar stands under a key that says that people are to read it."""
    name = scalar.named.value if scalar.named is not None and scalar.slot == "value" else ""
    if len(scalar.key or "") > _MAX_KEY or len(name) > _MAX_KEY:
        return True
    return (scalar.key or "").lower() in _PROSE or _DOCUMENT.fullmatch(name) is not None


def _file_in(scalar: Scalar) -> str | None:
    """The language of a whole file that a scalar holds, by the name that it stands under or by its lines."""
    is_block = scalar.style in ("|", ">")
    if scalar.slot != "value" or not (is_block or scalar.value.lstrip().startswith("{")):
        return None
    name = scalar.named.value if scalar.named is not None else ""
    if len(name) > _MAX_KEY:
        return None
    if (language := language_by_name(name)) is not None:
        return language
    if match := _FILE.fullmatch(name):
        return match["language"].lower()
    if (
        not _is_for_people(scalar)
        and "\n" in scalar.value.strip()
        and all(map(_MAPPING_LINE.fullmatch, scalar.value.splitlines()))
    ):
        return "yaml"
    return None


def _filled_in(text: str) -> str:
    """A text in which what another program fills in is a variable of the same length."""

    def variable(match: re.Match[str]) -> str:
        name = match["variable"]
        return f"${{{name}}}" if name else "$" + "_" * (len(match[0]) - 1)

    return _TEMPLATE.sub(variable, text)
