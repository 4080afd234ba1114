"""Rules: one YAML file each, read into frozen data. Rule files are untrusted: they are data and can run nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import translate
from functools import cached_property, lru_cache
from pathlib import Path
from re import Pattern
from re import compile as compile_pattern
from typing import Any

from precpatch.errors import UserError
from precpatch.gpu.target import QUESTIONS
from precpatch.languages.mention import KINDS, ROLES

ACTIONS = ("rewrite", "extend", "report", "keep", "group")
SCOPES = ("file", "tree")
SAFETIES = ("safe", "unsafe", "report", "keep")
SEVERITIES = ("error", "warning", "info")
_TEXT_FIELDS = ("language", "kind", "value", "spelling", "role", "key", "key_path", "callee", "scope", "path")
_MAX_GLOB = 100
_MAX_NUMBER = 1000
_MAX_SHOWN_NUMBER = 10**15


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a claim of a rule comes from."""

    title: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A small file before and after; ``before == after`` means that it must stay. Every example runs as a test."""

    title: str
    language: str
    target: str
    before: str
    after: str
    dtype: str = "auto"
    attention: str = "auto"
    path: str | None = None
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


@dataclass(frozen=True)
class Rule:
    """One rule: who is it for, which mentions it claims, and what becomes of them.

    Attributes:
        id: unique name, lower case with dashes.
        order: rules are asked from low to high; the first that claims a mention decides.
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
    order: int
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


@lru_cache(maxsize=512)
def _compile(globs: tuple[str, ...]) -> Pattern[str]:
    return compile_pattern("|".join(translate(glob.lower()) for glob in globs))


def builtin_folder() -> Path:
    """The folder of the rules that come with precpatch: in the wheel, or at the top of a source checkout."""
    inside = Path(__file__).parent.parent / "rules"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "rules"


def load_rules(folders: Sequence[Path] = ()) -> tuple[Rule, ...]:
    """The built-in rules and those of a user's folders, in the order in which they are asked.

    At the same ``order`` a user's rule is asked before a built-in one.

    Raises:
        UserError: a folder or a rule file cannot be read, is not a rule, or uses an id twice.
    """
    rules: list[tuple[int, int, str, Rule]] = []
    seen: dict[str, Path] = {}
    for rank, folder in [*((0, folder) for folder in folders), (1, builtin_folder())]:
        for path in _rule_files(folder):
            rule = read_rule(path)
            if rule.id in seen:
                raise UserError(f"{path}: rule id {rule.id!r} is already used by {seen[rule.id]}; choose another id")
            seen[rule.id] = path
            rules.append((rule.order, rank, rule.id, rule))
    return tuple(rule for *_, rule in sorted(rules, key=lambda row: row[:3]))


def _rule_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such rule folder; --rules takes a folder of .yaml rule files")
    return sorted(path for path in folder.rglob("*") if path.suffix in {".yaml", ".yml"} and path.is_file())


def read_rule(path: Path) -> Rule:
    """Read one rule file.

    Raises:
        UserError: with the file, the line where known, and what is wrong.
    """
    try:
        return _Builder(path).rule(_load(path))
    except (ValueError, OverflowError):  # such as more digits than Python reads or writes, or the 31st of February
        raise UserError(f"{path}: holds a number or a date that cannot be read") from None


