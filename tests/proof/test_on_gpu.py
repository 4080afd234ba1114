"""What only a GPU shows: which functions are compiled, and what refuses the target's compute capability.

Under the guard compiled functions run eagerly. Here torch only pretends to see a P40, and compiles. With --gpu-python
PYTHON only, an environment for verl 0.9.1 on a machine with a GPU.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import PARTS, PRETENDED, Job, Run, run
from trees import PATCHED, SED, make_tree


def run_workers(pytestconfig: pytest.Config, cache: Path, folder: Path, kind: str) -> Run:
    """The PPO workers of a tree of verl 0.9.1, on the GPU."""
    python = pytestconfig.getoption("--gpu-python")
    if python is None:
        pytest.skip("needs a GPU: give --gpu-python")
    tree = make_tree(kind, "0.9.1", cache, folder)
    job = Job("0.9.1", kind, "workers", "of the machine")
    return run(tree, job, python, folder / "run", device="cuda", guard=PRETENDED)


def test_a_patched_release_compiles_nothing(pytestconfig: pytest.Config, download_cache: Path, tmp_path: Path) -> None:
    made = run_workers(pytestconfig, download_cache, tmp_path, PATCHED)
    assert made.errors == {}
    assert all(map(made.trained, PARTS["workers"]))


def test_replacing_the_words_is_refused_by_the_compiler(
    pytestconfig: pytest.Config, download_cache: Path, tmp_path: Path
) -> None:
    made = run_workers(pytestconfig, download_cache, tmp_path, SED)
    assert "GPUTooOldForTriton" in made.errors["actor"]
