"""What happened in this process, on disk as it happens, so that a killed process leaves all of it.

Two files a process: rows of JSON, appended, and an array of counters, one for each row after the first. The array is
mapped into memory: counting is an addition there, and the kernel keeps it whatever ends the process.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

ROWS = 4096
"""The most events that are told apart in a process; what is new after that is counted in one row."""

OPERATORS, LOADS, COMPILED_CALLS = range(3)
_TALLIES = "operators", "loads", "compiled_calls"
_FULL = "more"
_SLOTS = ROWS + 256


class Journal:
    """The counters and first events of one process.

    Attributes:
        counts: the counters, by the number of their row; the first three are those of the names above.
        tallies: numbers of counters that whoever counts keeps here; empty again in a forked child.
    """

    def __init__(self, folder: str) -> None:
        """Write below ``folder``, also from forked children."""
        self._folder = folder
        self._torch: str | None = None
        self._complained = False
        self._maps: list[Any] = []
        self.restart()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.restart)

    def restart(self) -> None:
        """Begin a journal of its own for this process; a fork shares nothing with its parent."""
        self._path = os.path.join(self._folder, f"{os.getpid()}-{time.time_ns()}")
        self._lock = threading.RLock()
        self._begun = False
        self._numbers: dict[Hashable, int] = {}
        self.tallies: dict[Hashable, int] = {}
        self.counts: Any = _Unbegun(self)

    def watch_torch(self, version: str) -> None:
        """Say that torch is watched here from now on."""
        self._torch = version
        self.begin()

    def number_of(self, group: str, name: str) -> int:
        """The number of the counter for ``name`` among its ``group``."""
        with self._lock:
            number = self._numbers.get((group, name))
            return self._describe((group, name), lambda: {"tally": group, "name": name}) if number is None else number

    def count(self, key: Hashable, describe: Callable[[], dict[str, Any]]) -> None:
        """Count an event; the first of its ``key`` is described at once."""
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                number = self._describe(key, describe)
            self.counts[number] += 1

    def begin(self) -> None:
        """Write the first rows: which process this is, and what it always counts."""
        with self._lock:
            if not self._begun:
                self._begun = True
                self.counts = self._array()
                program = os.path.basename((getattr(sys, "argv", None) or [""])[0])
                self._append({"pid": os.getpid(), "program": program, "torch": self._torch})
                for name in _TALLIES:
                    self._describe(name, lambda name=name: {"tally": name, "name": ""})  # type: ignore[misc]

    def _describe(self, key: Hashable, describe: Callable[[], dict[str, Any]]) -> int:
        """Write the row of a new key, and return its number."""
        self.begin()
        row = {"time": time.time(), **describe()}
        number = len(self._numbers)
        if number >= ROWS and "tally" not in row:
            key, row = _FULL, {**row, "more": True}
            if key in self._numbers:
                return self._numbers[key]
        self._append(row)
        self._numbers[key] = number
        return number

    def _array(self) -> Any:
        """Counters in a mapped file; in plain memory where the file cannot be had, as on a full disk.

        Zeros are written, since a hole in the file would take its space later, when no error can be raised. A map is
        kept for ever: it holds a descriptor, which is not its own any more after a daemon has closed all of them.
        """
        size = 8 * _SLOTS
        try:
            with open(f"{self._path}.counts", "w+b") as file:
                file.write(bytes(size))
                file.flush()
                self._maps.append(mmap.mmap(file.fileno(), size))
        except (OSError, ValueError):
            return memoryview(bytearray(size)).cast("Q")
        return memoryview(self._maps[-1]).cast("Q")

    def _append(self, row: dict[str, Any]) -> None:
        """Add a row. The file is opened each time: a daemon may close files that it does not know."""
        try:
            with open(f"{self._path}.rows", "a") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        """Say once that the report will lack what happens here; on the descriptor, which ``sys.stderr`` may not be."""
        if not self._complained:
            self._complained = True
            with suppress(OSError):
                os.write(2, f"precpatch guard: {error}; the report misses what process {os.getpid()} does\n".encode())


class _Unbegun:
    """The counters of a process that has counted nothing yet: the first count begins its journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getitem__(self, number: int) -> int:
        self._journal.begin()
        count: int = self._journal.counts[number]
        return count

    def __setitem__(self, number: int, count: int) -> None:
        self._journal.counts[number] = count
