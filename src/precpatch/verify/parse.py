"""The step ``parse``: every file that a scan looks at is well formed, also where it holds nothing to change."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath

from precpatch.languages import language_of
from precpatch.languages.base import Language, ReadError
from precpatch.report.line import plural
from precpatch.verify.outcome import FAILED, OK, Problem, Step
from precpatch.vocabulary import builtin_vocabulary

_SECONDS = 20.0
_PLACE = re.compile(r"(?:line (\d+)(?:, column \d+)?|(\d+):\d+): (.*)", re.DOTALL)
_ADVICE = re.compile(r"[:,]? (?:not parsed, )?so left alone$|: not parsed, so left alone$")
_BASH_SAYS = re.compile(r"line (\d+): (.*)")
_BASH_NAMES = frozenset({"sh", "bash", "dash", "ash"})
_SHEBANG = re.compile(rb"#!\s*(?:\S*/env\s+(?:-S\s+)?)?(\S+)")


def parse_step(root: Path, files: Sequence[str]) -> Step:
    """Parse ``files``; scripts are read by ``bash -n``, which runs nothing."""
    by_language: dict[str, list[str]] = {}
    for path in files:
        language = language_of(path)
        known = language is not None and language.suffixes  # a Dockerfile holds commands and is no script
        by_language.setdefault(language.name if language and known else "", []).append(path)
    shell = by_language.pop("shell", [])
    problems = [problem for paths in by_language.values() for path in paths for problem in _parsed(root, path)]
    bash = shutil.which("bash")
    if bash:
        problems += _shell_problems(root, shell, bash)
    counts = Counter({name: len(paths) for name, paths in by_language.items()}) + Counter(shell=len(shell))
    notes = [f"{plural(len(shell), 'script')} not looked at: there is no bash here"] if shell and not bash else []
    if problems:
        notes.append("git or `precpatch revert` tells whether a file was broken before apply; either way mend it")
    return Step(
        "parse",
        FAILED if problems else OK,
        _summary(counts, len(problems)),
        tuple(sorted(problems)),
        tuple(notes),
        figures={"files": len(files), "broken": len(problems)},
    )


def _summary(counts: Counter[str], broken: int) -> str:
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    files = f"{plural(counts.total(), 'file')}{f' ({said})' if said else ''}"
    return f"{broken} of {files} do not parse" if broken else files


def _parsed(root: Path, path: str) -> Iterator[Problem]:
    language = language_of(path)
    if language is None:
        return
    try:
        _read(language, path, (root / path).read_bytes())
    except OSError as error:
        yield Problem(path, 0, f"cannot be read: {error.strerror}")
    except ReadError as error:
        yield _problem(path, str(error))


def _read(language: Language, path: str, data: bytes) -> None:
    """Parse all of a file.

    Raises:
        ReadError: it does not parse.
    """
    source = language.open(path, data)
    try:
        complaint = language.read(source, builtin_vocabulary()).check(data)
        if complaint is not None:
            raise ReadError(complaint)
    except ReadError:
        if language.name == "json" and _is_json_lines(source.text):
            return
        raise


def _is_json_lines(text: str) -> bool:
    """Whether each line is a value of its own, as in many files of data; an empty file is one as well."""
    try:
        return all(json.loads(line) is not Ellipsis for line in text.splitlines() if line.strip())
    except ValueError:
        return False


def _problem(path: str, text: str) -> Problem:
    """A reader's complaint, its place cut off the text."""
    text = _ADVICE.sub("", text)
    match = _PLACE.match(text)
    if match is None:
        return Problem(path, 0, text)
    return Problem(path, int(match[1] or match[2]), match[3])


def _shell_problems(root: Path, paths: Sequence[str], bash: str) -> list[Problem]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda path: _shell_problem(root, path, bash), paths)
        return [problem for problem in found if problem]


def _shell_problem(root: Path, path: str, bash: str) -> Problem | None:
    """What bash says of a script that is one of bash's or sh's; it reads the script and runs none of it."""
    with suppress(OSError), (root / path).open("rb") as file:
        shebang = _SHEBANG.match(file.readline(200))
        if shebang and PurePosixPath(os.fsdecode(shebang[1])).name not in _BASH_NAMES:
            return None
    environment = {name: value for name, value in os.environ.items() if name not in {"BASH_ENV", "ENV", "SHELLOPTS"}}
    try:
        done = subprocess.run(
            [bash, "--norc", "--noprofile", "-n", "--", path],
            cwd=root,
            env={**environment, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Problem(path, 0, f"bash cannot look at it: {error}")
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").splitlines()
    match = next(filter(None, map(_BASH_SAYS.search, said)), None)
    return Problem(path, int(match[1]), match[2]) if match else Problem(path, 0, said[0] if said else "bash refuses it")
