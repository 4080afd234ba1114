"""Does the jobs, one after the other, and writes down how each ended."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Dict, TextIO  # noqa: UP035 (Python 3.8 runs this)

from . import configs, modules, refusals
from .failures import describe
from .places import come_back, elsewhere

Job = Dict[str, Any]  # noqa: UP006
Answer = Dict[str, Any]  # noqa: UP006

KINDS: dict[str, Callable[[Job, Job], Answer]] = {
    "module": modules.do,
    "packages": modules.absent,
    "config": configs.do,
    "defaults": refusals.do,
}

_SIGKILL, _PR_SET_PDEATHSIG = 9, 1


class Results:
    """The rows, each on disk before the next job starts.

    The file is only open while a row is written, and with functions as they were at the start: a module may close
    files that are not its own, write into them, or put others in the place of ``open`` and ``json.dumps``.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._open = open
        self._encode = json.JSONEncoder().encode

    def add(self, row: Answer) -> None:
        """Append a row."""
        with self._open(self._path, "a", encoding="ascii") as file:
            file.write(self._encode(row) + "\n")


def do(job: Job, request: Job) -> Answer:
    """The answer to a job; an error of any kind, ``sys.exit`` too, is an answer."""
    come_back(request["root"])
    try:
        return KINDS[job["kind"]](job, request)
    except BaseException as error:
        come_back(request["root"])
        return {"failure": describe(error, request["root"])}


def _tell_who_leaves(crash: TextIO) -> Callable[[int], None]:
    """Let ``os._exit`` write down who has called it; the real one is returned."""
    leave = os._exit

    def tell_and_leave(status: int) -> None:
        faulthandler.dump_traceback(crash, all_threads=False)
        leave(status)

    vars(os)["_exit"] = tell_and_leave
    return leave


def _die_with_precpatch() -> None:
    """Let Linux end this process when precpatch is killed, which cannot do so itself then."""
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def _look_as_from_the_top(request: Job, ours: list[str]) -> None:
    """Import as ``python -m`` does when it is started in the root. What verify itself needs is imported by now.

    A ``json.py`` or ``types.py`` there would else stop this process, not the program that is looked at.
    """
    sys.path[:] = [request["root"], *(folder for folder in sys.path if folder not in ours)]
    sys.argv[:] = ["verify"]


def main(here: str) -> None:
    """Do the jobs, and leave without waiting for threads that an import has started; ``here`` is on the path."""
    request_path, results_path, crash_path = sys.argv[1:]
    _die_with_precpatch()
    with open(request_path, encoding="ascii") as file:
        request = json.load(file)
    results, process, process_now = Results(results_path), os.getpid(), os.getpid
    results.add({"elsewhere": elsewhere(request["root"])})
    with open(crash_path, "w") as crash:
        faulthandler.enable(crash)
        leave = _tell_who_leaves(crash)
        sys.path.append(request["guard"])
        modules.block(request)
        _look_as_from_the_top(request, [here, request["guard"]])
        modules.pretend(request)
        for job in request["jobs"]:
            results.add({"start": job["id"]})
            faulthandler.dump_traceback_later(request["seconds"], exit=True, file=crash)
            answer = do(job, request)
            if process_now() != process:  # a module has forked, this is the copy: the timer is not in it
                leave(0)
            faulthandler.cancel_dump_traceback_later()
            results.add({"done": job["id"], **answer})
        leave(0)
