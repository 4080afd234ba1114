"""Which files are looked at, which are left alone, and that an untrusted checkout runs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from precpatch import discover as module
from precpatch.discover import Discovery, discover, find_root
from precpatch.errors import UserError

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links and modes")


def write(root: Path, *paths: str, text: str = "x\n") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def git(root: Path, *arguments: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, env=environment)


def notes(found: Discovery) -> dict[str, str]:
    return {note.path: note.message for note in found.skipped}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A plain folder that is no git checkout."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture(params=["git", "walk"])
def either(root: Path, request: pytest.FixtureRequest) -> Path:
    """The same folder as a git checkout and as none."""
    if request.param == "git":
        git(root, "init", "-q")
    return root


def test_the_suffixes_decide(either: Path) -> None:
    write(either, "a.py", "b/c.yaml", "b/d.yml", "e.txt", "run.sh", "naïve name.py")
    assert discover(either).files == ("a.py", "b/c.yaml", "b/d.yml", "naïve name.py")
    assert discover(either, suffixes=[".sh"]).files == ("run.sh",)
    assert discover(either).skipped == ()


def test_ignored_files_are_left_out(either: Path) -> None:
    write(either, ".gitignore", text="\ufeffout/\n!\n/top.py\n*_gen.py\n")
    write(either, "pkg/.gitignore", text="!keep_gen.py\nlocal.py\n/deep/only.py\n")
    write(either, "out/a.py", "pkg/out/a.py", "top.py", "pkg/top.py", "a_gen.py")
    write(either, "pkg/keep_gen.py", "pkg/b_gen.py", "pkg/x/local.py", "local.py", "pkg/deep/only.py", "deep/only.py")
    assert discover(either).files == ("deep/only.py", "local.py", "pkg/keep_gen.py", "pkg/top.py")


def test_folders_that_are_not_the_project_are_left_out(either: Path) -> None:
    write(either, "a.py", "env/pyvenv.cfg", "build/a.py", "dist/a.py")
    folders = (".venv", "venv", "env", "node_modules", "lib/site-packages", "__pycache__", ".precpatch", ".tox")
    write(either, *(f"{folder}/deep/a.py" for folder in (*folders, ".hg", ".mypy_cache", "x.egg-info")))
    found = discover(either)
    assert found.files == ("a.py", "build/a.py", "dist/a.py")
    assert found.skipped == ()


def test_tracked_files_are_found_even_where_ignored_and_gone_ones_are_not(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "kept.py", "gone.py", "folder/gone.py", "untracked/new.py")
    git(root, "add", "kept.py", "gone.py", "folder")
    write(root, ".gitignore", text="kept.py\n")
    (root / "gone.py").unlink()
    (root / "folder/gone.py").unlink()
    (root / "folder").rmdir()
    write(root, "folder")
    assert discover(root).files == ("kept.py", "untracked/new.py")


def test_a_folder_inside_a_checkout_is_listed_by_itself(root: Path) -> None:
    git(root, "init", "-q")
    write(root, ".gitignore", text="gen.py\n")
    write(root, "a.py", "pkg/b.py", "pkg/gen.py", "pkg/tests/t.py")
    found = discover(root / "pkg")
    assert found.files == ("b.py",)
    assert list(notes(found)) == ["tests"]


def test_a_root_that_an_outer_checkout_ignores_is_walked(root: Path) -> None:
    git(root, "init", "-q")
    write(root, ".gitignore", text="vendor/\n")
    write(root, "vendor/verl/a.py", "vendor/verl/b/c.py", "vendor/verl/.gitignore")
    assert discover(root / "vendor/verl").files == ("a.py", "b/c.py")


def test_without_git_the_folder_is_walked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(root, "init", "-q")
    write(root, "a.py", "b.py")
    write(root, ".gitignore", text="b.py\n")
    monkeypatch.setenv("PATH", "")
    assert discover(root).files == ("a.py",)


def test_a_checkout_that_git_refuses_is_walked(root: Path) -> None:
    git(root, "init", "-q")
    write(root, "a.py", "b.py")
    write(root, ".gitignore", text="b.py\n")
    write(root, ".git/config", text="not a config [")
    assert discover(root).files == ("a.py",)


@needs_links
def test_a_git_that_hangs_is_given_up(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a.py")
    write(tmp_path, "bin/git", text="#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(module, "_GIT_SECONDS", 0.2)
    assert discover(root).files == ("a.py",)


# Default folders, --include and --exclude


def test_tests_and_docs_are_left_alone_with_one_note_each(either: Path) -> None:
    write(either, "a.py", "tests/a.py", "tests/deep/b.py", "tests/c.txt", "docs/conf.py", "tests.py")
    write(either, "pkg/tests/a.py", "pkg/docs/deep/b.py", "pkg/test/c.py", "pkg/testing/d.py")
    found = discover(either)
    assert found.files == ("a.py", "pkg/testing/d.py", "tests.py")
    assert list(notes(found)) == ["docs", "pkg/docs", "pkg/test", "pkg/tests", "tests"]
    assert notes(found)["tests"].startswith("2 files left alone")
    assert "--include 'tests/'" in notes(found)["tests"]
    assert notes(found)["docs"].startswith("1 file left alone")


def test_folders_of_editors_are_left_alone_with_one_note_each(either: Path) -> None:
    write(
        either, "a.py", ".vscode/launch.py", ".vscode/tasks.py", "pkg/.idea/x/b.py", ".devcontainer/c.py", ".vscode.py"
    )
    found = discover(either)
    assert found.files == (".vscode.py", "a.py")
    assert list(notes(found)) == [".devcontainer", ".vscode", "pkg/.idea"]
    assert notes(found)[".vscode"].startswith("2 files left alone by default")
    assert discover(either, include=[".vscode/"]).files == (
        ".vscode.py",
        ".vscode/launch.py",
        ".vscode/tasks.py",
        "a.py",
    )
    assert discover(either, [either / "pkg"]).files == ()
    assert discover(either, [either / "pkg/.idea"]).files == ("pkg/.idea/x/b.py",)
    assert discover(either / "pkg/.idea").files == ("x/b.py",)
    assert discover(either, [either / ".vscode/tasks.py"]).files == (".vscode/tasks.py",)


@pytest.mark.parametrize("glob", ["tests/", "tests", "tests/**", "/tests/"])
def test_include_brings_them_back(either: Path, glob: str) -> None:
    write(either, "a.py", "tests/a.py", "tests/deep/b.py", "docs/conf.py")
    found = discover(either, include=[glob])
    assert found.files == ("a.py", "tests/a.py", "tests/deep/b.py")
    assert list(notes(found)) == ["docs"]


def test_include_of_a_part_leaves_the_rest(either: Path) -> None:
    write(either, "a.py", "tests/a.py", "tests/deep/b.py")
    found = discover(either, include=["tests/deep/"])
    assert found.files == ("a.py", "tests/deep/b.py")
    assert notes(found)["tests"].startswith("1 file left")


def test_exclude_wins(either: Path) -> None:
    write(either, "a.py", "b_gen.py", "pkg/b_gen.py", "pkg/c.py", "tests/a.py")
    found = discover(either, [either / "pkg", either / "b_gen.py"], include=["*_gen.py"], exclude=["*_gen.py"])
    assert found.files == ("pkg/c.py",)
    assert notes(found) == {"b_gen.py": "named, but also excluded"}
    assert discover(either, exclude=["*_gen.py", "tests/"]).skipped == ()
    assert discover(either, exclude=["*.py", "!a.py"]).files == ("a.py",)


def test_a_bad_glob_is_the_users_error(root: Path) -> None:
    with pytest.raises(UserError, match=r"--exclude: .*gitignore"):
        discover(root, exclude=["!"])


# Paths


def test_paths_restrict(either: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(either, "a.py", "b.py", "pkg/c.py", "pkg/deep/d.py", "pkgs/e.py")
    monkeypatch.chdir(either / "pkg")
    assert discover(either, [Path("../a.py"), either / "pkg"]).files == ("a.py", "pkg/c.py", "pkg/deep/d.py")
    assert discover(either, [Path()]).files == ("pkg/c.py", "pkg/deep/d.py")
    assert discover(either, [Path("deep"), Path("deep/d.py")]).files == ("pkg/deep/d.py",)


def test_what_is_named_is_looked_at_wherever_it_is(either: Path) -> None:
    write(either, ".gitignore", text="out/\n")
    write(either, "tests/a.py", "tests/unit/b.py", "out/c.py", ".venv/lib/site-packages/verl/d.py", "docs/e.py")
    assert discover(either, [either / "tests/a.py"]).files == ("tests/a.py",)
    assert discover(either, [either / "tests"]).files == ("tests/a.py", "tests/unit/b.py")
    assert discover(either, [either / "tests/unit", either]).files == ("tests/unit/b.py",)
    assert discover(either, [either / "out"]).files == ("out/c.py",)
    assert discover(either, [either / "out/c.py"]).files == ("out/c.py",)
    site = ".venv/lib/site-packages/verl"
    assert discover(either, [either / site]).files == (f"{site}/d.py",)
    assert discover(either, [either / site / "d.py"]).files == (f"{site}/d.py",)


@pytest.mark.parametrize("path", ["no.py", "a.py/b.py", "bad\0name"])
def test_a_path_that_is_missing_is_the_users_error(root: Path, path: str) -> None:
    write(root, "a.py")
    for action in (
        lambda: discover(root, [root / path]),
        lambda: find_root([root / path]),
        lambda: discover(root / path),
    ):
        with pytest.raises(UserError, match="no such file or folder: "):
            action()


def test_a_path_outside_is_the_users_error(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "other.py", "root2/a.py")
    for path in ("other.py", "root2"):
        with pytest.raises(UserError, match="is outside"):
            discover(root, [tmp_path / path])


def test_a_named_file_of_another_kind_is_said_to_be(root: Path) -> None:
    write(root, "a.txt", ".git/hooks/a.py", ".git/HEAD")
    found = discover(root, [root / "a.txt", root / ".git/hooks/a.py", root / ".git/hooks"])
    assert found.files == ()
    assert "(.py, .yaml, .yml)" in notes(found)["a.txt"]
    assert "own folder" in notes(found)[".git/hooks/a.py"]


# Links, sizes, odd files


@needs_links
@pytest.mark.parametrize("tracked", [False, True])
def test_links(either: Path, tmp_path: Path, tracked: bool) -> None:
    write(tmp_path, "outside/secret.py")
    write(either, "a.py", "pkg/b.py")
    (either / "in.py").symlink_to("pkg/b.py")
    (either / "out.py").symlink_to("../outside/secret.py")
    (either / "none.py").symlink_to("nothing.py")
    (either / "loop.py").symlink_to("loop.py")
    (either / "folder").symlink_to(tmp_path / "outside")
    (either / "again").symlink_to("pkg")
    if tracked and (either / ".git").exists():
        git(either, "add", "-A")
    found = discover(either)
    assert found.files == ("a.py", "pkg/b.py")
    assert notes(found)["out.py"] == "symlink leaves the root"
    assert notes(found)["none.py"] == "symlink to nothing"
    assert notes(found)["in.py"].endswith("pkg/b.py")
    assert set(notes(found)) == {"in.py", "out.py", "none.py", "loop.py"}
    assert discover(either, [either / "in.py"]).files == ("pkg/b.py",)
    with pytest.raises(UserError, match="is outside"):
        discover(either, [either / "out.py"])


@needs_links
def test_a_tracked_folder_replaced_by_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/b.py")
    git(root, "init", "-q")
    write(root, "a.py", "pkg/b.py")
    git(root, "add", "-A")
    (root / "pkg").rename(tmp_path / "moved")
    (root / "pkg").symlink_to(tmp_path / "outside")
    assert discover(root).files == ("a.py",)


def test_large_files_are_skipped_with_a_note(either: Path) -> None:
    write(either, "a.py", text="x" * 10)
    write(either, "b.py", text="x" * 11)
    found = discover(either, max_bytes=10)
    assert found.files == ("a.py",)
    assert notes(found) == {"b.py": "11 bytes, more than the limit of 10: not read"}


def test_a_large_file_that_is_named_is_read(either: Path) -> None:
    write(either, "a.py", "pkg/b.py", text="x" * 11)
    found = discover(either, [either / "a.py", either / "pkg"], max_bytes=10)
    assert found.files == ("a.py",)
    assert list(notes(found)) == ["pkg/b.py"]


def test_a_named_file_that_cannot_be_looked_at_is_the_users_error(root: Path) -> None:
    write(root, "a.py", "b.py", text="x" * 11)
    with pytest.raises(UserError, match=r"b\.py: 11 bytes, more than the limit of 10: not read; .*--exclude"):
        discover(root, [root / "b.py", root / "a.py"], max_named_bytes=10)
    found = discover(root, [root / "b.py", root / "a.py"], exclude=["b.py"], max_named_bytes=11)
    assert found.files == ("a.py",)


@needs_links
def test_a_named_pipe_is_the_users_error(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    with pytest.raises(UserError, match=r"pipe\.py: not a regular file"):
        discover(root, [root / "pipe.py"])


@needs_links
def test_a_pipe_is_not_opened(root: Path) -> None:
    os.mkfifo(root / "pipe.py")
    os.mkfifo(root / ".gitignore")
    assert notes(discover(root)) == {"pipe.py": "not a regular file"}


@pytest.mark.parametrize("without_git", [False, True])
def test_repositories_inside_are_not_part(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_git: bool
) -> None:
    source = tmp_path / "source"
    write(source, "s.py")
    git(source, "init", "-q")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "x")
    git(root, "init", "-q")
    write(root, "a.py", "nested/n.py")
    git(root / "nested", "init", "-q")
    git(root, "submodule", "add", str(source), "third_party/sub")
    if without_git:
        monkeypatch.setattr(module, "_git", lambda *arguments: None)
    found = discover(root)
    assert found.files == ("a.py",)
    assert set(notes(found)) == {"nested", "third_party/sub"}
    assert "on it separately" in notes(found)["nested"]
    named = discover(root, [root / "third_party/sub", root])
    assert named.files == ("a.py", "third_party/sub/s.py")
    assert set(notes(named)) == {"nested"}


# An untrusted checkout


@needs_links
def test_nothing_of_the_checkout_is_run(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = tmp_path / "ran"
    write(root, "a.py", "evil.sh", "bin/git", text=f"#!/bin/sh\ntouch '{proof}'\n")
    for script in ("evil.sh", "bin/git"):
        (root / script).chmod(0o755)
    git(root, "init", "-q")
    git(root, "add", "a.py")
    evil = str(root / "evil.sh")
    for key in (
        "core.fsmonitor",
        "core.pager",
        "pager.ls-files",
        "core.sshCommand",
        "core.editor",
        "credential.helper",
    ):
        git(root, "config", key, evil)
    git(root, "config", "core.hooksPath", str(root))
    git(root, "config", "alias.ls-files", f"!{evil}")
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (root / hook).symlink_to("evil.sh")
    git(root, "ls-files", "--others")
    assert proof.exists(), "the trap works"
    proof.unlink()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", evil)
    assert discover(root).files == ("a.py",)
    monkeypatch.setenv("PATH", str(root / "bin"), prepend=os.pathsep)
    assert discover(root).files == ("a.py",)
    monkeypatch.chdir(root / "bin")
    monkeypatch.setenv("PATH", "", prepend=os.pathsep)
    assert discover(root).files == ("a.py",)
    assert not proof.exists()


def test_paths_of_a_crafted_index_stay_inside(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, "out.py")
    write(root, "a.py")
    crafted = (
        f"100644 {'0' * 40} 0\t{path}" for path in ("../out.py", str(tmp_path / "out.py"), "a/../../out.py", "a.py")
    )
    monkeypatch.setattr(module, "_git", lambda *arguments: "\0".join(crafted).encode())
    assert discover(root).files == ("a.py",)


def test_a_very_deep_path_is_no_crash(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, "a.py")
    monkeypatch.setattr(module, "_git", lambda *arguments: b"a.py\0" + b"d/" * 5000 + b"x.py")
    assert discover(root).files == ("a.py",)


def test_a_thousand_files_take_no_time(either: Path) -> None:
    write(either, ".gitignore", text="\n".join(f"pattern{n}/\n*.end{n}" for n in range(20)))
    write(either, *(f"pkg{n % 40}/deep/m{n}.py" for n in range(1000)))
    started = time.process_time()
    assert len(discover(either).files) == 1000
    assert time.process_time() - started < 5


# The root


def test_the_root_of_one_folder_is_the_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(root, "init", "-q")
    write(root, "pkg/a.py")
    monkeypatch.chdir(root / "pkg")
    assert find_root() == find_root([root / "pkg"]) == find_root([Path()]) == (root / "pkg").resolve()


def test_the_root_of_files_is_the_checkout_then_the_project_then_their_folder(root: Path) -> None:
    write(root, "pkg/a.py", "pkg/deep/b.py", "docs/c.py")
    real = root.resolve()
    assert find_root([root / "pkg/deep/b.py"]) == real / "pkg/deep"
    assert find_root([root / "pkg/a.py", root / "pkg/deep"]) == real / "pkg"
    assert find_root([root / "pkg/a.py", root / "docs"]) == real
    write(root, "pkg/setup.py")
    assert find_root([root / "pkg/deep/b.py"]) == real / "pkg"
    git(root, "init", "-q")
    assert find_root([root / "pkg/deep/b.py"]) == real
