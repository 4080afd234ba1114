"""Bands: in which order rules are asked. The first rule that claims a mention decides what becomes of it.

A rule names the band that it belongs to, by what it knows; the bands are asked one after the other. Inside a band the
order does not matter for rules that exclude each other, and where two can claim the same mention, ``precedence`` says
which is asked first.
"""

from __future__ import annotations

from collections.abc import Sequence

from precpatch.engine.rule import SEVERITIES, Match, Rule

BANDS = {
    "elsewhere": "the code never runs on the target: it is for another device",
    "asked": "a condition around the place decides whether it is reached: a test for the name, for the card, a flag",
    "bound": "what stands around the value ties it: its declared type, the bytes it stands for, a check, a promise",
    "special": "the setting has words or an effect of its own, unlike others of its kind",
    "known": "what the value or the setting means is known",
    "rest": "what no rule before knows: clues for a person, comparisons and tables",
    "together": "places that change together or not at all, settled once each has its verdict",
}
"""Every band with what its rules know of a place, in the order in which they are asked."""

DEFAULT_BAND = "known"
"""The band of a rule that names none."""

GROUP_BAND = "together"
"""The band of the rules that group, and of no others."""

_RANKS = {name: rank for rank, name in enumerate(BANDS)}


def precedence(rule: Rule, is_builtin: bool) -> tuple[int, bool, int, int, str]:
    """What rules are sorted by to be asked in order.

    The band comes first; in one band a user's rule comes before a built-in one, then the rule that asks more of a
    mention, then the graver one, then the id.
    """
    asks = _demands(rule.matches)
    return _RANKS[rule.band], is_builtin, -asks, SEVERITIES.index(rule.severity), rule.id


def _demands(matches: Sequence[Match]) -> int:
    """How many fields, facts and answers every alternative asks for; an exception (``without``) does not count."""
    return min(len(match.globs) + len(match.facts) + (match.allows_target is not None) for match in matches)
