"""Help pages in plain text: the docstring as it is written, then commands and options by group.

typer can draw help with rich; that doubles the start-up time and its boxes do not survive every locale.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

Rows = list[tuple[str, str]]


class Command(TyperCommand):
    """A command whose help shows its docstring verbatim and its options by group."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        self.format_usage(ctx, formatter)
        _write_verbatim(self.help, formatter)
        _write_groups(_parameter_groups(self, ctx), formatter)


class Group(TyperGroup):
    """The program: its help shows what it is for, then the commands by group."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        self.format_usage(ctx, formatter)
        _write_verbatim(self.help, formatter)
        _write_groups(self._command_groups(ctx), formatter)
        _write_groups(_parameter_groups(self, ctx), formatter)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands in the order in which they were added."""
        return list(self.commands)

    def _command_groups(self, ctx: Any) -> Iterable[tuple[str, Rows]]:
        groups: dict[str, Rows] = {}
        for name in self.list_commands(ctx):
            command: Any = self.commands[name]
            first_line = inspect.cleandoc(command.help or "").partition("\n")[0]
            groups.setdefault(command.rich_help_panel or "Commands", []).append((name, first_line))
        return groups.items()


def _parameter_groups(command: Any, ctx: Any) -> Iterable[tuple[str, Rows]]:
    """The rows of the help by group: arguments first, options without a group last."""
    groups: dict[str, Rows] = {"Arguments": []}
    others: Rows = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        name, text = record
        panel = getattr(parameter, "rich_help_panel", None)
        if parameter.param_type_name == "argument":
            groups["Arguments"].append((name.partition(" <")[0], text))
        elif panel:
            groups.setdefault(panel, []).append(record)
        else:
            others.append(record)
    return {**groups, "Options": others}.items()


def _write_verbatim(text: str | None, formatter: Any) -> None:
    formatter.write("\n")
    for row in inspect.cleandoc(text or "").splitlines():
        formatter.write(f"  {row}".rstrip() + "\n")


def _write_groups(groups: Iterable[tuple[str, Rows]], formatter: Any) -> None:
    for title, rows in groups:
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
