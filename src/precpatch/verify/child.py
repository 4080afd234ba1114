"""A process of the user's interpreter that is watched, and that leaves nothing behind however it or precpatch ends."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from precpatch.errors import UserError

_TICK = 0.5
_START_SECONDS = 60.0
_PREPARE_SECONDS = 300.0
_SLACK = 10.0
_TAIL = 64 * 1024
_LONGEST = 300


@dataclass(frozen=True)
class End:
    """How a process ended.

    Attributes:
        code: its exit code; None where it had to be stopped.
        said: the last line that it wrote.
    """

    code: int | None
    said: str


def run_child(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], results: Path, seconds: float
) -> End:
    """Run a process until it ends, or until nothing has been added to ``results`` for longer than ``seconds``.

    It is the leader of a session, so that what it starts can be ended with it, and so that what it does to its
    process group does not reach precpatch. A Ctrl-C does not reach it either: it is ended when precpatch is.

    Raises:
        UserError: it cannot be started.
    """
    with _stopping_on_signals():
        try:
            child = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"{command[0]}: cannot be started: {error.strerror or error}") from error
        try:
            tail = _Tail(child.stdout)
            code = _wait(child, results, seconds)
        finally:
            _end(child)
        return End(code, tail.last_line())


def _wait(child: subprocess.Popen[bytes], results: Path, seconds: float) -> int | None:
    """The exit code; None where the process does not get on."""
    rows, since = 0, time.monotonic()
    limits = (_START_SECONDS, seconds + _PREPARE_SECONDS)
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(_TICK)
        now = results.read_bytes().count(b"\n") if results.exists() else 0
        if now != rows:
            rows, since = now, time.monotonic()
        if time.monotonic() - since > (limits[rows] if rows < len(limits) else seconds + _SLACK):
            return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has left in its group."""
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()
    child.wait()


class _Tail:
    """Reads what a process writes, lest it waits, and keeps the end of it."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._kept = b""
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            while self._stream and (data := self._stream.read(_TAIL)):
                self._kept = (self._kept + data)[-_TAIL:]

    def last_line(self) -> str:
        """The last line with something in it; a process in another session may hold the stream open for good."""
        self._thread.join(_TICK)
        lines = self._kept.decode("utf-8", "replace").splitlines()
        return next((" ".join(line.split())[:_LONGEST] for line in reversed(lines) if line.strip()), "")


@contextmanager
def _stopping_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP leave through the blocks that clean up."""

    def leave(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    changed = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]  # nohup ignores SIGHUP
    for number in changed:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def name_of_signal(number: int) -> str:
    """``SIGSEGV`` for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
