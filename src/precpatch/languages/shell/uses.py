"""What takes a variable: a setting whose value is ``$NAME``, or ``${NAME:-default}``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from precpatch.languages.site import UNRESOLVED, Site

DEFAULT = re.compile(r"\$\{(?P<name>\w+|[@*#?!$-])(?P<how>:?[-=+])")
REFERENCE = re.compile(r"\$(?:(?P<plain>\w+)|\{(?P<name>\w+)(?P<item>\[[^\]\n]*\])?\})")
"""A variable and nothing else, or an item of an array."""


@dataclass(frozen=True, slots=True)
class Use:
    """A setting that takes a variable.

    Attributes:
        names: the variables, of which each but the first stands for one before it that is not set.
        site: the setting, at the place where it takes them.
        default: whether a value stands there for the case that none is set.
        otherwise: what is told there where none of the values is a boolean.
    """

    names: tuple[str, ...]
    site: Site
    default: bool
    otherwise: Site | None = None


def unresolved(site: Site) -> Site:
    """A setting at the place where it takes something from outside."""
    return replace(site, form=UNRESOLVED, word="", facts=site.facts | {"given"})
