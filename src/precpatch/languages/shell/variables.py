"""Variables of a script: which values they are given, and which settings take them.

``sp_size=4`` decides where ``actor.ulysses_sequence_parallel_size=${sp_size}`` takes it: the value is told where it is
assigned, as one of that setting. What cannot be known, an argument without a default or the environment, is told where
it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from precpatch.languages import spell
from precpatch.languages.shell.dicts import BEGINS
from precpatch.languages.shell.grammar import PART, Span
from precpatch.languages.shell.uses import REFERENCE, Use
from precpatch.languages.site import Site

if TYPE_CHECKING:
    from tree_sitter import Node

    from precpatch.languages.shell.script import Script
    from precpatch.vocabulary import Vocabulary

MAX_STEPS = 20
"""From a setting back to a value lead at most so many variables, each assigned from the next."""

MAX_USES = 8
"""So many settings that take one variable are asked for what it means to them."""

MAX_NAMED = 3
"""So many settings are named where a value is told."""

_ASSIGNED = re.compile(
    r"(?<![\w.$/@{-])(?P<name>[A-Za-z_]\w*)(?:\[[^\]\n]*\])?\+?=(?!=)|\$\{(?P<default>[A-Za-z_]\w*):?="
    r"|\b(?:for|select)[ \t]+(?P<loop>\w+)"
)
_FUNCTION = re.compile(r"(?<![\w.-])(?:function[ \t]+)?([A-Za-z_]\w*)[ \t]*\(\)|\bfunction[ \t]+([A-Za-z_]\w*)")
_WORD = re.compile(r"(?<![\w./$-])[A-Za-z_]\w*(?=[ \t])")
_PLAIN = re.compile(r"[^\s$`'\"\\(){}]+")
_ITEM = re.compile(r"\[[^\]\n]*\]=")
_USED = re.compile(r"\$\{?(\w+)")
_PASSIVE = frozenset({"asks-bf16", "asks-flash-attention", "capability-guard", "other-device", "default", "argument"})


@dataclass(frozen=True, slots=True)
class Place:
    """A plain value that a variable is given."""

    start: int
    end: int
    word: str
    facts: frozenset[str]
    scope: str
    local: bool


@dataclass(slots=True)
class Given:
    """All that one variable is given.

    Attributes:
        places: plain values.
        names: other variables.
        known: whether there is a value at all, one that says nothing among them.
        loose: whether it is given something that only a run can know: a command's output, a text made of parts.
    """

    places: list[Place] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    known: bool = False
    loose: bool = False


class Variables:
    """The variables of one file, whose scripts are the file itself and the strings and here-documents in it."""

    def __init__(self, scripts: Iterable[Script]) -> None:
        self.scripts = list(scripts)
        self.vocabulary = self.scripts[0].vocabulary
        self._given: dict[str, Given] = {}
        self._assigned: dict[str, list[tuple[Script, re.Match[str]]]] | None = None
        self._calls: dict[str, list[tuple[Script, int]]] | None = None

    def sites(self, uses: Iterable[Use]) -> Iterator[Site]:
        """The values of the variables that ``uses`` take, as values of those settings, and what is not known there."""
        by_names: dict[tuple[str, ...], list[Use]] = {}
        for use in uses:
            by_names.setdefault(use.names, []).append(use)
        takers: dict[str, dict[int, Use]] = {}
        for names, group in by_names.items():
            reached = self._reached(names)
            for name in reached:
                takers.setdefault(name, {}).update((use.site.start, use) for use in group[: MAX_USES * MAX_USES])
            yield from self._not_known(names, reached, group)
        shared = self._shared(takers)
        for name, taking in takers.items():
            order = sorted(taking.values(), key=lambda use: ("variable" in use.site.facts, use.site.start))
            meant: dict[str | None, _Meant] = {}
            for place in self.given(name).places:
                scope = place.scope if place.local else None
                if scope not in meant:
                    meant[scope] = _Meant.of([use.site for use in order], scope, name in shared, self.vocabulary)
                yield meant[scope].at(place)

    # --- what is not known ---------------------------------------------------------------------------------------

    def _reached(self, names: tuple[str, ...]) -> list[str]:
        """The variables that a value can come from."""
        found = dict.fromkeys(names)
        step = list(names)
        for _ in range(MAX_STEPS):
            step = [each for name in step for each in sorted(self.given(name).names) if each not in found]
            found.update(dict.fromkeys(step))
            if not step or len(found) > 4 * MAX_STEPS:
                break
        return list(found)

    def _not_known(self, names: tuple[str, ...], reached: list[str], group: list[Use]) -> Iterator[Site]:
        """What is told where variables are taken whose value is not known: once for all that take them."""
        given = [self.given(name) for name in reached]
        flags = [use.otherwise for use in group if use.otherwise is not None]
        settings = (self.vocabulary.setting(flag.key, flag.above) for flag in flags)
        choices = frozenset[str]().union(*(setting.choices for setting in settings if setting is not None))
        words = (place.word for each in given for place in each.places)
        if flags and not any(spell.is_boolean(word, numbers=True) or word.lower() in choices for word in words):
            yield from flags
        taking = [use for use in group if "variable" not in use.site.facts or "exported" not in use.site.facts]
        taking = [use for use in taking if use.otherwise is None and "variable" not in use.site.facts]
        known = any(each.known for each in given) or any(use.default for use in taking)
        if taking and (not known or any(each.loose for each in given)):
            first = taking[0].site
            yield _for_all(
                [replace(use.site, start=first.start, end=first.end) for use in taking[:MAX_USES]],
                len(taking),
                self.vocabulary,
            )

    # --- what a variable is given --------------------------------------------------------------------------------

    def given(self, name: str) -> Given:
        """All that a variable is given in the file; nothing where it comes from outside."""
        if name not in self._given:
            self._given[name] = given = Given()
            function, _, number = name.partition(":")
            if number.isdigit():
                self._take_arguments(given, function, int(number))
            else:
                for script, match in self._assignments().get(name, ()):
                    self._take(given, name, script, match)
            given.names.discard(name)
        return self._given[name]

    def _assignments(self) -> dict[str, list[tuple[Script, re.Match[str]]]]:
        """Where each variable may be assigned."""
        if self._assigned is None:
            self._assigned = {}
            for script in self.scripts:
                for match in _ASSIGNED.finditer(script.code):
                    self._assigned.setdefault(match[match.lastgroup or 0], []).append((script, match))
        return self._assigned

    def _take(self, given: Given, name: str, script: Script, match: re.Match[str]) -> None:
        """Take over what one assignment gives."""
        index = match.start(match.lastgroup or 0)
        chain = script.tree.chain(index)
        at = next(
            (i for i in range(len(chain) - 1, 0, -1) if chain[i].type not in PART and chain[i].type != "subscript"), 0
        )
        box = chain[at]
        if match["default"]:
            word = next(
                (node for node in chain[1:] if node.type == "expansion" and node.start_byte == match.start()), None
            )
            if word is not None:
                self._take_value(given, script, word, chain, (word.start_byte, word.end_byte))
        elif box.type == "variable_assignment" and box.start_byte == index:
            value = box.child_by_field_name("value")
            if value is None:
                given.known = True
            elif value.type == "array":
                for item in value.named_children:
                    self._take_item(given, script, item, [*chain[: at + 1], value])
            elif value.type in PART and self._sets(box):
                self._take_value(given, script, value, chain[: at + 1], (value.start_byte, value.end_byte))
            else:
                given.loose = True
        elif match["loop"] and box.type == "for_statement":
            for item in (
                child for child in box.named_children if child.type in PART and child.start_byte > match.end()
            ):
                self._take_item(given, script, item, chain[: at + 1])

    @staticmethod
    def _sets(box: Node) -> bool:
        """Whether an assignment gives the whole value: ``+=`` adds to it."""
        return all(child.type != "+=" for child in box.children)

    def _take_item(self, given: Given, script: Script, item: Node, parents: list[Node]) -> None:
        """An item of an array or a loop."""
        start = item.start_byte
        if key := _ITEM.match(script.code, start, item.end_byte):
            start = key.end()
        self._take_value(given, script, item, parents, (start, item.end_byte), facts=frozenset({"in-list"}))

    def _take_value(
        self,
        given: Given,
        script: Script,
        node: Node,
        parents: list[Node],
        span: Span,
        *,
        facts: frozenset[str] = frozenset(),
    ) -> None:
        """One word that a variable is given: a value, other variables, or both."""
        around = script.around(parents, node)
        names, (start, end) = script.referred(*span, around.scope)
        given.names.update(names)
        word = script.code[start:end]
        if REFERENCE.fullmatch(word):
            return
        if not word or BEGINS.match(word):  # what a dict holds is told where it stands
            given.known = True
        elif _PLAIN.fullmatch(word):
            given.known = True
            if names:
                facts |= {"default"}
            owner = next((each for each in reversed(parents[-3:]) if each.type == "declaration_command"), None)
            local = (
                owner is not None
                and around.scope != ""
                and script.code.startswith(("local", "declare", "typeset"), owner.start_byte)
            )
            first, last = script.absolute((start, end))
            facts |= around.facts | {"variable"} | around.exports
            given.places.append(Place(first, last, word, facts, around.scope, local))
        else:
            given.loose = True

    def _take_arguments(self, given: Given, function: str, number: int) -> None:
        """What the calls of a function give it at one place."""
        for script, index in self._called().get(function, ()):
            chain = script.tree.chain(index)
            box = next((node for node in reversed(chain) if node.type == "command"), None)
            if box is None or box.start_byte != index:
                continue
            words = script.tree.words_of(box)
            if number < len(words) and words[number].type in PART:
                parents = chain[: chain.index(box) + 1]
                word = words[number]
                self._take_value(given, script, word, parents, (word.start_byte, word.end_byte))

    def _called(self) -> dict[str, list[tuple[Script, int]]]:
        """Where each function of the file may be called."""
        if self._calls is None:
            names = {match[1] or match[2] for script in self.scripts for match in _FUNCTION.finditer(script.code)}
            self._calls = {}
            for script in self.scripts if names else ():
                for match in _WORD.finditer(script.code):
                    if match[0] in names:
                        self._calls.setdefault(match[0], []).append((script, match.start()))
        return self._calls

    # --- what else takes it --------------------------------------------------------------------------------------

    def _shared(self, takers: dict[str, dict[int, Use]]) -> set[str]:
        """The variables that something else takes as a whole as well: it may need another value than the setting."""
        known = {use.site.start for taking in takers.values() for use in taking.values()}
        shared = set()
        for script in self.scripts:
            for match in _USED.finditer(script.code):
                if match[1] in takers and match[1] not in shared and not self._is_known(script, match, known):
                    shared.add(match[1])
        return shared

    def _is_known(self, script: Script, match: re.Match[str], known: set[int]) -> bool:
        """Whether a use of a variable is that of a setting, assigns it anew, or only stands in a longer text."""
        if script.shift + match.start() in known:
            return True
        chain = script.tree.chain(match.start())
        word = next((node for node in chain if node.type in PART), None)
        at = chain.index(word) if word is not None else 0
        box = chain[at - 1] if at else script.tree.root
        if (
            word is None
            or box.type in ("comment", "heredoc_redirect", "variable_assignment")
            or script.around(chain[:at], word).role == "message"
        ):
            return True
        start, end = spell.stripped(script.code, word.start_byte, word.end_byte)
        start = script.code.rfind("=", start, match.start()) + 1 or start
        start, end = spell.stripped(script.code, start, end)
        return start != match.start() or REFERENCE.fullmatch(script.code, start, end) is None


@dataclass(frozen=True, slots=True)
class _Meant:
    """What the values of a variable mean: the settings that take them, with the facts of where they do."""

    sites: tuple[Site, ...]
    used_by: tuple[str, ...]

    @classmethod
    def of(cls, takers: list[Site], scope: str | None, shared: bool, vocabulary: Vocabulary) -> _Meant:
        """What they mean to ``takers``, those in the function ``scope`` of a local variable before all others."""
        takers = [each for each in takers if each.scope == scope] or takers
        more = frozenset({"shared"}) if shared else frozenset()
        sites = [
            replace(
                each,
                facts=each.facts - _PASSIVE - {"given"} | more,
                slot=each.slot and replace(each.slot, renames=False),
            )
            for each in _different(takers, vocabulary)
        ]
        return cls(tuple(sites), _for_all(takers[: MAX_USES * MAX_USES], len(takers), vocabulary).used_by)

    def at(self, place: Place) -> Site:
        """One value, as that of all of them."""
        first, *others = (self._site(each, place) for each in self.sites)
        return replace(first, also=tuple(others)) if others else first

    def _site(self, taker: Site, place: Place) -> Site:
        word = place.word
        form = spell.form_of(word, numbers=True)
        return Site(
            place.start,
            place.end,
            form,
            word,
            "value",
            slot=taker.slot,
            key=taker.key,
            key_path=taker.key_path,
            scope=place.scope,
            facts=taker.facts | place.facts,
            used_by=self.used_by,
        )


def _different(sites: Iterable[Site], vocabulary: Vocabulary) -> list[Site]:
    """One site for each key and what it means, the first."""
    found: dict[tuple[str | None, str], Site] = {}
    for site in sites:
        setting = vocabulary.setting(site.key, site.above)
        found.setdefault((site.key, setting.name if setting is not None else ""), site)
        if len(found) == MAX_USES:
            break
    return list(found.values())


def _for_all(sites: list[Site], number: int, vocabulary: Vocabulary) -> Site:
    """One site for all settings that take a value, which names the first of them."""
    first, *others = _different(sites, vocabulary)
    paths = dict.fromkeys(each.key_path or each.key or "" for each in sites)
    named = [*paths][:MAX_NAMED]
    if len(paths) > MAX_NAMED:
        named.append(f"{max(number, len(paths)) - MAX_NAMED} more")
    return replace(first, used_by=tuple(named), also=tuple(others))
