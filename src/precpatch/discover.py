"""Which files of a checkout to look at."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from precpatch.errors import UserError
from precpatch.notes import FileNote

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SUFFIXES = (".py", ".yaml", ".yml")

MAX_BYTES = 2 * 1024 * 1024
"""Files above this many bytes are data, not source, and left alone unless they are named."""

MAX_OTHER_BYTES = 256 * 1024
"""Files of other kinds above this many bytes are data."""

MAX_NAMED_BYTES = 64 * 1024 * 1024
"""Files above this many bytes are not read even where they are named."""

LEAVES_ROOT = "symlink leaves the root"
"""The note on a link to a file outside, which is never read and never written."""

LEFT_ALONE = ("tests", "test", "docs")
"""Folders, at any depth, that are only looked at when they are named: a vendored project brings its own along."""

EDITORS = frozenset((".vscode", ".vs", ".idea", ".zed", ".cursor", ".devcontainer"))
"""Folders of editors, at any depth, that are only looked at when they are named; their JSON may hold comments."""

_REPOSITORY = frozenset((".git", ".hg", ".svn", ".precpatch"))
_INSTALLED = frozenset((".venv", "venv", "node_modules", "site-packages"))
_CACHES = frozenset(("__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"))
_NEVER = _REPOSITORY | _INSTALLED | _CACHES
_PROJECT_FILES = ("pyproject.toml", "setup.py")

_GIT_SECONDS = 30
# The checkout's own git configuration is not trusted: it must not start a program or reach the network.
_GIT_OPTIONS = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "core.pager=cat"),
    *("-c", "protocol.allow=never", "--no-pager", "--literal-pathspecs"),
)
_GIT_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_GIT_KEPT = re.compile(r"GIT_(CONFIG.*|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM)|(?!GIT_).*", re.DOTALL)
_TRACKED = re.compile(r"(\d{6}) [0-9a-f]+ \d\t(.*)", re.DOTALL)
_SUBMODULE = "160000"

_MAX_IGNORE_BYTES = 1024 * 1024

_GONE = "no such file"
_PRIVATE = "inside a repository's or precpatch's own folder"
_OWN_REPOSITORY = "a repository of its own (submodule or nested clone): run precpatch on it separately"


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files of a run.

    Attributes:
        files: to look at; relative to the root with ``/``, sorted.
        skipped: files and folders left alone that a person may want to know of, sorted by path.
        others: files of other kinds that may say something; as ``files``.
    """

    files: tuple[str, ...]
    skipped: tuple[FileNote, ...]
    others: tuple[str, ...] = ()
    _all: Callable[[], tuple[str, ...]] = field(default=tuple, repr=False, compare=False)

    def checkout(self) -> tuple[str, ...]:
        """The files that a run on all of the root would look at, whatever this one was asked for; sorted."""
        return self._all()


def discover(
    root: Path,
    paths: Sequence[Path] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    *,
    suffixes: Sequence[str] = SUFFIXES,
    others: Callable[[str], bool] | None = None,
    max_bytes: int = MAX_BYTES,
    max_named_bytes: int = MAX_NAMED_BYTES,
) -> Discovery:
    """The files below ``root`` to look at: those that git tracks or would track, else those no .gitignore names.

    Args:
        root: the folder that every path is relative to.
        paths: only these files and what is below these folders; a file named here is taken even if git or the
            defaults would leave it out.
        include: gitignore-style globs of files to take from the folders in ``LEFT_ALONE`` and ``EDITORS``.
        exclude: gitignore-style globs of files to leave out, whatever else names them.
        suffixes: ends of the names to take.
        others: which of the other files to take as well, if they are not above ``MAX_OTHER_BYTES``.
        max_bytes: files above this size are skipped, with a note, unless they are named.
        max_named_bytes: the limit for files that are named.

    Raises:
        UserError: a path does not exist or is outside ``root``, a file that is named cannot be looked at, or a glob
            cannot be read.
    """
    real_root = _existing(root)
    if not real_root.is_dir():
        raise UserError(f"{root}: is not a folder")
    scope = _Scope.of(real_root, paths)
    chooser = _Chooser(
        root=real_root,
        scope=scope,
        include=_globs("include", include),
        exclude=_globs("exclude", exclude),
        suffixes=tuple(suffixes),
        max_bytes=max_bytes,
        max_named_bytes=max_named_bytes,
        others=others,
    )
    for path in scope.files:
        chooser.take_named(path)
    whole = _Whole(real_root, chooser.suffixes, max_bytes, others)
    if scope.folders:
        listing = whole.listing
        for folder in scope.folders:
            if folder and not listing.has_below(folder):
                listing += _walk(real_root, folder, chooser.suffixes, others)
        chooser.take_listing(listing)
    return replace(chooser.result(), _all=whole.files)


