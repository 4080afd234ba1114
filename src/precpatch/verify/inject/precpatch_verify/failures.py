"""An exception as plain data: its text, the package that it misses, and where in the checkout it comes from."""

from __future__ import annotations

import os
import re
from typing import Any

_LONGEST = 400
_MODULE = re.compile(r"[\w.]+")


def describe(error: BaseException, root: str) -> dict[str, Any]:
    """What ``error`` says.

    Returns:
        ``text``, one line; ``type``, the class and its bases by name; ``missing``, the module that the error itself
        says is not there; ``behind``, the same for the errors that led to it; ``frames``, the places in the
        checkout, innermost first.
    """
    return {
        "text": one_line(error),
        "type": [each.__name__ for each in type(error).__mro__],
        "missing": _missing(error),
        "behind": [name for name in map(_missing, _behind(error)) if name],
        "frames": frames(error, root),
    }


def one_line(error: BaseException) -> str:
    """The class and the text of an error on one line."""
    text = " ".join(_said(error).split())
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "..."
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def frames(error: BaseException, root: str) -> list[tuple[str, int]]:
    """The places in files of ``root`` that an error passed, innermost first; a syntax error's own place before all."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        found.append((os.path.abspath(trace.tb_frame.f_code.co_filename), trace.tb_lineno))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        found.append((os.path.abspath(error.filename), error.lineno or 1))
    inside = os.path.join(root, "")
    return [(path[len(inside) :], line) for path, line in reversed(found) if path.startswith(inside)]


def _said(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg or ""
    if isinstance(error, SystemExit):
        return f"the module ends the program, with {error.code!r}"
    try:
        return str(error)
    except Exception:
        return ""


def _missing(error: BaseException) -> str:
    """The module that an import has not found, or in which it has not found a name; "" for other errors."""
    name = error.name or "" if isinstance(error, ImportError) else ""
    return name if _MODULE.fullmatch(name) else ""  # some programs put a sentence there


def _behind(error: BaseException) -> list[BaseException]:
    """The errors that were being handled when ``error`` was raised, nearest first."""
    chain: list[BaseException] = []
    now = error.__cause__ or error.__context__
    while now is not None and now not in chain:
        chain.append(now)
        now = now.__cause__ or now.__context__
    return chain
