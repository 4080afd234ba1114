"""What IPython understands and Python does not: magics, commands of the shell, questions."""

from __future__ import annotations

import ast
import re
import warnings

MAX_MAGICS = 100
"""A cell with more lines for IPython than this is not read, so that hostile files stay cheap to read."""

_PYTHON_CELLS = frozenset({"capture", "prun", "time", "timeit"})
"""Cell magics under which the rest of the cell is Python still."""

_SHELL_CELLS = frozenset({"bash", "sh"})
_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
_MAGIC_LINE = re.compile(r"\s*(?:[%!?]|\w[\w.\[\], ]*=\s*[%!]\s*\w|[^#\n]*\?\s*$)")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")


def masked(code: str) -> tuple[str, tuple[int, str] | None]:
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


def commands(cell: str, masked: str) -> str:
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
