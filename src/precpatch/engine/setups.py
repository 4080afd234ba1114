"""What is set together: whether packing, attention and sequence parallelism of one command or config agree.

One word alone does not say whether it is right. Packing beside sequence parallelism is asked for by the framework; the
same packing alone is not. Here each mention learns what stands beside it, as facts that rules ask for: in the same
command, document or statement, or in an array or a variable of the file that may go with any of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from precpatch.languages.mention import Mention
from precpatch.vocabulary import Vocabulary

PACKING, SEQUENCE_PARALLEL, ATTENTION = "packing", "sequence parallel", "attention"
_KERNELS = "kernel backend"
_BACKEND = "training backend"
_KNOWN_SIZE = "a size that is a number"

MEGATRON = "megatron"
"""The fact of what is set for Megatron, which packs and splits in its own way."""

_ENGINES = frozenset({MEGATRON, "veomni"})
"""Training backends, each with the fact of what is set for it."""

_ELSEWHERE = frozenset({"other-device", "generated", MEGATRON, "patches-attention", "fallback", "parameter-default"})
"""Facts of places that say nothing of what else is set in the same run."""

_CHOOSES = frozenset({"value", "switch", "interpolation-default"})
_AT_RUN_TIME = "variable"
_MOST_FOLLOWED = 50


class Setups:
    """Mentions of one file by what they are set in, and by what they turn on."""

    def __init__(self, vocabulary: Vocabulary, mentions: Iterable[Mention]) -> None:
        self._vocabulary = vocabulary
        self._sets: dict[tuple[int, str], list[Mention]] = defaultdict(list)
        self._all: dict[str, list[Mention]] = defaultdict(list)
        self._engines: dict[int | None, set[str]] = defaultdict(set)
        for mention in (each for outer in mentions for each in (outer, *outer.also)):
            concept = self.concept(mention)
            if concept is not None:
                self._take(mention, concept)
            if concept == SEQUENCE_PARALLEL and mention.value != _AT_RUN_TIME:
                self._take(mention, _KNOWN_SIZE)

    def _take(self, mention: Mention, concept: str) -> None:
        if concept == _BACKEND:
            self._engines[mention.setup].add(mention.value)
            self._engines[None].add(mention.value)
        self._sets[mention.setup, concept].append(mention)
        self._all[concept].append(mention)

    def concept(self, mention: Mention) -> str | None:
        """Which of the concepts that go together a mention turns on, if any."""
        if mention.role not in _CHOOSES or not _ELSEWHERE.isdisjoint(mention.facts):
            return None
        if mention.kind == "attention":
            return ATTENTION if mention.value in self._vocabulary.flash else None
        setting = self._vocabulary.setting(mention.key) if mention.kind == "switch" else None
        if setting is None or setting.variable:
            return None
        if setting.concept == ATTENTION:
            is_flash = mention.value == "true" or mention.value in self._vocabulary.flash_aliases
            return ATTENTION if is_flash else None
        if setting.concept == PACKING:
            return PACKING if mention.value != "false" else None
        return setting.concept if setting.concept in (SEQUENCE_PARALLEL, _BACKEND, _KERNELS) else None

    def beside(self, mention: Mention, concept: str) -> Iterator[Mention]:
        """What of a concept is set together with a mention; what may go with anything goes with all of the file."""
        if mention.setup == 0:
            return iter(self._all.get(concept, ()))
        return chain(self._sets.get((mention.setup, concept), ()), self._sets.get((0, concept), ()))

    def has(self, mention: Mention, concept: str) -> bool:
        """Whether something of a concept is set together with a mention."""
        return next(self.beside(mention, concept), None) is not None

    def _engines_beside(self, mention: Mention) -> frozenset[str]:
        """The facts of the training backends that are set together with a mention."""
        setups = (None,) if mention.setup == 0 else (mention.setup, 0)
        return _ENGINES.intersection(name for setup in setups for name in self._engines.get(setup, ()))

    def neighbours(self, mention: Mention) -> Mention:
        """The mention with the facts of what is set beside it; packing follows the attention that it goes with."""
        concept = self.concept(mention)
        if concept == _KERNELS:
            return replace(mention, facts=mention.facts | self._engines_beside(mention))
        if concept not in (PACKING, SEQUENCE_PARALLEL, ATTENTION):
            return mention
        facts, follows = set(mention.facts), mention.follows
        if concept != ATTENTION:
            facts |= self._engines_beside(mention)
        if concept != SEQUENCE_PARALLEL and self.has(mention, SEQUENCE_PARALLEL):
            is_number = self.has(mention, _KNOWN_SIZE)
            facts.add("sequence-parallel" if is_number else "maybe-sequence-parallel")
        if concept != PACKING and self.has(mention, PACKING):
            facts.add("packed")
        attention = self._sets.get((mention.setup, ATTENTION), ()) if concept == PACKING else ()
        if attention:
            facts.add("flash-attention")
            follows += tuple(each.start for each in islice(attention, _MOST_FOLLOWED))
        return replace(mention, facts=frozenset(facts), follows=follows)


def with_neighbours(vocabulary: Vocabulary, mentions: Iterable[Mention]) -> list[Mention]:
    """The mentions with the facts of what is set beside them."""
    mentions = [_with_also(partial(_for_engine, vocabulary), mention) for mention in mentions]
    setups = Setups(vocabulary, mentions)
    return [_with_also(setups.neighbours, mention) for mention in mentions]


def _with_also(change: Callable[[Mention], Mention], mention: Mention) -> Mention:
    """A mention that was changed, with what its place is for other settings."""
    changed = change(mention)
    return replace(changed, also=tuple(map(change, mention.also))) if mention.also else changed


def _for_engine(vocabulary: Vocabulary, mention: Mention) -> Mention:
    """A switch with the fact that its path, or that of the file, is that of a training backend."""
    if mention.kind != "switch":
        return mention
    forms = [form for form in vocabulary.forms if form.fact in _ENGINES]
    paths = (mention.key_path or "", mention.path)
    facts = {form.fact for form in forms if any(map(form.fits_path, paths))}
    return mention if facts <= mention.facts else replace(mention, facts=mention.facts | facts)
