"""Import hooks: packages that the target has not got, and a call right after a module was imported."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .trips import IMPORT, Trips


class _Missing:
    """A finder in front of all others, for packages that count as not installed."""

    def __init__(self, names: Sequence[str], trips: Trips) -> None:
        self._names = frozenset(names)
        self._trips = trips

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse an import.

        Raises:
            ModuleNotFoundError: the module belongs to a blocked package.
        """
        package = name.partition(".")[0]
        if package in self._names:
            self._trips.record(IMPORT, f"import {package}", "", sys._getframe(1))
            raise ModuleNotFoundError(f"No module named {name!r} (blocked by precpatch guard)", name=name)


def block(names: Sequence[str], trips: Trips) -> None:
    """Make packages unimportable, and absent for ``importlib.util.find_spec``."""
    sys.meta_path.insert(0, _Missing(names, trips))
    find_spec = importlib.util.find_spec

    @functools.wraps(find_spec)
    def find_installed(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in names else find_spec(name, package)

    vars(importlib.util)["find_spec"] = find_installed


class _After:
    """A finder that hands a module to a callback once it was executed; a look without an import changes nothing."""

    def __init__(self, name: str, callback: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._callback = callback
        self._is_asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders give, its loader followed by the callback.

        Another hook on the same module may ask all finders in turn, this one too: it stands aside then.
        """
        if name != self._name or self._is_asking:
            return None
        self._is_asking = True
        try:
            others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
            spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        finally:
            self._is_asking = False
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._callback(module)

        loader.exec_module = execute_and_call


def after_import(name: str, callback: Callable[[ModuleType], None]) -> None:
    """Call ``callback`` with the module ``name`` once it is imported; now, where it is already."""
    module = sys.modules.get(name)
    if module is not None:
        callback(module)
    else:
        sys.meta_path.insert(0, _After(name, callback))
