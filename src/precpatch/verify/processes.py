"""Jobs done in processes of the user's interpreter: what each answered, and what became of those that ended one."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from precpatch.errors import UserError
from precpatch.guard.run import INJECT as GUARD
from precpatch.report.line import plural
from precpatch.verify import inject
from precpatch.verify.child import End, name_of_signal, run_child

START = Path(inject.__file__).parent / "start_verify.py"

Job = dict[str, Any]
Answer = dict[str, Any]

_FRAME = re.compile(r'  File "(.+)", line (\d+) in ')
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_TIMEOUT = "Timeout ("
_SITE_PACKAGES = "site-packages"


@dataclass(frozen=True)
class Workplace:
    """Where and how jobs are done.

    Attributes:
        python: the interpreter.
        root: the checkout.
        environment: the environment variables.
        seconds: how long one job may take.
        words: what the patch wrote, and what stood there before.
        block: packages that cannot be imported.
        card: the target's name.
        capability: the compute capability of the GPU that torch sees though there is none; empty for the truth.
    """

    python: str
    root: Path
    environment: Mapping[str, str]
    seconds: float
    words: Mapping[str, str]
    block: tuple[str, ...]
    card: str
    capability: tuple[int, ...] = ()


def find_python(python: str | None) -> str:
    """The path of the interpreter that the user named; of the running one where that is None.

    Raises:
        UserError: there is no such interpreter.
    """
    found = sys.executable if python is None else shutil.which(python)
    if found is None:
        raise UserError(f"--python {python}: there is no such interpreter")
    return os.path.abspath(found)


def do_jobs(place: Workplace, jobs: Sequence[Job]) -> dict[int, Answer]:
    """Do ``jobs`` in as few processes as it takes; after a job that ends its process the rest is done in a new one.

    Returns:
        The answer to each job by its id; that of a job which ended its process has ``crash`` and ``frames``.

    Raises:
        UserError: the interpreter does not run.
    """
    answers: dict[int, Answer] = {}
    while True:
        left = [job for job in jobs if job["id"] not in answers]
        if not left:
            return answers
        answers.update(_in_one_process(place, left))


@dataclass
class _Record:
    """What a process wrote down.

    Attributes:
        started: the job that was started last.
        answers: the answers by the id of the job.
        elsewhere: the folders in the checkout that belong to the environment; None where it never began.
    """

    started: int | None = None
    answers: dict[int, Answer] = field(default_factory=dict)
    elsewhere: tuple[str, ...] | None = None


def _in_one_process(place: Workplace, jobs: Sequence[Job]) -> dict[int, Answer]:
    """The answers of one process: to all jobs, or up to the one that ended it.

    All but those to the first job have ``again``: what was done before may be to blame for a failure.
    """
    try:
        with TemporaryDirectory(prefix="precpatch-verify-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            (folder / "request").write_text(json.dumps(_request(place, jobs)), encoding="ascii")
            end = _run(place, folder)
            record = _read(folder / "results", {job["id"] for job in jobs})
            told = _text(folder / "crash")
    except OSError as error:
        raise UserError(f"no temporary file can be written: {error.strerror or error}") from error
    if record.started is None:
        raise UserError(f"{place.python}: cannot be used: {end.said or _how(end)}")
    if record.started not in record.answers:
        record.answers[record.started] = _crash(told, end, place, record.elsewhere or ())
    return {
        number: answer if number == jobs[0]["id"] or answer.get("slow") else {**answer, "again": True}
        for number, answer in record.answers.items()
    }


def _request(place: Workplace, jobs: Sequence[Job]) -> dict[str, Any]:
    return {
        "root": str(place.root),
        "guard": str(GUARD),
        "seconds": place.seconds,
        "words": dict(place.words),
        "block": list(place.block),
        "card": place.card,
        "capability": list(place.capability),
        "jobs": list(jobs),
    }


def _run(place: Workplace, folder: Path) -> End:
    request, results, crash = (str(folder / name) for name in ("request", "results", "crash"))
    command = [place.python, str(START), request, results, crash]
    return run_child(command, place.root, place.environment, Path(results), place.seconds)


def _how(end: End) -> str:
    if end.code is None:
        return "it does not start to work"
    return f"it was ended by {name_of_signal(-end.code)}" if end.code < 0 else f"it ended with exit code {end.code}"


def _read(path: Path, known: set[int]) -> _Record:
    """What stands in a file of results; rows that verify has not written count for nothing."""
    record = _Record()
    for row in _rows(path):
        if row.get("start") in known:
            record.started = row["start"]
        elif row.get("done") in known:
            record.answers[row.pop("done")] = row
        elif "elsewhere" in row:
            record.elsewhere = tuple(map(str, row["elsewhere"]))
    return record


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The last row of a process that was killed may be cut."""
    for text in _text(path).splitlines():
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and all(not isinstance(row.get(name), (list, dict)) for name in ("start", "done")):
            yield row


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _crash(told: str, end: End, place: Workplace, elsewhere: Sequence[str]) -> Answer:
    """How a job ended its process, and where in the checkout."""
    own = list(_own_frames(told, place.root, elsewhere))
    if end.code is None or told.startswith(_TIMEOUT):
        limit = plural(int(place.seconds), "second") if place.seconds.is_integer() else f"{place.seconds:g} seconds"
        return {"crash": f"took more than {limit} (--timeout)", "frames": own, "slow": True}
    if end.code < 0:
        return {"crash": f"the process was ended by {name_of_signal(-end.code)}", "frames": own}
    last = f"; it said: {end.said}" if end.said and not own else ""
    return {"crash": f"the process ended itself with exit code {end.code}{last}", "frames": own}


def _own_frames(told: str, root: Path, elsewhere: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The places in the checkout that Python has written down, which names a file in ASCII."""
    inside = os.path.join(root, "")
    environment = tuple(os.path.join(folder, "") for folder in elsewhere)
    for match in filter(None, map(_FRAME.match, told.splitlines())):
        path = _ESCAPE.sub(lambda escape: chr(int("".join(filter(None, escape.groups())), 16)), match[1])
        relative = path.removeprefix(inside)
        if (
            path.startswith(inside)
            and not path.startswith(environment)
            and _SITE_PACKAGES not in relative.split(os.sep)
        ):
            yield relative, int(match[2])
