"""Kernels that are compiled on the way: ``torch.compile`` and Triton."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from .dtypes import Dtypes
from .imports import after_import
from .journal import COMPILED_CALLS
from .settings import TORCH_COMPILE, TRITON
from .trips import COMPUTE, KERNEL, Trips


def watch_compile(torch: Any, kernels: list[str], trips: Trips) -> None:
    """Run what is handed to ``torch.compile`` eagerly, so that its operators are seen.

    Dynamo does not trace under a dispatch mode, and refuses with ``fullgraph=True``. Where the target has no Inductor,
    each call of such a function is a trip.
    """
    original = torch.compile

    @functools.wraps(original)
    def compile_watched(model: Any = None, **options: Any) -> Any:
        if model is None:
            return lambda function: compile_watched(function, **options)
        trip = TORCH_COMPILE in kernels and _uses_inductor(options)
        compiled = trips.frames.locate(sys._getframe()).site

        def call(*args: Any, **kwargs: Any) -> Any:
            trips.journal.counts[COMPILED_CALLS] += 1
            if trip:
                trips.record(KERNEL, TORCH_COMPILE, "", sys._getframe(), compiled)
            return model(*args, **kwargs)

        if not isinstance(model, torch.nn.Module):
            return functools.wraps(model)(call)
        module = original(model, backend="eager")
        module.forward = call
        return module

    torch.compile = compile_watched
    after_import("torch._dynamo", lambda dynamo: _watch_optimize(dynamo, compile_watched))


def _watch_optimize(dynamo: Any, compile_watched: Any) -> None:
    """Treat ``torch._dynamo.optimize`` as ``torch.compile``, which calls it in turn, with an object for the backend."""
    original = dynamo.optimize

    @functools.wraps(original)
    def optimize_watched(backend: Any = "inductor", *args: Any, **options: Any) -> Any:
        if type(backend).__module__ == "torch":
            return original(backend, *args, **options)
        return lambda function: compile_watched(function, backend=backend, disable=options.get("disable", False))

    dynamo.optimize = optimize_watched


def _uses_inductor(options: dict[str, Any]) -> bool:
    """Whether ``torch.compile`` would reach Inductor with these options and this environment."""
    off = any(os.environ.get(name) == "1" for name in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"))
    return not off and not options.get("disable") and (options.get("backend") or "inductor") == "inductor"


def watch_triton(kernels: list[str], dtypes: Dtypes, trips: Trips) -> None:
    """Look at the launches of Triton kernels, which do not pass PyTorch's dispatcher."""

    def wrap(jit: Any) -> None:
        launch = jit.JITFunction.run

        @functools.wraps(launch)
        def launch_watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            operator = f"triton::{getattr(self, '__name__', 'kernel')}"
            if TRITON in kernels:
                trips.record(KERNEL, operator, "", sys._getframe())
            else:
                for dtype in dtypes.among((args, kwargs))[:1]:
                    trips.record(COMPUTE, operator, dtype, sys._getframe())
            return launch(self, *args, **kwargs)

        jit.JITFunction.run = launch_watched

    after_import("triton", trips.frames.hide)
    after_import("triton.runtime.jit", wrap)
