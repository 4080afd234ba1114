"""Write a patch set to a tree, all or nothing, and take it back.

The order makes a killed run harmless. Under the lock, and each step synced before the next:

    1. look      every file holds the bytes that the plan was made for, and nothing stands where one is added
    2. keep      the original bytes (blobs), then the journal, status "writing"
    3. stage     every new file in full beside the old one, with its mode, owner and attributes
    4. swap      each takes its place in one atomic step, after one more look at the bytes that it replaces
    5. done      the journal's status "done"

A run that ends before 5 is rolled back: at once where it can, else by the next apply or revert, which find the
journal "writing". A revert marks its journal "reverting", swaps the old bytes in the same way, and drops the
journal last; one that was cut short is finished. So every file is whole at all times, and the journal brings back
the old ones. A file that is added takes a place where nothing is, and is removed again only while it holds what was
written. What an error says of the tree is kept by ``_Progress`` as the steps are done, and tests/safety holds it to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

from precpatch.errors import UserError
from precpatch.notes import FileNote
from precpatch.patch.edits import FilePatch, PatchSet, sha256_of
from precpatch.patch.journal import (
    DONE,
    REVERTING,
    WRITING,
    Entry,
    Journal,
    Store,
    check_relative,
    sync_folder,
    write_new,
)

_NAMED_AT_MOST = 10
_MODE_OF_A_NEW_FILE = 0o644
_ENDED = {WRITING: "an interrupted apply was rolled back", REVERTING: "an interrupted revert was finished"}
"""Status of a journal that is undone -> what that was."""

_NOT_ALLOWED_TO_GIVE_AWAY = (errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_HARD_LINKS = (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply did.

    Attributes:
        files: the files that were written or added, ordered by path.
        notes: what a person should know: files left alone as they are read-only, hard links cut, owners changed.
    """

    files: tuple[str, ...] = ()
    notes: tuple[FileNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Reverted:
    """What a revert did.

    Attributes:
        files: the files whose earlier bytes were put back, or that were removed again, ordered by path.
        removed: those of them that an apply had added and that are gone again.
        notes: what a person should know.
    """

    files: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[FileNote, ...] = ()


class _Progress:
    """What is true of the tree under ``root`` now, in words, for the case that the system stops the run."""

    def __init__(self, root: Path) -> None:
        self.revert = shlex.join(["precpatch", "revert", str(root)])
        self.words = "nothing was changed; mend this and run again"

    def begins(self) -> None:
        """From now on, files change."""
        self.words = f"every file is whole, but some may be the old and some the new: `{self.revert}` ends that"

    def taken_back(self) -> None:
        """The run failed, and what it had changed is as before."""
        self.words = "it was taken back, every file is as before; mend this and run again"

    def applied(self, number: int) -> None:
        """The change is made."""
        self.words = f"but the change is made, in {number} file(s): `{self.revert}` takes it back"

    def reverted(self) -> None:
        """The earlier bytes are there."""
        self.words = "but every file is as before the apply"


@dataclass(frozen=True, slots=True)
class _Write:
    """One file about to be written: its place (the file itself, no link), and its bytes before and after.

    A file about to be added has no bytes before: None.
    """

    path: str
    entry: Entry
    before: bytes | None
    after: bytes


def apply(root: Path, patches: PatchSet) -> Applied:
    """Write ``patches`` to the tree under ``root``: every file of it, or none.

    A read-only file is left as it is and noted; so is a file to add to a read-only folder. A file that has other
    hard links becomes a file of its own, so that nothing outside the tree changes, and is noted. A link to a file
    of the tree stays a link. An interrupted apply is rolled back first, and an interrupted revert finished; where
    that changes a file the plan is out of date, and refused. An empty ``patches`` writes nothing at all.

    Raises:
        UserError: a file has changed since ``patches`` was made, something stands where a file is to be added, a
            path leaves the root, another process is writing, or the system refused a write; every file is then
            as it was.
    """
    root = _real_root(root)
    writable, notes = _split_writable(root, patches)
    if not writable:
        return Applied(notes=notes)
    store, progress = Store(root), _Progress(root)
    with _system_errors_named(root, progress), store.locked():
        rolled_back = _recover(store, progress)
        if rolled_back.files:
            what = "; ".join(note.message for note in rolled_back.notes)
            raise UserError(f"{root}: {what} first, which outdates the plan; run again")
        writes = _checked(root, writable)
        side_effects = tuple(_side_effects(root, writes))
        side_effects += tuple(_write_all(store, writes, progress))
    return Applied(tuple(write.path for write in writes), (*rolled_back.notes, *notes, *side_effects))


def revert(root: Path, *, all: bool = False, force: bool = False) -> Reverted:  # noqa: A002  (the option's name)
    """Put back the bytes from before the newest apply under ``root``, and remove the files that it added.

    After an interrupted apply or revert this ends that, and goes no further back unless ``all`` is asked for.

    Args:
        root: the folder that was patched.
        all: undo every apply, back to before the first.
        force: also overwrite files that were changed or removed since, and remove added ones that were changed.

    Raises:
        UserError: there is nothing to revert, a file has changed since the apply, the journal is damaged,
            another process is writing (nothing is changed then), or the system refused a write (run it again
            once that is mended).
    """
    root = _real_root(root)
    store = Store(root)
    nothing = UserError(f"{root}: nothing to revert: no apply has been recorded here")
    if not store.exists():
        raise nothing
    progress = _Progress(root)
    with _system_errors_named(root, progress), store.locked():
        journals = store.journals()[::-1]
        if not journals:
            raise nothing
        return _undo(store, journals if all else _interrupted(journals) or journals[:1], force, progress)


def recover(root: Path) -> Reverted:
    """Roll back an apply, or finish a revert, that was interrupted under ``root``; call it before reading the tree.

    The notes of the outcome say which of them it was.

    Raises:
        UserError: a file of it was changed since, the journal is damaged, or another process is writing.
    """
    root = _real_root(root)
    store = Store(root)
    if not store.exists():
        return Reverted()
    progress = _Progress(root)
    with _system_errors_named(root, progress), store.locked():
        return _recover(store, progress)


def tidy(root: Path) -> None:
    """Remove what a run that was killed has left of the folder ``.precpatch`` without a journal in it."""
    store = Store(root)
    if store.exists() and not store.may_hold_journals():
        with contextlib.suppress(OSError, UserError), store.locked():
            pass


def not_writable(root: Path, patches: PatchSet) -> tuple[FileNote, ...]:
    """The files of ``patches`` that ``apply`` will leave alone because they are read-only, each with a note.

    A file without any write permission bit counts as read-only for every user, the superuser too. A file to add
    needs a folder that can be written.

    Raises:
        UserError: a path leaves ``root``, is not a file, or is gone; or the folder of a file to add is.
    """
    root = _real_root(root)
    return tuple(note for patch in patches.files if (note := _read_only_note(root, patch)))


def _read_only_note(root: Path, patch: FilePatch) -> FileNote | None:
    file = _place(root, patch)
    if patch.sha256 is None:
        ready, what = _is_writable_folder(file.parent), "its folder is read-only, so the file was not added"
    else:
        ready, what = _is_writable(file), "the file or its folder is read-only, so it was left as it is"
    return None if ready else FileNote(patch.path, f"not-writable: {what}; make it writable and run again")


def _real_root(root: Path) -> Path:
    try:
        real = root.resolve(strict=True)
    except (OSError, RuntimeError):
        raise UserError(f"no such file or folder: {root}") from None
    if not real.is_dir():
        raise UserError(f"{root}: is not a folder")
    return real


def _inside(root: Path, path: str) -> Path:
    """The file that ``path`` names, links resolved, once it is sure to be a regular file below ``root``."""
    check_relative(path)
    try:
        real = Path(os.path.realpath(root / path, strict=True))
        mode = real.stat().st_mode
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; nothing was changed; run again") from None
    if not real.is_relative_to(root):
        raise UserError(f"{path}: a link leads out of {root}; nothing was changed; exclude this path")
    check_relative(real.relative_to(root).as_posix())
    if not stat.S_ISREG(mode):
        raise UserError(f"{path}: is not a regular file; nothing was changed; exclude this path")
    return real


def _place(root: Path, patch: FilePatch) -> Path:
    """Where ``patch`` writes, links resolved: a regular file below ``root``, or a name in a folder of it."""
    if patch.sha256 is not None:
        return _inside(root, patch.path)
    check_relative(patch.path)
    folder, _, name = patch.path.rpartition("/")
    try:
        real = Path(os.path.realpath(root / folder, strict=True))
    except OSError as error:
        raise UserError(f"{patch.path}: its folder: {error.strerror}; nothing was changed; run again") from None
    if not real.is_relative_to(root):
        raise UserError(f"{patch.path}: a link leads out of {root}; nothing was changed; exclude this path")
    if not real.is_dir():
        raise UserError(f"{patch.path}: its folder is a file; nothing was changed; exclude this path")
    check_relative((real / name).relative_to(root).as_posix())
    return real / name


def _is_writable(file: Path) -> bool:
    """Whether the file may be replaced.

    Root may write everything. But one file without a write bit in a folder that has one is locked on purpose, for root
    too; where the folder has none either, the tree is a copy of something read-only, and root's right is used.
    """
    if not os.access(file, os.W_OK) or not _is_writable_folder(file.parent):
        return False
    return _has_write_bit(file) or not _has_write_bit(file.parent)


def _is_writable_folder(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _has_write_bit(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def _split_writable(root: Path, patches: PatchSet) -> tuple[list[FilePatch], tuple[FileNote, ...]]:
    notes = not_writable(root, patches)
    left_alone = {note.path for note in notes}
    return [patch for patch in patches.files if patch.path not in left_alone], notes


def _checked(root: Path, patches: Sequence[FilePatch]) -> list[_Write]:
    """What to write, once every file is sure to be the one that was planned for."""
    files = [_place(root, patch) for patch in patches]
    _refuse_double(patches, files)
    appeared = [patch.path for patch, file in zip(patches, files, strict=True) if _is_taken(patch, file)]
    if appeared:
        names = _named(appeared)
        raise UserError(f"appeared since the plan was made, so nothing was written: {names}; run again")
    contents = [None if patch.sha256 is None else file.read_bytes() for patch, file in zip(patches, files, strict=True)]
    changed = [
        patch.path
        for patch, data in zip(patches, contents, strict=True)
        if data is not None and sha256_of(data) != patch.sha256
    ]
    if changed:
        raise UserError(f"changed since the plan was made, so nothing was written: {_named(changed)}; run again")
    writes = []
    for patch, file, before in zip(patches, files, contents, strict=True):
        after = patch.apply_to(before)
        entry = Entry(file.relative_to(root).as_posix(), patch.sha256, sha256_of(after), *_mode_and_owner(patch, file))
        writes.append(_Write(patch.path, entry, before, after))
    return writes


def _mode_and_owner(patch: FilePatch, file: Path) -> tuple[int | None, tuple[int, int] | None]:
    """What a file that is deleted after the apply needs to come back as it was."""
    if patch.sha256 is None:
        return None, None
    status = file.stat()
    return stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid)


def _is_taken(patch: FilePatch, file: Path) -> bool:
    """Whether anything, be it a link that leads nowhere, stands where ``patch`` adds a file."""
    return patch.sha256 is None and os.path.lexists(file)


def _refuse_double(patches: Sequence[FilePatch], files: Sequence[Path]) -> None:
    seen: dict[Path, str] = {}
    for patch, file in zip(patches, files, strict=True):
        if file in seen:
            raise UserError(
                f"{seen[file]} and {patch.path} are the same file; nothing was changed; exclude one of them"
            )
        seen[file] = patch.path


def _side_effects(root: Path, writes: Sequence[_Write]) -> Iterator[FileNote]:
    """What replacing the files will change besides their bytes."""
    for write in writes:
        if write.before is None:
            continue
        others = (root / write.entry.path).stat().st_nlink - 1
        if others:
            message = f"had {others} other hard link(s): they keep the old bytes, this name is now a file of its own"
            yield FileNote(write.path, message)


def _write_all(store: Store, writes: Sequence[_Write], progress: _Progress) -> list[FileNote]:
    """Steps 2 to 5; the notes tell of files that could not be given to the owner of the old ones."""
    journal = store.begin([write.entry for write in writes], [write.before for write in writes])
    try:
        progress.begins()
        notes = _stage_all(store.root, journal, writes)
        _swap_all(store.root, journal)
        store.save(journal.finished())
    except BaseException as error:
        _roll_back(store, journal, writes, error)
        progress.taken_back()
        raise
    progress.applied(len(writes))
    return notes


def _stage_all(root: Path, journal: Journal, writes: Sequence[_Write]) -> list[FileNote]:
    """Write every new file beside the old one; nothing has changed after it."""
    notes = []
    for index, write in enumerate(writes):
        temp, target = journal.temp(root, index), root / write.entry.path
        if write.before is None:
            write_new(temp, write.after, _MODE_OF_A_NEW_FILE)
        elif not _stage(temp, write.after, target, write.entry):
            notes.append(FileNote(write.path, "belonged to another user: the new file belongs to you"))
    return notes


def _swap_all(root: Path, journal: Journal) -> None:
    """Put every staged file in its place."""
    for index, entry in enumerate(journal.entries):
        temp, target = journal.temp(root, index), root / entry.path
        if not (_add(temp, target) if entry.before is None else _swap(temp, target, entry.before)):
            raise UserError(f"{entry.path}: changed during the apply, so it was taken back; run again")
    for folder in {(root / entry.path).parent for entry in journal.entries}:
        sync_folder(folder)


def _swap(temp: Path, target: Path, before: str | None) -> bool:
    """Let ``temp`` take the place of ``target``; false if that has other bytes by now."""
    if _digest(target) != before:
        return False
    os.replace(temp, target)
    return True


def _add(temp: Path, target: Path) -> bool:
    """Let ``temp`` become ``target``; false if anything stands there by now, and that stays."""
    try:
        os.link(temp, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(target):
            return False
        os.replace(temp, target)
    else:
        temp.unlink()
    return True


def _roll_back(store: Store, journal: Journal, writes: Sequence[_Write], cause: BaseException) -> None:
    """Put back what was changed before ``cause``; a file that somebody else changed stays theirs."""
    try:
        _remove_temps(store.root, journal)
        for index, write in enumerate(writes):
            if _digest(store.root / write.entry.path) == write.entry.after:
                _restore(store.root, journal, index, write.before, write.entry.after)
        store.drop(journal)
    except OSError as error:
        first = f"{cause.strerror}: {cause.filename}" if isinstance(cause, OSError) else str(cause) or "interrupted"
        why = f"{first}; taking it back failed too ({error.strerror}: {error.filename})"
        raise OSError(error.errno, why, str(store.root)) from cause


def _recover(store: Store, progress: _Progress) -> Reverted:
    unfinished = _interrupted(store.journals()[::-1])
    return _undo(store, unfinished, force=False, progress=progress) if unfinished else Reverted()


def _interrupted(journals: Sequence[Journal]) -> Sequence[Journal]:
    """The first of ``journals``, which are given newest first, that an interrupted run has left unfinished."""
    return list(takewhile(lambda journal: journal.status != DONE, journals))


def _undo(store: Store, journals: Sequence[Journal], force: bool, progress: _Progress) -> Reverted:
    """Undo ``journals``, newest first, and all of them even if this is killed and ``_recover`` has to go on.

    Each is marked before the first file changes, and is dropped when all of its files are back.
    """
    seen = _check_undo(store, journals, force)
    progress.begins()
    for journal in journals:
        if journal.status == DONE:
            store.save(journal.reverting())
    is_removed: dict[str, bool] = {}
    for journal in journals:
        is_removed.update((path, data is None) for path, data in _undo_one(store, journal, seen))
        store.drop(journal)
    progress.reverted()
    notes = {_ENDED[journal.status]: None for journal in journals if journal.status in _ENDED}
    owners = {entry.path: entry.owner for journal in journals for entry in journal.entries if entry.owner}
    return Reverted(
        files=tuple(sorted(is_removed)),
        removed=tuple(sorted(path for path, removed in is_removed.items() if removed)),
        notes=(*(FileNote(".", message) for message in notes), *_other_owners(store.root, owners, is_removed)),
    )


def _undo_one(store: Store, journal: Journal, seen: dict[str, str | None]) -> Iterator[tuple[str, bytes | None]]:
    """Undo ``journal``; yields each file that this changed, with the bytes put back, None for one that is removed.

    A file that no longer holds what was ``seen`` when the revert began is somebody's edit, and stops it.
    """
    _remove_temps(store.root, journal)
    for index, entry in enumerate(journal.entries):
        if seen[entry.path] != entry.before:
            data = None if entry.before is None else store.blob(entry.before)
            if not _restore(store.root, journal, index, data, seen[entry.path]):
                raise UserError(f"{entry.path}: changed during the revert, so it stays as it is; run precpatch revert")
            seen[entry.path] = entry.before
            yield entry.path, data


def _other_owners(root: Path, owners: dict[str, tuple[int, int]], changed: Iterable[str]) -> Iterator[FileNote]:
    """A note on each file that does not belong to whom it belonged before the apply. A journal only tells of it."""
    for path in changed:
        if path in owners and os.path.lexists(root / path) and not _belongs_to(root / path, owners[path]):
            user, group = owners[path]
            yield FileNote(path, f"belonged to user {user}, group {group} before the apply, which you cannot give back")


def _check_undo(store: Store, journals: Sequence[Journal], force: bool) -> dict[str, str | None]:
    """Make sure, before anything changes, that undoing ``journals`` will go through and lose nobody's work.

    Returns:
        The digest that each file has now.
    """
    digests: dict[str, str | None] = {}
    seen: dict[str, str | None] = {}
    changed = set()
    for entry in (entry for journal in journals for entry in journal.entries):
        file = _own_file(store.root, entry)
        current = digests[entry.path] if entry.path in digests else seen.setdefault(entry.path, _digest(file))
        if current not in (entry.before, entry.after):
            changed.add(entry.path)
        if current != entry.before:
            if entry.before is not None:
                store.blob(entry.before)
            _refuse_read_only(file, entry.path)
        digests[entry.path] = entry.before
    if changed and not force:
        names = _named(sorted(changed))
        command = shlex.join(["precpatch", "revert", "--force", str(store.root)])
        raise UserError(f"changed since the apply, so nothing was reverted: {names}; `{command}` loses those changes")
    return seen


def _own_file(root: Path, entry: Entry) -> Path:
    """The file of a journal entry, which is stored without links: a link on the way there is not ours."""
    file = root / entry.path
    if os.path.realpath(file) != str(file):
        raise UserError(
            f"{entry.path}: a link has taken its place since the apply; nothing was changed; remove the link"
        )
    usable = file.is_file() if os.path.lexists(file) else entry.before is None or file.parent.is_dir()
    if not usable:
        raise UserError(
            f"{entry.path}: its folder is gone or it is no file any more; nothing was changed; bring it back first"
        )
    return file


def _refuse_read_only(file: Path, path: str) -> None:
    if file.exists() and not _is_writable(file):
        raise UserError(f"{path}: read-only, so nothing was reverted; make it and its folder writable first")


def _restore(root: Path, journal: Journal, index: int, data: bytes | None, expected: str | None) -> bool:
    """Put ``data`` back in the place of the entry number ``index``; None removes the file.

    False, and nothing is done, where its bytes are not the ``expected`` ones at the last moment.
    """
    entry = journal.entries[index]
    temp, target = journal.temp(root, index), root / entry.path
    if data is None:
        if _digest(target) != expected:
            return False
        target.unlink()
    else:
        try:
            _stage(temp, data, target, entry)
            if not _swap(temp, target, expected):
                temp.unlink()
                return False
        except BaseException:
            with contextlib.suppress(OSError):
                temp.unlink(missing_ok=True)
            raise
    sync_folder(target.parent)
    return True


def _remove_temps(root: Path, journal: Journal) -> None:
    for index in range(len(journal.entries)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            journal.temp(root, index).unlink()


def _digest(file: Path) -> str | None:
    """SHA-256 of the bytes of ``file``; None where there is none."""
    try:
        return sha256_of(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _stage(temp: Path, data: bytes, target: Path, entry: Entry) -> bool:
    """Write ``data`` to ``temp`` with the owner, attributes and mode of ``target``, ready to take its place.

    False where it could not be given to the owner. Of a target that is gone the journal knows the mode.
    """
    if target.exists():
        owner = _owner_of(target)
        write_new(temp, data, 0o600, partial(_become_like, target, owner))
        return _belongs_to(temp, owner)
    write_new(temp, data, 0o666 if entry.mode is None else entry.mode & 0o777, partial(_set_mode, entry))
    return True


def _set_mode(entry: Entry, temp: Path) -> None:
    if entry.mode is not None:
        os.chmod(temp, entry.mode & 0o777)


def _owner_of(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_uid, status.st_gid


def _belongs_to(file: Path, owner: tuple[int, int]) -> bool:
    return sys.platform == "win32" or _owner_of(file) == owner


def _become_like(target: Path, owner: tuple[int, int], temp: Path) -> None:
    if not _belongs_to(temp, owner):
        _give_to(owner, temp)
    _copy_attributes(target, temp)
    os.chmod(temp, stat.S_IMODE(target.stat().st_mode))


def _give_to(owner: tuple[int, int], temp: Path) -> None:
    """Give ``temp`` to ``owner`` if this process may; who may not is told so. Any other failure stops the run."""
    if sys.platform == "win32":
        return
    try:
        os.chown(temp, *owner)
    except OSError as error:
        if error.errno not in _NOT_ALLOWED_TO_GIVE_AWAY:
            raise
        with contextlib.suppress(OSError):  # a user may still give it to a group of theirs
            os.chown(temp, -1, owner[1])


def _copy_attributes(source: Path, target: Path) -> None:
    """Copy access lists and labels where the system has them and permits it."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        for name in os.listxattr(source):
            with contextlib.suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))


def _named(paths: Sequence[str]) -> str:
    """``paths`` for one line of text: the first of them, odd names quoted."""
    more = len(paths) - _NAMED_AT_MOST
    names = (path if path.isprintable() else ascii(path) for path in paths[:_NAMED_AT_MOST])
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


@contextlib.contextmanager
def _system_errors_named(root: Path, progress: _Progress) -> Iterator[None]:
    """Turn an error of the system into one line for the user, which says what is true of the tree."""
    try:
        yield
    except OSError as error:
        where = error.filename if error.filename is not None else root
        raise UserError(f"{where}: {error.strerror}; {progress.words}") from error
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(progress.words) from interrupt
