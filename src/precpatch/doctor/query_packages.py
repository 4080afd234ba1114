"""Asks an interpreter what is installed, without importing any of it.

``environment.py`` runs this file's text in the interpreter that will run verl; the arguments are names of
distributions. It needs Python 3.8 and the standard library, and prints one line of JSON.
"""

import os
import sys

# Nothing is ever imported from the current folder: it may be the checkout to look at.
_HERE = os.getcwd()
sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != _HERE]

import importlib.util  # noqa: E402
import json  # noqa: E402
from typing import Any, Dict, List, Optional  # noqa: E402, UP035

MOST_TEXT = 4000


def installed(names: "List[str]") -> "Dict[str, Any]":  # noqa: UP006
    """Version and requirements of each of ``names`` that is installed."""
    from importlib import metadata

    found = {}
    for name in names:
        try:
            distribution = metadata.distribution(name)
            found[name] = {"version": distribution.version, "requires": distribution.requires or []}
        except Exception:  # noqa: S112 (not installed, or its metadata is broken)
            continue
    return found


def torch_version_text() -> "Optional[str]":  # noqa: UP045
    """The text of ``torch/version.py``; finding it does not import torch."""
    try:
        spec = importlib.util.find_spec("torch")
        for folder in (spec.submodule_search_locations if spec else None) or []:
            with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
                return file.read(MOST_TEXT)
    except (OSError, ValueError, ImportError):
        pass
    return None


def main() -> None:
    """Prints the answer."""
    answer = {
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "packages": installed(sys.argv[1:]),
        "torch_version_text": torch_version_text(),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
