"""What must hold for every verl release as it was published."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from precpatch.patch import transaction
from precpatch.report.patch import render

Patch = Callable[[str, str], Any]

EXPECTED = Path(__file__).with_name("expected.json")
OLD_GPUS = pytest.mark.parametrize("policy", ["p40", "v100-float16-sdpa"])


def contents(root: Path) -> dict[str, bytes]:
    """The bytes of every file below ``root``, without those that precpatch keeps for a revert."""
    files = (path for path in root.rglob("*") if path.is_file())
    relative = {path.relative_to(root): path for path in files}
    return {name.as_posix(): path.read_bytes() for name, path in relative.items() if name.parts[0] != ".precpatch"}


@OLD_GPUS
def test_every_changed_file_still_parses(version: str, policy: str, patch: Patch) -> None:
    patched = patch(version, policy)
    assert patched.plan.patches.paths
    for path in patched.plan.patches.paths:
        data = (patched.copy / path).read_bytes()
        if path.endswith(".py"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(data, path, "exec", dont_inherit=True)
        elif path.endswith((".yaml", ".yml")):
            list(yaml.safe_load_all(data))


@OLD_GPUS
def test_only_the_planned_files_change(version: str, policy: str, patch: Patch) -> None:
    patched = patch(version, policy)
    before, after = contents(patched.original), contents(patched.copy)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed == set(patched.plan.patches.paths)
    assert before.keys() <= after.keys()


@OLD_GPUS
def test_nothing_is_left_to_rewrite(version: str, policy: str, patch: Patch) -> None:
    patched = patch(version, policy)
    assert [str(finding.mention) for finding in patched.plan_after.of("rewrite")] == []
    assert not patched.plan_after.patches
    assert not patched.plan_after.errors


@OLD_GPUS
def test_what_needs_a_person_is_still_reported_after(version: str, policy: str, patch: Patch) -> None:
    patched = patch(version, policy)
    before, after = (
        Counter((each.mention.path, each.rule) for each in plan.of("report"))
        for plan in (patched.plan, patched.plan_after)
    )
    assert before == after


@OLD_GPUS
def test_git_applies_the_diff_to_the_same_bytes(version: str, policy: str, patch: Patch, tmp_path: Path) -> None:
    patched = patch(version, policy)
    tree = tmp_path / "tree"
    shutil.copytree(patched.original, tree)
    subprocess.run(["git", "init", "--quiet", "."], cwd=tree, check=True)
    subprocess.run(["git", "apply", "-"], cwd=tree, input=render(patched.plan), check=True)
    shutil.rmtree(tree / ".git")
    assert contents(tree) == contents(patched.copy)


@OLD_GPUS
def test_revert_gives_back_every_byte(version: str, policy: str, patch: Patch, tmp_path: Path) -> None:
    patched = patch(version, policy)
    tree = tmp_path / "tree"
    shutil.copytree(patched.copy, tree)
    transaction.revert(tree)
    assert contents(tree) == contents(patched.original)


def test_nothing_to_do_for_an_a100(version: str, patch: Patch) -> None:
    plan = patch(version, "a100").plan
    assert plan.of("rewrite", "report") == []
    assert plan.findings == (), "a target that needs nothing reads nothing"


@pytest.mark.parametrize(
    ("policy", "foreign"), [("p40", r"float16|fp16|half|sdpa"), ("v100-float16-sdpa", r"float32|fp32|float\(|eager")]
)
def test_only_the_values_of_the_policy_are_written(version: str, policy: str, foreign: str, patch: Patch) -> None:
    for finding in patch(version, policy).plan.of("rewrite"):
        for edit in finding.edits:
            old, new = (Counter(re.findall(rf"(?<![a-z]){foreign}", text.decode())) for text in (edit.old, edit.new))
            assert new <= old, finding


@OLD_GPUS
def test_the_number_of_findings_by_rule(version: str, policy: str, patch: Patch, pytestconfig: pytest.Config) -> None:
    """A table to see what a change of the rules does to real code: --update-expected writes it anew."""
    plan = patch(version, policy).plan
    found = {action: dict(Counter(each.rule for each in plan.of(action))) for action in ("rewrite", "report")}
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    if pytestconfig.getoption("--update-expected"):
        expected.setdefault(version, {})[policy] = found
        EXPECTED.write_text(json.dumps(expected, indent=2, sort_keys=True) + "\n")
    assert found == expected[version][policy], "if this is wanted: pytest tests/real --all-releases --update-expected"
