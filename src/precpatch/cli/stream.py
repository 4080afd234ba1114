"""Everything that leaves the program: standard output, and the files that a user asked for by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from precpatch.errors import UserError
from precpatch.report.line import Line, plain, styled


def write(data: bytes) -> None:
    """Write bytes to standard output; a reader that has gone away, as in ``| head``, ends the output quietly."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        silence_stdout()


def show(lines: Iterable[Line]) -> None:
    """Show lines to a person: in colour on a terminal, as plain UTF-8 elsewhere or where NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        write(plain(lines))
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
    for pieces in lines:
        console.print(styled(pieces))


def put(data: bytes, path: Path | None) -> None:
    """Write ``data`` to the file ``path``, or to standard output where there is none."""
    if path is None:
        write(data)
    else:
        save(path, data)


def save(path: Path, data: bytes) -> None:
    """Write ``data`` to a file that the user named.

    Raises:
        UserError: it cannot be written.
    """
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}.") from error


def silence_stdout() -> None:
    """Point standard output at nothing, so that the flush at exit does not fail a second time."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
