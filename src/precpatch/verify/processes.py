"""Jobs done in processes of the user's interpreter: what each answered, and what became of those that ended one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from precpatch.errors import UserError
from precpatch.verify import inject

INJECT = Path(inject.__file__).parent

Job = dict[str, Any]
Answer = dict[str, Any]

_FRAME = re.compile(r'  File "(.+)", line (\d+) in ')
_TIMEOUT = "Timeout ("
_SLACK = 60.0


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


def do_each(place: Workplace, jobs: Sequence[Job]) -> dict[int, Answer]:
    """Do each job in a process of its own."""
    return {number: answer for job in jobs for number, answer in do_jobs(place, [job]).items()}


def _in_one_process(place: Workplace, jobs: Sequence[Job]) -> dict[int, Answer]:
    """The answers of one process: to all jobs, or up to the one that ended it."""
    with TemporaryDirectory(prefix="precpatch-verify-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        request = {
            "root": str(place.root),
            "seconds": place.seconds,
            "words": dict(place.words),
            "block": list(place.block),
            "card": place.card,
            "capability": list(place.capability),
            "jobs": list(jobs),
        }
        (folder / "request").write_text(json.dumps(request), encoding="ascii")
        code, said = _run(place, folder, len(jobs))
        started, answers = _read(folder / "results")
        if started is None and not answers:
            raise UserError(f"{place.python}: cannot be used: {said or f'it ended with exit code {code}'}")
        if started is not None and started not in answers:
            answers[started] = _crash(folder / "crash", code, place, said)
        return answers


def _run(place: Workplace, folder: Path, jobs: int) -> tuple[int | None, str]:
    """Run the process; its exit code, None where it had to be stopped, and the last line that it wrote."""
    command = [
        place.python,
        "-m",
        "precpatch_verify",
        *(str(folder / name) for name in ("request", "results", "crash")),
    ]
    with (folder / "output").open("wb") as output:
        try:
            done = subprocess.run(
                command,
                cwd=place.root,
                env=place.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=place.seconds * jobs + _SLACK,
                check=False,
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = None
        except OSError as error:
            raise UserError(f"{place.python}: cannot be started: {error.strerror or error}") from error
    lines = (folder / "output").read_text(encoding="utf-8", errors="replace").splitlines()
    return code, next((" ".join(line.split())[:300] for line in reversed(lines) if line.strip()), "")


def _read(path: Path) -> tuple[int | None, dict[int, Answer]]:
    """The job that was started last, and all answers; the last row of a killed process may be cut."""
    started, answers = None, {}
    for row in _rows(path):
        if "start" in row:
            started = row["start"]
        else:
            answers[row.pop("done")] = row
    return started, answers


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for text in path.read_text(encoding="ascii", errors="replace").splitlines():
        try:
            yield json.loads(text)
        except ValueError:
            return


def _crash(path: Path, code: int | None, place: Workplace, said: str) -> Answer:
    """How a job ended its process, and where in the checkout."""
    text = path.read_text(errors="replace") if path.exists() else ""
    inside = os.path.join(place.root, "")
    frames = [(match[1], int(match[2])) for match in map(_FRAME.match, text.splitlines()) if match]
    own = [(file.removeprefix(inside), line) for file, line in frames if file.startswith(inside)]
    if code is None or text.startswith(_TIMEOUT):
        return {"crash": f"took more than {place.seconds:g} seconds (--timeout)", "frames": own}
    if code < 0:
        return {"crash": f"the process was ended by {_signal(-code)}", "frames": own}
    last = f"; it said: {said}" if said and not own else ""
    return {"crash": f"the process ended itself with exit code {code}{last}", "frames": own}


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
