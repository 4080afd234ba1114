"""What a guarded process is told, as JSON in one environment variable that its children inherit."""

from __future__ import annotations

from typing import NamedTuple

TORCH_COMPILE, TRITON = "torch.compile", "triton"


class Settings(NamedTuple):
    """What to watch for, and where to write it down.

    Attributes:
        folder: the folder for the journals of all processes.
        card: the target's name, for messages.
        forbid: names of the dtypes that trip.
        block: packages that cannot be imported.
        kernels: what the target cannot launch: "torch.compile" (Inductor), "triton".
        stop: raise at a trip; otherwise record it and go on.
        strict: views and up-casts of a forbidden tensor trip as well.
        pretend: the compute capability that torch.cuda reports; empty for the real one.
        checkout: a folder whose files count as the user's own code wherever they are; "" for none.
    """

    folder: str
    card: str
    forbid: list[str]
    block: list[str]
    kernels: list[str]
    stop: bool
    strict: bool
    pretend: list[int]
    checkout: str
