"""``python -m precpatch``."""

import os
import sys

# `python -m` looks for modules in the current folder first, which may be a checkout that nobody trusts: its `yaml.py`
# must not be run. What Python itself imports before this line is out of reach; with `precpatch` nothing is.
try:
    if not getattr(sys.flags, "safe_path", False) and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
except OSError:  # the folder has been deleted, so nothing is found in it
    pass

from precpatch.cli.main import run

sys.exit(run())
