"""The format of a report file, and the patch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from handmade import SOURCE

from precpatch.errors import UserError
from precpatch.plan import Plan
from precpatch.report import write


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.md", "markdown"), ("a.JSON", "json"), ("x/a.patch", "patch"), ("a.b.diff", "patch")],
)
def test_the_suffix_chooses_the_format(name: str, expected: str) -> None:
    assert write.format_of(Path(name)) == expected


@pytest.mark.parametrize("name", ["report.html2", "report", ".md"])
def test_an_unknown_suffix_names_the_known_ones(name: str) -> None:
    with pytest.raises(UserError, match=r"\.md, \.json, \.patch, \.diff"):
        write.format_of(Path(name))


@pytest.mark.parametrize("name", ["text", "json", "markdown", "patch"])
def test_every_format_gives_the_same_bytes_twice(name: str, plan: Plan) -> None:
    assert write.render(name, plan) == write.render(name, plan) != b""


def test_git_takes_the_patch(plan: Plan) -> None:
    patch = write.render("patch", plan)
    subprocess.run(["git", "apply", "-p1", "-"], input=patch, cwd=plan.root, check=True)
    assert (plan.root / "pkg/a.py").read_bytes() == SOURCE.replace(b"torch.bfloat16", b"torch.float32")


def test_git_adds_the_files_of_the_patch(adding_plan: Plan) -> None:
    patch = write.render("patch", adding_plan)
    subprocess.run(["git", "apply", "-p1", "-"], input=patch, cwd=adding_plan.root, check=True)
    assert (adding_plan.root / "pkg/added.py").read_bytes() == b"import torch"
    assert (adding_plan.root / "empty").read_bytes() == b""
