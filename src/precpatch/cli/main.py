"""The command line: the commands by group, and what becomes of an error."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable
from typing import Annotated, Protocol, runtime_checkable

import typer

from precpatch import __version__
from precpatch.cli import (
    apply,
    diagnose,
    diff,
    doctor,
    explain,
    guard,
    probe,
    revert,
    rules,
    scan,
    stream,
    targets,
    verify,
    vocabulary,
)
from precpatch.cli.help import Command, Group
from precpatch.errors import UserError
from precpatch.report.line import visible

BAD_REQUEST, BUG, INTERRUPTED = 2, 3, 130
_FAILED_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG)

app = typer.Typer(
    cls=Group,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Find and change": {
        "scan": scan.scan,
        "diff": diff.diff,
        "apply": apply.apply,
        "revert": revert.revert,
        "verify": verify.verify,
    },
    "GPUs": {
        "probe": probe.probe,
        "targets": targets.targets,
        "doctor": doctor.doctor,
        "diagnose": diagnose.diagnose,
        "guard": guard.guard,
    },
    "Rules": {
        "rules": rules.rules,
        "explain": explain.explain,
        "vocabulary": vocabulary.vocabulary,
    },
}

for _group, _functions in _COMMANDS.items():
    for _name, _function in _functions.items():
        app.command(_name, cls=Command, rich_help_panel=_group)(_function)


@runtime_checkable
class _BadUsage(Protocol):
    """What typer raises for a wrong option or argument; the class itself has moved between its releases."""

    def format_message(self) -> str: ...


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Fit a verl checkout to GPUs without native bfloat16 or FlashAttention-2.

    precpatch finds every place in Python, YAML, shell, JSON and notebooks that
    speaks of precision or attention, decides by the role each one plays, and
    shows or makes the change.

    Examples:
      precpatch scan verl --target p40     what would change, and what needs you
      precpatch diff verl --target p40     the same as a patch for `git apply`
      precpatch apply verl --target p40    make the change; revert takes it back
      precpatch scan verl                  for the GPU of this machine

    Exit codes: 0 nothing to do, 1 findings (apply: something is left for a
    person), 2 the request or an input file is bad, 3 a bug in precpatch.
    """
    if version:
        stream.write(f"precpatch {__version__}\n".encode())
    elif context.invoked_subcommand is None:
        stream.write(context.get_help().encode() + b"\n")


_OBJECTS_BETWEEN_COLLECTIONS = 200_000
"""A tree of Python is tens of thousands of objects, all of them in use: to look for garbage more often finds none."""


def run() -> int:
    """Run the command line and return the exit code; errors end in one line on standard error."""
    stream.open_missing()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    for output in (sys.stdout, sys.stderr):
        if hasattr(output, "reconfigure"):
            output.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        stream.flush()
        return code if isinstance(code, int) else 0
    except UserError as error:
        return _fail(str(error), BAD_REQUEST)
    except (KeyboardInterrupt, typer.Abort) as error:
        return _fail("; ".join(["interrupted", *_words_of(error)]), INTERRUPTED)
    except BrokenPipeError:
        stream.silence_stdout()
        return 0
    except OSError as error:  # from a library that prints help or a table, and that names no file
        if error.filename is not None or error.errno not in _FAILED_OUTPUT:
            return _bug(error)
        return _fail(str(stream.stdout_lost(error)), BAD_REQUEST)
    except Exception as error:
        if isinstance(error, _BadUsage):
            return _fail(_usage_message(error), BAD_REQUEST)
        return _bug(error)


def _words_of(interrupt: BaseException) -> list[str]:
    """What is true of the tree, where an interrupt came while it was written; typer's own error hides the first one."""
    first = interrupt.__cause__ if isinstance(interrupt, typer.Abort) else interrupt
    return [str(first)] if first is not None and str(first) else []


def _fail(message: str, code: int) -> int:
    stream.complain(f"precpatch: error: {visible(' '.join(message.split()))}")
    return code


def _usage_message(error: _BadUsage) -> str:
    context = getattr(error, "ctx", None)
    page = f"{context.command_path} --help" if context else "precpatch --help"
    return f"{error.format_message().rstrip('.')}. See `{page}`."


def _bug(error: Exception) -> int:
    """Say that precpatch is at fault, in one line, or with the traceback where it is asked for."""
    if os.environ.get("PRECPATCH_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    hint = "Please report this bug; PRECPATCH_TRACEBACK=1 shows the traceback to send along."
    return _fail(f"{type(error).__name__}: {error}. {hint}", BUG)
