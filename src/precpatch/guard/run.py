"""Runs the command with the guard in its environment, and passes its signals and exit code on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from precpatch.errors import UserError
from precpatch.guard import inject
from precpatch.guard.inject.precpatch_guard import VARIABLE
from precpatch.guard.inject.precpatch_guard.settings import Settings
from precpatch.guard.order import Order

INJECT = Path(inject.__file__).parent
"""The folder that is put first on the PYTHONPATH of a guarded command."""


def run_guarded(command: Sequence[str], order: Order, folder: Path, checkout: Path | None = None) -> int:
    """Run ``command`` and wait for it; the journals of its processes are left in ``folder``.

    Returns:
        Its exit code; 128 + n where signal n ended it.

    Raises:
        UserError: it cannot be started.
    """
    environment = None if order.is_idle else _environment(order, folder, checkout)
    if shutil.which(command[0]) is None:
        raise UserError(f"{command[0]}: command not found")
    with _signals_passed_on() as children:
        try:
            child = subprocess.Popen(command, env=environment)
        except OSError as error:
            raise UserError(f"{command[0]}: cannot be started: {error.strerror or error}") from error
        children.append(child)
        code = child.wait()
    return 128 - code if code < 0 else code


def _environment(order: Order, folder: Path, checkout: Path | None) -> Mapping[str, str]:
    """The environment that starts the guard in every Python process below."""
    capability = order.target.capability
    settings = Settings(
        folder=str(folder),
        card=capability.name,
        forbid=list(order.forbid),
        block=list(order.block),
        kernels=list(order.kernels),
        stop=order.mode == "raise",
        strict=order.strict,
        pretend=list(capability.compute_capability or ()) if order.pretend else [],
        checkout=str(checkout.resolve()) if checkout else "",
    )
    path = os.pathsep.join(filter(None, [str(INJECT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, VARIABLE: json.dumps(settings._asdict()), "PYTHONPATH": path}


@contextmanager
def _signals_passed_on() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Pass SIGTERM and SIGHUP on to the yielded children. A Ctrl-C reaches them by itself.

    A signal that precpatch was started to ignore, as by nohup, stays ignored, and so it is for the children.
    """
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        for child in children:
            child.send_signal(number)

    def leave(number: int, _: FrameType | None) -> None:
        """Wait on: the command decides what an interrupt means."""

    handlers: dict[str, Any] = {"SIGINT": leave, "SIGTERM": pass_on, "SIGHUP": pass_on}
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    heeded = {number: handler for number, handler in numbers.items() if signal.getsignal(number) != signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in heeded.items()}
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
