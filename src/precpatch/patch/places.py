"""Which folder a revert is about: an apply keeps its journal in the folder that it was given, be it a subfolder."""

from __future__ import annotations

import os
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from precpatch.errors import UserError
from precpatch.patch.journal import PRIVATE_FOLDERS, Store

_LOOKED_INTO_AT_MOST = 5000
_NAMED_AT_MOST = 5


def root_to_revert(path: Path, project_around: Callable[[Path], Path | None]) -> Path:
    """The folder whose newest apply is meant by ``path``: itself, else the nearest above that has a journal.

    Above, only folders of the same project count. Others, and those below, are named in the error and never chosen:
    the user has to name them.

    Args:
        path: the folder that the user named.
        project_around: the top folder of the project that a folder is in, if it is in one.

    Raises:
        UserError: there is no such folder, or no apply is recorded there.
    """
    try:
        here = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise UserError(f"no such file or folder: {path}") from None
    if not here.is_dir():
        raise UserError(f"{path}: is not a folder; name the checkout that was changed")
    recorded = next((folder for folder in (here, *here.parents) if _has_journal(folder)), None)
    if recorded and recorded.is_relative_to(project_around(here) or here):
        return recorded
    elsewhere = [path / folder for folder in islice(_below(here), _NAMED_AT_MOST)] or ([recorded] if recorded else [])
    raise UserError(f"{here}: nothing to revert: no apply has been recorded here{_advice(elsewhere)}")


def _advice(folders: Sequence[Path]) -> str:
    """The commands that would revert in ``folders``, which the user has to choose from."""
    commands = [f"`{shlex.join(['precpatch', 'revert', str(folder)])}`" for folder in folders]
    return f", but in another folder: run {' or '.join(commands)}" if commands else ""


def _has_journal(folder: Path) -> bool:
    store = Store(folder)
    return store.exists() and store.may_hold_journals()


def _below(root: Path) -> Iterator[Path]:
    """The folders below ``root``, relative to it, that have a journal, the upper ones first."""
    pending = deque([""])
    for _ in range(_LOOKED_INTO_AT_MOST):
        if not pending:
            return
        folder = pending.popleft()
        for name in _folders_in(root / folder):
            inner = os.path.join(folder, name)
            if _has_journal(root / inner):
                yield Path(inner)
            pending.append(inner)


def _folders_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                each.name for each in entries if each.is_dir(follow_symlinks=False) and each.name not in PRIVATE_FOLDERS
            )
    except OSError:
        return []
