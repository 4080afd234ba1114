"""Does the jobs, one after the other, and writes down how each ended."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Callable
from typing import Any, Dict, TextIO  # noqa: UP035 (Python 3.8 runs this)

from . import configs, modules, refusals
from .failures import describe

Job = Dict[str, Any]  # noqa: UP006
Answer = Dict[str, Any]  # noqa: UP006

KINDS: dict[str, Callable[[Job, Job], Answer]] = {
    "module": modules.do,
    "packages": modules.absent,
    "config": configs.do,
    "defaults": refusals.do,
}


class Results:
    """The rows, each on disk before the next job starts."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="ascii")  # noqa: SIM115 (open for the life of the process)

    def add(self, row: Answer) -> None:
        """Append a row."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def do(job: Job, request: Job) -> Answer:
    """The answer to a job; an error of any kind, ``sys.exit`` too, is an answer."""
    try:
        return KINDS[job["kind"]](job, request)
    except BaseException as error:
        return {"failure": describe(error, request["root"])}


def _tell_who_leaves(crash: TextIO) -> Callable[[int], None]:
    """Let ``os._exit`` write down who has called it; the real one is returned."""
    leave = os._exit

    def tell_and_leave(status: int) -> None:
        faulthandler.dump_traceback(crash, all_threads=False)
        leave(status)

    vars(os)["_exit"] = tell_and_leave
    return leave


def main() -> None:
    """Does the jobs, and leaves without waiting for threads that an import has started."""
    request_path, results_path, crash_path = sys.argv[1:]
    with open(request_path, encoding="ascii") as file:
        request = json.load(file)
    sys.argv[:] = ["verify"]
    results = Results(results_path)
    with open(crash_path, "w") as crash:
        faulthandler.enable(crash)
        leave = _tell_who_leaves(crash)
        modules.prepare(request)
        for job in request["jobs"]:
            results.add({"start": job["id"]})
            faulthandler.dump_traceback_later(request["seconds"], exit=True, file=crash)
            answer = do(job, request)
            faulthandler.cancel_dump_traceback_later()
            results.add({"done": job["id"], **answer})
        leave(0)


if __name__ == "__main__":
    main()
