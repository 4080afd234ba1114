"""The Policy: what decides beside the mentions, with all that follows from it for one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from precpatch.engine.rule import TELLING, Match, Rule
from precpatch.engine.words import needles_by_language, vocabulary_for
from precpatch.gpu.target import Target
from precpatch.languages.mention import Mention
from precpatch.vocabulary import Vocabulary, builtin_vocabulary
from precpatch.vocabulary.needles import Needles

Candidates = tuple[tuple[Rule, tuple[Match, ...]], ...]
"""Rules in the order in which they are asked, each with some of its alternatives."""


@dataclass(frozen=True)
class Policy:
    """What decides beside the mentions.

    Attributes:
        rules: in the order in which they are asked.
        target: the GPU and its policy.
        unsafe: whether fixes that a person should review are made.
        show_text: whether words that decide nothing are listed as well.
        ids: the ids of all rules there are, also of those that this run leaves out; those of ``rules`` where empty.
    """

    rules: Sequence[Rule]
    target: Target
    unsafe: bool = False
    show_text: bool = False
    ids: frozenset[str] = frozenset()
    _deciding: dict[tuple[str | None, ...], Candidates] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What words mean in this run: the built-in words and those of the user's rules."""
        return vocabulary_for(self.rules, builtin_vocabulary())

    @cached_property
    def needles(self) -> Mapping[str, Needles]:
        """Language -> the bytes without which a file of it is not read."""
        return needles_by_language(self.active, self.vocabulary, everything=self.show_text)

    @cached_property
    def known(self) -> frozenset[str]:
        """The ids of all rules there are."""
        return self.ids or frozenset(rule.id for rule in self.rules)

    @cached_property
    def active(self) -> tuple[Rule, ...]:
        """The rules that are for this target."""
        ask = self.target.ask
        return tuple(rule for rule in self.rules if all(ask(question) is answer for question, answer in rule.when))

    def rules_for(self, mention: Mention) -> Candidates:
        """The active rules that may claim a mention like this one, each with the alternatives that may fit it."""
        few = mention.kind, mention.language, mention.role, mention.spelling
        asked = *few, mention.value, mention.key
        found = self._deciding.get(asked)
        if found is None:
            if len(self._deciding) > _MOST_KNOWN:
                self._deciding.clear()
            if few not in self._deciding:
                self._deciding[few] = _fitting(((rule, rule.matches) for rule in self.active), few)
            found = self._deciding[asked] = _fitting(self._deciding[few], asked)
        return found

    def wanted(self, mention: Mention) -> str:
        """The canonical value that the target wants in the mention's place."""
        return self.target.attention if mention.kind == "attention" else self.target.dtype


_MOST_KNOWN = 20_000


def _fitting(candidates: Iterable[tuple[Rule, tuple[Match, ...]]], asked: tuple[str | None, ...]) -> Candidates:
    """Those of the candidates that leave room for these values of the first ``TELLING`` fields."""
    values = dict(zip(TELLING, (each and each.lower() for each in asked), strict=False))
    left = ((rule, tuple(match for match in matches if match.leaves_room_for(values))) for rule, matches in candidates)
    return tuple((rule, matches) for rule, matches in left if matches)
