"""From a notebook to one module: its code cells joined, each character known by its place in the JSON file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from precpatch.languages.embedded import Run, cut
from precpatch.languages.json import Box, Scalar, parse
from precpatch.languages.notebook.magics import commands, masked, written
from precpatch.languages.source import SourceFile

_PYTHON_NAMES = frozenset({"ipython", "ipython2", "ipython3", "python", "python2", "python3"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_RUN = re.compile(r"[^\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)


@dataclass(frozen=True)
class Broken:
    """A cell that is not Python: its number among all cells, from 1, its code, and what is wrong with it."""

    number: int
    code: str
    complaint: str


@dataclass(frozen=True)
class Written:
    """A file that a cell writes: its name, its text, where that stands, and where to complain of it."""

    name: str
    text: str
    runs: tuple[Run, ...]
    where: str


@dataclass(frozen=True)
class Module:
    """The code cells as one Python file, the runs of characters that it is made of, and the cells that are left out.

    Attributes:
        python: the text for Python.
        commands: the commands in the cells as one script; every character stands where it stands in ``python``.
        runs: where each stretch of them stands in the file.
        written: the files that cells write.
    """

    python: SourceFile
    commands: SourceFile
    runs: tuple[Run, ...]
    broken: tuple[Broken, ...]
    written: tuple[Written, ...] = ()


def module_of(source: SourceFile) -> Module:
    """The code cells of the file as one module, an empty one where the notebook is not for Python.

    Raises:
        ReadError: the file is not JSON.
    """
    boxes = parse(source)
    code: list[str] = []
    shell: list[str] = []
    runs: list[Run] = []
    broken: list[Broken] = []
    files: list[Written] = []
    at = string = 0
    for number, strings in _code_cells(boxes[0]) if boxes else ():
        cell = _SURROGATE.sub("?", "".join(str(each.value) for each in strings))
        start, first = at, len(runs)
        for each in strings:
            runs += _runs(source.text, each, at, string)
            at, string = at + len(str(each.value)), string + 1
        files += _written(source, number, strings, cell, [replace(run, at=run.at - start) for run in runs[first:]])
        python, error = masked(cell)
        if error is not None:
            broken.append(Broken(number, cell, _complaint(source, number, strings, error)))
        code += (python, "\n")
        shell += (commands(cell, python), "\n")
        at += 1
    texts = ["".join(each).encode() for each in (code, shell)]
    python_file, script = (SourceFile(source.path, text, facts=source.facts) for text in texts)
    return Module(python_file, script, tuple(runs), tuple(broken), tuple(files))


def _written(source: SourceFile, number: int, strings: list[Scalar], cell: str, runs: list[Run]) -> Iterator[Written]:
    """The file that a cell writes, if it writes one."""
    name, start = written(cell) or ("", 0)
    if name:
        line, _ = source.position(strings[0].start)
        where = f"cell {number}, line {line}: {name}"
        yield Written(name, cell[start:], tuple(cut(runs, start, len(cell), 0)), where)


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


def _runs(text: str, scalar: Scalar, at: int, string: int) -> Iterator[Run]:
    """The runs of a string of the file, whose first character is the character ``at`` of the module."""
    for match in _RUN.finditer(text, scalar.start + 1, scalar.end - 1):
        plain = match[0][0] != "\\"
        yield Run(at, *match.span(), string, plain)
        at += len(match[0]) if plain else 1


def _complaint(source: SourceFile, number: int, strings: list[Scalar], error: tuple[int, str]) -> str:
    """What is wrong with a cell: ``error`` is the index in its code, and why."""
    ends = list(accumulate(len(str(each.value)) for each in strings))
    place = strings[min(bisect_right(ends, error[0]), len(strings) - 1)]
    line, _ = source.position(place.start)
    return f"cell {number}, line {line}: {error[1]}: not parsed, so left alone"
