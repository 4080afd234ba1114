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

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from precpatch.languages.base import ReadError
from precpatch.languages.json import Box, Scalar, hides_letters, is_wide, open_json, parse
from precpatch.languages.mention import Mention, place
from precpatch.languages.python import PythonLanguage
from precpatch.languages.shell import ShellLanguage
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit

_PYTHON = PythonLanguage()
_SHELL = ShellLanguage()
_PYTHON_NAMES = frozenset({"ipython", "ipython2", "ipython3", "python", "python2", "python3"})
_PYTHON_CELLS = frozenset({"capture", "prun", "time", "timeit"})
"""Cell magics under which the rest of the cell is Python still."""

_SHELL_CELLS = frozenset({"bash", "sh"})

MAX_MAGICS = 100
"""A cell with more lines for IPython than this is not read, so that hostile files stay cheap to read."""

_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
_MAGIC_LINE = re.compile(r"\s*(?:[%!?]|\w[\w.\[\], ]*=\s*[%!]\s*\w|[^#\n]*\?\s*$)")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RUN = re.compile(r"[^\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)


class NotebookLanguage:
    """The reader of Jupyter notebooks."""

    name = "notebook"
    suffixes: tuple[str, ...] = (".ipynb",)

    def open(self, path: str, data: bytes) -> SourceFile:
        """Find the encoding of ``data``: UTF-8, or what its first bytes say.

        Raises:
            ReadError: the bytes are not text in that encoding.
        """
        return open_json(path, data)

    def mentions(self, data: bytes) -> bool:
        """Whether a word of interest stands in the bytes, or could once escapes are undone."""
        return is_wide(data) or _PYTHON.mentions(data) or _SHELL.mentions(data) or hides_letters(data)

    def read(self, source: SourceFile, text: bool = False) -> list[Mention]:
        """Every mention in the code cells, in order of position; with ``text`` also those that decide nothing.

        Raises:
            ReadError: the file is not JSON, or a cell is not Python, and could hold a mention.
        """
        try:
            module = _module(source)
        except ReadError:
            if self.mentions(source.data):
                raise
            return []
        for cell in module.broken:
            if _PYTHON.mentions(cell.code.encode()):
                raise ReadError(cell.complaint)
        told = [_carried_out(source, module, module.source, mention) for mention in _PYTHON.read(module.source, text)]
        if _SHELL.mentions(module.shell.data):
            commands = [mention for mention in _SHELL.read(module.shell, text) if mention.language == _SHELL.name]
            told += [_carried_out(source, module, module.shell, mention) for mention in commands]
        return sorted(told, key=lambda mention: (mention.start, mention.end))

    def rewrite(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """The edits of the reader that told of it, in the JSON file; none where one would cross the strings of a cell.

        Raises:
            ValueError: the value does not stand in one piece.
        """
        module = _module(source)
        if mention.language == _SHELL.name:
            inside = _carried_in(source, module, module.shell, mention)
            return _edits(source, module, module.shell, _SHELL.rewrite(module.shell, inside, value))
        inside = _carried_in(source, module, module.source, mention)
        return _edits(source, module, module.source, _PYTHON.rewrite(module.source, inside, value))

    def extend(self, source: SourceFile, mention: Mention, value: str) -> tuple[Edit, ...]:
        """Add ``value`` to the literal that the mention stands in; none where that crosses the strings of a cell."""
        module = _module(source)
        if mention.language == _SHELL.name:
            return ()
        inside = _carried_in(source, module, module.source, mention)
        return _edits(source, module, module.source, _PYTHON.extend(module.source, inside, value))

    def check(self, before: SourceFile, data: bytes) -> str | None:
        """Parse the file and its cells again; None when all is as well as it was, else what is wrong."""
        try:
            broken = _module(self.open(before.path, data)).broken
        except ReadError as error:
            return str(error)
        known = {cell.number for cell in _module(before).broken}
        return next((cell.complaint for cell in broken if cell.number not in known), None)


# From a notebook to one module.


class _Run(NamedTuple):
    """Characters of the module that stand in a row in the file, or one that is written as an escape.

    Attributes:
        at: index in the module's text.
        raw: index in the file's text.
        raw_end: index after it in the file's text.
        string: which string of the file it is in, counted over all.
        plain: whether it is written without escapes, one character for one.
    """

    at: int
    raw: int
    raw_end: int
    string: int
    plain: bool


@dataclass(frozen=True)
class _Broken:
    """A cell that is not Python: its number among all cells, from 1, its code, and what is wrong with it."""

    number: int
    code: str
    complaint: str


@dataclass(frozen=True)
class _Module:
    """The code cells as one Python file, the runs of characters that it is made of, and the cells that are left out.

    Attributes:
        shell: the commands in the cells as one script; every character stands where it stands in ``source``.
    """

    source: SourceFile
    shell: SourceFile
    runs: tuple[_Run, ...]
    broken: tuple[_Broken, ...]

    def run(self, index: int) -> _Run:
        """The run that the character ``index`` of the module is in."""
        return self.runs[bisect_right(self.runs, index, key=lambda run: run.at) - 1]

    def out(self, start: int, end: int) -> tuple[int, int]:
        """Where in the file's text the characters ``start`` to ``end`` of the module stand."""
        first, last = self.run(start), self.run(end - 1)
        return (
            first.raw + (start - first.at if first.plain else 0),
            last.raw + end - last.at if last.plain else last.raw_end,
        )

    def back(self, start: int, end: int) -> tuple[int, int]:
        """The characters of the module that stand at ``start`` to ``end`` in the file's text."""
        first = self.runs[bisect_right(self.runs, start, key=lambda run: run.raw) - 1]
        last = self.runs[bisect_right(self.runs, end - 1, key=lambda run: run.raw) - 1]
        return (
            first.at + (start - first.raw if first.plain else 0),
            last.at + (end - last.raw if last.plain else 1),
        )


@lru_cache(maxsize=2)
def _module(source: SourceFile) -> _Module:
    """The code cells of the file as one module, an empty one where the notebook is not for Python.

    Raises:
        ReadError: the file is not JSON.
    """
    boxes = parse(source)
    code: list[str] = []
    commands: list[str] = []
    runs: list[_Run] = []
    broken: list[_Broken] = []
    at = string = 0
    for number, strings in _code_cells(boxes[0]) if boxes else ():
        cell = _SURROGATE.sub("?", "".join(str(each.value) for each in strings))
        for each in strings:
            runs += _runs(source.text, each, at, string)
            at, string = at + len(str(each.value)), string + 1
        masked, error = _masked(cell)
        if error is not None:
            broken.append(_Broken(number, cell, _complaint(source, number, strings, error)))
        code += (masked, "\n")
        commands += (_commands(cell, masked), "\n")
        at += 1
    module = SourceFile(source.path, "".join(code).encode(), facts=source.facts)
    script = SourceFile(source.path, "".join(commands).encode(), facts=source.facts)
    return _Module(module, script, tuple(runs), tuple(broken))


def _code_cells(root: Box) -> Iterator[tuple[int, list[Scalar]]]:
    """Number, from 1, and strings of each cell that holds Python code, of notebook format 3 as well as 4."""
    if _language(root.get("metadata")) not in _PYTHON_NAMES:
        return
    sheets = [root, *_boxes(root.get("worksheets"))]
    cells = [cell for sheet in sheets for cell in _boxes(sheet.get("cells"))]
    for number, cell in enumerate(cells, 1):
        kind = cell.get("cell_type")
        if isinstance(kind, Scalar) and kind.value == "code" and _is_python(cell):
            strings = [each for each in _strings(cell.get("source") or cell.get("input")) if each.value]
            if strings:
                yield number, strings


def _language(metadata: Scalar | Box | None) -> str:
    """The language that a notebook says it is in; Python where it says nothing."""
    for name, key in (("kernelspec", "language"), ("language_info", "name")):
        said = _at(metadata, name, key)
        if said:
            return said.lower()
    return "python"


def _is_python(cell: Box) -> bool:
    """Whether nothing about the cell says that its code is in another language."""
    said = _at(cell.get("metadata"), "vscode", "languageId") or _at(cell, "language") or "python"
    return said.lower() in _PYTHON_NAMES


def _at(value: Scalar | Box | None, *keys: str) -> str | None:
    """The text at a path of keys, if there is any."""
    for key in keys:
        value = value.get(key) if isinstance(value, Box) else None
    return value.value if isinstance(value, Scalar) and isinstance(value.value, str) else None


def _boxes(value: Scalar | Box | None) -> list[Box]:
    """The objects in a list."""
    return [item for item in value.items if isinstance(item, Box)] if isinstance(value, Box) else []


def _strings(value: Scalar | Box | None) -> list[Scalar]:
    """A string, or the strings in a list."""
    items = value.items if isinstance(value, Box) else [value]
    return [item for item in items if isinstance(item, Scalar) and isinstance(item.value, str)]


def _runs(text: str, scalar: Scalar, at: int, string: int) -> Iterator[_Run]:
    """The runs of a string of the file, whose first character is the character ``at`` of the module."""
    for match in _RUN.finditer(text, scalar.start + 1, scalar.end - 1):
        plain = match[0][0] != "\\"
        yield _Run(at, *match.span(), string, plain)
        at += len(match[0]) if plain else 1


def _complaint(source: SourceFile, number: int, strings: list[Scalar], error: tuple[int, str]) -> str:
    """What is wrong with a cell: ``error`` is the index in its code, and why."""
    ends = list(accumulate(len(str(each.value)) for each in strings))
    place = strings[min(bisect_right(ends, error[0]), len(strings) - 1)]
    line, _ = source.position(place.start)
    return f"cell {number}, line {line}: {error[1]}: not parsed, so left alone"


# What IPython understands and Python does not.


def _masked(code: str) -> tuple[str, tuple[int, str] | None]:
    """The code of a cell without what is for IPython, the length of every line kept.

    Where the cell is not Python all of it is blank, and the second value says where, as an index, and why.
    """
    magic = _CELL_MAGIC.match(code)
    if magic and magic[1] not in _PYTHON_CELLS:
        return _blank(code), None
    rest = code
    for _ in range(MAX_MAGICS):
        error = _problem(rest)
        if error is None:
            return rest, None
        shorter = _without_magic(rest, error[0])
        if shorter is None:
            return _blank(code), error
        rest = shorter
    return _blank(code), (0, f"more than {MAX_MAGICS} lines for IPython")


def _commands(cell: str, masked: str) -> str:
    """The commands of the shell in a cell, ``masked`` being what is left for Python; blanks for all else."""
    magic = _CELL_MAGIC.match(cell)
    if magic:
        return _blank(cell[: magic.end()]) + cell[magic.end() :] if magic[1] in _SHELL_CELLS else _blank(cell)
    lines = []
    goes_on = False
    for line in _LINE.finditer(cell):
        at = line.start() + len(line[1]) - len(line[1].lstrip())
        starts = cell.startswith("!", at) and not masked.startswith("!", at)
        lines.append(line[0].replace("!", " ", 1) if starts else line[0] if goes_on else _blank(line[0]))
        goes_on = (starts or goes_on) and line[1].endswith("\\")
    return "".join(lines)


def _problem(code: str) -> tuple[int, str] | None:
    """The index of the line that Python cannot parse, and why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as error:
        starts = [match.start() for match in _LINE.finditer(code)]
        return starts[min(max(error.lineno or 1, 1), len(starts)) - 1], error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 0, str(error) or type(error).__name__
    return None


def _without_magic(code: str, start: int) -> str | None:
    """The code with a 0 for the line at ``start`` and those that it goes on in; None if it is not for IPython."""
    line = _line(code, start)
    if not _MAGIC_LINE.match(line[1]):
        return None
    start += len(line[1]) - len(line[1].lstrip())
    while line[1].endswith("\\") and line.end() < len(code):
        line = _line(code, line.end())
    end = line.end(1)
    return f"{code[:start]}0{_blank(code[start + 1 : end])}{code[end:]}"


def _line(code: str, start: int) -> re.Match[str]:
    """The line at ``start``, its first group without the line end."""
    line = _LINE.match(code, start)
    assert line is not None, "the pattern matches anywhere"
    return line


def _blank(code: str) -> str:
    """Blanks for all but the line ends."""
    return re.sub(r"[^\r\n]", " ", code)


# From the module to the file and back.


def _carried_out(source: SourceFile, module: _Module, inner: SourceFile, mention: Mention) -> Mention:
    """A mention of the module, in its Python or in its commands ``inner``, as one of the file."""

    def start_of(byte: int) -> int:
        index = _index(inner, byte)
        return source.offset(module.out(index, index + 1)[0])

    span = module.out(_index(inner, mention.start), _index(inner, mention.end))
    return replace(
        mention,
        **place(source, *span),
        follows=tuple(start_of(byte) for byte in mention.follows),
    )


def _carried_in(source: SourceFile, module: _Module, inner: SourceFile, mention: Mention) -> Mention:
    """A mention of the file as one of the module, in its Python or in its commands ``inner``."""
    span = module.back(_index(source, mention.start), _index(source, mention.end))
    return replace(mention, **place(inner, *span), follows=())


def _index(source: SourceFile, byte: int) -> int:
    """The character of the text that starts at a byte offset of the data."""
    return len(source.data[source.bom : byte].decode(source.encoding))


def _edits(source: SourceFile, module: _Module, inner: SourceFile, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Edits of the module as edits of the file: all of them or none."""
    carried = [_edit(source, module, inner, edit) for edit in edits]
    return tuple(edit for edit in carried if edit) if all(carried) else ()


def _edit(source: SourceFile, module: _Module, inner: SourceFile, edit: Edit) -> Edit | None:
    """One edit in the file; None where its text is not that of one string there."""
    start, end = _index(inner, edit.start), _index(inner, edit.end)
    if start == end or module.run(start).string != module.run(end - 1).string:
        return None
    first, last = module.out(start, end)
    raw = source.text[first:last]
    if json.loads(f'"{raw}"') != edit.old.decode():
        return None
    new = json.dumps(edit.new.decode(), ensure_ascii=raw.isascii())[1:-1]
    begin = source.offset(first)
    return Edit(source.path, begin, source.data[begin : source.offset(last)], new.encode(source.encoding))
