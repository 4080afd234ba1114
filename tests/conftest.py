"""Options of the test suite, and the folder in which it keeps what it downloads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cache import cache_folder
from hypothesis import HealthCheck, settings

# How long an example takes says nothing: the machine may be busy, and the first one imports what it needs.
settings.register_profile(
    "precpatch", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("precpatch")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the tests that run on real verl releases."""
    group = parser.getgroup("precpatch")
    group.addoption("--all-releases", action="store_true", help="run on every verl release, not only on four of them")
    group.addoption("--update-expected", action="store_true", help="write tests/real/expected.json from this run")
    group.addoption("--gpu-python", type=Path, help="an environment with CUDA and verl's packages, to prove on a GPU")
    group.addoption(
        "--proof", action="store_true", help="also train with real verl (installs 3.4 GB at the first time)"
    )


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One process where the tests train, or write a file that others of them write too; else one a core."""
    return 0 if config.getoption("--proof") or config.getoption("--update-expected") else None


@pytest.fixture(scope="session")
def download_cache() -> Path:
    """A folder of the user that outlives the run."""
    return cache_folder()
