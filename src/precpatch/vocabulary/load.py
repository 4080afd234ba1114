"""Reading the data of the vocabulary: one folder of YAML files, each checked field by field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from precpatch.errors import UserError
from precpatch.vocabulary.words import (
    CHOICE,
    TAKES,
    TYPES,
    Device,
    Form,
    ModuleCompile,
    Package,
    Program,
    Setting,
    Vocabulary,
)

_SPELLINGS = ("long", "short", "method", "lightning", "lightning-true", *TYPES)
"""How values.yaml spells a dtype."""


def builtin_folder() -> Path:
    """The folder of the words that come with precpatch: in the wheel, or at the top of a source checkout."""
    inside = Path(__file__).parent / "data"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "vocabulary"


@cache
def builtin_vocabulary() -> Vocabulary:
    """The words that come with precpatch."""
    return load_vocabulary(builtin_folder())


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a folder.

    Raises:
        UserError: a file is missing, or holds something else than its schema says; with the file and the field.
    """
    values = Checked(folder / "values.yaml")
    packages = Checked(folder / "packages.yaml")
    settings, globs, hints = _settings(folder / "settings")
    dtypes, spellings, quiet = _dtypes(values)
    attention, patterns, flash, more_quiet = _attention(values)
    return Vocabulary(
        dtypes=dtypes,
        spellings=spellings,
        attention=attention,
        attention_patterns=patterns,
        flash=flash,
        flash_aliases=values.words("flash-aliases"),
        storage_keys=values.words("storage-keys"),
        storage_formats=values.words("storage-formats"),
        quiet=quiet | more_quiet,
        ordinary=values.words("ordinary"),
        settings=settings,
        globs=globs,
        devices=_devices(Checked(folder / "devices.yaml")),
        packages=_packages(packages),
        forms=_forms(Checked(folder / "forms.yaml")),
        padding=packages.words("padding"),
        installers=packages.words("installers"),
        permissive_checks=packages.words("permissive-checks"),
        bf16_operators=packages.words("bf16-operators"),
        calls=packages.mapping("calls"),
        module_compile=_module_compile(packages),
        programs=_programs(Checked(folder / "programs.yaml")),
        hints=hints,
    )


