"""The environments that verl runs in: made once from pinned requirements, and kept in the cache of the user."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("environments")
TRANSFORMERS_5 = ("0.8.", "0.9.")


def environment_for(version: str) -> str:
    """The environment that a verl release needs."""
    return "transformers-5" if version.startswith(TRANSFORMERS_5) else "transformers-4"


def make_environment(name: str, cache: Path) -> Path:
    """The Python of an environment. It is made anew when its requirements or this Python change.

    Raises:
        subprocess.CalledProcessError: pip cannot install it.
    """
    files = [REQUIREMENTS / f"{name}.txt", REQUIREMENTS / "common.in"]
    state = hashlib.sha256(b"".join(file.read_bytes() for file in files) + sys.version.encode()).hexdigest()
    folder = cache / "environments" / name
    done = folder / "made-from"
    python = folder / "bin" / "python"
    if not done.exists() or done.read_text() != state:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        # Most of what is installed is never imported, so it is compiled when it is.
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "-r", files[0]], check=True)
        done.write_text(state)
    return python
