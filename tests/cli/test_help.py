"""Help teaches, and a wrong request ends in one line and exit code 2."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from precpatch import __version__
from precpatch.cli import main as cli_main

COMMANDS = [name for group in cli_main._COMMANDS.values() for name in group]

Run = Callable[..., object]


def test_the_program_shows_its_commands_by_group(precpatch: Run) -> None:
    answer = precpatch("--help")
    assert answer.code == 0
    for words in ["Find and change:", "GPUs:", "Rules:", "precpatch scan verl --target p40", *COMMANDS]:
        assert words in answer.text


def test_no_arguments_is_help(precpatch: Run) -> None:
    assert precpatch() == precpatch("--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, precpatch: Run) -> None:
    answer = precpatch(command, "--help")
    assert answer.code == 0
    assert answer.err == ""
    assert f"precpatch {command}" in answer.text.partition("Examples:")[2]
    assert answer.out.isascii()


def test_version(precpatch: Run) -> None:
    answer = precpatch("--version")
    assert (answer.code, answer.text) == (0, f"precpatch {__version__}\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["scan", "verl", "--target", "p40", "--format", "jsn"], "'jsn' is not one of text, json, markdown. Did you"),
        (["scan", "verl", "--target", "p40", "--dtype", "bf16"], "'bf16' is not one of auto, float32, float16"),
        (["scan", "verl", "--target", "p40", "--attention", "x"], "'x' is not one of auto, eager, sdpa"),
        (["scan", "verl", "--target", "p4000x"], "unknown target 'p4000x'"),
        (["scan", "verl", "--targt", "p40"], "--targt"),
        (["scan", "nowhere", "--target", "p40"], "nowhere"),
        (["scan", "verl", "--target", "p40", "--config", "none.toml"], "none.toml: cannot read the settings"),
        (["scan", "verl", "--target", "p40", "--rules", "none"], "none: no such rule folder"),
        (["apply", "verl", "--target", "p40", "--report", "out.docx"], "no report format for the suffix '.docx'"),
        (["revert", "verl"], "nothing to revert"),
        (["explain"], "RULE"),
        (["scan", "no\x1b[31m\nwhere"], r"no\x1b[31m where"),
        (["scna"], "scna"),
        (["rules", "--format", "markdown"], "'markdown' is not one of text, json"),
    ],
)
@pytest.mark.usefixtures("checkout")
def test_a_wrong_request_is_one_line(words: list[str], told: str, precpatch: Run) -> None:
    answer = precpatch(*words)
    assert (answer.code, answer.out) == (2, b"")
    assert answer.err.startswith("precpatch: error: ")
    assert answer.err.count("\n") == 1
    assert told in answer.err


def test_a_bug_is_one_line_that_asks_for_a_report(
    precpatch: Run, checkout: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("precpatch.gpu.resolve.resolve_target", broken)
    answer = precpatch("scan", "verl")
    assert answer.code == 3
    assert answer.err.count("\n") == 1
    assert "KeyError: 'lost'" in answer.err
    assert "PRECPATCH_TRACEBACK=1" in answer.err
    monkeypatch.setenv("PRECPATCH_TRACEBACK", "1")
    assert "Traceback" in precpatch("scan", "verl").err


def test_an_interrupt_is_130(precpatch: Run, checkout: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("precpatch.gpu.resolve.resolve_target", interrupted)
    assert precpatch("scan", "verl").code == 130
