"""Put first on PYTHONPATH by ``precpatch guard``: starts the guard, then the sitecustomize that this file hides."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def run_hidden() -> None:
    """Run the ``sitecustomize`` that Python would have found without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


import_module("precpatch_guard").start()
run_hidden()
