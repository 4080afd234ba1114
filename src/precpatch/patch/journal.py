"""What ``revert`` needs, kept in the folder ``.precpatch`` of a root: the lock, the journals and the original bytes.

    .precpatch/.gitignore            "*", so that git never sees the folder
    .precpatch/lock                  held by the one process that writes
    .precpatch/journals/000001.json  one for each apply, the highest number is the newest
    .precpatch/blobs/<sha256>        the bytes of files as they were

Everything read from here may have come with an untrusted checkout: names, digests and paths are checked
before use, and no link is followed. A mode counts without its special bits, an owner is only told.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from precpatch.errors import UserError
from precpatch.patch.edits import sha256_of

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FOLDER = ".precpatch"

WRITING, DONE, REVERTING = "writing", "done", "reverting"

_VERSION = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{16}")
# A number of any length that an apply can count on from: one that was planted must not hide those that follow.
_JOURNAL_NAME = re.compile(r"[0-9]{6,9}\.json")
_LAST_NUMBER = 10**9 - 1
_MAX_JOURNAL_BYTES = 64 * 1024 * 1024
_PERMISSIONS = 0o777
_NOT_AS_LEFT = (errno.ENOENT, errno.EINVAL, errno.ELOOP, errno.EFBIG, errno.ENOTDIR, errno.EISDIR)
PRIVATE_FOLDERS = (".git", ".hg", ".svn", FOLDER)
# The bytes of a file are for its owner alone, as the file may be; the rest is as open as the user's umask has it.
_PRIVATE, _SHARED = 0o600, 0o666
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of an apply.

    Attributes:
        path: the file itself, no link, relative to the root with ``/``.
        before: SHA-256 of the bytes before the apply, the name of the blob that holds them; None for a file
            that the apply added.
        after: SHA-256 of the bytes that the apply wrote.
        mode: the permission bits before; None where they are not known.
        owner: the user and the group that it belonged to before; None where they are not known.
    """

    path: str
    before: str | None
    after: str
    mode: int | None = None
    owner: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """One apply.

    Attributes:
        name: its file under ``journals``; names sort in the order of the applies.
        id: random, part of the name of every temporary file of this apply.
        status: "writing" until every file is in place, then "done"; "reverting" from the start of a revert until the
            journal is dropped at its end.
        entries: the files, in the order they are written.
    """

    name: str
    id: str
    status: str
    entries: tuple[Entry, ...]

    def temp(self, root: Path, index: int) -> Path:
        """The temporary file, beside its target, that the entry number ``index`` is written to first."""
        return (root / self.entries[index].path).parent / f".precpatch-{self.id}-{index}.tmp"

    def finished(self) -> Journal:
        """The same journal once every file is in place."""
        return replace(self, status=DONE)

    def reverting(self) -> Journal:
        """The same journal once a revert of it has begun."""
        return replace(self, status=REVERTING)


