"""An exception as plain data: its text, the package that it misses, and where in the checkout it comes from."""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
from importlib import metadata
from typing import Any

from .places import own_path

_LONGEST = 400
_LONGEST_READ = 100_000
_MOST_FRAMES = 50
_MODULE = re.compile(r"[\w.]+")


asked_in_vain: dict[str, list[str]] = {}
"""The distributions that were asked for and are not installed, by the file that asked."""


def notice_questions() -> None:
    """Write down from now on who asks for the version of a distribution that is not installed."""
    version = metadata.version

    @functools.wraps(version)
    def version_noticed(name: str) -> str:
        try:
            return version(name)
        except metadata.PackageNotFoundError:
            frame = sys._getframe(1)
            asked_in_vain.setdefault(os.path.abspath(frame.f_code.co_filename), []).append(name)
            raise

    vars(metadata)["version"] = version_noticed


def describe(error: BaseException, root: str) -> dict[str, Any]:
    """What ``error`` says.

    Returns:
        ``text``, one line; ``type``, the class and its bases by name; ``missing``, the module that the error itself
        says is not there; ``behind``, the same for the errors that led to it; ``frames``, the places in the
        checkout, innermost first; ``asked``, the distributions whose version the innermost file has asked for and
        that are not installed.
    """
    places = frames(error, root)
    return {
        "text": one_line(error).replace(os.path.join(root, ""), ""),
        "type": [each.__name__ for each in type(error).__mro__],
        "missing": _missing(error),
        "behind": [name for name in map(_missing, _behind(error)) if name],
        "frames": places,
        "asked": asked_in_vain.get(os.path.join(root, places[0][0]), []) if places else [],
    }


def one_line(error: BaseException) -> str:
    """The class and the text of an error on one line."""
    text = " ".join(_said(error)[:_LONGEST_READ].split())
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "..."
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def frames(error: BaseException, root: str) -> list[tuple[str, int]]:
    """The places in files of ``root`` that an error passed, innermost first; a syntax error's own place before all."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and isinstance(error.filename, str):
        found.append((error.filename, error.lineno if isinstance(error.lineno, int) else 1))
    own = ((own_path(path, root), line) for path, line in reversed(found))
    return list(itertools.islice(((path, line) for path, line in own if path), _MOST_FRAMES))


def _said(error: BaseException) -> str:
    """The text of an error, which is made by code that may fail itself."""
    try:
        if isinstance(error, SyntaxError):
            return str(error.msg or "")
        if isinstance(error, SystemExit):
            return f"the module ends the program, with {error.code!r}"
        text = str(error)
        # Hydra adds where it has looked and what it has found there.
        return text.partition("\n")[0] if type(error).__module__.startswith("hydra.") else text
    except BaseException:
        return ""


def _missing(error: BaseException) -> str:
    """The module that an import has not found, or in which it has not found a name; "" for other errors."""
    name = error.name if isinstance(error, ImportError) else ""
    return name if isinstance(name, str) and _MODULE.fullmatch(name) else ""  # some programs put a sentence there


def _behind(error: BaseException) -> list[BaseException]:
    """The errors that were being handled when ``error`` was raised, nearest first."""
    chain: list[BaseException] = []
    now = error.__cause__ or error.__context__
    while now is not None and all(now is not each for each in chain):
        chain.append(now)
        now = now.__cause__ or now.__context__
    return chain
