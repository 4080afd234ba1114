"""Files that are near to a script: Dockerfiles, Makefiles, files of variables. The shell reader reads what is in them.

Their commands and variables are put together as scripts that know the same variables, every character with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from precpatch.languages.embedded import Embedded, InnerText, Run, inner_source
from precpatch.languages.mention import Mention
from precpatch.languages.shell import ShellLanguage
from precpatch.languages.source import BY_LOOK, ReadError, SourceFile
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.needles import needles_of_words

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_INSTRUCTION = re.compile(r"[ \t]*(?P<word>[A-Za-z]+)[ \t]+(?:--[\w-]+(?:=\S*)?[ \t]+)*")
_GOES_ON = re.compile(r"\\[ \t]*(?:\r\n|\n|\r)?\Z")
_HEREDOC = re.compile(r"<<-?[\"']?(?P<end>\w+)[\"']?")
_STRING = re.compile(r'"(?P<text>(?:[^"\\\r\n]|\\.)*)"')
_QUOTED = re.compile(r""""(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'""")
_OLD_VARIABLE = re.compile(r"(?P<name>[A-Za-z_]\w*)[ \t]+(?=[^\s=])")
_ASSIGNS = re.compile(r"[ \t]*(?:export[ \t]+|override[ \t]+|set[ \t]+)*(?P<name>[A-Za-z_]\w*)[ \t]*[?:+!]{0,2}=[ \t]*")
_REFERENCE = re.compile(r"\$\((?P<name>[A-Za-z_]\w*)\)")
_RECIPE = re.compile(r"\t[ \t]*[@+-]*")


class _Scripts:
    """The scripts of one file in one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.inner = InnerText()
        self.spans: list[tuple[int, int]] = []

    def script(self, start: int, end: int, head: str = "", code: str | None = None) -> None:
        """The characters ``start`` to ``end`` of the file as a script, read as ``code`` of the same length."""
        begin = self.inner.size
        self.inner.stand_in(head)
        code = self.text[start:end] if code is None else code
        self.inner.piece(code, [Run(0, start, end)])
        self._end(begin)

    def variable(self, name: str, start: int, end: int) -> None:
        """An assignment whose value is the characters ``start`` to ``end`` of the file."""
        begin = self.inner.size
        self.inner.stand_in(f"export {name}=")
        value = _REFERENCE.sub(r"${\g<name>}", self.text[start:end])
        if value[:1] in ("'", '"') and value[-1:] == value[:1]:
            self.inner.piece(value, [Run(0, start, end)])
        else:
            self.inner.word(value, [Run(0, start, end)])
        self._end(begin)

    def words(self, spans: Sequence[tuple[int, int]]) -> None:
        """The words at ``spans`` as one command."""
        begin = self.inner.size
        for start, end in spans:
            self.inner.word(self.text[start:end], [Run(0, start, end)])
            self.inner.stand_in(" ")
        self._end(begin)

    def _end(self, begin: int) -> None:
        self.spans.append((begin, self.inner.size))
        self.inner.stand_in("\n")


def _logical_lines(text: str, is_comment: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Each line with those that it goes on in; comments between them are part of it."""
    start, goes_on = 0, False
    for match in _LINE.finditer(text):
        line = match[0]
        if goes_on and (is_comment(line) or not line.strip()) and match.end() < len(text):
            continue
        if not goes_on:
            start = match.start()
        goes_on = _GOES_ON.search(line) is not None and not is_comment(line)
        if not goes_on or match.end() == len(text):
            yield start, match.end()
            goes_on = False


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _without_comments(text: str) -> str:
    """A command without the comments and empty lines between its own lines; every character keeps its place."""
    lines = (each[0] for each in _LINE.finditer(text))
    return "".join(" " * len(line) if _is_comment(line) or not line.strip() else line for line in lines)


