"""Which format a report has, and the report in it. A new format is a module here and a row below."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from precpatch.errors import UserError
from precpatch.plan import Plan

SUFFIXES = {".md": "markdown", ".json": "json", ".patch": "patch", ".diff": "patch"}
"""Suffix of a report file -> format; each format is the module of that name in this package."""


def format_of(path: Path) -> str:
    """The format that the name of a report file asks for.

    Raises:
        UserError: its suffix is not known.
    """
    try:
        return SUFFIXES[path.suffix.lower()]
    except KeyError:
        known = ", ".join(SUFFIXES)
        raise UserError(f"{path}: no report format for the suffix {path.suffix!r}; known are {known}.") from None


def render(name: str, plan: Plan, show_kept: bool = False) -> bytes:
    """The report in the format ``name``; ``show_kept`` also lists what stays as it is."""
    report: bytes = import_module(f"precpatch.report.{name}").render(plan, show_kept)
    return report
