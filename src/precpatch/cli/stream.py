"""Everything that leaves the program: standard output, and the files that a user asked for by name."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from precpatch.errors import UserError
from precpatch.report.line import Line, plain, styled, visible_lines

_open_pipes: dict[Path, int] = {}
"""Pipes that ``check_writable`` has opened: who reads one takes its first closing for the end."""


class OutputError(UserError):
    """What was to be shown or saved cannot be: a full disk, a closed standard output, a folder that is not there."""


def open_missing() -> None:
    """Put something in the place of each standard stream that was closed before the start, as ``>&-`` does.

    Else its number would go to the next file that is opened. A closed standard output becomes one that refuses every
    write, so that the loss is noticed; standard input is empty, and what goes to standard error is lost.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def write(data: bytes) -> None:
    """Write bytes to standard output; a reader that has gone away, as in ``| head``, ends the output quietly.

    Raises:
        OutputError: standard output takes nothing.
    """
    if not data:  # even a write of nothing can fail
        return
    with _stdout_errors_named():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def show(lines: Iterable[Line]) -> None:
    """Show lines to a person: in colour on a terminal, as plain UTF-8 elsewhere or where NO_COLOR is set.

    Raises:
        OutputError: standard output takes nothing.
    """
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        write(plain(lines))
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
    for pieces in lines:
        text = styled(pieces)
        with _stdout_errors_named():
            console.print(text)


def flush() -> None:
    """Write out what standard output still holds.

    Raises:
        OutputError: standard output takes nothing.
    """
    with _stdout_errors_named():
        sys.stdout.flush()


def complain(text: str) -> None:
    """Write one line to standard error; where that takes nothing, nobody can be told."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _silence(sys.stderr)


@contextlib.contextmanager
def after(done: str) -> Iterator[None]:
    """Add ``done`` to the error when an output fails in the block: something was changed before, and stays so."""
    try:
        yield
    except OutputError as error:
        raise OutputError(f"{str(error).rstrip('.')}. But {done}") from error


def put(data: bytes, path: Path | None) -> None:
    """Write ``data`` to the file ``path``, or to standard output where there is none."""
    if path is None:
        write(data)
    else:
        save(path, data)


def put_patch(patch: bytes, path: Path | None) -> None:
    """Write a patch byte for byte; on a terminal, which it must not drive, show what cannot be seen as an escape."""
    safe = patch
    if path is None and sys.stdout.isatty():
        safe = visible_lines(patch).encode("utf-8", "backslashreplace")
    put(safe, path)
    if safe != patch:
        complain("precpatch: some bytes are shown as escapes: use --output or a pipe for a patch that applies")


def save(path: Path, data: bytes) -> None:
    """Write ``data`` to a file that the user named; a pipe that nobody reads is refused, and not waited for.

    Raises:
        OutputError: it cannot be written.
    """
    with _file_errors_named(path):
        if not _is_pipe(path):
            path.write_bytes(data)
            return
        descriptor = _open_pipes.pop(path, None) or _open_pipe(path)
        os.set_blocking(descriptor, True)
        with open(descriptor, "wb") as pipe:
            pipe.write(data)


def _is_pipe(path: Path) -> bool:
    return path.exists() and stat.S_ISFIFO(path.stat().st_mode)


def _open_pipe(path: Path) -> int:
    """A pipe, opened only if somebody reads it."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "a pipe that nobody reads") from None
        raise


def check_writable(path: Path) -> None:
    """Make sure, before any work is done, that ``save`` can write the file ``path``; nothing is left behind.

    Raises:
        OutputError: it cannot be written.
    """
    with _file_errors_named(path):
        if not path.exists():
            is_link = path.is_symlink()  # to nothing yet: its target is made and removed, the link stays
            path.open("xb" if not is_link else "wb").close()
            (path.resolve() if is_link else path).unlink()
        elif _is_pipe(path):
            _open_pipes[path] = _open_pipe(path)
        elif stat.S_ISREG(path.stat().st_mode) or path.is_dir():
            path.open("ab").close()


@contextlib.contextmanager
def _file_errors_named(path: Path) -> Iterator[None]:
    """Turn an error of the system into one line about the file ``path``."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}.") from error


@contextlib.contextmanager
def _stdout_errors_named() -> Iterator[None]:
    """Turn an error of standard output into one line; a reader that has gone away is no error."""
    try:
        yield
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        raise stdout_lost(error) from error


def stdout_lost(error: OSError) -> OutputError:
    """The error to raise where standard output has refused its bytes with ``error``; it is not tried again."""
    silence_stdout()
    why = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    return OutputError(f"standard output cannot be written: {why}.")


def silence_stdout() -> None:
    """Point standard output at nothing, so that the flush at exit does not fail a second time."""
    _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
