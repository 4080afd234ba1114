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
from .places import come_back, file_of, modules_now

_SCRIPTS: dict[str, ModuleType] = {}
"""The scripts that were run, by path."""

_TRIED: set[str] = set()
"""The modules that were imported in this process, or could not be."""


def do(job: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Import the module of ``job``.

    Returns:
        Nothing where it imports; else ``failure``, or ``other``, the file that was imported in its place.
    """
    before = modules_now()
    _TRIED.add(job["path"])
    try:
        module = import_module(job, request["root"])
    except BaseException as error:
        come_back(request["root"])
        forget_orphans(modules_now() - before)
        return {"failure": describe(error, request["root"])}
    come_back(request["root"])
    other = _other_file(module, os.path.join(request["root"], job["path"]))
    return {"other": other} if other else {}


def make_sure(job: dict[str, Any], request: dict[str, Any]) -> None:
    """Import the module of ``job``, unless this process has tried that already."""
    if job["path"] not in _TRIED:
        do(job, request)


def import_module(job: dict[str, Any], root: str) -> ModuleType:
    """Import by name what belongs to a package, and by its file what is a script.

    The folders of a script come first where the job says so, as when it is run; else last.
    """
    folders = [os.path.join(root, folder) for folder in job["folders"]]
    before, path, places = modules_now(), sys.path, list(sys.path)
    added = [folder for folder in folders if folder not in places]
    path[:] = [*added, *places] if job.get("folders_first") else [*places, *added]
    try:
        return importlib.import_module(job["name"]) if job["name"] else _run_script(job, root)
    finally:
        sys.path = path
        path[:] = _path_after(places, added, keep=bool(job["name"]))
        forget_neighbours(modules_now() - before, folders)


def _path_after(places: list[str], added: list[str], *, keep: bool) -> list[str]:
    """The import path without ``added``.

    With ``keep``, what a module has put there stays: it is imported once, and those after it count on that.
    """
    now = [folder for folder in sys.path if folder not in added] if keep else places
    return [*now, *(folder for folder in places if folder not in now)]


def forget_neighbours(names: set[str], folders: list[str]) -> None:
    """Drop the modules that a script has imported from its own folder: another may have one of the same name."""
    for name in names:
        found = file_of(sys.modules.get(name))
        if "." not in name and found and os.path.dirname(os.path.abspath(found)) in folders:
            sys.modules.pop(name, None)


def _run_script(job: dict[str, Any], root: str) -> ModuleType:
    if job["path"] in _SCRIPTS:
        return _SCRIPTS[job["path"]]
    name = "_precpatch_script_{}".format(job["id"])
    spec = importlib.util.spec_from_file_location(name, os.path.join(root, job["path"]))
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    _SCRIPTS[job["path"]] = module
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


def block(request: dict[str, Any]) -> None:
    """Block packages as the guard does."""
    notice_questions()
    if request["block"]:
        importlib.import_module("precpatch_guard.imports").block(request["block"], _Silent())
    if request["capability"]:
        importlib.import_module("precpatch_guard.pretend")


def pretend(request: dict[str, Any]) -> None:
    """Let torch see the target's GPU where that is asked for."""
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
    found = file_of(module)
    return "" if not found or os.path.realpath(found) == os.path.realpath(path) else found
