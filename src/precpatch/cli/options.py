"""The options that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_TARGET = "Target"
_FILES = "Files and rules"
_OUTPUT = "Output"


def path_of(text: str) -> Path:
    """A path of the command line; an empty one is no path, and most likely a variable that is not set."""
    if not text:
        raise typer.BadParameter("an empty path: is a variable not set? Name a folder, or . for this one.")
    return Path(text)


def names_in(values: list[str] | None) -> list[str]:
    """The names in the comma lists of an option that can be given more than once."""
    return [name.strip() for value in values or () for name in value.split(",") if name.strip()]


Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        parser=path_of,
        metavar="PATHS",
        help="A checkout, or files and folders of one; the current folder where none is given.",
        show_default=False,
    ),
]

TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME|CAPABILITY|FILE|auto",
        help="The GPU to fit: p40, 6.1, a file that `precpatch probe` wrote, or auto for the GPU here (the default).",
        rich_help_panel=_TARGET,
    ),
]

Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="auto|float32|float16",
        help="What bfloat16 becomes where the target lacks it; auto is float32.",
        rich_help_panel=_TARGET,
    ),
]

Attention = Annotated[
    str | None,
    typer.Option(
        metavar="auto|eager|sdpa",
        help="What FlashAttention becomes where it does not run; auto is eager.",
        rich_help_panel=_TARGET,
    ),
]

Unsafe = Annotated[
    bool,
    typer.Option(
        "--unsafe",
        help="Also make the fixes that a person should review.",
        rich_help_panel=_TARGET,
    ),
]

Select = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Use only these rules (id or glob; repeatable).", rich_help_panel=_FILES),
]

Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help="Leave these rules out (id or glob; repeatable).", rich_help_panel=_FILES),
]

Include = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB", help="Also look at these files in tests and docs (repeatable).", rich_help_panel=_FILES
    ),
]

Exclude = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Leave these files out (repeatable).", rich_help_panel=_FILES),
]

RuleFolders = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="DIR", help="Add a folder of rule files (repeatable).", rich_help_panel=_FILES),
]

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Read settings from FILE, not from precpatch.toml or pyproject.toml in the checkout.",
        rich_help_panel=_FILES,
    ),
]

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to the screen.", rich_help_panel=_OUTPUT),
]

ShowKept = Annotated[
    bool,
    typer.Option("--show-kept", help="Also list what stays as it is, and why.", rich_help_panel=_OUTPUT),
]

Full = Annotated[
    bool,
    typer.Option("--full", help="List every place, however many there are.", rich_help_panel=_OUTPUT),
]

Reports = Annotated[
    list[Path] | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Also write the report to FILE: .md, .json or .patch (repeatable).",
        rich_help_panel=_OUTPUT,
    ),
]

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=_OUTPUT),
]
