"""A dispatch mode in every thread of a process, also in those that Python did not start."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .imports import after_import


class Threads:
    """Enters a mode in threads; does nothing before it was told which."""

    def __init__(self) -> None:
        """Nothing is entered yet."""
        self._entered = threading.local()
        self._mode: Any = None
        self._is_on: Callable[[], bool] = lambda: True

    def use(self, torch: Any, mode: Any) -> None:
        """Enter ``mode``, a class, in this thread and in all that follow."""
        inner, depth = torch._C._get_dispatch_stack_at, torch._C._len_torch_dispatch_stack
        self._is_on = lambda: any(isinstance(inner(number), mode) for number in range(depth()))
        self._mode = mode
        self.enter()
        thread: Any = threading.Thread
        thread._bootstrap_inner = self._entering(thread._bootstrap_inner)
        torch.nn.Module.__call__ = self._entering(torch.nn.Module.__call__)

    def enter(self) -> None:
        """Enter the mode in this thread once. The autograd engine's threads have it from the one that called them."""
        if not hasattr(self._entered, "mode") and self._mode is not None:
            self._entered.mode = None if self._is_on() else self._mode().__enter__()

    def _entering(self, function: Any) -> Any:
        def entering(*args: Any, **kwargs: Any) -> Any:
            self.enter()
            return function(*args, **kwargs)

        return entering

    def watch_ray(self) -> None:
        """Enter threads of Ray's actors with concurrency, which C++ starts, before they run a method."""

        def wrap(module: Any) -> None:
            manager: Any = getattr(module, "FunctionActorManager", None)
            make = getattr(manager, "_make_actor_method_executor", None)
            if make is not None:
                manager._make_actor_method_executor = lambda *args, **kwargs: self._follow(make(*args, **kwargs))

        after_import("ray._private.function_manager", wrap)

    def _follow(self, executor: Any) -> Any:
        """An executor that enters first, with the name and method that Ray put on it."""
        entering = self._entering(executor)
        vars(entering).update(vars(executor))
        return entering
