"""Reads Jupyter notebooks: the code cells of a Python notebook, all as one module.

Names hold from one cell to the next, so the cells are joined and the Python reader reads them at once; what it finds,
and the edits that it makes, are carried back to the characters of the JSON file. Outputs, markdown and metadata are
not read. Positions and ``text`` are those of the JSON file, escapes included.

Lines for IPython (``%magic``, ``!command``, ``help?``) and cells for another program (``%%bash``) are blanked out
before the code is parsed, and so is a cell that is not Python. The facts are those of the Python reader.

The commands of the shell (``!command``, ``%pip``, the cells ``%%bash`` and ``%%sh``) and the variables that ``%env``
sets are joined as well, and the shell reader reads them; what ``%%writefile`` writes is read by the reader of that
file. Their mentions keep the language that they are in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

from precpatch.languages.base import Language, Reading
from precpatch.languages.embedded import Embedded, Parts, Run, inner_source, language_by_name, reader_of
from precpatch.languages.json import JsonBytes, open_json
from precpatch.languages.mention import Mention
from precpatch.languages.near import near_language
from precpatch.languages.notebook.cells import Written, module_of
from precpatch.languages.plain import PlainLanguage, may_decide
from precpatch.languages.python import PythonLanguage
from precpatch.languages.shell import ShellLanguage
from precpatch.languages.source import ReadError, SourceFile
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.needles import needles_of_words

_LEFT = ": not parsed, so left alone"


class NotebookLanguage(JsonBytes):
    """The reader of Jupyter notebooks."""

    name = "notebook"
    suffixes: tuple[str, ...] = (".ipynb",)

    def read(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> NotebookReading:
        """Read the code cells; with ``text`` also what decides nothing.

        Raises:
            ReadError: the file is not JSON, or a cell is not Python, and could hold a mention.
        """
        return NotebookReading(source, vocabulary, text)


class NotebookReading:
    """One notebook that was read."""

    def __init__(self, source: SourceFile, vocabulary: Vocabulary, text: bool = False) -> None:
        self.source = source
        self._vocabulary = vocabulary
        self.module = module_of(source)
        needles = needles_of_words(vocabulary)
        for cell in self.module.broken:
            if needles.stand_in(cell.code.encode()):
                raise ReadError(cell.complaint)
        python = PythonLanguage().read(self.module.python, vocabulary, text)
        shell = ShellLanguage().read(self.module.commands, vocabulary, text)
        parts = [self._embedded(python, self.module.runs), self._embedded(shell, self.module.runs)]
        for file in self.module.written:
            if needles.stand_in(file.text.encode()) and may_decide(file.name):
                parts.append(self._embedded(_read(source, file, vocabulary, text), file.runs))
        self._parts = Parts(parts)

    def _embedded(self, reading: Reading, runs: Sequence[Run]) -> Embedded:
        return Embedded(self.source, reading, runs, unescape=_unescaped, escape=_escaped)

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """Every mention in the code cells, in order of position."""
        return sorted(self._parts.mentions, key=lambda mention: (mention.start, mention.end))

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits of the reader that told of it, in the JSON file; none where one would cross the strings of a cell.

        Raises:
            ValueError: the value does not stand in one piece.
        """
        part = self._parts.of(mention)
        return part.rewrite(mention, value) if part is not None else ()

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """Add ``value`` to the literal that the mention stands in; none where that crosses the strings of a cell."""
        part = self._parts.of(mention)
        return part.extend(mention, value) if part is not None else ()

    def check(self, data: bytes) -> str | None:
        """Parse the file and its cells again; None when all is as well as it was, else what is wrong."""
        try:
            module = module_of(open_json(self.source.path, data))
            for file, before in zip(module.written, self.module.written, strict=False):
                if file.text != before.text:
                    _read(self.source, file, self._vocabulary)
        except ReadError as error:
            return str(error)
        known = {cell.number for cell in self.module.broken}
        return next((cell.complaint for cell in module.broken if cell.number not in known), None)


def _language_of(name: str) -> Language | None:
    language = language_by_name(name)
    return reader_of(language) if language is not None else near_language(PurePosixPath(name).name)


def _read(source: SourceFile, file: Written, vocabulary: Vocabulary, text: bool = False) -> Reading:
    """The reading of a file that a cell writes; of a kind that no reader knows, what single lines of it say.

    Raises:
        ReadError: it does not parse.
    """
    try:
        inner = replace(inner_source(source, file.text), path=file.name)
        return (_language_of(file.name) or PlainLanguage()).read(inner, vocabulary, text)
    except ReadError as error:
        raise ReadError(f"{file.where}, which it writes: {str(error).removesuffix(_LEFT)}{_LEFT}") from None


def _unescaped(raw: str) -> str:
    """What a piece of a JSON string says."""
    return str(json.loads(f'"{raw}"'))


def _escaped(new: str, raw: str) -> str:
    """``new`` as a piece of a JSON string, in the place of ``raw``."""
    return json.dumps(new, ensure_ascii=raw.isascii())[1:-1]
