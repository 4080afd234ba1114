"""Where in the program something happened: the line that asked for it, and the user's own line above it."""

from __future__ import annotations

import os
import sysconfig
from types import FrameType, ModuleType
from typing import NamedTuple, Tuple  # noqa: UP035 (``tuple`` takes no subscript in Python 3.8)

Frame = Tuple[str, int, str]  # noqa: UP006
"""File, line and function."""

GUARD, QUIET, LIBRARY, OWN = range(4)
"""Whose code a file is: the guard's, torch's and Python's own, another package's, the user's."""

_DEEPEST = 60
_GUARD_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_OPTIMIZER = os.path.join("torch", "optim", "")
_AUTOGRAD = os.path.join("torch", "autograd", "")
_BACKWARD = {"_engine_run_backward", "backward", "grad"}


class Place(NamedTuple):
    """Where an operation comes from.

    Attributes:
        site: the innermost frame outside torch and Python's own library; None where there is no Python frame.
        caller: the innermost frame of the user's own code, where that is another one.
        phase: "forward", "backward" or "optimizer".
    """

    site: Frame | None
    caller: Frame | None
    phase: str


class Frames:
    """Sorts the frames of this process."""

    def __init__(self, checkout: str) -> None:
        """``checkout`` is a folder whose files are the user's own, "" for none."""
        self._own = os.path.join(checkout, "") if checkout else ""
        self._hidden: tuple[str, ...] = ()
        self._started_in = os.getcwd()
        self._groups: dict[str, int] = {}

    def hide(self, module: ModuleType) -> None:
        """Treat the files of a package as code that is never a site."""
        self._hidden += (os.path.join(os.path.dirname(module.__file__ or os.devnull), ""),)
        self._groups.clear()

    def locate(self, frame: FrameType | None) -> Place:
        """The place of the code that runs in ``frame``."""
        site = caller = outermost = None
        phase = ""
        while frame is not None and caller is None:
            code = frame.f_code
            group = self._group(code.co_filename)
            if group == QUIET:
                phase = phase or _phase(code.co_filename, code.co_name)
            elif group != GUARD:
                here = (code.co_filename, frame.f_lineno, code.co_name)
                site = site or here
                caller = here if group == OWN else None
            outermost, frame = code.co_filename if group != GUARD else outermost, frame.f_back
        if not phase:
            phase = "forward" if caller or not _is_autograd_thread(outermost) else "backward"
        return Place(self._full(site), self._full(caller) if caller != site else None, phase)

    def stack(self, frame: FrameType | None) -> list[Frame]:
        """The frames from ``frame`` outwards, without those of the guard."""
        frames: list[Frame] = []
        while frame is not None and len(frames) < _DEEPEST:
            code = frame.f_code
            if self._group(code.co_filename) != GUARD and not code.co_filename.startswith("<frozen"):
                frames.append(self._absolute((code.co_filename, frame.f_lineno, code.co_name)))
            frame = frame.f_back
        return frames

    def shown(self, frame: Frame) -> str:
        """Path and line of a frame, the path relative to the folder in which the program was started."""
        start = os.path.join(self._started_in, "")
        path = frame[0][len(start) :] if frame[0].startswith(start) else frame[0]
        return f"{path}:{frame[1]}"

    def _group(self, path: str) -> int:
        group = self._groups.get(path)
        if group is None:
            group = self._groups[path] = self._sort(path)
        return group

    def _sort(self, path: str) -> int:
        if path.startswith(_GUARD_FOLDER):
            return GUARD
        if self._own and self._absolute((path, 0, ""))[0].startswith(self._own):
            return OWN
        if path.startswith("<frozen") or path.startswith(self._hidden):
            return QUIET
        if any(folder in path for folder in _PACKAGES):
            return LIBRARY
        return QUIET if path.startswith(_PYTHON) else OWN

    def _full(self, frame: Frame | None) -> Frame | None:
        return self._absolute(frame) if frame else None

    def _absolute(self, frame: Frame) -> Frame:
        """The frame with the whole path of its file, also where the program has changed its folder since."""
        path, line, function = frame
        return (path if path.startswith("<") else os.path.join(self._started_in, path), line, function)


def _phase(path: str, function: str) -> str:
    """The phase that a frame of torch tells; "" for none."""
    if _OPTIMIZER in path:
        return "optimizer"
    return "backward" if function in _BACKWARD and _AUTOGRAD in path else ""


def _is_autograd_thread(outermost: str | None) -> bool:
    """Whether C++ called in at the bottom of the stack: without any Python frame, or into torch's own code."""
    return outermost is None or f"{os.sep}torch{os.sep}" in outermost
