"""What IPython understands and Python does not: magics, commands of the shell, questions."""

from __future__ import annotations

import ast
import re
import warnings

MAX_MAGICS = 100
"""A cell with more lines for IPython than this is not read, so that hostile files stay cheap to read."""

_PYTHON_CELLS = frozenset({"capture", "prun", "time", "timeit"})
"""Cell magics under which the rest of the cell is Python still."""

_SHELL_CELLS = re.compile(r"\s*%%(?:(?:bash|sh|shell)\b|script\s+(?:\S*/)?(?:bash|sh)\b)[^\r\n]*")
_WRITES = re.compile(
    r"""\s*%%(?:writefile|file)[ \t]+(?:(?:-a|--append)[ \t]+)?"""
    r"""(?P<quote>["']?)(?P<name>[^\r\n"']+?)(?P=quote)[ \t]*(?:\r\n|\n|\r)"""
)
_VARIABLE = re.compile(r"\s*%(?:set_)?env[ \t]+(?P<name>\w+)(?:[ \t]*=[ \t]*|[ \t]+)(?=[^\s=])")
_RUNS = re.compile(r"\s*(?:\w[\w.\[\], ]*=\s*)?(?:!|%(?:sx|system)\b|%(?=(?:pip|conda|mamba|micromamba|uv|run)\b))")
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
    """The commands of the shell in a cell, ``masked`` being what is left for Python; blanks for all else.

    A variable that ``%env`` sets is an assignment, ``%pip`` and ``%run`` are commands like any other.
    """
    if shell := _SHELL_CELLS.match(cell):
        return _blank(shell[0]) + cell[shell.end() :]
    magic = _CELL_MAGIC.match(cell)
    if magic and magic[1] not in _PYTHON_CELLS:
        return _blank(cell)
    lines = []
    goes_on = False
    for line in _LINE.finditer(cell):
        at = line.start() + len(line[1]) - len(line[1].lstrip())
        is_masked = line[1].strip() != "" and not masked.startswith(cell[at], at)
        command = _command(line[0]) if is_masked and not goes_on else None
        lines.append(line[0] if goes_on else _blank(line[0]) if command is None else command)
        goes_on = (command is not None or goes_on) and line[1].endswith("\\")
    return "".join(lines)


def written(cell: str) -> tuple[str, int] | None:
    """The name of the file that a cell writes, and where its text starts."""
    match = _WRITES.match(cell)
    return (match["name"].strip(), match.end()) if match else None


def _command(line: str) -> str | None:
    """A line for IPython as one for the shell, each value where it stood; None where it is none."""
    if variable := _VARIABLE.match(line):
        assignment = f"{variable['name']}="
        return assignment.rjust(variable.end()) + line[variable.end() :]
    if runs := _RUNS.match(line):
        return " " * runs.end() + line[runs.end() :]
    return None


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
