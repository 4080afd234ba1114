"""Asks an installed torch which GPUs its build has code for.

``environment.py`` runs this file's text in a process of its own, because it imports torch. It prints one line of
JSON: ``{"architectures": ["sm_75", ...]}``, or ``{"error": "..."}``. Nothing is ever imported from the current
folder, which may be the checkout to look at, so every import stands inside a function.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def forget_current_folder() -> None:
    """Take the current folder out of the places to import from."""
    here = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]


def architectures(torch: "Any") -> "list[str]":
    """The arch list of the build.

    ``torch.cuda.get_arch_list()`` is empty where no GPU is available, so the flags behind it are asked next.
    """
    listed = torch.cuda.get_arch_list()
    return list(listed or (torch._C._cuda_getArchFlags() or "").split())


def main() -> None:
    """Imports torch and prints the answer."""
    forget_current_folder()
    import json

    try:
        import torch

        answer: dict[str, object] = {"architectures": architectures(torch)}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
