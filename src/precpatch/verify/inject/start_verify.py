"""What ``precpatch verify`` runs with the interpreter that the user named; even Python 2 can read this file."""

import os
import sys
from importlib import import_module

if __name__ == "__main__":
    if sys.version_info < (3, 8):  # noqa: UP036 (the user names the interpreter)
        sys.exit("it is Python {}.{}, and verify needs 3.8 or later".format(*sys.version_info[:2]))
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here] + [folder for folder in sys.path if folder != here]
    import_module("precpatch_verify.work").main(here)
