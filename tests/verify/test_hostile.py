"""Modules and configs that do harm or what nobody expects: verify tells of them, and goes on."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from precpatch.cli.main import run

Verify = Callable[..., object]
Checkout = Callable[..., Path]

ONLY = ("--only", "imports")
WORKER = "verl/trainer/worker.py"
BAD = "verl/trainer/bad.py"
PPO = "verl/trainer/config/ppo.yaml"
ENTRY = "verl/trainer/main_ppo.py"
HEAD = "import hydra\n\n@hydra.main(config_path='config', config_name='ppo', version_base=None)\ndef main(config):\n"


@contextmanager
def stdin_from(file: TextIO) -> Iterator[None]:
    """Let processes that are started read a file."""
    before = os.dup(0)
    os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


@pytest.fixture
def amid(verify: Verify, checkout: Checkout, tmp_path: Path) -> Callable[..., object]:
    """Verify a module that is imported before a good one, which leaves a mark that tells how it was imported."""

    def call(text: str, *words: object, entry: str | None = None) -> object:
        mark = tmp_path / "mark"
        good = "import os\ntry:\n    now = os.getcwd()\nexcept OSError:\n    now = 'nowhere'\n"
        good += f"file = os.open({str(mark)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        good += "os.write(file, (now + '\\n').encode())\nos.close(file)\n"
        later = "\n\ndef later():\n    import verl.good\n"  # what is nearer to the entry point is imported first
        root = checkout({})
        (tmp_path / "typed").write_text("yes\n" * 100_000)
        with (tmp_path / "typed").open() as typed, stdin_from(typed):
            more = {} if entry is None else {ENTRY: entry}
            done = verify({WORKER: text + later, "verl/good.py": good, **more}, *(words or ONLY))
        assert mark.read_text().splitlines() == [os.fspath(root)]  # once, and in the checkout
        assert not [path for path in root.rglob("*") if path.name in {"__pycache__", "outputs"}]
        assert sum(path.is_file() for path in root.rglob("*")) == 6
        return done

    return call


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os\nos._exit(0)\n", f"{WORKER}:2: the process ended itself with exit code 0"),
        (
            "import ctypes\n\nctypes.string_at(0)\n",
            f"{WORKER}:3: the process was ended by SIGSEGV",
        ),
        (
            "import os, signal\nos.killpg(os.getpgrp(), signal.SIGTERM)\n",
            f"{WORKER}:0: the process was ended by SIGTERM",
        ),
        ("raise SystemExit\n", f"{WORKER}:1: SystemExit: the module ends the program, with None"),
        ("raise KeyboardInterrupt\n", f"{WORKER}:1: KeyboardInterrupt"),
        ("def f():\n    f()\nf()\n", f"{WORKER}:2: RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_a_module_that_ends_the_program_is_the_only_one_that_fails(text: str, told: str, amid: Verify) -> None:
    done = amid(text)
    assert done.code == 1
    (problem,) = done.problems("imports")
    assert problem.replace(":None:", ":0:").startswith(told)
    assert done.step("imports")["figures"]["failed"] == 1


def test_a_module_that_hangs_is_the_only_one_that_fails(amid: Verify) -> None:
    deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\n\n"
    # Without Hydra no other module takes any time, so that on a busy machine too none but this one is over the limit.
    entry = "def f():\n    from . import worker\nif __name__ == '__main__':\n    f()\n"
    done = amid(f"{deaf}while True:\n    pass\n", *ONLY, "--timeout", "3", entry=entry)
    (problem,) = done.problems("imports")
    assert problem.startswith((f"{WORKER}:4: took more than 3 seconds", f"{WORKER}:5: took more than 3 seconds"))


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nfor _ in range(4000):\n    print('n' * 1000)\n    print('e' * 1000, file=sys.stderr)\n",
        'import os\nos.write(1, b\'\\xff\\xfe\\x00{"done": 0, "failure": 1}\\n\')\n',
        "import sys\nsys.stdout.close()\nsys.stderr.close()\nsys.stdout = sys.stderr = None\n",
        "import os\nos.closerange(0, 64)\n",
        "import sys\nassert sys.stdin.read(1) == ''\ntry:\n    input()\nexcept EOFError:\n    pass\n",
        "import argparse, sys\nassert len(sys.argv) == 1\nargparse.ArgumentParser().parse_args()\nsys.argv.clear()\n",
    ],
    ids=["floods", "no text", "closes streams", "closes files", "reads stdin", "reads argv"],
)
def test_what_a_module_reads_and_writes_is_no_matter(text: str, amid: Verify) -> None:
    done = amid(text)
    assert done.problems("imports") == []
    assert done.code == 0
    assert done.err == ""


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.path.clear()\n",
        "import sys\nsys.path = ['/nonesuch']\n",
        "import sys\nsys.path.insert(0, '/nonesuch')\nsys.modules[1] = sys.modules['verl.odd'] = object()\n",
        "import sys\nfor name in ('json', 'importlib.util', 'faulthandler'):\n    sys.modules.pop(name, None)\n",
        "import os, tempfile\nname = tempfile.mkdtemp()\nos.chdir(name)\nos.rmdir(name)\n",
        "import json\njson.dumps = json.loads = json.JSONEncoder.encode = lambda *_, **__: 'nonsense'\n",
        "import builtins, os\nbuiltins.open = os.getpid = os._exit = lambda *_, **__: 1 / 0\n",
        "import faulthandler, sys\nfaulthandler.disable()\nsys.setrecursionlimit(90)\n",
        "import os\nif child := os.fork():\n    os.waitpid(child, 0)\n",
    ],
    ids=["path", "other path", "odd modules", "modules", "no cwd", "json", "builtins", "limits", "fork"],
)
def test_what_a_module_changes_in_its_process_is_no_matter(text: str, amid: Verify) -> None:
    done = amid(text)
    assert done.problems("imports") == []
    assert done.code == 0


ERRORS = {
    "'two\\nlines\\r\\n\\tthree'": "two lines three",
    "'\\x1b[31mred\\x1b[0m \\x07'": "\\x1b[31mred\\x1b[0m \\x07",
    "'[bold]loud[/bold] [/nonesuch]'": "[bold]loud[/bold] [/nonesuch]",
    "'half \\udcff\\ud800'": "half \\udcff\\ud800",
    "b'\\xff'.decode('latin-1')": "\xff",
}


@pytest.mark.parametrize("color", ["", "1"])
def test_the_text_of_an_error_is_shown_on_one_line_as_it_is(
    color: str,
    checkout: Checkout,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    modules = {f"verl/m{number}.py": f"raise ValueError({text})\n" for number, text in enumerate(ERRORS)}
    imports = "".join(f"    import verl.m{number}\n" for number in range(len(modules)))
    monkeypatch.setenv("FORCE_COLOR", color)
    root = checkout({ENTRY: HEAD + imports, **modules})
    monkeypatch.setattr(sys, "argv", ["precpatch", "verify", str(root), "--target", "p40", *ONLY])
    assert run() == 1
    out, err = capfdbinary.readouterr()
    shown = out.decode("utf-8")
    assert err == b""
    if not color:
        assert "\x1b" not in shown
    for number, text in enumerate(ERRORS.values()):
        (line,) = [each for each in shown.splitlines() if f"verl/m{number}.py:1" in each]
        assert f"ValueError: {text}" in line
    assert "\x07" not in shown


@pytest.mark.parametrize("name", ["json", "types", "precpatch_verify"])
def test_a_module_at_the_root_may_be_named_like_one_that_verify_needs(name: str, verify: Verify) -> None:
    done = verify({f"{name}.py": "raise RuntimeError('not this one')\n", WORKER: "import os\n"}, *ONLY)
    assert done.problems("imports") == []
    assert done.code == 0


def test_a_file_that_is_no_text_fails_alone(verify: Verify, checkout: Checkout) -> None:
    entry = f"{HEAD}    import verl.trainer.bad\n    import verl.trainer.worker\n"
    (checkout({}) / BAD).write_bytes(b"x = '\xff\xfe'\n")
    done = verify({ENTRY: entry, WORKER: "1 / 0\n"}, *ONLY)
    first, second = done.problems("imports")
    assert first.startswith(f"{BAD}:1: SyntaxError: ")
    assert second == f"{WORKER}:1: ZeroDivisionError: division by zero"


def test_a_key_with_a_dot_is_one_key(verify: Verify) -> None:
    pytest.importorskip("hydra")
    part = "from dataclasses import dataclass\n\n@dataclass\nclass Part:\n    dtype: str = 'float32'\n\n"
    part += "    def __post_init__(self):\n        assert self.dtype in ['bfloat16'], self.dtype\n"
    text = "a.b:\n  c.d: {_target_: verl.part.Part}\n  e: [{_target_: verl.part.Part, dtype: bfloat16}]\n"
    done = verify({PPO: text, "verl/part.py": part}, "--only", "configs")
    (problem,) = [each for each in done.problems("configs") if each.startswith(PPO)]
    assert problem.startswith(f"{PPO}:None: a.b.c.d: Part.__post_init__ refuses dtype='float32'")
    assert done.step("configs")["figures"]["built"] == 1


def test_a_resolver_that_the_program_registers_later_is_known(verify: Verify) -> None:
    pytest.importorskip("hydra")
    entry = HEAD + "    from omegaconf import OmegaConf\n    OmegaConf.register_new_resolver('later', len)\n"
    done = verify({ENTRY: entry, PPO: "a: ${later:1}\nb: ${never:1}\n"}, "--only", "configs")
    (problem,) = done.problems("configs")
    assert problem.startswith(f"{PPO}:None: b: ${{never:1}}: UnsupportedInterpolationType")


@pytest.mark.parametrize("node", ["{_target_: verl.act.act, path: x}", "{_target_: verl.act.Part, inner: %s}"])
def test_a_target_that_is_no_dataclass_is_not_called(node: str, verify: Verify, tmp_path: Path) -> None:
    pytest.importorskip("hydra")
    mark = tmp_path / "called"
    act = f"from dataclasses import dataclass\n\ndef act(path):\n    open({str(mark)!r}, 'w').close()\n\n"
    act += "@dataclass\nclass Part:\n    inner: object = None\n"
    text = "a: " + (node % "{_target_: verl.act.act, path: x}" if "%" in node else node) + "\n"
    done = verify({PPO: text, "verl/act.py": act}, "--only", "configs")
    assert done.code == 0
    assert done.step("configs")["figures"]["built"] == 0
    assert not mark.exists()


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("#!/bin/sh\necho I am no snake >&2\nexit 7\n", "cannot be used: I am no snake"),
        ("#!/bin/sh\nexit 7\n", "cannot be used: it ended with exit code 7"),
        ("#!/bin/sh\nexit 0\n", "cannot be used: it ended with exit code 0"),
        ("#!/nonesuch/python\n", "cannot be started: "),
        ("\x00\x01\x02", "cannot be started: "),
    ],
)
def test_an_interpreter_that_is_no_python_is_one_line(script: str, told: str, verify: Verify, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    done = verify({}, *ONLY, "--python", python)
    assert done.code == 2
    assert done.report == {}
    assert f"{python}: {told}" in done.err
    assert done.err.count("\n") == 1
