"""Reading rules: one YAML file each, into frozen data. Rule files are untrusted: they are data and can run nothing.

Whatever would make a rule claim nothing, or write what nobody means, is refused in one line that says where.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from precpatch.engine import rule_words as words
from precpatch.engine.bands import BANDS, DEFAULT_BAND, GROUP_BAND, precedence
from precpatch.engine.rule import ACTIONS, SAFETIES, SCOPES, SEVERITIES, Example, Match, Reference, Rule
from precpatch.engine.yaml_values import Value, read_values
from precpatch.errors import UserError
from precpatch.gpu.target import ATTENTION_CHOICES, DTYPE_CHOICES, QUESTIONS
from precpatch.languages.mention import KINDS

__all__ = ["Example", "Match", "Reference", "Rule", "builtin_folder", "load_rules", "read_rule"]

_REQUIRED = ("id", "name", "what", "why", "safety", "match", "then")
_FIELDS = (*_REQUIRED, "severity", "band", "when", "references", "examples", "message")
_THEN_FIELDS = ("action", "to", "follows", "otherwise", "alongside", "scope")
_TEXT_FIELDS = ("language", "kind", "value", "spelling", "role", "key", "key_path", "callee", "scope", "path")
_MATCH_FIELDS = (*_TEXT_FIELDS, "concept", "facts", "without", "allows_target")
_EXAMPLE_FIELDS = ("title", "language", "target", "before", "after", "dtype", "attention", "path", "asks")
_EXAMPLE_CHOICES = {"language": words.EXAMPLE_LANGUAGES, "dtype": DTYPE_CHOICES, "attention": ATTENTION_CHOICES}
_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)

MAX_GLOB = 100
MAX_STARS = 8
_MAX_LIST = 200
_MAX_NUMBER = 1000
_MAX_FILES = 20_000
_SUFFIXES = frozenset({".yaml", ".yml"})


def builtin_folder() -> Path:
    """The folder of the rules that come with precpatch: in the wheel, or at the top of a source checkout."""
    inside = Path(__file__).parent.parent / "rules"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "rules"


def load_rules(folders: Sequence[Path] = (), *, deciding: bool = False) -> tuple[Rule, ...]:
    """The built-in rules and those of a user's folders, in the order in which they are asked: see ``engine.bands``.

    Args:
        folders: those of the user.
        deciding: only what decides is read of a built-in rule: no reference and no example. Its words are not looked
            up again: a test does so. A user's rule is read and checked as a whole.

    Raises:
        UserError: a folder or a rule file cannot be read, is not a rule, or uses an id twice.
    """
    rules: list[tuple[Rule, bool]] = []
    seen: dict[str, Path] = {}
    builtin = builtin_folder()
    for folder in (*folders, builtin):
        is_builtin = folder is builtin
        for path in _rule_files(folder):
            rule = _deciding_part(path) if is_builtin and deciding else read_rule(path, checks_targets=not is_builtin)
            if rule.id in seen:
                raise UserError(f"{path}: rule id {rule.id!r} is already used by {seen[rule.id]}; choose another id")
            seen[rule.id] = path
            rules.append((rule, is_builtin))
    return tuple(rule for rule, _ in sorted(rules, key=lambda row: precedence(*row)))


def _rule_files(folder: Path) -> list[Path]:
    """The rule files in a folder and those below it; what begins with a dot is left out."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such rule folder; --rules takes a folder of .yaml rule files")
    return sorted(path for path in _files(folder) if path.suffix in _SUFFIXES)


def _files(folder: Path) -> Iterator[Path]:
    seen = 0

    def refuse(error: OSError) -> None:
        raise UserError(f"{error.filename or folder}: cannot be listed: {error.strerror or error}")

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        seen += len(names)
        if seen > _MAX_FILES:
            raise UserError(f"{folder}: holds more than {_MAX_FILES:,} files; --rules takes a folder of rule files")
        yield from (Path(place, name) for name in names if not name.startswith("."))


