"""Apply and revert: all or nothing, inside the root only, and every byte comes back."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precpatch.errors import UserError
from precpatch.patch.edits import Edit, NewFile, PatchSet
from precpatch.patch.journal import Store
from precpatch.patch.transaction import apply, not_writable, recover, revert, tidy

OLD = {"a.py": b"x = bf16\r\n", "pkg/b.py": b"\xe9 bf16", "pkg/deep/c d.yaml": b"k: bf16\n", "other.py": b"pass\n"}
NEW = {path: data.replace(b"bf16", b"fp32") for path, data in OLD.items()}
ADDED = NewFile("pkg/added.py", b"import torch\n\xff")
NEW_AND_ADDED = {**NEW, ADDED.path: ADDED.data}

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
needs_links = pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def read_tree(root: Path) -> dict[str, bytes]:
    """Every file below ``root`` that is not in precpatch's own folder."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    relative = {path.relative_to(root).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in relative.items() if not name.startswith(".precpatch/")}


def to_fp32(
    root: Path, *paths: str, old: bytes = b"bf16", new: bytes = b"fp32", new_files: Iterable[NewFile] = ()
) -> PatchSet:
    """The edits that replace ``old`` in ``paths``, by default in every file, and the files to add."""
    edits = []
    for path in paths or read_tree(root):
        data = (root / path).read_bytes()
        if old in data:
            edits.append(Edit(path, data.index(old), old, new))
    return PatchSet.of(edits, lambda path: (root / path).read_bytes(), new_files)


def adding(*new_files: NewFile) -> PatchSet:
    """A patch set that only adds files."""
    return PatchSet.of([], lambda path: b"", new_files)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree", OLD)


def test_apply_then_revert(tree: Path) -> None:
    applied = apply(tree, to_fp32(tree))
    assert applied.files == ("a.py", "pkg/b.py", "pkg/deep/c d.yaml")
    assert applied.notes == ()
    assert read_tree(tree) == NEW
    assert (tree / ".precpatch/.gitignore").read_bytes() == b"*\n"
    reverted = revert(tree)
    assert reverted.files == applied.files
    assert read_tree(tree) == OLD
    assert not (tree / ".precpatch").exists()


@given(st.dictionaries(st.sampled_from(["a", "b", "d/c", "d/e/f"]), st.binary(max_size=60), min_size=1), st.randoms())
@settings(max_examples=25)
def test_any_edits_come_back(files: dict[str, bytes], chance: random.Random) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = write_tree(Path(name), files)
        states = [files]
        for _ in range(2):
            edits = [
                Edit(path, start, data[start : start + 3], chance.randbytes(chance.randrange(4)))
                for path, data in states[-1].items()
                for start in range(0, len(data), 5)
                if chance.random() < 0.5
            ]
            new = f"new{len(states)}"
            new_files = [NewFile(new, chance.randbytes(chance.randrange(4)))] if chance.random() < 0.5 else []
            patches = PatchSet.of(edits, states[-1].__getitem__, new_files)
            if patches:
                apply(root, patches)
                paths = {*states[-1], *patches.paths}
                states.append({path: patches.apply_to(path, states[-1].get(path)) for path in paths})
            assert read_tree(root) == states[-1]
        for state in reversed(states[:-1]):
            revert(root)
            assert read_tree(root) == state
        assert not (root / ".precpatch").exists()


def test_an_empty_patch_set_writes_nothing(tree: Path) -> None:
    apply(tree, PatchSet())
    assert not (tree / ".precpatch").exists()


def test_untouched_files_keep_their_time_and_inode(tree: Path) -> None:
    before = (tree / "other.py").stat()
    apply(tree, to_fp32(tree))
    revert(tree)
    after = (tree / "other.py").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_a_changed_file_stops_everything(tree: Path) -> None:
    patches = to_fp32(tree)
    (tree / "pkg/b.py").write_bytes(b"bf16 was here")
    before = read_tree(tree)
    with pytest.raises(UserError, match=r"changed since the plan.*pkg/b\.py"):
        apply(tree, patches)
    assert read_tree(tree) == before
    assert not (tree / ".precpatch").exists()


def test_a_vanished_file_stops_everything(tree: Path) -> None:
    patches = to_fp32(tree)
    (tree / "pkg/b.py").unlink()
    with pytest.raises(UserError, match=r"pkg/b\.py: No such file"):
        apply(tree, patches)
    assert (tree / "a.py").read_bytes() == OLD["a.py"]


# Where things may be written


@pytest.mark.parametrize(
    "path", ["../out.py", "a/../../out.py", "/out.py", "", ".", "a//b.py", "a\0.py", "./a.py", "\ud800"]
)
def test_paths_that_are_not_plain_are_refused(tree: Path, path: str) -> None:
    patches = PatchSet.of([Edit(path, 0, b"", b"x")], lambda path: b"")
    with pytest.raises(UserError, match="not a plain path"):
        apply(tree, patches)