def _load(path: Path) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 (a safe loader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}:{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None


class _Builder:
    """Turns the data of a rule file into a Rule, or says in one line what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fail(self, text: str) -> UserError:
        line = self._line_of(text)
        return UserError(f"{self.path}{f':{line}' if line else ''}: {text}")

    def _line_of(self, text: str) -> int | None:
        """The line of the field that the complaint names first in quotes."""
        word = text.split("'")[1] if "'" in text else ""
        lines = self.path.read_text("utf-8", "replace").splitlines()
        return next((number for number, line in enumerate(lines, 1) if word and f"{word}" in line), None)

    def rule(self, data: Any) -> Rule:
        fields = self._mapping(data, "a rule file")
        self._known(fields, {*_REQUIRED, "severity", "order", "when", "references", "examples", "message"}, "")
        for name in _REQUIRED:
            if name not in fields:
                raise self.fail(f"field '{name}' is missing")
        then = self._mapping(fields["then"], "'then'")
        self._known(then, {"action", "to", "follows", "otherwise", "alongside", "scope"}, "then.")
        action = self._one_of(then.get("action"), ACTIONS, "then.action")
        return Rule(
            id=self._text(fields["id"], "id"),
            name=self._text(fields["name"], "name"),
            what=self._text(fields["what"], "what").strip(),
            why=self._text(fields["why"], "why").strip(),
            safety=self._one_of(fields["safety"], SAFETIES, "safety"),
            severity=self._one_of(fields.get("severity", "error"), SEVERITIES, "severity"),
            order=self._integer(fields.get("order", 100), "order"),
            when=self._when(fields.get("when", {})),
            matches=self._matches(fields["match"]),
            action=action,
            message=self._text(fields.get("message", fields["name"]), "message").strip(),
            to=self._text(then.get("to", "dtype"), "then.to"),
            follows=self._boolean(then.get("follows", False), "then.follows"),
            alongside=self._boolean(then.get("alongside", False), "then.alongside"),
            scope=self._one_of(then.get("scope", "file"), SCOPES, "then.scope"),
            otherwise=self._one_of(then.get("otherwise", "keep"), ("keep", "report"), "then.otherwise"),
            references=tuple(self._reference(item) for item in self._list(fields.get("references", []), "references")),
            examples=tuple(self._example(item) for item in self._list(fields.get("examples", []), "examples")),
            source=self.path,
        )

    def _when(self, data: Any) -> tuple[tuple[str, bool], ...]:
        when = self._mapping(data, "'when'")
        self._known(when, set(QUESTIONS), "when.")
        return tuple((question, self._boolean(answer, f"when.{question}")) for question, answer in when.items())

    def _matches(self, data: Any) -> tuple[Match, ...]:
        alternatives = data if isinstance(data, list) else [data]
        if not alternatives:
            raise self.fail("field 'match' must hold a condition")
        return tuple(self._match(self._mapping(item, "'match'")) for item in alternatives)

    def _match(self, data: dict[str, Any]) -> Match:
        self._known(data, {*_TEXT_FIELDS, "facts", "without", "allows_target"}, "match.")
        globs = {name: self._globs(data[name], f"match.{name}") for name in _TEXT_FIELDS if name in data}
        for name, known in (("kind", KINDS), ("role", tuple(ROLES))):
            for value in globs.get(name, ()):
                self._one_of(value, known, f"match.{name}")
        allows = data.get("allows_target")
        return Match(
            globs=tuple(globs.items()),
            facts=frozenset(self._globs(data.get("facts", []), "match.facts")),
            without=frozenset(self._globs(data.get("without", []), "match.without")),
            allows_target=None if allows is None else self._boolean(allows, "match.allows_target"),
        )

    def _globs(self, data: Any, name: str) -> tuple[str, ...]:
        texts = tuple(self._text(item, name) for item in (data if isinstance(data, list) else [data]))
        if any(len(text) > _MAX_GLOB or text.count("*") > 8 for text in texts):
            raise self.fail(f"'{name}': a glob may have {_MAX_GLOB} characters and 8 stars at most")
        return texts

    def _reference(self, data: Any) -> Reference:
        fields = self._mapping(data, "'references'")
        self._known(fields, {"title", "url"}, "references.")
        url = fields.get("url")
        return Reference(
            self._text(fields.get("title"), "references.title"), None if url is None else self._text(url, "url")
        )

    def _example(self, data: Any) -> Example:
        fields = self._mapping(data, "'examples'")
        names = {"title", "language", "target", "before", "after", "dtype", "attention", "path"}
        self._known(fields, {*names, "reports"}, "examples.")
        texts = {name: self._text(fields[name], f"examples.{name}") for name in names if name in fields}
        for name in ("title", "language", "target", "before"):
            if name not in texts:
                raise self.fail(f"field 'examples.{name}' is missing")
        texts.setdefault("after", texts["before"])
        return Example(**texts, reports=self._integer(fields.get("reports", 0), "examples.reports"))

    # --- checks of one value -----------------------------------------------------------------------------------

    def _known(self, fields: Iterable[str], known: set[str], prefix: str) -> None:
        for name in fields:
            if name not in known:
                near = get_close_matches(str(name), sorted(known), 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
                raise self.fail(f"unknown field '{name}' in {prefix or 'the rule'}{hint}")

    def _mapping(self, data: Any, what: str) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self.fail(f"{what} must be a mapping, not {_kind(data)}")
        return data

    def _list(self, data: Any, name: str) -> list[Any]:
        if not isinstance(data, list):
            raise self.fail(f"field '{name}' must be a list, not {_kind(data)}")
        return data

    def _text(self, data: Any, name: str) -> str:
        if not isinstance(data, str) or not data:
            hint = "; put it in quotes" if isinstance(data, (bool, int, float)) else ""
            raise self.fail(f"field '{name}' must be text, not {_kind(data)}{hint}")
        return data

    def _integer(self, data: Any, name: str) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            raise self.fail(f"field '{name}' must be a whole number, not {_kind(data)}")
        if not 0 <= data <= _MAX_NUMBER:
            raise self.fail(f"field '{name}' must be from 0 to {_MAX_NUMBER}, not {_kind(data)}")
        return data

    def _boolean(self, data: Any, name: str) -> bool:
        if not isinstance(data, bool):
            raise self.fail(f"field '{name}' must be true or false, not {_kind(data)}")
        return data

    def _one_of(self, data: Any, known: Sequence[str], name: str) -> str:
        if data not in known:
            raise self.fail(f"field '{name}' is {data!r}; it must be one of {', '.join(known)}")
        return str(data)


_REQUIRED = ("id", "name", "what", "why", "safety", "match", "then")


def _kind(data: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    if type(data) in names:
        return names[type(data)]
    if isinstance(data, int) and abs(data) > _MAX_SHOWN_NUMBER:  # Python may even refuse to write it out
        return "a number of that size"
    return f"{data!r}"
