"""The short form of ``crash.py``: kills and faults at every fifth call that changes something, and random kills."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import crash
import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


@pytest.mark.parametrize("user", crash.users())
def test_nothing_is_lost(user: int | None, capfd: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to other users
        Path(folder).chmod(0o755)
        figures = crash.everything(Path(folder), user, is_long=False, seconds=2)
    capfd.readouterr()
    assert all(number > 0 for number in figures.values()), figures