@pytest.mark.parametrize(
    "path", [".git/config", "sub/.GIT/hooks/x.py", ".precpatch/lock", ".g\u200cit/config", ".git./x"]
)
def test_folders_of_repositories_are_refused(tree: Path, path: str) -> None:
    write_tree(tree, {path: b"bf16"})
    with pytest.raises(UserError, match="own folder"):
        apply(tree, PatchSet.of([Edit(path, 0, b"bf16", b"x")], lambda path: b"bf16"))
    assert (tree / path).read_bytes() == b"bf16"


@needs_links
@pytest.mark.parametrize("place", ["link.py", "folder/out.py"])
def test_links_out_of_the_root_are_refused(tree: Path, place: str) -> None:
    outside = write_tree(tree.parent / "outside", {"out.py": b"bf16"})
    (tree / "link.py").symlink_to(outside / "out.py")
    (tree / "folder").symlink_to(outside)
    with pytest.raises(UserError, match="leads out of"):
        apply(tree, to_fp32(tree, "a.py", place))
    assert read_tree(outside) == {"out.py": b"bf16"}
    assert read_tree(tree) == OLD


@needs_links
def test_a_link_into_a_repository_is_refused(tree: Path) -> None:
    write_tree(tree, {".git/config": b"bf16"})
    (tree / "link.py").symlink_to(".git/config")
    with pytest.raises(UserError, match="own folder"):
        apply(tree, to_fp32(tree, "link.py"))


@needs_links
def test_a_link_inside_stays_a_link(tree: Path) -> None:
    (tree / "link.py").symlink_to("pkg/b.py")
    (tree / "alias").symlink_to("pkg")
    apply(tree, to_fp32(tree, "link.py", "alias/deep/c d.yaml"))
    assert (tree / "link.py").is_symlink()
    assert (tree / "alias").is_symlink()
    assert (tree / "pkg/b.py").read_bytes() == NEW["pkg/b.py"]
    assert revert(tree).files == ("pkg/b.py", "pkg/deep/c d.yaml")
    assert read_tree(tree) == OLD


@needs_links
def test_two_names_of_one_file_are_refused(tree: Path) -> None:
    (tree / "link.py").symlink_to("a.py")
    with pytest.raises(UserError, match=r"a\.py and link\.py are the same file"):
        apply(tree, to_fp32(tree, "link.py", "a.py"))
    assert read_tree(tree) == OLD


@needs_links
@pytest.mark.parametrize("place", [".precpatch", ".precpatch/journals", ".precpatch/blobs", ".precpatch/lock"])
def test_a_planted_link_in_our_own_folder_is_not_followed(tree: Path, place: str) -> None:
    outside = write_tree(tree.parent / "outside", {"file": b"precious"})
    (tree / place).parent.mkdir(exist_ok=True)
    (tree / place).symlink_to(outside / "file" if place.endswith("lock") else outside)
    with pytest.raises(UserError, match="remove it"):
        apply(tree, to_fp32(tree))
    assert read_tree(outside) == {"file": b"precious"}
    assert read_tree(tree) == OLD


def test_a_lock_that_is_another_file_is_refused(tree: Path) -> None:
    (tree / ".precpatch").mkdir()
    os.link(tree / "other.py", tree / ".precpatch/lock")
    with pytest.raises(UserError, match="hard link"):
        apply(tree, to_fp32(tree))
    assert read_tree(tree) == OLD