def _dockerfile(text: str) -> _Scripts:
    found = _Scripts(text)
    after = 0
    for start, end in _logical_lines(text, _is_comment):
        match = _INSTRUCTION.match(text, start, end)
        if start < after or match is None:
            continue
        first, word = match.end(), match["word"].upper()
        if word in ("HEALTHCHECK", "ONBUILD"):
            match = _INSTRUCTION.match(text, first, end)
            first, word = (match.end(), match["word"].upper()) if match else (first, word)
        if word == "RUN" and (here := _HEREDOC.search(text, first, end)):
            closed = re.compile(rf"^[\t ]*{here['end']}[ \t]*\r?$", re.MULTILINE).search(text, end)
            after = closed.end() if closed else len(text)
            found.script(
                end if here.start() == first else first, closed.start() if here.start() == first and closed else after
            )
        elif word in ("RUN", "CMD", "ENTRYPOINT") and text.startswith("[", first):
            found.words([each.span("text") for each in _STRING.finditer(text, first, end)])
        elif word in ("RUN", "CMD", "ENTRYPOINT"):
            found.script(first, end, code=_without_comments(text[first:end]))
        elif word == "ENV" and (old := _OLD_VARIABLE.match(text, first, end)):
            found.variable(old["name"], old.end(), old.end() + len(text[old.end() : end].rstrip()))
        elif word in ("ENV", "ARG"):
            found.script(first, end, "export ", _without_comments(text[first:end]))
    return found


def _makefile(text: str) -> _Scripts:
    found = _Scripts(text)
    for start, end in _logical_lines(text, lambda line: False):
        if recipe := _RECIPE.match(text, start, end):
            code = _REFERENCE.sub(r"${\g<name>}", text[recipe.end() : end]).replace("$$", " $")
            found.script(recipe.end(), end, code=code)
        elif match := _ASSIGNS.match(text, start, end):
            found.variable(match["name"], *_value(text, match.end(), end, "#"))
    return found


def _variables(text: str) -> _Scripts:
    found = _Scripts(text)
    for line in _LINE.finditer(text):
        if match := _ASSIGNS.match(text, line.start(), line.end()):
            found.variable(match["name"], *_value(text, match.end(), line.end(), " #"))
    return found


def _value(text: str, start: int, end: int, comment: str) -> tuple[int, int]:
    """Where a value stands between two places: in its quotes, or up to a comment."""
    if quoted := _QUOTED.match(text, start, end):
        return quoted.span()
    value = text[start:end].split(comment, 1)[0]
    return start, start + len(value.rstrip())


_KINDS: tuple[tuple[re.Pattern[str], Callable[[str], _Scripts]], ...] = (
    (re.compile(r"(?:docker|container)file(?:[._-].*)?|.*\.(?:docker|container)file", re.IGNORECASE), _dockerfile),
    (re.compile(r"(?:GNU)?makefile|.*\.mk", re.IGNORECASE), _makefile),
    (re.compile(r".*\.env(?:\..*)?", re.IGNORECASE), _variables),
)
"""Names of files that are near to a script, and how their scripts are found."""


class NearLanguage(ShellLanguage):
    """The reader of one kind of such files."""

    suffixes: tuple[str, ...] = ()

    def __init__(self, scripts: Callable[[str], _Scripts]) -> None:
        self._scripts = scripts

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> NearReading:  # type: ignore[override]
        """Read the commands and variables of a file.

        Raises:
            ReadError: a script in it is nested too deeply.
        """
        found = self._scripts(source.text)
        inner = replace(inner_source(source, found.inner.text), depth=source.depth)
        needles = needles_of_words(vocabulary)
        code = found.inner.text
        spans = [
            (start, end)
            for start, end in found.spans
            if code.startswith("export ", start) or needles.stand_in(code[start:end].encode())
        ]  # a command without a word need not be parsed; a variable may be taken by one that has one
        reading = self.read_parts(inner, vocabulary, spans, text)
        return NearReading(
            source, Embedded(source, reading, found.inner.runs, facts=frozenset({BY_LOOK})), self, vocabulary
        )


class NearReading:
    """One such file that was read."""

    def __init__(self, source: SourceFile, part: Embedded, language: NearLanguage, vocabulary: Vocabulary) -> None:
        self.source = source
        self._part = part
        self._language = language
        self._vocabulary = vocabulary

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """Every mention, in order of position."""
        return sorted(self._part.mentions, key=lambda mention: (mention.start, mention.end))

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits of the reader that told of it."""
        return self._part.rewrite(mention, value)

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits of the reader that told of it."""
        return self._part.extend(mention, value)

    def check(self, data: bytes) -> str | None:
        """Read the file again after an edit; None when that can be done."""
        try:
            self._language.read(self._language.open(self.source.path, data), self._vocabulary)
        except ReadError as error:
            return str(error)
        return None


def near_language(name: str) -> NearLanguage | None:
    """The reader for a file that is near to a script, by its name without its folder."""
    return next((NearLanguage(scripts) for pattern, scripts in _KINDS if pattern.fullmatch(name)), None)
