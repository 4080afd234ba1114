"""Which folder a revert is about: upward within the project, and never downward unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from precpatch.discover import project_around
from precpatch.errors import UserError
from precpatch.patch.places import root_to_revert


def recorded(folder: Path) -> Path:
    """``folder`` with the journal of an apply."""
    (folder / ".precpatch/journals").mkdir(parents=True)
    (folder / ".precpatch/journals/000001.json").write_bytes(b"{}")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "a/b").mkdir(parents=True)
    (folder / "setup.py").touch()
    return folder.resolve()


def problem(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        root_to_revert(path, project_around)
    return str(caught.value)


def test_the_nearest_above_is_meant(project: Path) -> None:
    recorded(project)
    assert root_to_revert(project / "a/b", project_around) == project
    recorded(project / "a")
    assert root_to_revert(project / "a/b", project_around) == project / "a"
    assert root_to_revert(project, project_around) == project


def test_what_is_left_of_an_old_apply_does_not_count(project: Path) -> None:
    (project / "a/.precpatch").mkdir()
    assert root_to_revert(recorded(project) / "a", project_around) == project


def test_a_folder_that_has_to_be_looked_at_hides_none_above(project: Path) -> None:
    recorded(project)
    (project / "a/.precpatch").mkdir()
    (project / "a/.precpatch/journals").symlink_to(project)
    assert root_to_revert(project / "a", project_around) == project / "a"


def test_outside_the_project_it_is_only_named(project: Path) -> None:
    recorded(project.parent)
    assert f"run `precpatch revert {project.parent}`" in problem(project / "a")


def test_without_a_project_nothing_above_is_chosen(project: Path) -> None:
    recorded(project)
    (project / "setup.py").unlink()
    assert f"run `precpatch revert {project}`" in problem(project / "a")


def test_folders_below_are_named_as_the_user_would(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(project / "a/b")
    recorded(project / "c d")
    monkeypatch.chdir(project.parent)
    assert problem(Path("project")).endswith("run `precpatch revert 'project/c d'` or `precpatch revert project/a/b`")


def test_many_folders_below_are_not_all_named(project: Path) -> None:
    for number in range(9):
        recorded(project / f"f{number}")
    assert problem(project).count("precpatch revert") == 5


def test_nowhere(project: Path) -> None:
    assert problem(project).endswith("no apply has been recorded here")
    assert "no such file or folder" in problem(project / "none")
    assert "is not a folder" in problem(project / "setup.py")
