"""Edits and the set of them that one run makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the bytes ``old`` at ``start`` of the file ``path`` by ``new``.

    Attributes:
        path: relative to the root of the run, with ``/``.
        start: byte offset in the file as it is on disk, before any edit.
        old: the bytes that must stand there; an insertion has none.
        new: the bytes that take their place.
    """

    path: str
    start: int
    old: bytes
    new: bytes

    @property
    def end(self) -> int:
        """Byte offset after the replaced bytes."""
        return self.start + len(self.old)
