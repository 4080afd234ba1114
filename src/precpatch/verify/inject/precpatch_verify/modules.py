"""Imports one module after the other; one that fails leaves nothing half imported behind."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

from .failures import describe, notice_questions


def do(job: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Import the module of ``job``.

    Returns:
        Nothing where it imports; else ``failure``, and ``again`` where an earlier failure in this process could be
        the reason, so that it should be tried once more in a new one.
    """
    before = set(sys.modules)
    try:
        module = import_module(job, request["root"])
    except BaseException as error:
        forget_orphans(set(sys.modules) - before)
        again, do.failed = do.failed, True  # type: ignore[attr-defined]
        return {"failure": describe(error, request["root"]), "again": again}
    other = _other_file(module, os.path.join(request["root"], job["path"]))
    return {"other": other} if other else {}


do.failed = False  # type: ignore[attr-defined]


def import_module(job: dict[str, Any], root: str) -> ModuleType:
    """Import by name what belongs to a package, and by its file what is a script."""
    folders = [os.path.join(root, folder) for folder in job["folders"]]
    before, places = set(sys.modules), list(sys.path)
    sys.path += [folder for folder in folders if folder not in sys.path]
    try:
        return importlib.import_module(job["name"]) if job["name"] else _run_script(job, root)
    finally:
        sys.path[:] = places
        forget_neighbours(set(sys.modules) - before, folders)


def forget_neighbours(names: set[str], folders: list[str]) -> None:
    """Drop the modules that a script has imported from its own folder: another may have one of the same name."""
    for name in names:
        found = getattr(sys.modules[name], "__file__", None)
        if "." not in name and found and os.path.dirname(os.path.abspath(found)) in folders:
            del sys.modules[name]


def _run_script(job: dict[str, Any], root: str) -> ModuleType:
    name = "_precpatch_script_{}".format(job["id"])
    spec = importlib.util.spec_from_file_location(name, os.path.join(root, job["path"]))
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def forget_orphans(names: set[str]) -> None:
    """Drop modules whose package has failed: else the next import of one finds it and never looks at the package."""
    for name in sorted(names):
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules:
            sys.modules.pop(name, None)


class _Silent:
    """Takes what the guard's import hook wants to write down: the error of the import tells enough."""

    def record(self, *_: object) -> None:
        """Write nothing down."""


def prepare(request: dict[str, Any]) -> None:
    """Block packages as the guard does, and let torch see the target's GPU where that is asked for."""
    notice_questions()
    if request["block"]:
        importlib.import_module("precpatch_guard.imports").block(request["block"], _Silent())
    if request["capability"]:
        with suppress(Exception):
            torch = importlib.import_module("torch")
            torch.cuda.is_available = lambda: True
            importlib.import_module("precpatch_guard.pretend").pretend(torch, request["capability"], request["card"])


def absent(job: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Which of the packages that ``job`` names cannot be found, under ``absent``."""
    return {"absent": [name for name in job["names"] if not _is_there(name)]}


def _is_there(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return False


def _other_file(module: ModuleType, path: str) -> str:
    """The file that was imported, where it is not the checkout's."""
    found = getattr(module, "__file__", None)
    if found is None or os.path.realpath(found) == os.path.realpath(path):
        return ""
    return str(found)
