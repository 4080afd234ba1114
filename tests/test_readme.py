"""What the README shows is what happens: its files are written, its commands are run, its output is compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
README = PROJECT / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w./-]+\.\w+)\n")


@pytest.fixture
def reader_folder(tmp_path: Path) -> Path:
    """A folder as a reader has it after the first command of the README."""
    shutil.copytree(PROJECT / "examples" / "mini-verl", tmp_path / "build" / "demo")
    return tmp_path


def shell(command: str, cwd: Path) -> str:
    """What a command line of the README prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "GIT_CEILING_DIRECTORIES": str(cwd.parent), "NO_COLOR": "1"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode()


def console(text: str, cwd: Path) -> str:
    """The commands of a console block with the output that they have now."""
    commands = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {command}\n{shell(command, cwd)}" for command in commands)


def as_it_is_now(readme: str, cwd: Path) -> str:
    """The README with the output of today; the files that it shows are written on the way."""

    def renewed(block: re.Match[str]) -> str:
        kind, text = block.groups()
        named = FILE_NAME.match(text)
        if named:
            (cwd / named[1]).parent.mkdir(parents=True, exist_ok=True)
            (cwd / named[1]).write_text(text)
        return f"```{kind}\n{console(text, cwd)}```" if kind == "console" else block[0]

    return BLOCK.sub(renewed, readme)


def test_the_output_in_the_readme_is_real(reader_folder: Path, pytestconfig: pytest.Config) -> None:
    """To write it anew: pytest tests/test_readme.py --update-expected."""
    written = README.read_text()
    now = as_it_is_now(written, reader_folder)
    if pytestconfig.getoption("--update-expected"):
        README.write_text(now)
        written = now
    assert now.splitlines() == written.splitlines()


def test_the_example_compiles() -> None:
    for path in (PROJECT / "examples").rglob("*.py"):
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^):#]+)\)", README.read_text()))))
def test_links_lead_somewhere(link: str) -> None:
    assert (PROJECT / link).exists()


def test_ci_runs_the_command_of_the_readme() -> None:
    (command,) = re.findall(r"^python3 -m venv .*pytest$", README.read_text(), re.MULTILINE)
    assert command in (PROJECT / ".ci" / "run").read_text()
