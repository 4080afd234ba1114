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

    Files that were edited after the apply stop it, and nothing is changed. Where
    no apply was made in PATH, the nearest folder above in the same checkout counts.

    Examples:
      precpatch revert verl
      precpatch revert verl --all
      precpatch revert verl --force     give up the edits made since, too

    Exit codes: 0 done, 2 there is nothing to revert, or it would lose edits.
    """
    from precpatch.discover import project_around
    from precpatch.patch import places, transaction

    transaction.tidy(path)
    root = places.root_to_revert(path, project_around)
    reverted = transaction.revert(root, all=everything, force=force)
    if quiet:
        return
    with stream.after("the change was taken back."):
        stream.show(_lines(reverted, None if root.samefile(path) else root))


def _lines(reverted: Reverted, elsewhere: Path | None) -> Iterator[Line]:
    """What was done, and where, if that is not the folder that the user named."""
    from precpatch.report.applied import reverted_lines
    from precpatch.report.line import line, visible

    if elsewhere:
        yield line(f"The apply was made in {visible(str(elsewhere))}:")
    yield from reverted_lines(reverted)
