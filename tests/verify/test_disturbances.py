"""Modules that disturb the process that imports them or outlive it, and checkouts that are laid out in odd ways."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Verify = Callable[..., object]

ONLY = ("--only", "imports")
WORKER = "verl/trainer/worker.py"
SITE = "env/lib/site-packages"

posix = pytest.mark.skipif(os.name != "posix", reason="signals and process groups")

MAIN = {"verl/trainer/main_ppo.py": "def f():\n    from . import worker\nif __name__ == '__main__':\n    f()\n"}
"""An entry point without Hydra, whose import takes its time."""


def reach(*paths: str) -> str:
    """A function that imports modules."""
    return "def f():\n" + "".join(f"    import {path.removesuffix('.py').replace('/', '.')}\n" for path in paths)


DISTURBING = (
    "import os, tempfile\nfolder = tempfile.mkdtemp()\nos.chdir(folder)\nos.rmdir(folder)\n",
    "import sys\nsys.stdout = sys.stderr = None\n",
    "import os\nos.closerange(0, 100)\n",
    "import sys\nsys.path[:] = []\n",
    "import sys\nsys.path = None\n",
    "import sys\nsys.modules[3] = None\n",
    "import sys\nclass X:\n    def __getattr__(self, name):\n        raise RuntimeError\nsys.modules[__name__] = X()\n",
    "import json\njson.dumps = json.loads = None\n",
    "import os\nfor number in range(3, 20):\n    try:\n        os.write(number, b'{\"done\": 0}\\n[1]\\n')\n"
    "    except OSError:\n        pass\n",
    "import os\nif hasattr(os, 'fork') and os.fork() == 0:\n    raise SystemExit(1)\n",
    "import warnings\nwarnings.simplefilter('error')\n",
    "import warnings\nwarnings.warn('an error, if the module before has made it one')\n",
    "import sys\nsys.setrecursionlimit(80)\n",
    "import threading, time\nfor _ in range(50):\n    threading.Thread(target=time.sleep, args=(99,)).start()\n",
    "import atexit\natexit.register(lambda: 1 / 0)\n",
)


def test_what_a_module_does_to_the_process_is_not_blamed_on_it_or_on_others(verify: Verify) -> None:
    modules = {f"verl/m{number}.py": text for number, text in enumerate(DISTURBING)}
    done = verify({**MAIN, WORKER: reach(*modules, "verl/last.py"), "verl/last.py": "1 / 0\n", **modules}, *ONLY)
    assert done.problems("imports") == ["verl/last.py:1: ZeroDivisionError: division by zero"]


FAILING = {
    "raise ValueError('x' * 50_000_000)\n": f"1: ValueError: {'x' * 400}...",
    "class E(Exception):\n    def __str__(self):\n        raise SystemExit(5)\nraise E\n": "4: E",
    "raise SyntaxError('bad', (b'x', 'y', None, None))\n": "1: SyntaxError: bad",
    "raise ImportError('x', name=3)\n": "1: ImportError: x",
    "exec('1 / 0')\n": "1: ZeroDivisionError: division by zero",
    "from ....x import y\n": "1: ImportError: attempted relative import beyond top-level package",
    "a, b = ValueError('a'), ValueError('b')\na.__context__, b.__context__ = b, a\nraise a\n": "3: ValueError: a",
}


def test_an_error_of_any_kind_is_one_line_with_its_place(verify: Verify) -> None:
    modules = {f"verl/m{number:02}.py": text for number, text in enumerate(FAILING)}
    done = verify({**MAIN, WORKER: reach(*modules), **modules}, *ONLY)
    assert done.problems("imports") == [f"{path}:{told}" for path, told in zip(modules, FAILING.values(), strict=True)]
    assert not any("is not in the checkout" in note for note in done.step("imports")["notes"])


def test_a_module_that_ends_the_process_after_another_only_is_no_failure(verify: Verify) -> None:
    files = {
        "verl/ends.py": "import math, os\nif hasattr(math, 'claimed'):\n    os._exit(1)\n",
        "verl/claims.py": "import math\nmath.claimed = 1\n",
    }
    assert verify({**MAIN, WORKER: reach("verl/claims.py", "verl/ends.py"), **files}, *ONLY).code == 0


def test_a_hang_that_has_switched_its_alarm_off_ends(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precpatch.verify.child._SLACK", 0.5)
    text = "import faulthandler, time\nfaulthandler.cancel_dump_traceback_later()\ntime.sleep(60)\n"
    done = verify({**MAIN, WORKER: text}, *ONLY, "--timeout", "3")
    assert done.problems("imports") == [f"{WORKER}:None: took more than 3 seconds (--timeout)"]


STARTS = """
    import os, subprocess, sys, time
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open({pids!r} + ".new", "w") as file:
        file.write(str(os.getpid()) + " " + str(other.pid))
    os.rename({pids!r} + ".new", {pids!r})