class Store:
    """The folder ``.precpatch`` of one root. What does not say that it takes no lock is for the holder of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / FOLDER
        self._journals = self.folder / "journals"
        self._blobs = self.folder / "blobs"
        self._lock = self.folder / "lock"

    def exists(self) -> bool:
        """Whether an apply has left anything here; takes no lock."""
        return os.path.lexists(self.folder)

    def is_interrupted(self) -> bool:
        """Whether the newest apply or revert has not come to its end, or is under way; takes no lock."""
        try:
            names = _names(self._journals, _JOURNAL_NAME)
            return bool(names) and self._read_journal(names[-1]).status != DONE
        except (OSError, UserError):
            return False

    def may_hold_journals(self) -> bool:
        """Whether an apply is recorded here, or something is in the way that has to be looked at; takes no lock."""
        try:
            return bool(_names(self._journals, _JOURNAL_NAME))
        except (OSError, UserError):
            return True

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock; at the end, remove the folder if no journal is left in it.

        The system drops the lock of a process that dies, so a lock file left behind stops nobody.

        Raises:
            UserError: another process holds it, or the folder is not usable.
        """
        lock = self._take_lock()
        try:
            yield
        finally:
            if sys.platform == "win32":  # an open file cannot be removed there
                _close(lock)
                self._tidy()
            else:
                self._tidy()
                _close(lock)

    def journals(self) -> list[Journal]:
        """All journals, oldest first.

        Raises:
            UserError: one of them is damaged.
        """
        return [self._read_journal(name) for name in _names(self._journals, _JOURNAL_NAME)]

    def begin(self, entries: Sequence[Entry], originals: Sequence[bytes | None]) -> Journal:
        """Keep the ``originals`` of ``entries`` and a new journal with the status "writing", all of it synced.

        A file that is to be added has no original: None.
        """
        _make_folder(self._blobs)
        _make_folder(self._journals)
        for entry, data in zip(entries, originals, strict=True):
            if entry.before is not None and data is not None and not self._holds(entry.before):
                _write(self._blobs / entry.before, data, _PRIVATE)
        for folder in (self._blobs, self.folder, self.root):
            sync_folder(folder)
        last = max((_number(name) for name in _names(self._journals, _JOURNAL_NAME)), default=0)
        if last >= _LAST_NUMBER:
            raise UserError(f"{self._journals}: holds a journal with the last number that there is; remove {FOLDER}")
        journal = Journal(f"{last + 1:06d}.json", secrets.token_hex(8), WRITING, tuple(entries))
        self.save(journal)
        return journal

    def save(self, journal: Journal) -> None:
        """Write ``journal`` in the place of its earlier state, synced."""
        files = [_record(entry) for entry in journal.entries]
        record = {"version": _VERSION, "id": journal.id, "status": journal.status, "files": files}
        _write(self._journals / journal.name, json.dumps(record, indent=1).encode("ascii") + b"\n", _SHARED)
        sync_folder(self._journals)

    def drop(self, journal: Journal) -> None:
        """Forget ``journal`` and every blob that no other journal names."""
        (self._journals / journal.name).unlink()
        sync_folder(self._journals)
        needed = {entry.before for other in self.journals() for entry in other.entries}
        for name in _names(self._blobs, _DIGEST):
            if name not in needed:
                (self._blobs / name).unlink()

    def blob(self, digest: str) -> bytes:
        """The bytes whose SHA-256 is ``digest``.

        Raises:
            UserError: they are missing or are others by now.
        """
        path = self._blobs / digest
        try:
            data = _read(path)
        except OSError as error:
            raise _unreadable(path, error) from None
        if sha256_of(data) != digest:
            raise _damaged(path, "its bytes are not those that were kept")
        return data

    def _holds(self, digest: str) -> bool:
        try:
            return sha256_of(_read(self._blobs / digest)) == digest
        except OSError:
            return False

    def _read_journal(self, name: str) -> Journal:
        path = self._journals / name
        try:
            record = json.loads(_read(path, _MAX_JOURNAL_BYTES))
            return _journal(name, record)
        except OSError as error:
            raise _unreadable(path, error) from None
        except (ValueError, RecursionError) as error:
            raise _damaged(path, str(error)) from None

    def _take_lock(self) -> int:
        for _ in range(100):
            _make_folder(self.folder)
            try:
                lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | _FLAGS, _SHARED)
            except FileNotFoundError:  # the last holder has just removed the folder
                continue
            except OSError as error:
                hint = "; remove it" if error.errno in (errno.ELOOP, errno.EISDIR) else ""
                raise UserError(
                    f"{self._lock}: cannot be used as a lock: {error.strerror}; nothing was changed{hint}"
                ) from None
            try:
                if os.fstat(lock).st_nlink > 1:
                    raise UserError(f"{self._lock}: is a hard link to another file; remove it")
                self._claim(lock)
                if _same_file(lock, self._lock):
                    self._sign(lock)
                    return lock
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)
        raise UserError(f"{self._lock}: other processes keep taking the lock; try again")

    def _claim(self, lock: int) -> None:
        try:
            if sys.platform == "win32":
                msvcrt.locking(lock, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK):
                hint = "write the diff to a file and use git apply there"
                raise UserError(f"{self.root}: this file system cannot lock files ({error.strerror}); {hint}") from None
            raise UserError(
                f"{self.root}: another precpatch is writing there{_holder(lock)}; wait until it ends"
            ) from None

    def _sign(self, lock: int) -> None:
        os.ftruncate(lock, 0)
        os.lseek(lock, 0, os.SEEK_SET)
        _write_whole(lock, f"\n{os.getpid()}\n".encode())  # Windows locks the first byte against readers too
        ignore = self.folder / ".gitignore"
        if not os.path.lexists(ignore):
            _write(ignore, b"*\n", _SHARED)

    def _tidy(self) -> None:
        """Remove what is ours, and the folder with it, when there is nothing to revert; never raises."""
        with contextlib.suppress(OSError):
            if _names(self._journals, _JOURNAL_NAME):
                return
            for folder, pattern in ((self._blobs, _DIGEST), (self._journals, _JOURNAL_NAME)):
                _clear(folder, pattern)
            self._lock.unlink(missing_ok=True)
            ours = {".gitignore", ".gitignore.tmp"}
            if ours.issuperset(os.listdir(self.folder)):
                for name in ours:
                    (self.folder / name).unlink(missing_ok=True)
                self.folder.rmdir()


