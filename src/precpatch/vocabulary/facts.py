"""The facts and the spellings that a rule may ask for: ``vocabulary/facts.yaml``, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from precpatch.vocabulary.load import Checked, builtin_folder

READERS = ("python", "yaml", "shell", "json")
"""The languages that a place can be in; those of a notebook are in Python and shell."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact that a reader can state of a place.

    Attributes:
        name: what a rule asks for.
        says: what is true of the place, in words.
        readers: the languages whose places can have it.
        needle: what stands in every file with such a place, where that is certain.
    """

    name: str
    says: str
    readers: tuple[str, ...]
    needle: str | None = None


@cache
def load_facts() -> Mapping[str, Fact]:
    """Every fact that a rule may ask for, by its name."""
    return facts_in(builtin_folder() / "facts.yaml")


@cache
def load_spellings() -> Mapping[str, str]:
    """Every way to spell a name that a rule may ask for, and what it is."""
    return spellings_in(builtin_folder() / "facts.yaml")


def facts_in(path: Path) -> dict[str, Fact]:
    """The facts of a file.

    Raises:
        UserError: it cannot be read, or a field of it is missing, unknown or of the wrong type.
    """
    return {name: _fact(name, row) for name, row in _file(path).named("facts")}


def spellings_in(path: Path) -> dict[str, str]:
    """The spellings of a file.

    Raises:
        UserError: as for ``facts_in``.
    """
    spellings = Checked(path, _file(path).mapping("spellings"), "spellings: ")
    return {name: spellings.text(name) for name in spellings.data}


@cache
def _file(path: Path) -> Checked:
    file = Checked(path)
    file.only("facts", "spellings")
    return file


def _fact(name: str, row: Checked) -> Fact:
    row.only("says", "readers", "needle")
    readers = tuple(row.list("readers"))
    if not readers or not set(readers) <= set(READERS):
        raise row.fail(f"'readers' must be some of {', '.join(READERS)}")
    return Fact(name, row.text("says"), readers, row.text("needle") if "needle" in row.data else None)
