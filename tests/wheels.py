"""verl releases from the package registry: downloaded once, checked by hash, kept in a cache of the user."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

_RELEASES = Path(__file__).with_name("releases.json")


@dataclass(frozen=True)
class Release:
    """One verl release: its version, and the name and SHA-256 of its wheel."""

    version: str
    file: str
    sha256: str
    default: bool

    def unpack(self, cache: Path, folder: Path) -> Path:
        """Unpack the wheel below ``folder``, from ``cache`` or from the registry; a failed download fails the test."""
        wheel = cache / self.file
        if not wheel.is_file() or _sha256(wheel) != self.sha256:
            self._download(cache)
        root = folder / f"verl-{self.version}"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root)
        return root

    def _download(self, cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch]
            done = subprocess.run([*pip, f"verl=={self.version}"], capture_output=True, text=True, check=False)
            wheel = Path(scratch, self.file)
            if not wheel.is_file():
                _fail(f"verl {self.version} cannot be downloaded, and these tests need it.\n{done.stderr}")
            if _sha256(wheel) != self.sha256:
                _fail(f"{self.file} is not the file that these tests were written for: its SHA-256 differs")
            wheel.replace(cache / self.file)


def releases(all_of_them: bool = True) -> list[Release]:
    """The releases to run on, oldest first."""
    table = json.loads(_RELEASES.read_text())
    known = [Release(version, **row) for version, row in table.items()]
    return [release for release in known if all_of_them or release.default]


def _fail(text: str) -> NoReturn:
    pytest.fail(text, pytrace=False)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
