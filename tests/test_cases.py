"""Small jobs taken from public bug reports (``cases/``): what must come out, byte for byte, and what must be said.

A case is a folder: ``case.yaml`` (target, options, what to expect and why), ``before/`` and ``after/``. Whatever the
case does not ask for must stay, modes and links included.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from precpatch.cli.main import app

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/case.yaml"))
OWN_FOLDERS = {".git", ".precpatch"}

Tree = dict[str, tuple[int, bytes]]
"""Path of a file -> its mode and its bytes; of a link, where it points."""


@dataclass(frozen=True)
class Case:
    """One case, copied to a scratch folder.

    Attributes:
        spec: the content of ``case.yaml``.
        base: the copy of ``before/``.
        root: the folder to run precpatch on, ``base`` or one in it.
        wanted: the copy of ``after/``.
    """

    spec: dict[str, Any]
    base: Path
    root: Path
    wanted: Path

    def run(self, command: str, *words: str, codes: tuple[int, ...]) -> bytes:
        """What a command prints for the target of the case; it has to end with one of ``codes``."""
        options = [f"--{name}={value}" for name, value in self.spec["options"].items()]
        target = [f"--target={self.spec['target']}", *options] if command != "revert" else []
        result = CliRunner().invoke(app, [command, str(self.root), *target, *words])
        assert result.exit_code in codes, f"{command} ended with {result.exit_code}: {result.exception!r}"
        return result.stdout_bytes

    def path(self, path: str) -> str:
        """A path that precpatch printed, as the case writes it: relative to ``base``."""
        return (self.root.relative_to(self.base) / path).as_posix()


def prepare(name: str, folder: Path) -> Case:
    """Copy a case to ``folder`` and do what its ``setup`` asks for; modes come last."""
    shutil.copytree(CASES / name, folder, symlinks=True)
    spec = yaml.safe_load((folder / "case.yaml").read_text())
    root = folder / "before"
    steps = spec.get("setup", [])
    for step in steps:
        if "root" in step:
            root = folder / step["root"]
        elif "write" in step:
            written = folder / step["write"]
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(step["content"])
        elif "symlink" in step:
            (folder / step["symlink"]).symlink_to(step["target"])
    for step in steps:
        if "chmod" in step:
            (folder / step["file"]).chmod(int(step["chmod"], 8))
    return Case(spec, folder / "before", root, folder / "after")


def tree(base: Path) -> Tree:
    """All files and links below ``base``, without those that git and precpatch keep for themselves."""
    found: Tree = {}
    for path in base.rglob("*"):
        relative = path.relative_to(base)
        if OWN_FOLDERS.intersection(relative.parts) or (path.is_dir() and not path.is_symlink()):
            continue
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        found[relative.as_posix()] = (stat.S_IMODE(path.lstat().st_mode), data)
    return found


def expected(case: Case, before: Tree) -> Tree:
    """``before`` with the bytes of ``after/``."""
    after = {path: data for path, (_, data) in tree(case.wanted).items()}
    return {path: (mode, after.get(path, data)) for path, (mode, data) in before.items()}


def without(whole: Tree, paths: set[str]) -> Tree:
    """A tree without the files that apply had to leave as they are, which a patch still holds."""
    return {path: content for path, content in whole.items() if path not in paths}


def assert_same(wanted: Tree, got: Tree) -> None:
    """Fail with the lines that differ, and the files that are there in one tree only or have another mode."""
    rows = [f"only in one of the two: {path}" for path in sorted(wanted.keys() ^ got.keys())]
    for path in sorted(wanted.keys() & got.keys()):
        texts = [data.decode("utf-8", "surrogateescape").split("\n") for _, data in (wanted[path], got[path])]
        rows += difflib.unified_diff(*texts, f"wanted {path}", f"got {path}", lineterm="", n=0)
        if wanted[path][0] != got[path][0]:
            rows.append(f"mode of {path}: {wanted[path][0]:o} wanted, {got[path][0]:o} got")
    if rows:
        pytest.fail("\n".join(rows), pytrace=False)


def reported_by_scan(case: Case) -> tuple[set[tuple[str, int]], set[str], tuple[int, ...]]:
    """The lines and the files that a person is told of, and the exit codes that then are right."""
    report = json.loads(case.run("scan", "--format=json", "--show-kept", codes=(0, 1, 2)))
    sites = {(case.path(each["path"]), each["line"]) for each in report["findings"] if each["action"] == "report"}
    notes = {case.path(note["path"]) for note in [*report["errors"], *report["skipped"]]}
    return sites, notes | {path for path, _ in sites}, (2,) if report["errors"] else (0, 1)


def noted_by_apply(case: Case, output: bytes) -> set[str]:
    """The files that apply says something about after "Please note"."""
    _, _, notes = output.decode("utf-8", "replace").partition("Please note")
    rows = (row.strip().partition(": ")[0] for row in notes.splitlines())
    return {case.path(row) for row in rows if row}


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, tmp_path: Path) -> None:
    case = prepare(name, tmp_path / "case")
    before = tree(case.base)
    sites, files, codes = reported_by_scan(case)
    patch = case.run("diff", codes=codes)
    assert tree(case.base) == before, "scan or diff changed a file"

    unwritten = noted_by_apply(case, case.run("apply", codes=codes))
    files |= unwritten
    after = tree(case.base)
    assert_same(expected(case, before), after)
    assert [entry for entry in case.spec["expect"] if "reported" in entry and not is_told(entry, sites, files)] == []

    case.run("apply", codes=codes)
    assert tree(case.base) == after, "a second apply changed something"
    if after != before:
        case.run("revert", codes=(0,))
    assert tree(case.base) == before
    git_apply(patch, case.root)
    assert_same(without(after, unwritten), without(tree(case.base), unwritten))


def is_told(entry: dict[str, Any], sites: set[tuple[str, int]], files: set[str]) -> bool:
    """Whether a person is told of the place that the entry names: a line, or a whole file."""
    return (entry["file"], entry["line"]) in sites if "line" in entry else entry["file"] in files


def git_apply(patch: bytes, root: Path) -> None:
    """Let git apply a patch in a folder that need not be a repository."""
    if patch:
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
        subprocess.run(["git", "apply", "-p1", "-"], input=patch, cwd=root, env=environment, check=True)
