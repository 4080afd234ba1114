"""The Policy: what decides beside the mentions, with all that follows from it for one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from precpatch.engine.rules import Rule
from precpatch.engine.words import needles_by_language, vocabulary_for
from precpatch.gpu.target import Target
from precpatch.languages.mention import Mention
from precpatch.vocabulary import Vocabulary, builtin_vocabulary
from precpatch.vocabulary.needles import Needles


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
    _deciding: dict[_Asked, tuple[Rule, ...]] = field(default_factory=dict, repr=False, compare=False)

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

    def rules_for(self, mention: Mention) -> tuple[Rule, ...]:
        """The active rules that may claim a mention like this one, by what only a few mentions differ in."""
        few = mention.kind, mention.language, mention.role, mention.spelling
        asked = *few, mention.value, mention.key
        found = self._deciding.get(asked)
        if found is None:
            if len(self._deciding) > _MOST_KNOWN:
                self._deciding.clear()
            if few not in self._deciding:
                self._deciding[few] = tuple(rule for rule in self.active if _may_claim(rule, few))
            found = tuple(rule for rule in self._deciding[few] if _may_claim(rule, asked))
            self._deciding[asked] = found
        return found

    def wanted(self, mention: Mention) -> str:
        """The canonical value that the target wants in the mention's place."""
        return self.target.attention if mention.kind == "attention" else self.target.dtype


_TELLING = ("kind", "language", "role", "spelling", "value", "key")
"""Fields of a mention that tell most rules apart: four that have few values, then two that have more."""

_MOST_KNOWN = 20_000

_Asked = tuple[str | None, ...]
"""The values of the first of these fields, or of all."""


def _may_claim(rule: Rule, asked: _Asked) -> bool:
    """Whether an alternative of the rule leaves room for these values of the ``_TELLING`` fields."""
    values = dict(zip(_TELLING, (each and each.lower() for each in asked), strict=False))
    return any(
        all(
            name not in values or ((value := values[name]) is not None and pattern.match(value))
            for name, pattern in match.patterns
        )
        for match in rule.matches
    )
