"""Settings of a composed config, or defaults of a dataclass, that the target gets wrong without an error.

Packing and sequence parallelism rely on FlashAttention. Which keys they have and what is wrong with them is for the
vocabulary and the rules, which are asked about each value as if it stood in a file: so that one rule says the same of
a line in YAML and of the value that a run is given in the end, from whatever layer it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import yaml

from precpatch.engine.decide import decide
from precpatch.engine.finding import KEEP, SUPPRESSED, Finding
from precpatch.engine.policy import Policy
from precpatch.engine.rules import load_rules
from precpatch.languages import language_of
from precpatch.plan import Plan
from precpatch.vocabulary.words import BOOLEAN, CHOICE, Setting

_PACKING, _SEQUENCE_PARALLEL, _BACKEND = "packing", "sequence parallel", "training backend"
_SPREAD = (_PACKING, _SEQUENCE_PARALLEL)
_TARGET = "_target_"

DEFAULT_OF = "the default of "
"""How the origin of a value begins that a config leaves to its dataclass; the name of that follows."""


@dataclass(frozen=True)
class _Value:
    """A value with the keys that lead to it, the setting that it is for, and where it comes from if not from there."""

    keys: tuple[str | int, ...]
    value: bool | int | str
    origin: str
    setting: Setting

    @property
    def shown(self) -> str:
        """The keys as Hydra has them."""
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return text.lstrip(".")

    @property
    def word(self) -> str:
        """The value as YAML has it."""
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)

    @property
    def is_told(self) -> bool:
        """Whether it says something of its setting: packing that is on, a size above 1, an engine with a name."""
        if isinstance(self.value, bool):
            return self.value and self.setting.tells(BOOLEAN, self.word)
        return self.setting.tells(CHOICE, self.word)


class Watch:
    """Looks at values for one target."""

    def __init__(self, policy: Policy, make_plan: Callable[[], Plan]) -> None:
        """Ask the rules of ``policy``; ``make_plan`` scans the checkout, which is only done for a hazard."""
        self._policy = policy
        self._make_plan = make_plan

    @cached_property
    def _sources(self) -> dict[str, str]:
        """Where each rule has its reason from; of a built-in rule that is read when a hazard asks for it."""
        rules = (*load_rules(), *self._policy.rules)
        return {rule.id: rule.references[0].title for rule in rules if rule.references}

    def hazards(self, path: str, rows: Sequence[Mapping[str, Any]], *, is_class: bool = False) -> list[str]:
        """What is wrong with the values of a config or a class, a line each; none where a comment takes it on itself.

        Args:
            path: its file.
            rows: ``keys`` that lead to a ``value`` and its ``origin``, for every value that is there.
            is_class: whether it is a class, whose defaults no override reaches.
        """
        values = [value for value in map(self._value, rows) if value is not None]
        targets = {tuple(row["keys"][:-1]): row["value"] for row in rows if row["keys"][-1] == _TARGET}
        chosen = [each for each in values if each.is_told and each.setting.concept in _SPREAD]
        leaders = [each for each in chosen if not _follows(each, chosen)]
        found = [(each, self._verdict(path, each, values, targets)) for each in leaders]
        return [
            self._told(value, finding) + ("" if is_class else _overrides(value, leaders, values))
            for value, finding in found
            if finding is not None and finding.mention.key not in self._suppressed
        ]

    @cached_property
    def _suppressed(self) -> frozenset[str | None]:
        """The keys of settings that a comment suppresses in the checkout: a composed config has no comments."""
        return frozenset(each.mention.key for each in self._make_plan().findings if each.verdict == SUPPRESSED)

    def _value(self, row: Mapping[str, Any]) -> _Value | None:
        keys: tuple[str | int, ...] = tuple(row["keys"])
        names = [key for key in keys if isinstance(key, str)]
        if not names or names[-1] != keys[-1]:
            return None
        setting = self._policy.vocabulary.setting(names[-1], names[-2] if len(names) > 1 else None)
        if setting is None or setting.variable or setting.concept not in (*_SPREAD, _BACKEND):
            return None
        return _Value(keys, row["value"], row["origin"], setting)

    def _verdict(
        self, path: str, value: _Value, values: Sequence[_Value], targets: Mapping[tuple[Any, ...], Any]
    ) -> Finding | None:
        """What the rules say of a value, with the classes around it and the engine that it is for."""
        lines = [value]
        engines = _nearest(value, [each for each in values if each.setting.concept == _BACKEND])
        if engines and all(each.is_told for each in engines):
            lines += engines
        document: dict[str, Any] = {}
        for each in lines:
            _put(document, each.keys, each.value)
        for length in range(len(value.keys)):
            if value.keys[:length] in targets:
                _put(document, (*value.keys[:length], _TARGET), targets[value.keys[:length]])
        data = yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode()
        name = path if path.endswith((".yaml", ".yml")) else f"{path}.yaml"
        language = language_of(name)
        if language is None:
            return None
        reading = language.read(language.open(name, data), self._policy.vocabulary, text=False)
        wrong = [
            each
            for each in decide(self._policy, reading)
            if each.verdict not in (KEEP, SUPPRESSED) and each.severity == "error" and each.mention.kind == "switch"
        ]
        return wrong[0] if wrong else None

    def _told(self, value: _Value, finding: Finding) -> str:
        origin = f" ({value.origin})" if value.origin else ""
        source = f"{finding.rule}: {self._sources[finding.rule]}" if finding.rule in self._sources else finding.rule
        return f"{value.shown} is {value.value}{origin}: {finding.message} ({source})"


def _overrides(value: _Value, told: Sequence[_Value], values: Sequence[_Value]) -> str:
    """The overrides that put right a value, and of those that are told what goes with it for its model."""
    other = _SEQUENCE_PARALLEL if value.setting.concept == _PACKING else _PACKING
    beside = [each for each in told if each.setting.concept == other and _is_of_role(each, value, values)]
    return "; as overrides: " + " ".join(f"++{each.shown}={_right(each)}" for each in (value, *_nearest(value, beside)))


def _right(value: _Value) -> str:
    return "False" if value.setting.concept == _PACKING else "1"


def _follows(value: _Value, others: Iterable[_Value]) -> bool:
    """Whether a value is taken by interpolation from another that is told itself."""
    named = re.split(r"[^\w.\[\]]+", value.origin) if "${" in value.origin else ()
    return any(each.shown in named for each in others if each is not value)


def _common(one: _Value, other: _Value) -> int:
    """How many keys two values have in common from the top."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one.keys[:-1], other.keys[:-1], strict=False))))


def _nearest(value: _Value, others: Sequence[_Value]) -> list[_Value]:
    """Those of the others that share the longest path with a value."""
    shared = [_common(value, each) for each in others]
    return [each for each, length in zip(others, shared, strict=True) if length == max(shared)]


def _is_of_role(other: _Value, value: _Value, values: Sequence[_Value]) -> bool:
    """Whether another may be for the model of ``value``: not where either section has its own of what the other is."""
    return bool(_common(other, value)) or not (_has_own(value, other, values) or _has_own(other, value, values))


def _has_own(value: _Value, other: _Value, values: Iterable[_Value]) -> bool:
    """Whether the section of a value sets the concept of another itself, and does not leave it to a class."""
    same = [each for each in values if each.setting.concept == other.setting.concept]
    return any(_common(each, value) and not each.origin.startswith(DEFAULT_OF) for each in same)


def _put(document: dict[str, Any], keys: Sequence[str | int], value: Any) -> None:
    """Set a value in nested mappings; the places in lists are left out."""
    names = [str(key) for key in keys if isinstance(key, str)]
    for name in names[:-1]:
        inner = document.get(name)
        document[name] = inner if isinstance(inner, dict) else {}
        document = document[name]
    document[names[-1]] = value