def test_no_such_root(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        apply(tmp_path / "none", PatchSet())


# Modes, links, read-only files


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_the_mode_stays(tree: Path) -> None:
    (tree / "a.py").chmod(0o750)
    apply(tree, to_fp32(tree))
    assert stat.S_IMODE((tree / "a.py").stat().st_mode) == 0o750
    revert(tree)
    assert stat.S_IMODE((tree / "a.py").stat().st_mode) == 0o750


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes")
def test_attributes_stay(tree: Path) -> None:
    try:
        os.setxattr(tree / "a.py", "user.note", b"kept")
    except OSError:
        pytest.skip("not on this file system")
    apply(tree, to_fp32(tree))
    assert os.getxattr(tree / "a.py", "user.note") == b"kept"


def test_a_read_only_file_is_left_and_noted(tree: Path) -> None:
    (tree / "pkg/b.py").chmod(0o444)
    patches = to_fp32(tree)
    applied = apply(tree, patches)
    assert applied.files == ("a.py", "pkg/deep/c d.yaml")
    assert applied.notes == not_writable(tree, patches)
    assert [(note.path, note.message.partition(":")[0]) for note in applied.notes] == [("pkg/b.py", "not-writable")]
    assert read_tree(tree) == {**NEW, "pkg/b.py": OLD["pkg/b.py"]}
    assert stat.S_IMODE((tree / "pkg/b.py").stat().st_mode) == 0o444


def test_a_tree_that_is_read_only_as_a_whole_is_written_by_root_alone(tree: Path) -> None:
    """Root may write a copy of a read-only snapshot; the modes stay. Everybody else gets a note."""
    (tree / "pkg/b.py").chmod(0o444)
    (tree / "pkg").chmod(0o555)
    try:
        applied = apply(tree, to_fp32(tree, "pkg/b.py"))
        assert applied.files == (("pkg/b.py",) if os.access(tree / "pkg/b.py", os.W_OK) else ())
        assert stat.S_IMODE((tree / "pkg/b.py").stat().st_mode) == 0o444
    finally:
        (tree / "pkg").chmod(0o755)


def test_only_read_only_files_leave_no_folder(tree: Path) -> None:
    (tree / "a.py").chmod(0o444)
    assert apply(tree, to_fp32(tree, "a.py")).files == ()
    assert not (tree / ".precpatch").exists()


def test_revert_does_not_write_a_file_made_read_only(tree: Path) -> None:
    apply(tree, to_fp32(tree))
    (tree / "a.py").chmod(0o444)
    with pytest.raises(UserError, match=r"a\.py: read-only"):
        revert(tree)
    assert read_tree(tree) == NEW


def test_a_hard_link_is_cut_so_that_the_other_name_stays(tree: Path) -> None:
    other = tree.parent / "outside.py"
    os.link(tree / "a.py", other)
    applied = apply(tree, to_fp32(tree))
    assert [note.path for note in applied.notes] == ["a.py"]
    assert "hard link" in applied.notes[0].message
    assert other.read_bytes() == OLD["a.py"]
    assert (tree / "a.py").read_bytes() == NEW["a.py"]


needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files away")


def refusing(number: int) -> Callable[..., None]:
    """A ``chown`` that fails."""

    def chown(*_: object) -> None:
        raise OSError(number, os.strerror(number), "a.py")

    return chown


@needs_root
@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL])
def test_a_change_of_owner_is_noted(tree: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    os.chown(tree / "a.py", 12345, 12346)
    with monkeypatch.context() as patch:  # as without CAP_CHOWN
        patch.setattr(os, "chown", refusing(number))
        applied = apply(tree, to_fp32(tree))
        assert [(note.path, note.message.partition(":")[0]) for note in applied.notes] == [
            ("a.py", "belonged to another user")
        ]
        reverted = revert(tree)
    assert [note.message for note in reverted.notes] == [
        "belonged to user 12345, group 12346 before the apply, which you cannot give back"
    ]


@needs_root
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_chown_that_fails_otherwise_changes_nothing(tree: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    os.chown(tree / "a.py", 12345, 12346)
    with monkeypatch.context() as patch:
        patch.setattr(os, "chown", refusing(number))
        with pytest.raises(UserError, match="every file is as before"):
            apply(tree, to_fp32(tree))
    assert read_tree(tree) == OLD
    assert (tree / "a.py").stat().st_uid == 12345
    apply(tree, to_fp32(tree))
    revert(tree)
    assert ((tree / "a.py").stat().st_uid, (tree / "a.py").stat().st_gid) == (12345, 12346)


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_a_deleted_script_comes_back_with_its_run_bit(tree: Path) -> None:
    (tree / "a.py").chmod(0o755)
    apply(tree, to_fp32(tree))
    (tree / "a.py").unlink()
    revert(tree, force=True)
    assert stat.S_IMODE((tree / "a.py").stat().st_mode) == 0o755


# Files that are added


def test_a_file_is_added_and_removed_again(tree: Path) -> None:
    applied = apply(tree, to_fp32(tree, new_files=[ADDED, NewFile("empty", b"")]))
    assert applied.files == ("a.py", "empty", "pkg/added.py", "pkg/b.py", "pkg/deep/c d.yaml")
    assert applied.notes == ()
    assert read_tree(tree) == {**NEW_AND_ADDED, "empty": b""}
    journal = json.loads((tree / ".precpatch/journals/000001.json").read_bytes())
    assert {file["path"]: file["before"] for file in journal["files"]}[ADDED.path] is None
    assert revert(tree).files == applied.files
    assert read_tree(tree) == OLD
    assert not (tree / ".precpatch").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
@pytest.mark.parametrize(("mask", "mode"), [(0o000, 0o644), (0o077, 0o600)])
def test_the_mode_of_an_added_file(tree: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        apply(tree, adding(ADDED))
    finally:
        os.umask(before)
    status = (tree / ADDED.path).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_nlink) == (mode, 1)


@pytest.mark.parametrize("data", [b"mine", ADDED.data])
def test_a_file_that_is_there_by_now_stops_everything(tree: Path, data: bytes) -> None:
    patches = to_fp32(tree, new_files=[ADDED])
    write_tree(tree, {ADDED.path: data})
    with pytest.raises(UserError, match=r"appeared since the plan was made.*pkg/added\.py"):
        apply(tree, patches)
    assert read_tree(tree) == {**OLD, ADDED.path: data}
    assert not (tree / ".precpatch").exists()


@needs_links
def test_a_link_to_nowhere_is_in_the_way_too(tree: Path) -> None:
    (tree / ADDED.path).symlink_to(tree.parent / "outside.py")
    with pytest.raises(UserError, match="appeared since"):
        apply(tree, to_fp32(tree, new_files=[ADDED]))
    assert (tree / ADDED.path).is_symlink()
    assert not (tree.parent / "outside.py").exists()
    assert read_tree(tree) == OLD


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("../out.py", "not a plain path"),
        ("/out.py", "not a plain path"),
        ("pkg/", "not a plain path"),
        (".git/hooks/x", "own folder"),
        (".precpatch/x", "own folder"),
        ("none/x.py", "its folder: No such file"),
        ("a.py/x.py", "its folder"),
        ("folder/x.py", "leads out of"),
        ("repository/x", "own folder"),
    ],
)
@needs_links
def test_a_file_is_added_to_a_folder_of_the_root_only(tree: Path, path: str, problem: str) -> None:
    write_tree(tree.parent, {"outside/y": b""})
    write_tree(tree, {".git/hooks/y": b""})
    (tree / "folder").symlink_to(tree.parent / "outside")
    (tree / "repository").symlink_to(".git/hooks")
    before = read_tree(tree.parent)
    with pytest.raises(UserError, match=problem):
        apply(tree, to_fp32(tree, *OLD, new_files=[NewFile(path, b"x")]))
    assert read_tree(tree.parent) == before


