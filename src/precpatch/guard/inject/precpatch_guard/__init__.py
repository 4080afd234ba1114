"""The guard inside a guarded process: any Python that verl runs on, with or without precpatch installed.

Only the standard library is used, and torch is never imported for a process that does not import it itself.
"""

from __future__ import annotations

import json
import os

VARIABLE = "PRECPATCH_GUARD"
"""The environment variable that holds the settings, as JSON."""


def start() -> None:
    """Guard this process as the environment asks; nothing where it asks for nothing."""
    asked = os.environ.get(VARIABLE)
    if asked is None:
        return
    from .imports import after_import, block
    from .settings import Settings
    from .threads import Threads
    from .trips import Trips
    from .watch import watch

    settings = Settings(**json.loads(asked))
    trips = Trips(settings)
    if settings.block:
        block(settings.block, trips)
    threads = Threads()
    threads.watch_ray()
    after_import("torch", lambda torch: watch(torch, settings, trips, threads))
