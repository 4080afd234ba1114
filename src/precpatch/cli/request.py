"""From what the user typed to a Plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from precpatch.config import Settings
    from precpatch.plan import Plan

Option = str | bool | list[str] | list[Path] | None


@dataclass(frozen=True)
class Request:
    """One request: where to look and with which settings.

    Attributes:
        root: the folder that every reported path is relative to.
        paths: the files and folders to look at.
        settings: the settings file of ``root`` with the command line over it.
        typed: the paths and options as they were typed, to suggest the next command.
    """

    root: Path
    paths: tuple[Path, ...]
    settings: Settings
    typed: tuple[str, ...] = ()

    def plan(self, show_text: bool = False, twice: bool = False) -> Plan:
        """Find everything and decide; ``show_text`` also lists mentions in comments and other text.

        With ``twice``, a file that a second run would change further is left alone.
        """
        from precpatch.gpu.resolve import resolve_target
        from precpatch.session import plan

        self._tell_interrupted()
        settings = self.settings
        target = resolve_target(settings.target, settings.dtype, settings.attention)
        return plan(self.root, self.paths, target, settings, show_text=show_text, twice=twice)

    def _tell_interrupted(self) -> None:
        """Say on stderr that the tree is between two states, if a run that changed it did not come to its end."""
        from precpatch.cli import stream
        from precpatch.patch.journal import Store
        from precpatch.report.line import visible

        if Store(self.root).is_interrupted():
            stream.complain(
                f"precpatch: note: {visible(str(self.root))}: an apply or revert here was interrupted or is under way, "
                f"so some files may be the old and some the new: `{self.undo()}` ends it"
            )

    def undo(self) -> str:
        """The command that takes an apply back, quoted for a shell."""
        from precpatch.report.line import command_line

        if self.root == _here():
            return "precpatch revert"
        place = self.paths[0] if len(self.paths) == 1 and self.paths[0].is_dir() else self.root
        return command_line(["precpatch", "revert", str(place)])

    def command(self, name: str) -> str:
        """The command ``name`` with the same paths and options, quoted for a shell."""
        from precpatch.report.line import command_line

        return command_line(["precpatch", name, *self.typed])


def _here() -> Path | None:
    """The current folder; None where it has been deleted."""
    try:
        return Path.cwd()
    except OSError:
        return None


def read_request(paths: Sequence[Path] | None, *, config: Path | None = None, **given: Option) -> Request:
    """The request that the options of a command make.

    Args:
        paths: what the user named; the current folder where that is nothing.
        config: the settings file that the user named.
        **given: the options by the name of the setting; None, False and an empty list stand for "not given".

    Raises:
        UserError: a path is missing, or a setting is wrong.
    """
    from precpatch.config import load_settings
    from precpatch.discover import find_root

    places = tuple(paths or (Path(),))
    root = find_root(places)
    overrides = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items() if value}
    typed = [str(path) for path in paths or ()]
    for key, value in {**overrides, "config": config}.items():
        typed += _as_typed(f"--{key}", value)
    return Request(root, places, load_settings(root, overrides, config), tuple(typed))


def _as_typed(option: str, value: object) -> list[str]:
    """One option as words of a command line."""
    if value is True:
        return [option]
    values = value if isinstance(value, tuple) else (value,)
    return [word for item in values if item is not None for word in (option, str(item))]