@needs_links
def test_a_file_is_added_once_through_a_link_inside(tree: Path) -> None:
    (tree / "alias").symlink_to("pkg")
    new = NewFile("alias/added.py", ADDED.data)
    with pytest.raises(UserError, match=r"alias/added\.py and pkg/added\.py are the same file"):
        apply(tree, adding(ADDED, new))
    assert apply(tree, adding(new)).files == ("alias/added.py",)
    assert (tree / ADDED.path).read_bytes() == ADDED.data
    assert revert(tree).files == (ADDED.path,)
    assert read_tree(tree) == OLD


def test_a_file_for_a_read_only_folder_is_left_out_and_noted(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tree / "pkg" and access(path, mode))
    patches = to_fp32(tree, "a.py", new_files=[ADDED])
    applied = apply(tree, patches)
    assert applied.files == ("a.py",)
    assert applied.notes == not_writable(tree, patches)
    assert [note.path for note in applied.notes] == [ADDED.path]
    assert "not-writable: its folder is read-only" in applied.notes[0].message
    assert not (tree / ADDED.path).exists()


def test_without_hard_links_a_file_is_added_too(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(source: Path, target: Path) -> None:
        if target.name == "taken":
            target.write_bytes(b"mine")
        raise OSError(errno.EPERM, "Operation not permitted", str(source))

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(UserError, match="taken: changed during the apply"):
        apply(tree, adding(ADDED, NewFile("taken", b"")))
    assert read_tree(tree) == {**OLD, "taken": b"mine"}
    apply(tree, adding(ADDED))
    assert read_tree(tree) == {**OLD, "taken": b"mine", ADDED.path: ADDED.data}


@pytest.mark.parametrize("folder", [False, True])
def test_what_appears_during_the_apply_stays(tree: Path, monkeypatch: pytest.MonkeyPatch, folder: bool) -> None:
    link = os.link

    def raced(source: Path, target: Path) -> None:
        if folder:
            target.mkdir()
        else:
            target.write_bytes(b"mine")
        link(source, target)

    monkeypatch.setattr(os, "link", raced)
    with pytest.raises(UserError, match=r"pkg/added\.py: changed during the apply"):
        apply(tree, to_fp32(tree, new_files=[ADDED]))
    assert (tree / ADDED.path).is_dir() == folder
    assert read_tree(tree) == (OLD if folder else {**OLD, ADDED.path: b"mine"})
    assert not (tree / ".precpatch").exists()


def test_an_added_file_that_was_changed_is_not_removed(tree: Path) -> None:
    apply(tree, to_fp32(tree, new_files=[ADDED]))
    (tree / ADDED.path).write_bytes(b"mine")
    with pytest.raises(UserError, match=r"changed since the apply.*pkg/added\.py.*--force"):
        revert(tree)
    assert read_tree(tree) == {**NEW, ADDED.path: b"mine"}
    revert(tree, force=True)
    assert read_tree(tree) == OLD


@pytest.mark.parametrize("folder", [False, True])
def test_an_added_file_that_is_gone_needs_no_removal(tree: Path, folder: bool) -> None:
    new = NewFile("sub/x.py", b"x")
    (tree / "sub").mkdir()
    apply(tree, to_fp32(tree, new_files=[new]))
    (tree / new.path).unlink()
    if folder:
        (tree / "sub").rmdir()
    assert revert(tree).files == ("a.py", "pkg/b.py", "pkg/deep/c d.yaml")
    assert read_tree(tree) == OLD


def test_edits_of_an_added_file_stack(tree: Path) -> None:
    apply(tree, adding(ADDED))
    apply(tree, to_fp32(tree, ADDED.path, old=b"torch", new=b"numpy"))
    reverted = revert(tree, all=True)
    assert reverted.files == reverted.removed == (ADDED.path,)
    assert read_tree(tree) == OLD


# The stack of applies


def test_applies_stack(tree: Path) -> None:
    apply(tree, to_fp32(tree))
    apply(tree, to_fp32(tree, "a.py", old=b"fp32", new=b"half"))
    assert revert(tree).files == ("a.py",)
    assert read_tree(tree) == NEW
    apply(tree, to_fp32(tree, "a.py", old=b"fp32", new=b"full"))
    assert revert(tree, all=True).files == ("a.py", "pkg/b.py", "pkg/deep/c d.yaml")
    assert read_tree(tree) == OLD
    assert not (tree / ".precpatch").exists()
    with pytest.raises(UserError, match="nothing to revert"):
        revert(tree)


def test_nothing_to_revert_creates_nothing(tree: Path) -> None:
    with pytest.raises(UserError, match="nothing to revert"):
        revert(tree)
    assert recover(tree).files == ()
    assert not (tree / ".precpatch").exists()


@pytest.mark.parametrize("every", [False, True])
def test_edits_made_since_are_not_lost(tree: Path, every: bool) -> None:
    apply(tree, to_fp32(tree))
    apply(tree, to_fp32(tree, "a.py", old=b"fp32", new=b"half"))
    (tree / "a.py").write_bytes(b"mine")
    (tree / "pkg/b.py").unlink()
    before = read_tree(tree)
    with pytest.raises(UserError, match=r"changed since the apply.*a\.py.*--force"):
        revert(tree, all=every)
    assert read_tree(tree) == before
    revert(tree, all=every, force=True)
    if not every:
        assert read_tree(tree) == {**before, "a.py": NEW["a.py"]}
        revert(tree, force=True)
    assert read_tree(tree) == OLD


def test_a_file_already_back_is_fine(tree: Path) -> None:
    apply(tree, to_fp32(tree))
    (tree / "a.py").write_bytes(OLD["a.py"])
    assert revert(tree).files == ("pkg/b.py", "pkg/deep/c d.yaml")
    assert read_tree(tree) == OLD


def test_files_of_others_in_our_folder_stay(tree: Path) -> None:
    apply(tree, to_fp32(tree))
    (tree / ".precpatch/mine").write_bytes(b"")
    revert(tree)
    assert sorted(path.name for path in (tree / ".precpatch").iterdir()) == [".gitignore", "mine"]


# The lock


def test_two_at_once_are_refused(tree: Path) -> None:
    patches = to_fp32(tree)
    with Store(tree).locked():
        for action in (lambda: apply(tree, patches), lambda: revert(tree), lambda: recover(tree)):
            with pytest.raises(UserError, match=rf"another precpatch is writing there \(process {os.getpid()}\)"):
                action()
    assert read_tree(tree) == OLD
    assert not (tree / ".precpatch").exists()


def test_a_lock_file_left_behind_stops_nobody(tree: Path) -> None:
    write_tree(tree, {".precpatch/lock": b"\n1\n"})
    apply(tree, to_fp32(tree))
    assert read_tree(tree) == NEW


# Failures and kills


def counted(step: int, then: Callable[[], None]) -> Iterator[tuple[str, Callable[..., object]]]:
    """The calls of the system that write, wrapped: before the call number ``step`` (from 1), ``then`` happens."""
    calls = 0

    def wrap(original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                then()
            return original(*args, **kwargs)

        return call

    for name in ("open", "replace", "link", "fsync", "unlink", "chmod", "mkdir", "rmdir"):
        yield name, wrap(getattr(os, name))


def killed_at(step: int, action: Callable[[], object]) -> bool:
    """Whether ``action``, in a process of its own, was killed before its writing call number ``step``."""
    child = os.fork()
    if child == 0:
        for name, call in counted(step, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            setattr(os, name, call)
        try:
            action()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def steps(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    for step in range(1, 300):
        yield step, write_tree(tmp_path / str(step), OLD)
    pytest.fail("does not end")


def assert_whole(root: Path) -> None:
    for path, old in OLD.items():
        assert (root / path).read_bytes() in (old, NEW[path])
    assert not (root / ADDED.path).exists() or (root / ADDED.path).read_bytes() == ADDED.data


def problem_of(action: Callable[[], object]) -> str:
    """What ``action`` complains of, if it does."""
    try:
        action()
    except UserError as error:
        return str(error)
    return ""


@needs_fork
def test_a_killed_apply_leaves_whole_files_and_is_rolled_back(tmp_path: Path) -> None:
    for step, root in steps(tmp_path):
        patches = to_fp32(root, new_files=[ADDED])
        killed = killed_at(step, lambda root=root, patches=patches: apply(root, patches))
        assert_whole(root)
        rolled_back = recover(root)
        if not killed:
            assert step > 20
            assert read_tree(root) == NEW_AND_ADDED
            break
        if (root / ".precpatch").exists():  # killed once it was done
            assert rolled_back.files == ()
            assert read_tree(root) == NEW_AND_ADDED
            revert(root)
        assert read_tree(root) == OLD
        assert not (root / ".precpatch").exists()


@needs_fork
def test_the_next_apply_rolls_a_killed_one_back(tmp_path: Path) -> None:
    for step, root in steps(tmp_path):
        patches = to_fp32(root, new_files=[ADDED])
        if not killed_at(step, lambda root=root, patches=patches: apply(root, patches)):
            break
        left = to_fp32(root, *OLD)
        problem = problem_of(lambda root=root, left=left: apply(root, left))
        if problem:
            assert "rolled back first" in problem
            assert read_tree(root) == OLD
            apply(root, to_fp32(root, new_files=[ADDED]))
        assert read_tree(root) in (NEW_AND_ADDED, NEW)
        revert(root, all=True)
        assert read_tree(root) == OLD


@needs_fork
def test_a_killed_revert_can_be_run_again(tmp_path: Path) -> None:
    for step, root in steps(tmp_path):
        apply(root, to_fp32(root, new_files=[ADDED]))
        apply(root, to_fp32(root, "a.py", ADDED.path, old=b"fp32", new=b"half"))
        killed = killed_at(step, lambda root=root: revert(root, all=True))
        if killed and (root / ".precpatch").exists() and list((root / ".precpatch").glob("journals/*")):
            revert(root, all=True)
        recover(root)
        assert read_tree(root) == OLD
        assert not (root / ".precpatch").exists()
        if not killed:
            break


@needs_fork
def test_an_apply_ends_a_killed_revert_first(tmp_path: Path) -> None:
    for step, root in steps(tmp_path):
        apply(root, to_fp32(root, new_files=[ADDED]))
        killed = killed_at(step, lambda root=root: revert(root))
        assert_whole(root)
        recover(root)
        assert read_tree(root) in (OLD, NEW_AND_ADDED)
        apply(root, to_fp32(root, "other.py", old=b"pass", new=b"None"))
        if read_tree(root)["a.py"] == NEW["a.py"]:  # killed before it began
            revert(root)
        revert(root)
        assert read_tree(root) == OLD
        if not killed:
            break


@needs_fork
def test_an_apply_without_recover_refuses_after_a_killed_revert(tmp_path: Path) -> None:
    for step, root in steps(tmp_path):
        apply(root, to_fp32(root, new_files=[ADDED]))
        killed = killed_at(step, lambda root=root: revert(root))
        left = to_fp32(root, *OLD)
        problem = problem_of(lambda root=root, left=left: apply(root, left))
        if problem:
            assert "an interrupted revert was finished first" in problem
            assert read_tree(root) == OLD
        if not killed:
            break


@pytest.mark.parametrize("every", [False, True])
def test_all_that_an_interrupted_revert_had_begun_is_finished(tree: Path, every: bool) -> None:
    apply(tree, to_fp32(tree))
    apply(tree, to_fp32(tree, "a.py", old=b"fp32", new=b"half"))
    for journal in Store(tree).journals() if every else Store(tree).journals()[1:]:
        Store(tree).save(journal.reverting())
    (tree / "pkg/b.py").write_bytes(OLD["pkg/b.py"] if every else NEW["pkg/b.py"])
    ended = recover(tree)
    assert [note.message for note in ended.notes] == ["an interrupted revert was finished"]
    assert read_tree(tree) == (OLD if every else NEW)


def test_an_interrupted_revert_does_not_overwrite_later_edits(tree: Path) -> None:
    apply(tree, to_fp32(tree))
    Store(tree).save(Store(tree).journals()[0].reverting())
    (tree / "a.py").write_bytes(b"mine")
    with pytest.raises(UserError, match=r"changed since the apply.*a\.py.*`precpatch revert --force .*` loses"):
        recover(tree)
    assert revert(tree, force=True).files == ("a.py", "pkg/b.py", "pkg/deep/c d.yaml")
    assert read_tree(tree) == OLD


def test_a_write_that_fails_is_taken_back_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    for step, root in steps(tmp_path):
        patches = to_fp32(root, new_files=[ADDED])
        with monkeypatch.context() as patch:
            for name, call in counted(step, full):
                patch.setattr(os, name, call)
            problem = problem_of(lambda root=root, patches=patches: apply(root, patches))
        if not problem:
            assert read_tree(root) == NEW_AND_ADDED
            assert step > 20
            break
        assert "No space left" in problem
        assert "\n" not in problem
        recover(root)
        assert read_tree(root) == OLD


def test_an_interrupt_is_taken_back_too(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        if target.name == "b.py" and source.name.startswith(".precpatch") and (tree / "pkg/b.py").exists():
            monkeypatch.undo()
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply(tree, to_fp32(tree))
    assert read_tree(tree) == OLD
    assert not (tree / ".precpatch").exists()


def test_when_taking_back_fails_too_revert_still_can(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def broken(source: Path, target: Path) -> None:
        if target.name == "b.py" or (target.name == "a.py" and target.read_bytes() == NEW["a.py"]):
            raise OSError(errno.EIO, "Input/output error", str(target))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        with pytest.raises(UserError, match=r"taking it back failed too.*precpatch revert"):
            apply(tree, to_fp32(tree))
    assert_whole(tree)
    assert revert(tree).files == ("a.py",)
    assert read_tree(tree) == OLD


def test_a_file_changed_during_the_apply_stays_changed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def edited_meanwhile(source: Path, target: Path) -> None:
        replace(source, target)
        if target.name == "a.py":
            (tree / "pkg/b.py").write_bytes(b"mine")

    monkeypatch.setattr(os, "replace", edited_meanwhile)
    with pytest.raises(UserError, match=r"pkg/b\.py: changed during the apply"):
        apply(tree, to_fp32(tree))
    assert read_tree(tree) == {**OLD, "pkg/b.py": b"mine"}


def test_an_edit_made_while_a_revert_runs_stays(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(tree, to_fp32(tree))
    replace = os.replace

    def edited_meanwhile(source: Path, target: Path) -> None:
        replace(source, target)
        if target.name == "a.py":
            (tree / "pkg/b.py").write_bytes(b"mine")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", edited_meanwhile)
        with pytest.raises(UserError, match=r"pkg/b\.py: changed during the revert"):
            revert(tree)
    assert (tree / "pkg/b.py").read_bytes() == b"mine"
    with pytest.raises(UserError, match="changed since the apply"):
        revert(tree)
    assert (tree / "pkg/b.py").read_bytes() == b"mine"
    revert(tree, force=True)
    assert read_tree(tree) == OLD


def test_a_second_interrupt_says_what_is_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        if target.name == "b.py" or (target.name == "a.py" and target.read_bytes() == NEW["a.py"]):
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"some may be the old and some the new.*precpatch revert"):
            apply(tree, to_fp32(tree))
    recover(tree)
    assert read_tree(tree) == OLD


# Journals are not trusted


@pytest.mark.parametrize("name", ["999999.json", "1000000.json", "99999999.json"])
def test_a_planted_number_does_not_hide_the_next_apply(tree: Path, name: str) -> None:
    apply(tree, to_fp32(tree, "other.py", old=b"pass", new=b"None"))
    folder = tree / ".precpatch/journals"
    (folder / "000001.json").rename(folder / name)
    apply(tree, to_fp32(tree))
    assert revert(tree).files == ("a.py", "pkg/b.py", "pkg/deep/c d.yaml")
    assert read_tree(tree) == {**OLD, "other.py": b"None\n"}
    revert(tree)
    assert read_tree(tree) == OLD


def test_the_last_number_is_refused_before_anything_changes(tree: Path) -> None:
    apply(tree, to_fp32(tree, "other.py", old=b"pass", new=b"None"))
    folder = tree / ".precpatch/journals"
    (folder / "000001.json").rename(folder / "999999999.json")
    with pytest.raises(UserError, match="last number"):
        apply(tree, to_fp32(tree))
    assert read_tree(tree) == {**OLD, "other.py": b"None\n"}


def test_a_digit_of_another_script_makes_no_journal(tree: Path) -> None:
    apply(tree, to_fp32(tree))
    write_tree(tree, {".precpatch/journals/00000\u0662.json": b"{}"})
    assert revert(tree).files == ("a.py", "pkg/b.py", "pkg/deep/c d.yaml")


@pytest.mark.skipif(sys.platform == "win32", reason="modes")
def test_a_journal_cannot_set_special_bits(tree: Path) -> None:
    plant(tree, {**entry("new.py"), "mode": 0o6777, "owner": [0, 0]})
    revert(tree, force=True)
    assert stat.S_IMODE((tree / "new.py").stat().st_mode) == 0o777


def test_what_a_kill_left_without_a_journal_is_tidied(tree: Path) -> None:
    write_tree(tree, {f".precpatch/blobs/{'0' * 64}": b"x", ".precpatch/.gitignore": b"*", ".precpatch/lock": b""})
    tidy(tree)
    assert not (tree / ".precpatch").exists()


EVIL = b"evil"
EVIL_SHA = hashlib.sha256(EVIL).hexdigest()


def plant(root: Path, *files: object, **changes: object) -> None:
    record = {"version": 1, "id": "0" * 16, "status": "done", "files": list(files), **changes}
    blobs = {f".precpatch/blobs/{EVIL_SHA}": EVIL}
    write_tree(root, {**blobs, ".precpatch/journals/000001.json": json.dumps(record).encode()})


def entry(path: object, before: object = EVIL_SHA, after: object = None) -> dict[str, object]:
    return {"path": path, "before": before, "after": after or hashlib.sha256(OLD["a.py"]).hexdigest()}


@pytest.mark.parametrize("status", ["done", "writing", "reverting"])
@pytest.mark.parametrize(
    "path", ["../out.py", "/etc/motd", ".git/hooks/x", "a/../../out.py", ".precpatch/lock", "", None, 3, "\ud800"]
)
def test_a_journal_cannot_leave_the_root(tree: Path, path: object, status: str) -> None:
    plant(tree, entry(path), status=status)
    outside = write_tree(tree.parent, {"out.py": OLD["a.py"]}) / "out.py"
    for force in (False, True):
        with pytest.raises(UserError):
            revert(tree, force=force)
    with pytest.raises(UserError):
        apply(tree, to_fp32(tree, *OLD))
    assert outside.read_bytes() == OLD["a.py"]
    assert read_tree(tree) == OLD


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"status": "other"},
        {"id": "../../x"},
        {"id": None},
        {"files": []},
        {"files": "a.py"},
        {"files": [3]},
        {"files": [entry("a.py", before="../../etc/motd")]},
        {"files": [entry("a.py", before="")]},
        {"files": [{"path": "a.py", "after": EVIL_SHA}]},
        {"files": [entry("a.py", before=None, after="x")]},
        {"files": [entry("a.py", after="x")]},
        {"files": [entry("a.py"), entry("a.py")]},
    ],
)
def test_a_damaged_journal_is_refused(tree: Path, changes: dict[str, object]) -> None:
    plant(tree, entry("a.py"), **changes)
    with pytest.raises(UserError, match=r"000001\.json: damaged"):
        revert(tree, force=True)
    assert read_tree(tree) == OLD


@pytest.mark.parametrize("status", ["done", "writing", "reverting"])
def test_a_journal_cannot_remove_a_file_with_other_bytes(tree: Path, status: str) -> None:
    plant(tree, entry("a.py", before=None, after=EVIL_SHA), status=status)
    for action in (revert, recover, lambda root: apply(root, to_fp32(root, *OLD))):
        problem = problem_of(lambda action=action: action(tree))
        assert "changed since the apply" in problem or (status == "done" and action is not revert)
        assert (tree / "a.py").exists()


@needs_links
@pytest.mark.parametrize("place", ["folder/out.py", "link.py"])
@pytest.mark.parametrize("status", ["done", "writing", "reverting"])
def test_a_journal_cannot_remove_a_file_through_a_link(tree: Path, place: str, status: str) -> None:
    outside = write_tree(tree.parent / "outside", {"out.py": EVIL, f".precpatch-{'0' * 16}-0.tmp": b"mine"})
    before = read_tree(outside)
    (tree / "link.py").symlink_to(outside / "out.py")
    (tree / "folder").symlink_to(outside)
    for path in (place, place.replace("out", "none")):
        plant(tree, entry(path, before=None, after=EVIL_SHA), status=status)
        with pytest.raises(UserError, match="a link has taken its place"):
            revert(tree, force=True)
    assert read_tree(outside) == before
    assert (tree / "link.py").is_symlink()


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_journal_that_is_no_json_is_refused(tree: Path, text: bytes) -> None:
    write_tree(tree, {".precpatch/journals/000001.json": text})
    with pytest.raises(UserError, match="damaged"):
        revert(tree)


@pytest.mark.parametrize("blob", [b"other bytes", None])
def test_a_blob_that_is_wrong_or_missing_stops_before_anything_changes(tree: Path, blob: bytes | None) -> None:
    apply(tree, to_fp32(tree))
    path = tree / ".precpatch/blobs" / hashlib.sha256(OLD["pkg/b.py"]).hexdigest()
    path.unlink()
    if blob is not None:
        path.write_bytes(blob)
    with pytest.raises(UserError, match="damaged"):
        revert(tree)
    assert read_tree(tree) == NEW


@needs_links
@pytest.mark.parametrize("place", ["a.py", "pkg"])
def test_a_link_that_took_the_place_of_a_file_is_not_followed(tree: Path, place: str) -> None:
    apply(tree, to_fp32(tree))
    moved = tree.parent / "moved"
    (tree / place).rename(moved)
    (tree / place).symlink_to(moved)
    with pytest.raises(UserError, match="a link has taken its place"):
        revert(tree, force=True)
    assert (moved if place == "a.py" else moved / "b.py").read_bytes() == NEW["a.py" if place == "a.py" else "pkg/b.py"]


@needs_links
def test_blobs_and_journals_that_are_links_are_refused(tree: Path) -> None:
    secret = write_tree(tree.parent, {"secret": b"secret"}) / "secret"
    plant(tree, entry("a.py", before=hashlib.sha256(b"secret").hexdigest()))
    (tree / ".precpatch/blobs" / hashlib.sha256(b"secret").hexdigest()).symlink_to(secret)
    with pytest.raises(UserError, match="not a regular file"):
        revert(tree)
    assert read_tree(tree) == OLD


def test_a_folder_in_the_place_of_a_file_is_refused(tree: Path) -> None:
    apply(tree, to_fp32(tree))
    (tree / "a.py").unlink()
    (tree / "a.py").mkdir()
    with pytest.raises(UserError, match="no file any more"):
        revert(tree, force=True)