def check_relative(path: str) -> None:
    """Make sure that ``path`` names a place below a root that may be written, going by its spelling alone.

    Raises:
        UserError: it is absolute, has ``..`` or empty parts, or enters a repository's or precpatch's own folder.
    """
    parts = path.split("/")
    foreign = os.sep != "/" and (os.sep in path or ":" in path)
    if foreign or "\0" in path or not {"", ".", ".."}.isdisjoint(parts) or not _is_encodable(path):
        raise UserError(f"{path!r}: not a plain path below the root; nothing is written there")
    if any(_bare(part) in PRIVATE_FOLDERS for part in parts):
        raise UserError(f"{path!r}: is inside a repository's or precpatch's own folder; nothing is written there")


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable, where the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes, mode: int, prepare: Callable[[Path], None] | None = None) -> None:
    """Write ``data`` to the new file ``path``, let ``prepare`` set what else belongs to it, and sync it.

    Args:
        path: where nothing is yet.
        data: the whole content.
        mode: permission bits, from which the umask takes away.
        prepare: called with ``path`` before the sync.

    Raises:
        OSError: a file or a link is there already, or the system refused.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
    try:
        _write_whole(descriptor, data)
        if prepare:
            prepare(path)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, of which the system may take a part at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _close(descriptor: int) -> None:
    """Let go of the lock; an error then is about no byte of anybody's."""
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _is_encodable(path: str) -> bool:
    try:
        return bool(os.fsencode(path))
    except UnicodeError:
        return False


def _bare(part: str) -> str:
    """``part`` as file systems that ignore case, odd characters and trailing dots may see it."""
    return "".join(char for char in part if char.isascii()).casefold().rstrip(". ")


def _journal(name: str, record: object) -> Journal:
    """The journal in ``record``; ``ValueError`` says what is wrong with it."""
    if not isinstance(record, dict) or record.get("version") != _VERSION:
        raise ValueError("written by another version of precpatch")
    ident, status, files = record.get("id"), record.get("status"), record.get("files")
    if not (isinstance(ident, str) and _ID.fullmatch(ident)) or status not in (WRITING, DONE, REVERTING):
        raise ValueError("no id or no known status")
    if not isinstance(files, list) or not files:
        raise ValueError("no list of files")
    entries = tuple(map(_entry, files))
    if len({entry.path for entry in entries}) < len(entries):
        raise ValueError("a file is listed twice")
    return Journal(name, ident, status, entries)


