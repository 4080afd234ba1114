"""``python -m precpatch``."""

import sys

from precpatch.cli.main import run

sys.exit(run())
