"""``precpatch revert``: the bytes from before the last apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precpatch.cli import options, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from precpatch.patch.transaction import Reverted
    from precpatch.report.line import Line

Place = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="The checkout that was changed.", show_default="the current folder"),
]


def revert(
    path: Place = Path(),
    *,
    everything: Annotated[bool, typer.Option("--all", help="Take back every apply, not only the last.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also overwrite files that were edited since.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Take back what the last apply changed, byte for byte.

    Files that were edited after the apply stop it, and nothing is changed.

    Examples:
      precpatch revert verl
      precpatch revert verl --all
      precpatch revert verl --force     give up the edits made since, too

    Exit codes: 0 done, 2 there is nothing to revert, or it would lose edits.
    """
    from precpatch.patch import transaction

    reverted = transaction.revert(path, all=everything, force=force)
    if not quiet:
        stream.show(_lines(reverted))


def _lines(reverted: Reverted) -> Iterator[Line]:
    from precpatch.report.line import line, plural, visible
    from precpatch.report.text import note_lines

    for path in reverted.files:
        yield line(f"  {visible(path)}")
    yield from note_lines("Please note", reverted.notes)
    yield line((f"Restored {plural(len(reverted.files), 'file')}.", "bold"))