class Checked:
    """A mapping of a vocabulary file whose fields are asked for by name and type."""

    def __init__(self, path: Path, data: Any = None, where: str = "") -> None:
        self.path = path
        self.where = where
        self.data = self._as_mapping(_load(path) if data is None else data)

    def fail(self, text: str) -> UserError:
        return UserError(f"{self.path}: {self.where}{text}")

    def _as_mapping(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
            raise self.fail("must be a mapping of names")
        return data

    def only(self, *known: str) -> None:
        """Refuse every other field."""
        for name in self.data:
            if name not in known:
                raise self.fail(f"unknown field '{name}'; known are {', '.join(known)}")

    def mapping(self, name: str) -> dict[str, Any]:
        """A mapping under a field, an empty one where it is left out."""
        return Checked(self.path, self.data.get(name, {}), f"{self.where}{name}: ").data

    def rows(self, name: str) -> list[Checked]:
        """The mappings in the list under a field."""
        rows = self.data.get(name, [])
        if not isinstance(rows, list):
            raise self.fail(f"'{name}' must be a list")
        return [Checked(self.path, row, f"{self.where}{name}[{at}]: ") for at, row in enumerate(rows)]

    def named(self, name: str | None = None) -> list[tuple[str, Checked]]:
        """The mappings in the mapping under a field, or in all of the file, with their names."""
        data = self.data if name is None else self.mapping(name)
        return [(key, Checked(self.path, row, f"{self.where}{key}: ")) for key, row in data.items()]

    def text(self, name: str, default: str | None = None) -> str:
        """The text under a field."""
        data = self.data.get(name, default)
        if not isinstance(data, str) or not data:
            raise self.fail(f"'{name}' must be text")
        return data

    def flag(self, name: str, default: bool = False) -> bool:
        """The boolean under a field, ``default`` where it is left out."""
        data = self.data.get(name, default)
        if not isinstance(data, bool):
            raise self.fail(f"'{name}' must be true or false")
        return data

    def list(self, name: str) -> list[str]:
        """A word or a list of words under a field, none where it is left out."""
        data = self.data.get(name, [])
        data = [data] if isinstance(data, str) else data
        if not isinstance(data, list) or not all(isinstance(word, str) and word for word in data):
            raise self.fail(f"'{name}' must be a word or a list of words")
        return data

    def words(self, name: str) -> frozenset[str]:
        """The words under a field."""
        return frozenset(self.list(name))


def _load(path: Path) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 (a safe loader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None


def _dtypes(values: Checked) -> tuple[dict[str, tuple[str, str]], dict[tuple[str, str], str], frozenset[str]]:
    names: dict[str, tuple[str, str]] = {}
    spellings: dict[tuple[str, str], str] = {}
    quiet = set()
    for value, row in values.named("dtypes"):
        row.only(*_SPELLINGS, "quiet")
        if row.flag("quiet"):
            quiet.add(value)
        for spelling in _SPELLINGS:
            for word in row.list(spelling):
                spellings.setdefault((value, spelling), word)
                if spelling != "method":
                    names.setdefault(word.lower(), (value, spelling))
    return names, spellings, frozenset(quiet)


def _attention(
    values: Checked,
) -> tuple[dict[str, str], tuple[tuple[str, str], ...], frozenset[str], frozenset[str]]:
    rows = values.named("attention")
    patterns = []
    for value, row in rows:
        row.only("flash", "quiet", "patterns")
        for pattern in row.list("patterns"):
            patterns.append((value, _pattern(row, pattern).pattern))
    flash = frozenset(value for value, row in rows if row.flag("flash"))
    quiet = frozenset(value for value, row in rows if row.flag("quiet"))
    return {value: value for value, _ in rows}, tuple(patterns), flash, quiet


def _pattern(row: Checked, text: Any) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, TypeError) as error:
        raise row.fail(f"{text!r} is no regular expression: {error}") from None


def _settings(folder: Path) -> tuple[dict[str, Setting], tuple[Setting, ...], dict[str, frozenset[str]]]:
    """The settings of all files by name in lower case, those whose name holds a star, and the hints by concept."""
    plain: dict[str, Setting] = {}
    globs: list[Setting] = []
    hints: dict[str, frozenset[str]] = {}
    for path in sorted(folder.glob("*.yaml")):
        file = Checked(path)
        hints[file.text("concept")] = file.words("hints")
        for setting in _settings_of(file):
            name = setting.name.lower()
            if "*" in name:
                globs.append(setting)
            else:
                plain[name] = plain[name].with_more(setting) if name in plain else setting
    if not plain:
        raise UserError(f"{folder}: no vocabulary of settings there")
    return plain, tuple(globs), hints


def _settings_of(file: Checked) -> Iterable[Setting]:
    file.only("concept", "says", "hints", "settings")
    concept = file.text("concept")
    file.text("says")
    for row in file.rows("settings"):
        row.only("takes", "choices", "names", "variable", "unresolved", "several")
        takes = row.words("takes")
        if not takes or not takes <= set(TAKES):
            raise row.fail(f"'takes' must be some of {', '.join(TAKES)}")
        choices = frozenset(word.lower() for word in row.list("choices"))
        if bool(choices) is not (CHOICE in takes):
            raise row.fail("'choices' goes with `takes: choice`, and the other way round")
        flags = {"variable": row.flag("variable"), "unresolved": row.flag("unresolved"), "several": row.flag("several")}
        for stack in row.mapping("names"):
            names = Checked(row.path, row.mapping("names"), row.where).list(stack)
            yield from (Setting(name, concept, takes, choices, (stack,), **flags) for name in names)


def _devices(file: Checked) -> tuple[Device, ...]:
    devices = []
    for row in file.rows("devices"):
        row.only("name", "words", "values", "packages", "variables", "paths")
        devices.append(
            Device(
                row.text("name"),
                row.words("words"),
                row.words("values"),
                row.words("packages"),
                tuple(row.list("variables")),
                row.flag("paths", True),
            )
        )
    return tuple(devices)


def _packages(file: Checked) -> tuple[Package, ...]:
    file.only("packages", "padding", "installers", "permissive-checks", "bf16-operators", "calls", "module-compile")
    packages = []
    for row in file.rows("packages"):
        row.only("name", "installs")
        packages.append(Package(row.text("name"), tuple(word.lower() for word in row.list("installs"))))
    return tuple(packages)


def _module_compile(file: Checked) -> ModuleCompile | None:
    data = file.mapping("module-compile")
    if not data:
        return None
    row = Checked(file.path, data, "module-compile: ")
    row.only("method", "stands-for", "arguments", "owners", "chooses", "plain-backends")
    arguments, owners, plain = (row.words(each) for each in ("arguments", "owners", "plain-backends"))
    return ModuleCompile(row.text("method"), row.text("stands-for"), arguments, owners, row.text("chooses"), plain)


def _programs(file: Checked) -> tuple[Program, ...]:
    file.only("programs")
    programs = []
    for row in file.rows("programs"):
        row.only("name", "concept", "commands", "modules", "package", "classes")
        programs.append(
            Program(
                row.text("name"),
                row.text("concept"),
                tuple(tuple(command.split()) for command in row.list("commands")),
                tuple(row.list("modules")),
                row.text("package"),
                tuple(row.list("classes")),
            )
        )
    return tuple(programs)


def _forms(file: Checked) -> tuple[Form, ...]:
    forms = []
    for name, row in file.named("forms"):
        row.only("fact", "languages", "any", "all", "none", "several", "enabled", "paths", "says")
        sets = row.data.get("all", [])
        if not isinstance(sets, list):
            raise row.fail("'all' must be a list of lists")
        rows: Mapping[str, Any] = {str(at): each for at, each in enumerate(sets)}
        checked = Checked(row.path, dict(rows), f"{row.where}all ")
        forms.append(
            Form(
                name,
                row.text("fact", name),
                row.words("languages"),
                row.words("any"),
                tuple(checked.words(at) for at in rows),
                row.words("none"),
                row.words("several"),
                row.words("enabled"),
                row.words("paths"),
                tuple((key, _pattern(row, value)) for key, value in row.mapping("says").items()),
            )
        )
    return tuple(forms)
