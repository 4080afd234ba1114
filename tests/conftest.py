"""Options of the test suite, and the folder in which it keeps what it downloads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the tests that run on real verl releases."""
    group = parser.getgroup("precpatch")
    group.addoption("--all-releases", action="store_true", help="run on every verl release, not only on four of them")
    group.addoption("--update-expected", action="store_true", help="write tests/real/expected.json from this run")


@pytest.fixture(scope="session")
def download_cache() -> Path:
    """A folder of the user that outlives the run: XDG_CACHE_HOME where it is set, else where the platform has it."""
    defaults = {"darwin": Path.home() / "Library" / "Caches", "win32": Path.home() / "AppData" / "Local"}
    base = os.environ.get("XDG_CACHE_HOME") or defaults.get(sys.platform, Path.home() / ".cache")
    folder = Path(base) / "precpatch-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
