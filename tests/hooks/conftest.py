"""A repository of precpatch as pre-commit would clone it, and small projects that use its hooks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
SHIPPED = ("src", "rules", "vocabulary", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml")
KEPT_SNAPSHOTS = 3


def environment(**changes: str) -> dict[str, str]:
    """The environment for git and pre-commit: no settings of the user, the same author and date every time."""
    names = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "NO_COLOR": "1"}
    outer = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") and key != "SKIP"}
    return {**outer, **names, **dates, **settings, **changes}


def git(folder: Path, *words: str) -> str:
    """Run git in ``folder`` and return what it prints."""
    done = subprocess.run(["git", *words], cwd=folder, env=environment(), check=True, capture_output=True, text=True)
    return done.stdout.strip()


@dataclass(frozen=True)
class Source:
    """precpatch as a repository of hooks: where it is, its commit, and the folder for pre-commit's environments."""

    repository: Path
    revision: str
    home: Path


@pytest.fixture(scope="session")
def source(download_cache: Path) -> Source:
    """This working tree as one commit. The same content has the same commit, so its environment is built once."""
    files = sorted(path for path in _shipped_files() if "__pycache__" not in path.parts)
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(PROJECT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    snapshots = download_cache / "hooks"
    folder = snapshots / digest.hexdigest()[:16]
    repository = folder / "precpatch"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        for path in files:
            copy = repository / path.relative_to(PROJECT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        git(repository, "init", "--quiet")
        git(repository, "add", "--all", "--force")
        git(repository, "commit", "--quiet", "--message", "snapshot")
        (folder / "complete").touch()
    os.utime(folder)
    _forget_all_but_the_newest(snapshots)
    return Source(repository, git(repository, "rev-parse", "HEAD"), folder / "home")


def _shipped_files() -> list[Path]:
    tops = [PROJECT / name for name in SHIPPED]
    inside = [path for top in tops if top.is_dir() for path in top.rglob("*") if path.is_file()]
    return inside + [top for top in tops if top.is_file()]


def _forget_all_but_the_newest(snapshots: Path) -> None:
    by_age = sorted(snapshots.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in by_age[KEPT_SNAPSHOTS:]:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Commit:
    """What `git commit` with hooks would say: the exit code and the text."""

    code: int
    text: str


@dataclass(frozen=True)
class Project:
    """A git repository with one hook of precpatch in its .pre-commit-config.yaml."""

    folder: Path
    source: Source

    def stage(self, **files: str) -> None:
        """Write files and stage them; "model_py" is model.py."""
        for name, text in files.items():
            path = self.folder / name.replace("_", ".")
            path.write_text(text)
            git(self.folder, "add", path.name)

    def read(self, name: str) -> str:
        """The text of a file."""
        return (self.folder / name).read_text()

    def run_hooks(self) -> Commit:
        """Run the hooks on what is staged."""
        done = subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--color", "never"],
            cwd=self.folder,
            env=environment(PRE_COMMIT_HOME=str(self.source.home)),
            capture_output=True,
            text=True,
            check=False,
        )
        return Commit(done.returncode, done.stdout + done.stderr)


@pytest.fixture
def make_project(source: Source, tmp_path: Path) -> Callable[..., Project]:
    """Make a project that uses one hook, with or without arguments."""

    def make(hook: str, *args: str) -> Project:
        folder = tmp_path / "project"
        folder.mkdir()
        git(folder, "init", "--quiet")
        entry: dict[str, Any] = {"id": hook, "args": list(args)} if args else {"id": hook}
        repository = {"repo": str(source.repository), "rev": source.revision, "hooks": [entry]}
        (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [repository]}))
        git(folder, "add", "--all")
        return Project(folder, source)

    return make
