"""The environments that verl runs in: made once from pinned requirements, and kept in the cache of the user.

python tests/proof/environments.py        makes those that the tests use
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cache import cache_folder

REQUIREMENTS = Path(__file__).with_name("environments")
TRANSFORMERS_4, TRANSFORMERS_5 = "transformers-4", "transformers-5"
_NEW_RELEASES = ("0.8.", "0.9.")


def environment_for(version: str) -> str:
    """The environment that a verl release needs."""
    return TRANSFORMERS_5 if version.startswith(_NEW_RELEASES) else TRANSFORMERS_4


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
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", files[0]], check=True)
        done.write_text(state)
    return python


if __name__ == "__main__":
    for each in TRANSFORMERS_4, TRANSFORMERS_5:
        make_environment(each, cache_folder())
