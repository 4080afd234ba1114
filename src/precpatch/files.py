"""Files that a setting or an option names: read with a limit, for a checkout's own settings may name any path."""

from __future__ import annotations

import os
from pathlib import Path

MAX_BYTES = 8 * 1024 * 1024
"""More bytes than this are no settings and no answer of a probe: a device, or a mistake."""


def read_limited(path: Path) -> bytes:
    """The bytes of a small file. A pipe is read to its end; one that nobody writes to is empty and does not block.

    Raises:
        OSError: it cannot be read.
        ValueError: it does not end within ``MAX_BYTES``.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(descriptor, True)
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is bigger than {MAX_BYTES:,} bytes")
    return data
