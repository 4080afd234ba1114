"""What happened in this process, on disk as it happens, so that a killed process leaves it too.

Two files a process: rows of JSON, appended, and a small file of counts, replaced at most twice a second.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

_SECONDS = 0.5
_OPERATORS = 1024


class Journal:
    """The counts and first events of one process."""

    def __init__(self, folder: str) -> None:
        """Write below ``folder``, also from forked children and at ``os._exit``, which skips ``atexit``."""
        self._folder = folder
        self._torch: str | None = None
        self.restart()
        atexit.register(self.flush)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.restart)
        leave = os._exit

        def flush_and_leave(status: int) -> None:
            self.flush()
            leave(status)

        vars(os)["_exit"] = flush_and_leave

    def restart(self) -> None:
        """Begin a journal of its own for this process; a fork shares nothing with its parent."""
        self._path = os.path.join(self._folder, f"{os.getpid()}-{time.time_ns()}")
        self._lock = threading.RLock()
        self._begun = False
        self._flushed = 0.0
        self._numbers: dict[Hashable, int] = {}
        self._counts: list[int] = []
        self.operators = 0
        self.loads = 0
        self.compiled_calls = 0
        self.matmuls: dict[str, int] = {}
        self.attention: dict[str, int] = {}

    def watch_torch(self, version: str) -> None:
        """Say that torch is watched here from now on."""
        self._torch = version
        with self._lock:
            self._begin()

    def operator(self) -> None:
        """Count an operator that was looked at."""
        self.operators += 1
        if not self.operators % _OPERATORS:
            self._flush_sometimes()

    def count(self, key: Hashable, describe: Callable[[], dict[str, Any]]) -> None:
        """Count an event; the first of its ``key`` is described at once."""
        with self._lock:
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._counts)
                self._counts.append(0)
                self._begin()
                self._append({"time": time.time(), **describe()})
            self._counts[number] += 1
            self._flush_sometimes()

    def flush(self) -> None:
        """Write the counts."""
        with self._lock:
            self._flushed = time.monotonic()
            if self.operators:
                self._begin()
            if not self._begun:
                return
            counts = {
                "counts": self._counts,
                "operators": self.operators,
                "loads": self.loads,
                "compiled_calls": self.compiled_calls,
                # Other threads add to these; a copy is made in one step.
                "matmuls": dict(self.matmuls),
                "attention": dict(self.attention),
            }
            with suppress(OSError):
                with open(f"{self._path}.new", "w") as file:
                    json.dump(counts, file)
                os.replace(f"{self._path}.new", f"{self._path}.counts")

    def _flush_sometimes(self) -> None:
        if time.monotonic() - self._flushed > _SECONDS:
            self.flush()

    def _begin(self) -> None:
        """Write the first row: which process this is."""
        if not self._begun:
            self._begun = True
            program = os.path.basename((getattr(sys, "argv", None) or [""])[0])
            self._append({"pid": os.getpid(), "program": program, "torch": self._torch})

    def _append(self, row: dict[str, Any]) -> None:
        """Add a row. The file is opened each time: a daemon may close files that it does not know."""
        with suppress(OSError), open(f"{self._path}.rows", "a") as file:
            file.write(json.dumps(row) + "\n")
