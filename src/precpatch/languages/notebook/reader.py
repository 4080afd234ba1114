"""Reads Jupyter notebooks: the code cells of a Python notebook, all as one module.

Names hold from one cell to the next, so the cells are joined and the Python reader reads them at once; what it finds,
and the edits that it makes, are carried back to the characters of the JSON file. Outputs, markdown and metadata are
not read. Positions and ``text`` are those of the JSON file, escapes included.

Lines for IPython (``%magic``, ``!command``, ``help?``) and cells for another program (``%%bash``) are blanked out
before the code is parsed, and so is a cell that is not Python. The facts are those of the Python reader.

The commands of the shell, ``!command`` and the cells ``%%bash`` and ``%%sh``, are joined as well, and the shell reader
reads them; its mentions keep the language "shell".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

from precpatch.languages.base import Reading
from precpatch.languages.embedded import Embedded
from precpatch.languages.json import JsonBytes, open_json
from precpatch.languages.mention import Mention
from precpatch.languages.notebook.cells import Module, module_of
from precpatch.languages.python import PythonLanguage
from precpatch.languages.shell import ShellLanguage
from precpatch.languages.source import ReadError, SourceFile
from precpatch.patch.edits import Edit
from precpatch.vocabulary import Vocabulary
from precpatch.vocabulary.needles import needles_of_words


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
        self.module = module_of(source)
        needles = needles_of_words(vocabulary)
        for cell in self.module.broken:
            if needles.stand_in(cell.code.encode()):
                raise ReadError(cell.complaint)
        python = PythonLanguage().read(self.module.python, vocabulary, text)
        shell = ShellLanguage().read(self.module.commands, vocabulary, text)
        self._python = self._embedded(python, self.module)
        self._shell = self._embedded(shell, self.module)

    def _embedded(self, reading: Reading, module: Module) -> Embedded:
        return Embedded(self.source, reading, module.runs, unescape=_unescaped, escape=_escaped)

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """Every mention in the code cells, in order of position."""
        commands = [mention for mention in self._shell.mentions if mention.language == ShellLanguage.name]
        return sorted([*self._python.mentions, *commands], key=lambda mention: (mention.start, mention.end))

    def _part_of(self, mention: Mention) -> Embedded:
        return self._shell if mention.language == ShellLanguage.name else self._python

    def rewrite(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits of the reader that told of it, in the JSON file; none where one would cross the strings of a cell.

        Raises:
            ValueError: the value does not stand in one piece.
        """
        return self._part_of(mention).rewrite(mention, value)

    def extend(self, mention: Mention, value: str) -> tuple[Edit, ...]:
        """Add ``value`` to the literal that the mention stands in; none where that crosses the strings of a cell."""
        return self._part_of(mention).extend(mention, value)

    def check(self, data: bytes) -> str | None:
        """Parse the file and its cells again; None when all is as well as it was, else what is wrong."""
        try:
            broken = module_of(open_json(self.source.path, data)).broken
        except ReadError as error:
            return str(error)
        known = {cell.number for cell in self.module.broken}
        return next((cell.complaint for cell in broken if cell.number not in known), None)


def _unescaped(raw: str) -> str:
    """What a piece of a JSON string says."""
    return str(json.loads(f'"{raw}"'))


def _escaped(new: str, raw: str) -> str:
    """``new`` as a piece of a JSON string, in the place of ``raw``."""
    return json.dumps(new, ensure_ascii=raw.isascii())[1:-1]
