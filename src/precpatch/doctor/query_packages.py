"""Asks an interpreter what is installed, without importing any of it.

``environment.py`` runs this file's text in the interpreter that will run verl; the arguments are names of
distributions. It needs Python 3.8 and the standard library, and prints one line of JSON. Nothing is ever imported
from the current folder, which may be the checkout to look at, so every import stands inside a function.
"""

import os
import sys

MOST_TEXT = 4000


def forget_current_folder() -> None:
    """Take the current folder out of the places to import from."""
    here = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]


def installed(names: "list[str]") -> "dict[str, dict[str, object]]":
    """Version and requirements of each of ``names`` that is installed."""
    from importlib import metadata

    found: dict[str, dict[str, object]] = {}
    for name in names:
        try:
            distribution = metadata.distribution(name)
            if distribution.version:
                found[name] = {"version": distribution.version, "requires": distribution.requires or []}
        except Exception:  # noqa: S112 (it is not installed, or its metadata is broken)
            continue
    return found


def torch_version_text() -> "str | None":
    """The text of ``torch/version.py``; finding it does not import torch."""
    from importlib import util

    try:
        spec = util.find_spec("torch")
        for folder in (spec.submodule_search_locations if spec else None) or []:
            with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
                return file.read(MOST_TEXT)
    except (OSError, ValueError, ImportError):
        pass
    return None


def main() -> None:
    """Prints the answer."""
    forget_current_folder()
    import json

    answer = {
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "packages": installed(sys.argv[1:]),
        "torch_version_text": torch_version_text(),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
