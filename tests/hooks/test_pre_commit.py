"""The hooks of `.pre-commit-hooks.yaml`, run by the real pre-commit in a repository that uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MakeProject = Callable[..., Any]

P40 = '[tool.precpatch]\ntarget = "p40"\n'
NEEDS_BF16 = "import torch\n\nmodel = load(path, torch_dtype=torch.bfloat16)\n"
FITS = NEEDS_BF16.replace("bfloat16", "float32")


def test_scan_stops_a_commit_that_brings_a_finding(make_project: MakeProject) -> None:
    project = make_project("precpatch-scan")
    project.stage(pyproject_toml=P40, model_py=NEEDS_BF16, trainer_yaml="rollout:\n  dtype: bfloat16\n")
    commit = project.run_hooks()
    assert commit.code == 1
    assert "torch.bfloat16 -> torch.float32" in commit.text
    assert "2 sites to rewrite in 2 files" in commit.text
    assert project.read("model.py") == NEEDS_BF16


def test_scan_lets_a_commit_pass_that_brings_none(make_project: MakeProject) -> None:
    project = make_project("precpatch-scan")
    project.stage(pyproject_toml=P40, model_py=FITS, trainer_yaml="rollout:\n  dtype: float32\n")
    (project.folder / "draft.py").write_text(NEEDS_BF16)  # not staged, so nobody asked
    commit = project.run_hooks()
    assert commit.code == 0, commit.text
    assert "Passed" in commit.text


def test_scan_takes_the_target_from_the_hook_s_arguments(make_project: MakeProject) -> None:
    project = make_project("precpatch-scan", "--target", "v100", "--dtype", "float16")
    project.stage(model_py=NEEDS_BF16)
    commit = project.run_hooks()
    assert commit.code == 1
    assert "torch.bfloat16 -> torch.float16" in commit.text


def test_scan_passes_where_the_target_does_bfloat16(make_project: MakeProject) -> None:
    project = make_project("precpatch-scan", "--target", "a100")
    project.stage(model_py=NEEDS_BF16)
    assert project.run_hooks().code == 0


def test_apply_mends_the_files_names_them_and_stops_the_commit(make_project: MakeProject) -> None:
    project = make_project("precpatch-apply")
    project.stage(pyproject_toml=P40, model_py=NEEDS_BF16, other_py="x = 1\n")
    commit = project.run_hooks()
    assert commit.code == 1
    assert "files were modified by this hook" in commit.text
    assert "model.py  1 site" in commit.text
    assert "other.py" not in commit.text
    assert project.read("model.py") == FITS

    project.stage(model_py=project.read("model.py"))
    assert project.run_hooks().code == 0