@dataclass
class _Whole:
    """All of a root, listed once and only when it is asked for."""

    root: Path
    suffixes: tuple[str, ...]
    max_bytes: int
    others: Callable[[str], bool] | None = None

    @cached_property
    def listing(self) -> _Listing:
        return _git_listing(self.root) or _walk(self.root, "", self.suffixes, self.others)

    def files(self) -> tuple[str, ...]:
        """The files that are looked at unless something else is asked for."""
        chooser = _Chooser(self.root, _Scope((), ("",)), None, None, self.suffixes, self.max_bytes, MAX_NAMED_BYTES)
        chooser.take_listing(self.listing)
        return chooser.result().files


def find_root(paths: Sequence[Path] = ()) -> Path:
    """The folder that the results for ``paths`` are relative to.

    One folder is its own root, and no paths mean the current folder. Otherwise it is the git checkout around
    all of them, else the nearest folder with a pyproject.toml or setup.py, else the folder that holds them.

    Raises:
        UserError: a path does not exist, or the paths have no folder in common.
    """
    real = [_existing(path) for path in paths or (Path(),)]
    if len(real) == 1 and real[0].is_dir():
        return real[0]
    try:
        common = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in real]))
    except ValueError:
        raise UserError("the paths are on different drives: name those of one checkout at a time") from None
    return project_around(common) or common


def project_around(folder: Path) -> Path | None:
    """The git checkout that ``folder`` is or is in, else the nearest folder with a pyproject.toml or setup.py."""
    around = (folder, *folder.parents)
    by_git = (each for each in around if os.path.lexists(each / ".git"))
    by_project = (each for each in around if any((each / name).is_file() for name in _PROJECT_FILES))
    return next(by_git, None) or next(by_project, None)