def _record(entry: Entry) -> dict[str, object]:
    """An entry as JSON. The bytes of its path stand as UTF-8: a name is the same in every locale."""
    path = os.fsencode(entry.path).decode("utf-8", "surrogateescape")
    return {"path": path, "before": entry.before, "after": entry.after, "mode": entry.mode, "owner": entry.owner}


def _entry(record: object) -> Entry:
    fields = record if isinstance(record, dict) else {}
    path, before, after = (fields.get(key, 0) for key in ("path", "before", "after"))
    if not (isinstance(path, str) and isinstance(before, str | None) and isinstance(after, str)):
        raise ValueError("a file without a path or digests")
    if not all(_DIGEST.fullmatch(digest) for digest in (before, after) if digest is not None):
        raise ValueError("a file with a digest that is none")
    try:
        path = os.fsdecode(path.encode("utf-8", "surrogateescape"))
        check_relative(path)
    except (UserError, UnicodeError) as error:
        raise ValueError(str(error)) from None
    return Entry(path, before, after, _mode(fields.get("mode")), _owner(fields.get("owner")))


def _mode(value: object) -> int | None:
    """Permission bits of a record; never those that make a program run as its owner."""
    return value & _PERMISSIONS if isinstance(value, int) else None


def _owner(value: object) -> tuple[int, int] | None:
    match value:
        case [int(user), int(group)]:
            return user, group
    return None


def _unreadable(path: Path, error: OSError) -> Exception:
    """What to raise where a file of ours cannot be read: damage where it is not what we left, else the error itself."""
    return _damaged(path, error.strerror or "cannot be read") if error.errno in _NOT_AS_LEFT else error


def _damaged(path: Path, why: str) -> UserError:
    return UserError(f"{path}: damaged: {why}; nothing was changed; restore the files from git and remove {FOLDER}")


def _read(path: Path, most: int | None = None) -> bytes:
    """The bytes of a regular file; a link, a pipe, a folder or a file of more than ``most`` is an ``OSError``."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    if most is not None and status.st_size > most:
        raise OSError(errno.EFBIG, "is too large")
    descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    with open(descriptor, "rb") as file:
        return file.read()


def _write(path: Path, data: bytes, mode: int) -> None:
    """Put a file of our own in place at once, whatever was there."""
    temp = path.with_name(path.name + ".tmp")
    temp.unlink(missing_ok=True)
    write_new(temp, data, mode)
    os.replace(temp, path)


def _names(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    """The names in ``folder`` that match ``pattern``, sorted; none where there is no such folder."""
    if not os.path.lexists(folder):
        return []
    _must_be_folder(folder)
    return sorted((name for name in os.listdir(folder) if pattern.fullmatch(name)), key=lambda name: (len(name), name))


def _number(name: str) -> int:
    """The number of a journal."""
    return int(name.removesuffix(".json"))


def _make_folder(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
    _must_be_folder(folder)


def _must_be_folder(folder: Path) -> None:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise UserError(f"{folder}: is a link or a file, not the folder that precpatch keeps there; remove it")


def _clear(folder: Path, pattern: re.Pattern[str]) -> None:
    """Remove the files of ours in ``folder``, half-written ones too, then ``folder`` if that leaves it empty."""
    if not os.path.lexists(folder) or not stat.S_ISDIR(folder.lstat().st_mode):
        return
    for name in os.listdir(folder):
        if pattern.fullmatch(name.removesuffix(".tmp")):
            (folder / name).unlink()
    folder.rmdir()


def _same_file(descriptor: int, path: Path) -> bool:
    """Whether ``path`` still names the open file, which another process may have removed meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _holder(lock: int) -> str:
    with contextlib.suppress(OSError, ValueError):
        os.lseek(lock, 1, os.SEEK_SET)
        return f" (process {int(os.read(lock, 20))})"
    return ""
