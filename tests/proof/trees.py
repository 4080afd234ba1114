"""The trees that are run: a verl release as it is, and what becomes of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from wheels import releases

UNPATCHED, ALL_BUT_DTYPES, SED, PATCHED = "unpatched", "all but dtypes", "sed", "patched"
TREES = {
    UNPATCHED: "the release as it is",
    ALL_BUT_DTYPES: "`apply --target p40` without the rules for dtypes: only bfloat16 is left of what it cannot do",
    SED: "bfloat16 -> float32 and flash_attention_2 -> eager by `sed` in all .py and .yaml",
    PATCHED: "`apply --target p40`, and nothing else",
}
_WORDS = {"bfloat16": "float32", "flash_attention_2": "eager"}
_DTYPE_RULES = ("dtype-*", "*bf16*", "mixed-precision-*", "precision-name", "allowed-values")


def make_tree(kind: str, version: str, cache: Path, folder: Path) -> Path:
    """Unpack a release below ``folder`` and make it one of the kinds above."""
    release = next(release for release in releases() if release.version == version)
    tree = release.unpack(cache / "wheels", folder)
    if kind == SED:
        replace_words(tree)
    elif kind != UNPATCHED:
        apply(tree, without=_DTYPE_RULES if kind == ALL_BUT_DTYPES else ())
    return tree


def apply(tree: Path, without: Sequence[str] = ()) -> None:
    """Patch a tree for a P40, as a user does. Sites that need a person are left: exit code 1."""
    options = [f"--ignore={rule}" for rule in without]
    command = [sys.executable, "-m", "precpatch", "apply", tree, "--target", "p40", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise RuntimeError(done.stderr)


def replace_words(tree: Path) -> None:
    """What people do without precpatch."""
    for path in sorted(tree.rglob("*")):
        if path.suffix in (".py", ".yaml"):
            text = path.read_bytes().decode()
            path.write_bytes(re.sub("|".join(_WORDS), lambda word: _WORDS[word[0]], text).encode())