@dataclass(frozen=True, slots=True)
class _Listing:
    """Paths that may be looked at, and folders that are not looked into, with the reason."""

    paths: tuple[str, ...]
    closed: dict[str, str]

    def __add__(self, other: _Listing) -> _Listing:
        return _Listing(self.paths + other.paths, self.closed | other.closed)

    def __bool__(self) -> bool:
        return bool(self.paths)

    def has_below(self, folder: str) -> bool:
        return any(_is_below(path, folder) for path in self.paths)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the user named, relative to the root; the root itself is ""."""

    files: tuple[str, ...]
    folders: tuple[str, ...]

    @classmethod
    def of(cls, root: Path, paths: Sequence[Path]) -> _Scope:
        files, folders = [], []
        for path in paths or (root,):
            real = _existing(path)
            if not real.is_relative_to(root):
                raise UserError(f"{path}: is outside {root}; name paths of one checkout at a time")
            relative = real.relative_to(root).as_posix()
            if real.is_dir():
                folders.append("" if relative == "." else relative)
            else:
                files.append(relative)
        return cls(tuple(dict.fromkeys(files)), tuple(dict.fromkeys(folders)))

    def covers(self, path: str) -> bool:
        """Whether ``path`` is below a folder that was named."""
        return any(_is_below(path, folder) for folder in self.folders)

    def names_part_of(self, folder: str, path: str) -> bool:
        """Whether ``folder``, or a folder in it that ``path`` is below, was named."""
        return any(_is_below(f"{each}/", folder) and _is_below(path, each) for each in self.folders if each)


@dataclass
class _Chooser:
    """Decides, path by path, what is looked at."""

    root: Path
    scope: _Scope
    include: GitIgnoreSpec | None
    exclude: GitIgnoreSpec | None
    suffixes: tuple[str, ...]
    max_bytes: int
    max_named_bytes: int
    others: Callable[[str], bool] | None = None
    files: set[str] = field(default_factory=set)
    found_others: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)
    left_alone: dict[str, int] = field(default_factory=dict)
    open_folders: dict[str, bool] = field(default_factory=dict)

    def take_named(self, path: str) -> None:
        """Take a file that the user named, or say why not.

        Raises:
            UserError: it is of a kind that is looked at, but cannot be read.
        """
        is_other = not path.endswith(self.suffixes)
        if is_other and not (self.others and self.others(path)):
            self.notes[path] = f"not a kind of file that is looked at ({', '.join(self.suffixes)})"
        elif self.exclude and self.exclude.match_file(path):
            self.notes[path] = "named, but also excluded"
        else:
            obstacle = self._obstacle(path, self.max_named_bytes)
            if obstacle not in (None, _PRIVATE):
                raise UserError(f"{path}: {obstacle}; to go on without this file: --exclude")
            self._note_or_take(path, obstacle, is_other)

    def take_listing(self, listing: _Listing) -> None:
        """Take what the listing holds of the folders that the user named."""
        self.open_folders.update(dict.fromkeys(self.scope.folders, True), **{"": True})
        for path in dict.fromkeys(listing.paths):
            if path.endswith(self.suffixes):
                if self.scope.covers(path) and path not in self.files:
                    self._take_listed(path)
            elif self.others and self.others(path) and self.scope.covers(path):
                self._take_other(path)
        for folder, reason in listing.closed.items():
            is_named = folder in self.scope.folders
            if is_named and reason == _OWN_REPOSITORY:
                continue
            if (is_named or self.scope.covers(folder)) and self._is_open(folder):
                self.notes[folder or "."] = reason

    def result(self) -> Discovery:
        """All that was decided."""
        for folder, count in self.left_alone.items():
            files = "1 file" if count == 1 else f"{count} files"
            self.notes[folder] = f"{files} left alone by default; to look at them too: --include '{folder}/'"
        notes = tuple(FileNote(path, message) for path, message in sorted(self.notes.items()))
        return Discovery(tuple(sorted(self.files)), notes, tuple(sorted(self.found_others)))

    def _take_listed(self, path: str) -> None:
        if self.exclude and self.exclude.match_file(path):
            return
        if not self._is_open(path.rpartition("/")[0]):
            return
        unwanted = next((each for each in _asked_for_only(path) if not self._is_wanted(each, path)), None)
        if unwanted:
            self.left_alone[unwanted] = self.left_alone.get(unwanted, 0) + 1
        else:
            self._note_or_take(path, self._obstacle(path, self.max_bytes))

    def _take_other(self, path: str) -> None:
        """Take a file of another kind; one that cannot be read, or is too large, is not worth a word."""
        if (self.exclude and self.exclude.match_file(path)) or not self._is_open(path.rpartition("/")[0]):
            return
        is_wanted = all(self._is_wanted(each, path) for each in _asked_for_only(path))
        if is_wanted and self._obstacle(path, MAX_OTHER_BYTES) is None:
            self.found_others.add(path)

    def _is_wanted(self, folder: str, path: str) -> bool:
        return self.scope.names_part_of(folder, path) or bool(self.include and self.include.match_file(path))

    def _note_or_take(self, path: str, obstacle: str | None, is_other: bool = False) -> None:
        if obstacle is None:
            (self.found_others if is_other else self.files).add(path)
        elif obstacle != _GONE:  # git lists files that are deleted in the work tree
            self.notes[path] = obstacle

    def _obstacle(self, path: str, max_bytes: int) -> str | None:
        """Why the file ``path`` is not looked at, if it is not."""
        try:
            status = os.lstat(os.path.join(self.root, path))
        except (FileNotFoundError, NotADirectoryError):
            return _GONE
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        if not _REPOSITORY.isdisjoint(path.split("/")):
            return _PRIVATE
        if stat.S_ISLNK(status.st_mode):
            return self._about_link(path)
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if status.st_size > max_bytes:
            return f"{status.st_size} bytes, more than the limit of {max_bytes}: not read"
        return None

    def _about_link(self, path: str) -> str:
        target = Path(os.path.realpath(self.root / path))
        if not target.is_relative_to(self.root):
            return LEAVES_ROOT
        if not target.exists():
            return "symlink to nothing"
        return f"symlink: only the file itself is looked at, {target.relative_to(self.root).as_posix()}"

    def _is_open(self, folder: str) -> bool:
        """Whether ``folder`` and all above it, up to one that was named, are real folders of the project itself."""
        new = []
        while folder not in self.open_folders:
            new.append(folder)
            folder = folder.rpartition("/")[0]
        is_open = self.open_folders[folder]
        for inner in reversed(new):
            is_open = is_open and not _is_never(inner.rpartition("/")[2]) and self._is_plain_folder(inner)
            self.open_folders[inner] = is_open
        return is_open

    def _is_plain_folder(self, folder: str) -> bool:
        place = os.path.join(self.root, folder)
        return not os.path.islink(place) and not os.path.lexists(os.path.join(place, "pyvenv.cfg"))


def _existing(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise UserError(f"no such file or folder: {path}") from None


def _globs(option: str, patterns: Sequence[str]) -> GitIgnoreSpec | None:
    try:
        return _ignore_spec(patterns) if patterns else None
    except ValueError as error:
        raise UserError(f"--{option}: {error}; write it as in a .gitignore file") from None


def _ignore_spec(lines: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(folder + "/")


def _asked_for_only(path: str) -> Iterator[str]:
    """The folders that ``path`` is in and that are only looked at when the user asks for them, outermost first."""
    folders = path.split("/")[:-1]
    for depth, name in enumerate(folders, 1):
        if name in EDITORS or name in LEFT_ALONE:
            yield "/".join(folders[:depth])


def _is_local(path: str) -> bool:
    """Whether ``path`` is spelled as a relative one; an index of git may hold anything."""
    return not path.startswith("/") and (os.sep == "/" or not (os.sep in path or ":" in path))


def _is_never(name: str) -> bool:
    return name in _NEVER or name == ".." or name.endswith(".egg-info")


def _git_listing(root: Path) -> _Listing | None:
    """What git tracks or would track below ``root``; None where git cannot or will not say."""
    output = _git(root, "ls-files", "-z", "--stage", "--others", "--exclude-standard")
    if output is None:
        return None
    paths = []
    closed = {}
    for record in filter(None, os.fsdecode(output).split("\0")):
        tracked = _TRACKED.fullmatch(record)
        mode, path = tracked.groups() if tracked else ("", record)
        if not _is_local(path):
            continue
        if mode == _SUBMODULE:
            if os.path.lexists(root / path / ".git"):
                closed[path] = _OWN_REPOSITORY
        elif path.endswith("/"):
            closed[path[:-1]] = _OWN_REPOSITORY
        else:
            paths.append(path)
    return _Listing(tuple(paths), closed)


def _git(root: Path, *arguments: str) -> bytes | None:
    """The output of git in ``root``, run so that nothing of the checkout is executed; None where it fails."""
    program = shutil.which("git")
    if not program or Path(program).resolve().is_relative_to(root):
        return None
    environment = {key: value for key, value in os.environ.items() if _GIT_KEPT.fullmatch(key)} | _GIT_ENVIRONMENT
    command = [os.path.abspath(program), *_GIT_OPTIONS, *arguments]
    try:
        result = subprocess.run(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout


def _walk(
    root: Path,
    start: str,
    suffixes: tuple[str, ...],
    others: Callable[[str], bool] | None = None,
) -> _Listing:
    """The files of these kinds below the folder ``start`` of ``root`` that no .gitignore file there names."""
    paths: list[str] = []
    closed: dict[str, str] = {}
    pending = [_Folder(start, ())]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder.path) as found:
                entries = list(found)
            folder = _with_ignore_file(folder, entries)
            pending += _sort_out(folder, entries, lambda path: _is_of_a_kind(path, suffixes, others), paths, closed)
        except OSError as error:
            closed[folder.path] = f"cannot be read: {error.strerror}"
    return _Listing(tuple(paths), closed)


def _is_of_a_kind(path: str, suffixes: tuple[str, ...], others: Callable[[str], bool] | None) -> bool:
    return path.endswith(suffixes) or (others is not None and others(path))


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder on the way, and the .gitignore files that hold there: (length of its folder's prefix, rules)."""

    path: str
    rules: tuple[tuple[int, GitIgnoreSpec], ...]

    def path_of(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def ignores(self, path: str) -> bool:
        """Whether ``path`` (a folder's ends with a slash) is ignored; the innermost file that speaks of it decides."""
        for prefix, spec in reversed(self.rules):
            include = spec.check_file(path[prefix:]).include
            if include is not None:
                return include
        return False


def _sort_out(
    folder: _Folder,
    entries: Iterable[os.DirEntry[str]],
    is_wanted: Callable[[str], bool],
    paths: list[str],
    closed: dict[str, str],
) -> Iterator[_Folder]:
    """Add the files of ``folder`` to ``paths``, its nested repositories to ``closed``; the folders to go into."""
    for entry in entries:
        path = folder.path_of(entry.name)
        if not entry.is_dir(follow_symlinks=False):
            if is_wanted(path) and not folder.ignores(path):
                paths.append(path)
        elif not _is_never(entry.name) and not folder.ignores(path + "/"):
            if os.path.lexists(os.path.join(entry.path, ".git")):
                closed[path] = _OWN_REPOSITORY
            else:
                yield _Folder(path, folder.rules)


def _with_ignore_file(folder: _Folder, entries: Iterable[os.DirEntry[str]]) -> _Folder:
    """``folder`` with the rules of its own .gitignore, if it has one."""
    entry = next((entry for entry in entries if entry.name == ".gitignore"), None)
    if entry is None or not entry.is_file(follow_symlinks=False):
        return folder
    with open(entry.path, "rb") as file:
        data = file.read(_MAX_IGNORE_BYTES)
    lines = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).splitlines()
    rules = _ignore_spec(filter(_is_pattern, lines))
    return _Folder(folder.path, (*folder.rules, (len(folder.path_of("")), rules)))


def _is_pattern(line: str) -> bool:
    """Whether ``line`` of a .gitignore can be read; git passes over one that it cannot."""
    try:
        _ignore_spec([line])
    except ValueError:
        return False
    return True
