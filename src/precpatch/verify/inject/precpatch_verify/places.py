"""Which files are the checkout's, and the process as it was before a module changed it."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import suppress
from typing import Any

_RECURSION = sys.getrecursionlimit()


def _below(root: str, path: str) -> bool:
    return path.startswith(os.path.join(root, ""))


@functools.lru_cache(maxsize=None)  # noqa: UP033 (Python 3.8 runs this)
def elsewhere(root: str) -> tuple[str, ...]:
    """The folders below ``root`` that belong to the environment: it may well stand in the checkout."""
    standard = os.path.dirname(os.path.abspath(os.__file__))
    folders = {os.path.abspath(folder) for folder in (standard, sys.prefix, sys.exec_prefix, sys.base_prefix)}
    return tuple(sorted(folder for folder in folders if _below(root, folder)))


def own_path(path: str, root: str) -> str:
    """``path`` relative to ``root``; "" where it is not a file of the checkout, as is ``<string>``."""
    if not os.path.isabs(path):
        return ""
    path = os.path.normpath(path)
    if not _below(root, path) or any(_below(folder, path) for folder in elsewhere(root)):
        return ""
    relative = path[len(os.path.join(root, "")) :]
    return "" if "site-packages" in relative.split(os.sep) else relative


def file_of(module: Any) -> str:
    """The file of a module; "" where it has none. Whatever stands in ``sys.modules`` may be asked."""
    with suppress(BaseException):
        found = module.__file__
        return found if isinstance(found, str) else ""
    return ""


def modules_now() -> set[str]:
    """The names of what is imported."""
    return {name for name in list(sys.modules) if isinstance(name, str)}


def come_back(root: str) -> None:
    """Undo what a module may have done to the process and what the next one would be blamed for."""
    sys.settrace(None)
    sys.setprofile(None)
    sys.setrecursionlimit(_RECURSION)
    with suppress(Exception):
        os.chdir(root)
