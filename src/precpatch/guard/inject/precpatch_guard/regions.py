"""Autocast regions that PyTorch switches off because their device is not here."""

from __future__ import annotations

import functools
import sys
from typing import Any

from .trips import AUTOCAST, Trips

_ASKED = "_precpatch_asked"


def watch_autocast(torch: Any, names: list[str], trips: Trips) -> None:
    """Trip where a region asks for a forbidden dtype and is off: without CUDA ``torch.autocast("cuda")`` only warns.

    A region that is on needs no watching, for its operators are looked at.
    """
    forbidden = {getattr(torch, name): name for name in names if hasattr(torch, name)}
    region = torch.amp.autocast_mode.autocast
    initialise, enter = region.__init__, region.__enter__

    @functools.wraps(initialise)
    def initialise_watched(
        self: Any, device_type: Any, dtype: Any = None, enabled: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        initialise(self, device_type, dtype, enabled, *args, **kwargs)
        if enabled and not getattr(self, "_enabled", True):
            vars(self)[_ASKED] = forbidden.get(self.fast_dtype)

    @functools.wraps(enter)
    def enter_watched(self: Any) -> Any:
        dtype = vars(self).get(_ASKED)
        if dtype:
            trips.record(AUTOCAST, f"torch.autocast for {self.device}, off without it", dtype, sys._getframe(1))
        return enter(self)

    region.__init__, region.__enter__ = initialise_watched, enter_watched
