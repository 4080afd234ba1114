"""Edits and the set of them that one run makes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import overload

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


@dataclass(frozen=True, slots=True)
class NewFile:
    """Add the file ``path``, which must not exist yet.

    Attributes:
        path: relative to the root of the run, with ``/``; its folder exists.
        data: the whole content.
    """

    path: str
    data: bytes

    def __str__(self) -> str:
        return f"new file {_show(self.data)}"


class OverlapError(UserError):
    """Two different edits claim the same bytes, or a new file and something else the same path.

    Attributes:
        first: the edit that starts first, or the new file.
        second: the edit that starts inside it, the other insertion at the same place, or the other claim to the path.
    """

    def __init__(self, first: Edit | NewFile, second: Edit | NewFile) -> None:
        what = "two edits claim the same bytes" if isinstance(first, Edit) else "two changes claim the whole file"
        super().__init__(f"{first.path}: {what}: {first}; and {second}; deselect one of the rules")
        self.first = first
        self.second = second


class StaleEdit(UserError):  # noqa: N818  (the state of an edit, as the callers say it)
    """The file no longer holds the bytes that an edit replaces, or stands where a new one is to be.

    Attributes:
        edit: the edit or the new file that does not fit.
    """

    def __init__(self, edit: Edit | NewFile) -> None:
        why = f"no {_show(edit.old)} at byte {edit.start}" if isinstance(edit, Edit) else "it did not exist then"
        super().__init__(f"{edit.path}: changed since it was read: {why}; run again")
        self.edit = edit


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The edits of one file, or the file to add.

    Attributes:
        path: relative to the root of the run, with ``/``.
        sha256: hexadecimal digest of the file's bytes before any edit; None where the file must not exist yet.
        edits: in the order of their position, disjoint; a file to add is an empty one with its content inserted.
    """

    path: str
    sha256: str | None
    edits: tuple[Edit, ...]

    def apply_to(self, data: bytes | None) -> bytes:
        """The bytes after all edits; ``data`` is None where there is no file.

        Raises:
            StaleEdit: ``data`` does not hold the ``old`` bytes of an edit at its place, or a file to add is
                there already with other bytes.
        """
        if self.sha256 is not None:
            if data is None:
                raise StaleEdit(self.edits[0])
            return _splice(data, self.edits)
        after = _splice(b"", self.edits)
        if data is not None and data != after:
            raise StaleEdit(NewFile(self.path, after))
        return after


@dataclass(frozen=True)
class PatchSet:
    """Every accepted edit and new file of a run; diff, apply and the reports read this and nothing else.

    Build one with :meth:`of`. ``PatchSet()`` changes nothing and is false.

    Attributes:
        files: one patch for each file that changes or is added, ordered by path.
    """

    files: tuple[FilePatch, ...] = ()

    @classmethod
    def of(cls, edits: Iterable[Edit], read: Callable[[str], bytes], new_files: Iterable[NewFile] = ()) -> PatchSet:
        """The set of ``edits`` and ``new_files``, the edits checked against the bytes that ``read(path)`` returns.

        What is given twice counts once. Edits that leave their file as it is are dropped.

        Raises:
            OverlapError: two different edits claim the same bytes, or insert at the same place; or a new file
                is edited too, or has two different contents.
            StaleEdit: a file does not hold the ``old`` bytes of an edit.
        """
        by_path: dict[str, set[Edit]] = {}
        for edit in edits:
            if edit.old != edit.new:
                by_path.setdefault(edit.path, set()).add(edit)
        added: dict[str, NewFile] = {}
        for new in new_files:
            if added.setdefault(new.path, new) != new:
                raise OverlapError(added[new.path], new)
            if new.path in by_path:
                raise OverlapError(new, min(by_path[new.path], key=_position))
        patches = [_file_patch(path, changes, read(path)) for path, changes in sorted(by_path.items())]
        patches += map(_new_file_patch, added.values())
        return cls(tuple(sorted(filter(None, patches), key=lambda patch: patch.path)))

    def __bool__(self) -> bool:
        return bool(self.files)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The files that change or are added, in order."""
        return tuple(self._by_path)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits, ordered by path and position; the content of a file to add is one."""
        return tuple(edit for patch in self.files for edit in patch.edits)

    @property
    def new_files(self) -> tuple[NewFile, ...]:
        """The files to add, ordered by path."""
        return tuple(NewFile(patch.path, patch.apply_to(None)) for patch in self.files if patch.sha256 is None)

    @overload
    def apply_to(self, path: str, data: bytes) -> bytes: ...

    @overload
    def apply_to(self, path: str, data: bytes | None) -> bytes | None: ...

    def apply_to(self, path: str, data: bytes | None) -> bytes | None:
        """The bytes of the file ``path`` after all its edits, or of the file to add; ``data`` itself where it has none.

        ``data`` is None where there is no file.

        Raises:
            StaleEdit: ``data`` does not hold the ``old`` bytes of an edit at its place, or a file to add is
                there already with other bytes.
        """
        return self._by_path[path].apply_to(data) if path in self._by_path else data

    @cached_property
    def _by_path(self) -> dict[str, FilePatch]:
        return {patch.path: patch for patch in self.files}


def sha256_of(data: bytes) -> str:
    """The hexadecimal SHA-256 digest of ``data``."""
    return hashlib.sha256(data).hexdigest()


def _file_patch(path: str, edits: Iterable[Edit], data: bytes) -> FilePatch | None:
    ordered = tuple(sorted(edits, key=_position))
    for first, second in pairwise(ordered):
        if second.start < first.end or first.start == second.start == second.end:
            raise OverlapError(first, second)
    if _splice(data, ordered) == data:
        return None
    return FilePatch(path, sha256_of(data), ordered)


def _new_file_patch(new: NewFile) -> FilePatch:
    return FilePatch(new.path, None, (Edit(new.path, 0, b"", new.data),) if new.data else ())


def _position(edit: Edit) -> tuple[int, int, bytes]:
    return edit.start, edit.end, edit.new


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