def read_rule(path: Path, *, checks_targets: bool = True) -> Rule:
    """Read one rule file.

    Args:
        path: the file.
        checks_targets: whether the targets of its examples are looked up.

    Raises:
        UserError: with the file, the line, and what is wrong.
    """
    return _Builder(path, checks_targets).rule(read_values(path))


def _deciding_part(path: Path) -> Rule:
    """A built-in rule without its references and examples, which stand at the end of its file."""
    return _Builder(path, checks_targets=False, checks_words=False).rule(read_values(path, before=b"\nreferences:"))


class _Builder:
    """Turns the values of a rule file into a Rule, or says in one line what is wrong with it."""

    def __init__(self, path: Path, checks_targets: bool, checks_words: bool = True) -> None:
        self.path = path
        self.checks_targets = checks_targets
        self.checks_words = checks_words

    def fail(self, line: int, text: str) -> UserError:
        """The error to raise about a line."""
        return UserError(f"{self.path}:{line}: {text}")

    def rule(self, file: Value) -> Rule:
        """The rule that a file holds."""
        self._mapping(file, "a rule file")
        if "order" in file.data:
            bands = ", ".join(BANDS)
            raise self.fail(
                file.keys["order"], f"'order' is no field any more; 'band' says when a rule is asked: {bands}"
            )
        fields = self._fields(file, _FIELDS, "the rule")
        for name in _REQUIRED:
            if name not in fields:
                raise self.fail(file.line, f"field '{name}' is missing")
        name = self._text(fields["name"], "name")
        matches = self._matches(fields["match"])
        then = self._then(fields["then"], matches)
        return Rule(
            id=self._id(fields["id"]),
            name=name,
            what=self._text(fields["what"], "what").strip(),
            why=self._text(fields["why"], "why").strip(),
            safety=self._one_of(fields["safety"], SAFETIES, "safety"),
            severity=self._one_of(fields["severity"], SEVERITIES, "severity") if "severity" in fields else "error",
            band=self._band(fields.get("band"), str(then["action"])),
            when=self._when(fields.get("when")),
            matches=matches,
            message=self._message(fields.get("message", fields["name"])),
            references=tuple(self._reference(item) for item in self._list(fields.get("references"), "references")),
            examples=tuple(self._example(item) for item in self._list(fields.get("examples"), "examples")),
            source=self.path,
            **then,  # type: ignore[arg-type]
        )

    def _id(self, value: Value) -> str:
        text = self._text(value, "id")
        if not _ID.fullmatch(text):
            raise self.fail(value.line, "id: may hold letters, digits, dashes, dots and underscores, 100 at most")
        return text

    def _band(self, value: Value | None, action: str) -> str:
        band = self._one_of(value, tuple(BANDS), "band") if value else GROUP_BAND if action == "group" else DEFAULT_BAND
        if value and (band == GROUP_BAND) is not (action == "group"):
            raise self.fail(value.line, f"band: {GROUP_BAND!r} is for rules with the action 'group', and for no others")
        return band

    def _when(self, value: Value | None) -> tuple[tuple[str, bool], ...]:
        if value is None:
            return ()
        fields = self._fields(self._mapping(value, "'when'"), tuple(QUESTIONS), "when")
        return tuple((question, self._boolean(answer, f"when.{question}")) for question, answer in fields.items())

    def _message(self, value: Value) -> str:
        text = self._text(value, "message").strip()
        self._check(value, "message", words.unknown_placeholder(text))
        return text

    # --- then --------------------------------------------------------------------------------------------------

    def _then(self, value: Value, matches: Sequence[Match]) -> dict[str, str | bool]:
        """The fields of a Rule that stand under ``then``."""
        fields = self._fields(self._mapping(value, "'then'"), _THEN_FIELDS, "then")
        if "action" not in fields:
            raise self.fail(value.line, "field 'then.action' is missing")
        action = self._one_of(fields["action"], ACTIONS, "then.action")
        found: dict[str, str | bool] = {"action": action}
        for name in ("follows", "alongside"):
            if name in fields:
                found[name] = self._boolean(fields[name], f"then.{name}")
        self._only_with(fields, "to", action in {"rewrite", "extend"}, "the actions rewrite and extend")
        self._only_with(fields, "scope", action == "group", "the action group")
        self._only_with(fields, "otherwise", found.get("follows") is True, "'follows: true'")
        self._only_with(fields, "alongside", action == "report", "the action report")
        if "to" in fields:
            found["to"] = self._text(fields["to"], "then.to")
            self._check(fields["to"], "then.to", words.wrong_to(str(found["to"]), _kinds_of(matches)))
        if "scope" in fields:
            found["scope"] = self._one_of(fields["scope"], SCOPES, "then.scope")
        if "otherwise" in fields:
            found["otherwise"] = self._one_of(fields["otherwise"], ("keep", "report"), "then.otherwise")
        return found

    def _only_with(self, fields: dict[str, Value], name: str, holds: bool, what: str) -> None:
        if name in fields and not holds:
            raise self.fail(fields[name].line, f"'then.{name}' only goes with {what}")

    # --- match -------------------------------------------------------------------------------------------------

    def _matches(self, value: Value) -> tuple[Match, ...]:
        alternatives = self._list(value, "match") if isinstance(value.data, list) else [value]
        if not alternatives:
            raise self.fail(value.line, "field 'match' must hold a condition")
        return tuple(self._match(item) for item in alternatives)

    def _match(self, value: Value) -> Match:
        fields = self._fields(self._mapping(value, "'match'"), _MATCH_FIELDS, "match")
        if not fields:
            raise self.fail(value.line, "'match' must hold a condition")
        globs = {name: self._globs(fields[name], f"match.{name}") for name in _TEXT_FIELDS if name in fields}
        if "concept" in fields:
            concept = self._text(fields["concept"], "match.concept")
            self._check(fields["concept"], "match.concept", words.wrong_concept(concept))
            globs["key"] = (*globs.get("key", ()), *words.names_of(concept))
        for name, wrong in words.CLOSED.items():
            self._check_words(fields.get(name), f"match.{name}", wrong)
        kinds = _kinds(globs.get("kind"))
        self._check_words(fields.get("value"), "match.value", lambda word: words.wrong_value(word, kinds))
        allows = fields.get("allows_target")
        return Match(
            globs=tuple(globs.items()),
            facts=self._facts(fields, "facts", globs.get("language")),
            without=self._facts(fields, "without"),
            allows_target=None if allows is None else self._boolean(allows, "match.allows_target"),
        )

    def _facts(self, fields: dict[str, Value], name: str, languages: Sequence[str] | None = None) -> frozenset[str]:
        if name not in fields:
            return frozenset()
        facts = self._globs(fields[name], f"match.{name}")
        self._check_words(fields[name], f"match.{name}", words.wrong_fact)
        if languages:
            self._check_words(fields[name], f"match.{name}", lambda fact: words.told_elsewhere(fact, languages))
        return frozenset(facts)

    def _check_words(self, value: Value | None, name: str, wrong: Callable[[str], str | None]) -> None:
        """Refuse a word, or the first word of a list, that something is wrong with; all of them are text."""
        if value is None or not self.checks_words:
            return
        for item in value.data if isinstance(value.data, list) else [value]:
            self._check(item, name, wrong(item.data))

    def _globs(self, value: Value, name: str) -> tuple[str, ...]:
        items = self._list(value, name) if isinstance(value.data, list) else [value]
        if not items:
            raise self.fail(value.line, f"'{name}': an empty list fits nothing; leave the field out")
        for item in items:
            text = self._text(item, name)
            if len(text) > MAX_GLOB or text.count("*") > MAX_STARS:
                most = f"{MAX_GLOB} characters and {MAX_STARS} stars at most"
                raise self.fail(item.line, f"'{name}': a glob may have {most}")
        return tuple(item.data for item in items)

    # --- references and examples -------------------------------------------------------------------------------

    def _reference(self, value: Value) -> Reference:
        fields = self._fields(self._mapping(value, "'references'"), ("title", "url"), "references")
        if "title" not in fields:
            raise self.fail(value.line, "field 'references.title' is missing")
        url = fields.get("url")
        return Reference(
            self._text(fields["title"], "references.title"),
            None if url is None else self._text(url, "references.url"),
        )

    def _example(self, value: Value) -> Example:
        fields = self._fields(self._mapping(value, "'examples'"), (*_EXAMPLE_FIELDS, "reports"), "examples")
        for name in ("title", "language", "target", "before"):
            if name not in fields:
                raise self.fail(value.line, f"field 'examples.{name}' is missing")
        texts = {name: self._text(fields[name], f"examples.{name}") for name in _EXAMPLE_FIELDS if name in fields}
        for name, choices in _EXAMPLE_CHOICES.items():
            if name in fields:
                self._one_of(fields[name], choices, f"examples.{name}")
        if self.checks_targets:
            self._check_target(fields["target"])
        texts.setdefault("after", texts["before"])
        reports = fields.get("reports")
        return Example(**texts, reports=0 if reports is None else self._integer(reports, "examples.reports"))

    def _check_target(self, value: Value) -> None:
        from precpatch.gpu.resolve import resolve_target

        if value.data.lower() == "auto" or "/" in value.data or value.data.endswith(".json"):
            raise self.fail(
                value.line, "examples.target: name a GPU or a compute capability, so that it means the same anywhere"
            )
        try:
            resolve_target(value.data)
        except UserError as error:
            raise self.fail(value.line, f"examples.target: {error}") from None

    # --- checks of one value -----------------------------------------------------------------------------------

    def _check(self, value: Value, name: str, complaint: str | None) -> None:
        if complaint is not None:
            raise self.fail(value.line, f"{name}: {complaint}")

    def _fields(self, value: Value, known: Sequence[str], where: str) -> dict[str, Value]:
        """The fields of a mapping, none of which is unknown."""
        for name in value.data:
            if name not in known:
                raise self.fail(value.keys[name], f"unknown field '{name}' in {where}{words.hint(name, known)}")
        fields: dict[str, Value] = value.data
        return fields

    def _mapping(self, value: Value, what: str) -> Value:
        if not isinstance(value.data, dict):
            raise self.fail(value.line, f"{what} must be a mapping, not {value.kind}")
        return value

    def _list(self, value: Value | None, name: str) -> list[Value]:
        if value is None:
            return []
        if not isinstance(value.data, list):
            raise self.fail(value.line, f"field '{name}' must be a list, not {value.kind}")
        if len(value.data) > _MAX_LIST:
            raise self.fail(value.line, f"field '{name}' holds more than {_MAX_LIST} entries")
        return value.data

    def _text(self, value: Value, name: str) -> str:
        if not isinstance(value.data, str) or not value.data:
            quotes = "" if value.data is None or isinstance(value.data, (dict, list, str)) else "; put it in quotes"
            kind = "empty" if value.data == "" else value.kind
            raise self.fail(value.line, f"field '{name}' must be text, not {kind}{quotes}")
        return value.data

    def _integer(self, value: Value, name: str) -> int:
        number = value.data
        if not isinstance(number, int) or isinstance(number, bool):
            raise self.fail(value.line, f"field '{name}' must be a whole number, not {value.kind}")
        if not 0 <= number <= _MAX_NUMBER:
            raise self.fail(value.line, f"field '{name}' must be from 0 to {_MAX_NUMBER}, not {value.kind}")
        return number

    def _boolean(self, value: Value, name: str) -> bool:
        if not isinstance(value.data, bool):
            raise self.fail(value.line, f"field '{name}' must be true or false, not {value.kind}")
        return value.data

    def _one_of(self, value: Value, known: Sequence[str], name: str) -> str:
        text = self._text(value, name)
        if text not in known:
            raise self.fail(value.line, f"{name}: unknown word {text!r}{words.hint(text, known)}")
        return text


def _kinds(globs: Collection[str] | None) -> set[str]:
    """The kinds of mention that a match leaves room for."""
    if globs is None:
        return set(KINDS)
    return {kind for kind in KINDS if any(fnmatchcase(kind, glob.lower()) for glob in globs)}


def _kinds_of(matches: Sequence[Match]) -> set[str]:
    return set().union(*(_kinds(dict(match.globs).get("kind")) for match in matches))
