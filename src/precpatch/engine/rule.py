"""What a rule is: for whom, which mentions it claims, and what becomes of them. Frozen data that can run nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property, lru_cache
from pathlib import Path
from re import Pattern
from re import compile as compile_pattern

from precpatch.languages.mention import Mention

ACTIONS = ("rewrite", "extend", "report", "keep", "group")
SCOPES = ("file", "tree")
SAFETIES = ("safe", "unsafe", "report", "keep")
SEVERITIES = ("blocker", "error", "warning", "info")

TELLING = ("kind", "language", "role", "spelling", "value", "key")
"""Fields of a mention that tell most rules apart: four that have few values, then two that have more."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a claim of a rule comes from."""

    title: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A small file before and after; ``before == after`` means that it must stay. Every example runs as a test.

    Attributes:
        asks: a requirement that the checkout around the file has, such as "vllm>=0.20".
    """

    title: str
    language: str
    target: str
    before: str
    after: str
    dtype: str = "auto"
    attention: str = "auto"
    path: str | None = None
    asks: str = ""
    reports: int = 0


@dataclass(frozen=True)
class Match:
    """Which mentions a rule claims; every condition given must hold.

    Attributes:
        globs: field of ``Mention`` -> globs, one of which the field must match, case aside.
        facts: facts that must all be there; without: facts of which none may be there.
        allows_target: whether the values that a declared set accepts include the target's; None: does not matter.
    """

    globs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    facts: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    allows_target: bool | None = None

    @cached_property
    def patterns(self) -> tuple[tuple[str, Pattern[str]], ...]:
        """Each field with one compiled pattern for all its globs."""
        return tuple((name, _compile(globs)) for name, globs in self.globs)

    def fits(self, mention: Mention) -> bool:
        """Whether the fields and the facts of a mention are as asked, whatever the target wants."""
        return self._has_facts(mention) and _fit(self.patterns, mention)

    def fits_else(self, mention: Mention) -> bool:
        """Whether a mention, whose ``TELLING`` fields are as asked, is so in the others and in its facts too."""
        return self._has_facts(mention) and _fit(self._others, mention)

    def leaves_room_for(self, values: Mapping[str, str | None]) -> bool:
        """Whether fields with these values, in lower case, are as asked; of others nothing is known."""
        return all(
            name not in values or ((value := values[name]) is not None and pattern.match(value) is not None)
            for name, pattern in self.patterns
        )

    def _has_facts(self, mention: Mention) -> bool:
        return self.facts <= mention.facts and self.without.isdisjoint(mention.facts)

    @cached_property
    def _others(self) -> tuple[tuple[str, Pattern[str]], ...]:
        return tuple((name, pattern) for name, pattern in self.patterns if name not in TELLING)


@dataclass(frozen=True)
class Rule:
    """One rule: who is it for, which mentions it claims, and what becomes of them.

    Attributes:
        id: unique name, lower case with dashes.
        band: when it is asked, one of ``bands.BANDS``; the first rule that claims a mention decides.
        when: questions to the Target (``gpu.target.QUESTIONS``) and the answers they must have.
        matches: alternatives; one must hold.
        action: what becomes of a claimed mention, one of ``ACTIONS``.
        to: what a rewrite writes: "dtype" or "attention" for the target's, "padding" for a module that has the padding
            helpers of flash_attn, or a literal such as "false".
        follows: the action is only taken where one of the mentions that this one follows is rewritten,
            and all change together; ``otherwise`` is the action where none is.
        scope: for the action "group", whether the mentions of one file or of the whole tree change together or not at
            all; such a rule decides no mention by itself.
        alongside: the rule only adds a report beside what another rule decides, where that one acts as well.
        source: the file that the rule was read from.
    """

    id: str
    name: str
    what: str
    why: str
    safety: str
    severity: str
    band: str
    when: tuple[tuple[str, bool], ...]
    matches: tuple[Match, ...]
    action: str
    message: str
    to: str = "dtype"
    follows: bool = False
    otherwise: str = "keep"
    alongside: bool = False
    scope: str = "file"
    references: tuple[Reference, ...] = ()
    examples: tuple[Example, ...] = ()
    source: Path = field(default=Path(), compare=False)

    @property
    def decides(self) -> bool:
        """Whether the rule decides mentions by itself: not where it groups them, nor where it only adds a report."""
        return self.action != "group" and not self.alongside


def _fit(patterns: tuple[tuple[str, Pattern[str]], ...], mention: Mention) -> bool:
    for name, pattern in patterns:
        value = getattr(mention, name)
        if value is None or not pattern.match(value.lower()):
            return False
    return True


@lru_cache(maxsize=512)
def _compile(globs: tuple[str, ...]) -> Pattern[str]:
    return compile_pattern("|".join(translate(glob.lower()) for glob in globs))
