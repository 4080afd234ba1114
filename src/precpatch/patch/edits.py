"""Edits and the set of them that one run makes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from precpatch.errors import UserError


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

    def __str__(self) -> str:
        return f"bytes {self.start}-{self.end}: {_show(self.old)} -> {_show(self.new)}"


class OverlapError(UserError):
    """Two different edits claim the same bytes.

    Attributes:
        first: the edit that starts first.
        second: the edit that starts inside it, or the other insertion at the same place.
    """

    def __init__(self, first: Edit, second: Edit) -> None:
        super().__init__(
            f"{first.path}: two edits claim the same bytes: {first}; and {second}; deselect one of the rules"
        )
        self.first = first
        self.second = second


class StaleEdit(UserError):  # noqa: N818  (the state of an edit, as the callers say it)
    """The file no longer holds the bytes that an edit replaces.

    Attributes:
        edit: the edit that does not fit.
    """

    def __init__(self, edit: Edit) -> None:
        super().__init__(
            f"{edit.path}: changed since it was read: no {_show(edit.old)} at byte {edit.start}; run again"
        )
        self.edit = edit


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The edits of one file.

    Attributes:
        path: relative to the root of the run, with ``/``.
        sha256: hexadecimal digest of the file's bytes before any edit.
        edits: in the order of their position, disjoint.
    """

    path: str
    sha256: str
    edits: tuple[Edit, ...]

    def apply_to(self, data: bytes) -> bytes:
        """The bytes after all edits.

        Raises:
            StaleEdit: ``data`` does not hold the ``old`` bytes of an edit at its place.
        """
        return _splice(data, self.edits)


@dataclass(frozen=True)
class PatchSet:
    """Every accepted edit of a run; diff, apply and the reports read this and nothing else.

    Build one with :meth:`of`. ``PatchSet()`` changes nothing and is false.

    Attributes:
        files: one patch for each file that changes, ordered by path.
    """

    files: tuple[FilePatch, ...] = ()

    @classmethod
    def of(cls, edits: Iterable[Edit], read: Callable[[str], bytes]) -> PatchSet:
        """The set of ``edits``, checked against the bytes that ``read(path)`` returns.

        An edit given twice counts once. Edits that leave their file as it is are dropped.

        Raises:
            OverlapError: two different edits claim the same bytes, or insert at the same place.
            StaleEdit: a file does not hold the ``old`` bytes of an edit.
        """
        by_path: dict[str, set[Edit]] = {}
        for edit in edits:
            if edit.old != edit.new:
                by_path.setdefault(edit.path, set()).add(edit)
        patches = (_file_patch(path, by_path[path], read(path)) for path in sorted(by_path))
        return cls(tuple(patch for patch in patches if patch is not None))

    def __bool__(self) -> bool:
        return bool(self.files)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files that change, in order."""
        return tuple(self._by_path)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits, ordered by path and position."""
        return tuple(edit for patch in self.files for edit in patch.edits)

    def touches(self, path: str) -> bool:
        """Whether the file ``path`` changes."""
        return path in self._by_path

    def edits_of(self, path: str) -> tuple[Edit, ...]:
        """The edits of the file ``path`` in the order of their position; none where it does not change."""
        return self._by_path[path].edits if path in self._by_path else ()

    def apply_to(self, path: str, data: bytes) -> bytes:
        """The bytes of the file ``path`` after all its edits; ``data`` itself where it has none.

        Raises:
            StaleEdit: ``data`` does not hold the ``old`` bytes of an edit at its place.
        """
        return _splice(data, self.edits_of(path))

    @cached_property
    def _by_path(self) -> dict[str, FilePatch]:
        return {patch.path: patch for patch in self.files}


def sha256_of(data: bytes) -> str:
    """The hexadecimal SHA-256 digest of ``data``."""
    return hashlib.sha256(data).hexdigest()


def _file_patch(path: str, edits: Iterable[Edit], data: bytes) -> FilePatch | None:
    ordered = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end, edit.new)))
    for first, second in pairwise(ordered):
        if second.start < first.end or first.start == second.start == second.end:
            raise OverlapError(first, second)
    if _splice(data, ordered) == data:
        return None
    return FilePatch(path, sha256_of(data), ordered)


def _splice(data: bytes, edits: Sequence[Edit]) -> bytes:
    for edit in reversed(edits):
        if edit.start < 0 or edit.end > len(data) or data[edit.start : edit.end] != edit.old:
            raise StaleEdit(edit)
    pieces: list[bytes] = []
    done = 0
    for edit in edits:
        pieces += (data[done : edit.start], edit.new)
        done = edit.end
    return b"".join((*pieces, data[done:]))


def _show(data: bytes, limit: int = 60) -> str:
    text = data.decode("utf-8", "replace")
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")