"""


def gone(pid: int) -> bool:
    """Whether a process ends long before it would by itself."""
    for _ in range(600):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@posix
def test_what_a_module_has_started_ends_with_it(verify: Verify, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    assert verify({**MAIN, WORKER: STARTS.format(pids=str(pids))}, *ONLY).code == 0
    assert all(gone(int(pid)) for pid in pids.read_text().split())


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_with_all_that_it_has_started(
    number: signal.Signals, checkout: Callable[..., Path], tmp_path: Path
) -> None:
    pids, temporary = tmp_path / "pids", tmp_path / "temporary"
    temporary.mkdir()
    root = checkout({**MAIN, WORKER: STARTS.format(pids=str(pids)) + "    time.sleep(600)\n"})
    # Interrupts are heeded as in a shell, also where this run was started with them ignored (`nohup ... &`).
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heed}; import sys; from precpatch.cli.main import run; sys.exit(run())"
    command = [sys.executable, "-c", program, "verify", str(root), "--target", "p40", *ONLY]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE) as process:
        while not pids.exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert all(gone(int(pid)) for pid in pids.read_text().split())
    assert list(temporary.iterdir()) == []


def test_an_environment_in_the_checkout_is_not_the_checkout(
    verify: Verify, checkout: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(checkout({}) / SITE))
    refuses = (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    dtype: str = 'float32'\n"
        "    def __post_init__(self):\n        assert self.dtype in ['bfloat16']\n"
    )
    files = {
        f"{SITE}/broken.py": "1 / 0\n",
        f"{SITE}/ends.py": "import os\nos._exit(4)\n",
        f"{SITE}/refuses.py": refuses,
        WORKER: "import refuses\n" + reach("verl/lazy.py", "verl/stops.py"),
        "verl/lazy.py": "import broken\n",
        "verl/stops.py": "\nimport ends\n",
    }
    done = verify({**MAIN, **files}, "--only", "imports,configs")
    assert done.problems("imports") == ["verl/stops.py:2: the process ended itself with exit code 4"]
    assert [each["path"] for each in done.step("imports")["not_needed"]] == ["verl/lazy.py"]
    assert done.problems("configs") == []


def test_a_package_may_add_to_the_path_for_those_after_it(verify: Verify) -> None:
    add = "import os, sys\nsys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(__file__)), 'bundled'))\n"
    files = {**MAIN, "verl/__init__.py": add, WORKER: "import bundled_part\n", "bundled/bundled_part.py": ""}
    done = verify(files, *ONLY)
    assert done.problems("imports") == []
    assert done.step("imports")["figures"]["not_needed"] == 0


def test_the_folder_of_a_script_comes_first_as_when_it_is_run(verify: Verify) -> None:
    entry = "import hydra\nfrom utils import special\n@hydra.main('config', 'ppo')\ndef main(c): ...\n"
    files = {"utils/__init__.py": "", "examples/a/run.py": entry, "examples/a/utils.py": "special = 1\n"}
    assert verify(files, *ONLY).problems("imports") == []


def test_the_users_path_counts_from_where_precpatch_is_started(
    verify: Verify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/my_part.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "mine")
    assert verify({**MAIN, WORKER: "import my_part\n"}, *ONLY).step("imports")["figures"]["not_needed"] == 0


@pytest.mark.parametrize("form", ["./verl/trainer/main_ppo.py", "{root}/verl/trainer/main_ppo.py"])
def test_an_entry_point_may_be_named_by_any_form_of_its_path(
    form: str, verify: Verify, checkout: Callable[..., Path]
) -> None:
    assert verify(MAIN, *ONLY, "--entry", form.format(root=checkout({}))).code == 0
