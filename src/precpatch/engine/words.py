"""What the rules of a run bring to the vocabulary, and what they look for in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from precpatch.engine.rules import Match, Rule, builtin_folder
from precpatch.vocabulary import Package, Setting, Vocabulary
from precpatch.vocabulary.facts import load_facts
from precpatch.vocabulary.needles import Needles, Wanted, needles_for, needles_of_values
from precpatch.vocabulary.words import ANY, ATTENTION, BOOLEAN, CHOICE, DTYPE, NUMBER

_LANGUAGES = ("python", "yaml", "shell", "json", "notebook")
_HOLDS_OTHERS = {
    "shell": ("python", "yaml", "json"),
    "yaml": ("shell", "python", "json"),
    "notebook": ("python", "shell", "yaml", "json"),
}
"""Languages whose files hold text of others."""


def vocabulary_for(rules: Iterable[Rule], vocabulary: Vocabulary) -> Vocabulary:
    """The vocabulary with the words of a user's rules: keys, values, variables and packages that it does not know yet.

    The built-in rules bring none: what they ask for stands in the vocabulary, which a test makes sure of.
    """
    builtin = builtin_folder()
    rules = [rule for rule in rules if not rule.source.is_relative_to(builtin)]
    settings: list[Setting] = []
    packages: list[Package] = []
    dtypes: list[str] = []
    attention: list[str] = []
    for match in (match for rule in rules for match in rule.matches):
        globs = dict(match.globs)
        kinds, values, keys = globs.get("kind", ()), globs.get("value", ()), globs.get("key", ())
        if "import" in kinds:
            packages += [package for value in values if (package := _package(vocabulary, value))]
        if "dtype" in kinds:
            dtypes += [value for value in values if _is_new(value, vocabulary.dtypes)]
        if "attention" in kinds:
            attention += [value for value in values if _is_new(value, vocabulary.attention)]
        settings += [each for key in keys if (each := _setting(vocabulary, key, kinds, values, match)) is not None]
    return (
        vocabulary.joined(settings, packages, dtypes, attention)
        if settings or packages or dtypes or attention
        else vocabulary
    )


def needles_by_language(
    rules: Iterable[Rule], vocabulary: Vocabulary, everything: bool = False
) -> Mapping[str, Needles]:
    """Language -> what a file of it must hold to be worth reading.

    Args:
        rules: those of the run that are for the target.
        vocabulary: with the words of the rules.
        everything: also what no rule acts on, for a run that shows what is kept.
    """
    acting = [rule for rule in rules if rule.action not in {"keep", "group"}]
    own = {name: needles_for(vocabulary, _wanted(acting, name)) for name in _LANGUAGES}
    if everything:
        shown = needles_of_values(vocabulary)
        own = {name: needles | shown for name, needles in own.items()}
    joined = dict(own)
    for name, others in _HOLDS_OTHERS.items():
        for other in others:
            joined[name] = joined[name] | own[other]
    return joined


def _wanted(rules: Iterable[Rule], language: str) -> Iterator[Wanted]:
    """What the rules look for in files of a language."""
    facts = load_facts()
    for match in (match for rule in rules for match in rule.matches):
        globs = dict(match.globs)
        if "language" in globs and not dict(match.patterns)["language"].match(language):
            continue
        needles = [needle.encode() for fact in match.facts if (needle := facts[fact].needle)]
        yield Wanted(globs.get("kind"), globs.get("value"), globs.get("key"), tuple(needles[:1]))


def _is_glob(word: str) -> bool:
    return not {"*", "?", "["}.isdisjoint(word)


def _is_new(value: str, known: Mapping[str, object]) -> bool:
    return not _is_glob(value) and value.lower() not in known


def _package(vocabulary: Vocabulary, value: str) -> Package | None:
    """The package of a module that a rule asks for; None for one that is known, or that only a glob names."""
    name = value.partition(".")[0]
    if _is_glob(name) or vocabulary.package_of(name) or any(name in each.installs for each in vocabulary.packages):
        return None
    return Package(name, tuple(dict.fromkeys((name.lower(), name.lower().replace("_", "-")))))


def _setting(
    vocabulary: Vocabulary, key: str, kinds: tuple[str, ...], values: tuple[str, ...], match: Match
) -> Setting | None:
    """The setting of a key that a rule asks for, with what it takes by the rule; None for one that is known so."""
    takes = {kind for kind in (DTYPE, ATTENTION) if kind in kinds}
    choices: frozenset[str] = frozenset()
    is_variable = "variable" in match.facts or (key.isupper() and not _is_glob(key))
    if "switch" in kinds or not kinds:
        lowered = frozenset(value.lower() for value in values)
        takes |= {BOOLEAN} if lowered & {"true", "false"} or not values else set()
        takes |= {NUMBER} if any(map(str.isdigit, lowered - {"0", "1"})) else set()
        choices = frozenset(value for value in lowered - {"true", "false"} if not _is_glob(value))
        takes |= {CHOICE} if choices else set()
        takes |= {ANY} if is_variable else set()
    known = None if _is_glob(key) else vocabulary.setting(*reversed(key.rsplit(".", 1)))
    if not takes or (
        known is not None and takes <= known.takes | {BOOLEAN, ANY} and choices <= known.choices | _words(vocabulary)
    ):
        return None
    return Setting(key, "of a rule", frozenset(takes), choices, variable=is_variable)


def _words(vocabulary: Vocabulary) -> frozenset[str]:
    return frozenset({"1", "0", "variable", *vocabulary.dtypes, *vocabulary.attention})
