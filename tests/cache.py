"""The folder in which the tests keep what they download."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """A folder of the user that outlives the run: XDG_CACHE_HOME where it is set, else where the platform has it."""
    defaults = {"darwin": Path.home() / "Library" / "Caches", "win32": Path.home() / "AppData" / "Local"}
    base = os.environ.get("XDG_CACHE_HOME") or defaults.get(sys.platform, Path.home() / ".cache")
    folder = Path(base) / "precpatch-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
