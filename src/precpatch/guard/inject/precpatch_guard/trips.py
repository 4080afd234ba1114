"""Trips: what the target could not have done, with the place in the program that asked for it."""

from __future__ import annotations

from types import FrameType

from .frames import Frame, Frames
from .journal import Journal
from .settings import Settings

COMPUTE, PRODUCE, LOAD = "compute", "produce", "load"
KERNEL, IMPORT, AUTOCAST = "kernel", "import", "autocast"

_SAID = {
    COMPUTE: "{operator} computes with {dtype}",
    PRODUCE: "{operator} makes a {dtype} tensor",
    LOAD: "{operator} reads a {dtype} tensor",
    KERNEL: "{operator} compiles a kernel",
    AUTOCAST: "{operator}, asks for {dtype}",
}


class PrecisionError(RuntimeError):
    """The program did what the target cannot do, and the guard was asked to stop there."""


class Trips:
    """Records the trips of this process, or stops it at the first."""

    def __init__(self, settings: Settings) -> None:
        """Record, or stop, as ``settings`` say."""
        self._settings = settings
        self.journal = Journal(settings.folder)
        self.frames = Frames(settings.checkout)

    def record(self, kind: str, operator: str, dtype: str, frame: FrameType, compiled: Frame | None = None) -> None:
        """Write down a trip of the code in ``frame``.

        Args:
            kind: what it is, one of the words above.
            operator: the operator, kernel or import.
            dtype: the forbidden dtype; "" where it is not about one.
            frame: where it happens.
            compiled: where a function was handed to ``torch.compile``.

        Raises:
            PrecisionError: the guard stops at a trip. An import raises by itself.
        """
        place = self.frames.locate(frame)
        phase = "collective" if "c10d" in operator else place.phase
        self.journal.count(
            (kind, operator, dtype, phase, place, compiled),
            lambda: {
                "kind": kind, "operator": operator, "dtype": dtype, "phase": phase, "site": place.site,
                "caller": place.caller, "compiled": compiled, "stack": self.frames.stack(frame),
            },
        )  # fmt: skip
        if self._settings.stop and kind != IMPORT:
            where = place.caller or place.site
            at = f"at {self.frames.shown(where)}" if where else "in the backward pass"
            said = _SAID[kind].format(operator=operator, dtype=dtype)
            raise PrecisionError(f"precpatch guard: {said} {at}; {self._settings.card} cannot")
