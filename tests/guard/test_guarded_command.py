"""The guard around commands without torch: imports, exit codes, signals, the environment."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

IMPORTS = """
    import importlib.util
    from contextlib import suppress

    def wanted():
        import flash_attn.bert_padding

    def optional():
        try:
            from flash_attn import flash_attn_func
        except ImportError as error:
            return str(error)

    def suppressed():
        with suppress(ModuleNotFoundError):
            import mine

    print(importlib.util.find_spec("flash_attn"), optional())
    suppressed()
    try:
        wanted()
    except KeyError:
        pass
"""


@pytest.fixture
def packages(tmp_path: Path) -> None:
    """Packages that are there, and would be blocked."""
    for name in "flash_attn", "mine":
        (tmp_path / f"{name}.py").write_text("flash_attn_func = print\n")


@pytest.mark.usefixtures("packages")
def test_a_blocked_import_is_absent_and_trips_where_the_program_needs_it(guard: Callable[..., object]) -> None:
    done = guard(IMPORTS, "--target", "p40", "--block", "mine, other")
    assert done.out == "None No module named 'flash_attn' (blocked by precpatch guard)\n"
    assert "ModuleNotFoundError: No module named 'flash_attn" in done.err
    (site,) = done.report["sites"]
    assert (site["function"], site["operators"], site["kinds"]) == ("wanted", {"import flash_attn": 1}, {"import": 1})
    assert [site["function"] for site in done.report["handled_imports"]] == ["optional", "suppressed"]
    assert done.report["blocked"] == ["flash_attn", "vllm", "sglang", "mine", "other"]
    assert done.code == 1


@pytest.mark.usefixtures("packages")
def test_an_allowed_import_works(guard: Callable[..., object]) -> None:
    done = guard("import flash_attn", "--target", "p40", "--allow", "flash_attn")
    assert (done.code, done.report["sites"]) == (0, [])


def test_output_and_exit_code_are_the_commands_own(guard: Callable[..., object]) -> None:
    done = guard("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", "--target", "p40")
    assert (done.code, done.out, done.err) == (7, "out\n", "err\n")
    assert done.report["exit_code"] == 7


def test_nothing_is_imported_for_a_process_without_torch(guard: Callable[..., object]) -> None:
    done = guard("import sys; print('torch' in sys.modules)", "--target", "p40")
    assert done.out == "False\n"
    assert done.report["processes"] == []


def test_a_sitecustomize_of_the_user_still_runs(
    guard: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.MARK = __name__, __file__")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = guard("import sitecustomize; print(MARK[0], MARK[1] == sitecustomize.__file__)", "--target", "p40")
    assert done.out == "sitecustomize True\n"


def test_a_target_that_has_everything_is_left_alone(guard: Callable[..., object]) -> None:
    done = guard("import os; print('PRECPATCH_GUARD' in os.environ)", "--target", "h100")
    assert (done.code, done.out, done.report["forbidden"]) == (0, "False\n", [])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--target", "p40", "--", "no-such-command"], "no-such-command: command not found"),
        (["--target", "p40", "--mode", "stop", "--", "true"], "'stop' is not one of record, raise"),
        (["--target", "p40", "--forbid", "bf16", "--", "true"], "'bf16' is not one of bfloat16, float16"),
        (["--target", "p40", "--checkout", "nowhere", "--", "true"], "nowhere"),
        (["--target", "cpu", "--pretend", "--", "true"], "--pretend needs a target with a compute capability"),
        (["--target", "p40"], "COMMAND"),
    ],
)
def test_a_wrong_request_is_one_line(options: list[str], told: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "precpatch", "guard", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert told in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_is_passed_on_and_its_number_comes_back(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"import pathlib, time; pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    line = [sys.executable, "-m", "precpatch", "guard", "--target", "p40", "--", sys.executable, "-c", script]
    with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, env=os.environ) as process:
        while not ready.exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, report = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"No trips; no process imported torch under the guard, so no operator was looked at" in report


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGTERM"])
def test_a_signal_that_is_ignored_stays_so_for_the_command(name: str, ignored: bool, tmp_path: Path) -> None:
    start = f"import os, signal, sys; signal.signal(signal.{name}, signal.SIG_{'IGN' if ignored else 'DFL'}); "
    start += "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    tell = f"import signal; print(signal.getsignal(signal.{name}) == signal.SIG_IGN)"
    guard = ["-m", "precpatch", "guard", "--target", "p40", "--", sys.executable, "-c", tell]
    done = subprocess.run(
        [sys.executable, "-c", start, *guard], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{ignored}\n")


def test_input_and_output_are_passed_on_byte_for_byte(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "precpatch", "guard", "--target", "p40", "--", "cat"]
    data = bytes(range(256))
    done = subprocess.run(line, cwd=tmp_path, input=data, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, data)


def test_an_odd_pythonpath_is_kept(guard: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/a b", "/it's", "/\u00e4;$x"]))
    done = guard("import sys; print(sys.path[2:5])", "--target", "p40")
    assert ast.literal_eval(done.out) == ["/a b", "/it's", "/\u00e4;$x"]


INJECT = Path(__file__).parents[2] / "src" / "precpatch" / "guard" / "inject"


@pytest.mark.parametrize("path", sorted(INJECT.rglob("*.py")), ids=lambda path: path.name)
def test_what_runs_in_the_users_python_is_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    hidden = [node.annotation for node in ast.walk(tree) if isinstance(node, (ast.AnnAssign, ast.arg))]
    hidden += [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    unread = {id(inner) for annotation in hidden if annotation for inner in ast.walk(annotation)}
    names = {"dict", "frozenset", "list", "set", "tuple", "type", "Callable", "Iterator", "Sequence"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and id(node) not in unread:
            assert node.value.id not in names, f"line {node.lineno}: {node.value.id} takes no subscript in Python 3.8"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
            assert not node.keywords, f"line {node.lineno}: strict is of Python 3.10"
