"""The types of the vocabulary, and the questions that readers, the teller and the needles ask it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

BOOLEAN, CHOICE, NUMBER, DTYPE, ATTENTION, ANY = "boolean", "choice", "number", "dtype", "attention", "any"

TAKES = (BOOLEAN, CHOICE, NUMBER, DTYPE, ATTENTION, ANY)
"""What a setting can take: true or false, one of some names, a number of which more than 1 matters, a dtype, an
attention implementation, or any text."""

TYPES = ("tensor", "storage")
"""The spellings that are a type of torch or of torch.cuda, which is written in one case only."""

_PLAIN = ("long", "short")
_MAX_WORD = 200
"""A word of more characters than this is no name."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_GLOB = re.compile(r"[*?\[]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting by one of its names.

    Attributes:
        name: as a config has it; "a.b" is the key b directly under a, and ``*`` stands for any characters.
        concept: what it decides, one of the files in ``vocabulary/settings``.
        takes: some of ``TAKES``.
        choices: the names that are told, of one that takes a choice; lower case, ``*`` stands for any part of a word.
        stacks: the frameworks that have it under this name.
        variable: whether it is an environment variable, which only a shell, a config of an environment or a job sets.
        unresolved: whether it is told even where its value is known at run time only.
        several: whether it takes a list, in which each item is told.
    """

    name: str
    concept: str
    takes: frozenset[str]
    choices: frozenset[str] = frozenset()
    stacks: tuple[str, ...] = ()
    variable: bool = False
    unresolved: bool = False
    several: bool = False

    def with_more(self, other: Setting) -> Setting:
        """This setting with what ``other``, of the same name, takes as well."""
        return Setting(
            self.name,
            self.concept,
            self.takes | other.takes,
            self.choices | other.choices,
            tuple(dict.fromkeys((*self.stacks, *other.stacks))),
            self.variable or other.variable,
            self.unresolved or other.unresolved,
            self.several or other.several,
        )

    def tells(self, form: str, word: str) -> bool:
        """Whether ``word``, written as a boolean, a number or a name (``form``), says something of this setting."""
        if form == BOOLEAN and BOOLEAN in self.takes:
            return True
        if NUMBER in self.takes and _NUMBER.fullmatch(word) and int(word) > 1:
            return True
        return CHOICE in self.takes and self._chooses(word.lower())

    def _chooses(self, word: str) -> bool:
        """Whether a word is one of the choices."""
        return word in self.choices or (len(word) <= _MAX_WORD and _globs(self.choices).fullmatch(word) is not None)


@dataclass(frozen=True, slots=True)
class Device:
    """A device that is not an NVIDIA GPU, and the words that name it; see ``vocabulary/devices.yaml``."""

    name: str
    words: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    variables: tuple[str, ...] = ()
    paths: bool = True


@dataclass(frozen=True, slots=True)
class Package:
    """A package with kernels: the name that it is imported by, and those that it is installed by."""

    name: str
    installs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleCompile:
    """A method that compiles what it is called on; see ``vocabulary/packages.yaml``.

    Attributes:
        method: its name; stands_for: the call of ``calls`` that it is told as.
        arguments: what it takes by name; owners: words in the names of what it is called on.
        chooses: the argument that names a backend; plain_backends: those that need no compiler for the GPU.
    """

    method: str
    stands_for: str
    arguments: frozenset[str]
    owners: frozenset[str]
    chooses: str
    plain_backends: frozenset[str]


@dataclass(frozen=True, slots=True)
class Program:
    """A program that is told where it is started; see ``vocabulary/programs.yaml``.

    Attributes:
        name: the value that is told; concept: its key.
        commands: the first words of each command that starts it.
        modules: what ``python -m`` runs.
        package, classes: a class of the package starts it where it is called.
    """

    name: str
    concept: str
    commands: tuple[tuple[str, ...], ...] = ()
    modules: tuple[str, ...] = ()
    package: str = ""
    classes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What starts it, in words."""
        commands = map(" ".join, self.commands)
        return (*commands, *self.modules, *(f"{self.package}.{each}" for each in self.classes))


@dataclass(frozen=True, slots=True)
class Form:
    """What makes a JSON or YAML file a config of some kind; see ``vocabulary/forms.yaml``.

    Attributes:
        fact: what a mention in such a file says of it.
    """

    name: str
    fact: str
    languages: frozenset[str]
    any: frozenset[str] = frozenset()
    all: tuple[frozenset[str], ...] = ()
    none: frozenset[str] = frozenset()
    several: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    says: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def fits(self, keys: frozenset[str] | set[str]) -> bool:
        """Whether a mapping with these keys is of the form; a key in a section counts as "section.key"."""
        if not self.none.isdisjoint(keys):
            return False
        if not self.any.isdisjoint(keys) or any(each <= keys for each in self.all) or len(self.several & keys) > 1:
            return True
        return any(f"{section}.enabled" in keys for section in self.enabled)

    def fits_path(self, path: str) -> bool:
        """Whether a word of a path says that the file is of the form."""
        return not self.paths.isdisjoint(_words_of(path))

    def fits_value(self, key: str | None, value: str) -> bool:
        """Whether a setting anywhere in a file says that it is of the form."""
        return any(key == name and pattern.fullmatch(value) for name, pattern in self.says)


@dataclass(frozen=True)
class Vocabulary:
    """What words mean. Every question takes words as they are written and does not mind their case.

    Attributes:
        dtypes: name in lower case -> canonical dtype and spelling.
        spellings: (canonical dtype, spelling) -> the name.
        attention: name in lower case -> canonical attention implementation.
        attention_patterns: (canonical implementation, pattern of longer names in lower case).
        flash: the canonical implementations that are FlashAttention.
        flash_aliases: other names of it that tests ask for.
        storage_keys: keys of the entry that says how a tensor stands in a file; its dtype is that of the bytes there.
        storage_formats: parts of the names of enums that say how numbers stand in a file.
        quiet: canonical values that need nothing: only told by readers that go through a whole file anyway.
        ordinary: names that are ordinary words as well.
        settings: name in lower case -> the setting; names with ``*`` are kept apart, in ``globs``.
        globs: the settings whose name holds ``*``.
        devices, packages, forms: what the files of these names hold.
        padding: modules with pure-PyTorch helpers for packing.
        installers: programs that install packages.
        permissive_checks: functions that say yes to bfloat16 where it is emulated.
        bf16_operators: operators that take bfloat16 and nothing else.
        calls: dotted name of a function or method whose call is told -> its concept.
        module_compile: the method that compiles a module, if the vocabulary has one.
        programs: what is told where it is started.
        hints: concept -> parts of identifiers that ask for it.
        derived: what was derived from the words, kept for the next one who asks.
    """

    dtypes: Mapping[str, tuple[str, str]]
    spellings: Mapping[tuple[str, str], str]
    attention: Mapping[str, str]
    attention_patterns: tuple[tuple[str, str], ...]
    flash: frozenset[str]
    flash_aliases: frozenset[str]
    storage_keys: frozenset[str]
    storage_formats: frozenset[str]
    quiet: frozenset[str]
    ordinary: frozenset[str]
    settings: Mapping[str, Setting]
    globs: tuple[Setting, ...]
    devices: tuple[Device, ...]
    packages: tuple[Package, ...]
    forms: tuple[Form, ...]
    padding: frozenset[str]
    installers: frozenset[str]
    permissive_checks: frozenset[str]
    bf16_operators: frozenset[str]
    calls: Mapping[str, str]
    programs: tuple[Program, ...]
    hints: Mapping[str, frozenset[str]]
    module_compile: ModuleCompile | None = None
    derived: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    _found: dict[tuple[str, str | None], Setting | None] = field(default_factory=dict, repr=False, compare=False)
    _named: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    # --- values ------------------------------------------------------------------------------------------------

    def dtype_of(self, word: str) -> tuple[str, str] | None:
        """Canonical dtype and spelling of a name in a string or a scalar; "torch.bfloat16" is spelt ``torch-name``."""
        lowered = word.lower()
        if lowered.startswith(("torch.", "cuda.")):
            found = self.dtypes.get(lowered.removeprefix("torch.").removeprefix("cuda."))
            if found is None or found[1] in TYPES:
                return found
            return (found[0], "torch-name") if lowered[0] == "t" and found[0] in self.torch_dtypes else None
        return self.dtypes.get(lowered)

    def attention_of(self, word: str) -> str | None:
        """Canonical attention implementation of a name in a string or a scalar."""
        lowered = word.lower()
        found = self.attention.get(lowered)
        if found or len(lowered) > _MAX_WORD or not self._longer_attention.fullmatch(lowered):
            return found
        return next(value for value, pattern in self.attention_patterns if re.fullmatch(pattern, lowered))

    def is_looked_for(self, word: str) -> bool:
        """Whether a word names a dtype or an implementation that is not quiet, and is no ordinary word."""
        dtype = self.dtype_of(word)
        value = dtype[0] if dtype else self.attention_of(word)
        return value is not None and value not in self.quiet and word.lower() not in self.ordinary

    def begins_with_attention(self, word: str) -> bool:
        """Whether a word is an attention implementation, or begins with the name of one."""
        return word.lower().startswith((*self.attention, *self.flash_aliases)) or self.attention_of(word) is not None

    def is_flash_kernel(self, name: str) -> bool:
        """Whether a function is FlashAttention by its name, such as ``flash_attn_varlen_func``."""
        lowered = name.lower()
        return any(alias in lowered for alias in self._long_flash_aliases)

    @cached_property
    def _long_flash_aliases(self) -> tuple[str, ...]:
        """The names of FlashAttention that nothing else is called by: "flash" alone may be the memory of a device."""
        return tuple(sorted(alias for alias in self.flash_aliases if alias.startswith("flash") and len(alias) > 6))

    def spell(self, value: str, spelling: str, like: str = "") -> str:
        """The canonical dtype ``value`` written in the family ``spelling``; upper case where ``like`` is.

        A type keeps the module that stands before it in ``like``.
        """
        word = f"torch.{value}" if spelling == "torch-name" else self.spellings.get((value, spelling), value)
        if spelling in TYPES:
            return like[: like.rfind(".") + 1] + word
        return word.upper() if like.isupper() else word

    @cached_property
    def torch_dtypes(self) -> Mapping[str, str]:
        """Attribute of the torch module -> the canonical dtype that it is."""
        return {name: value for name, (value, how) in self.dtypes.items() if how == "long" and value != "auto"}

    @cached_property
    def types(self) -> Mapping[str, str]:
        """Type of a tensor or a storage, an attribute of torch and torch.cuda -> its dtype, of those not quiet."""
        return {
            word: value for (value, how), word in self.spellings.items() if how in TYPES and value not in self.quiet
        }

    @cached_property
    def half_stems(self) -> frozenset[str]:
        """How the names of bfloat16 begin, before their digits."""
        return frozenset(
            name.rstrip("0123456789")
            for name, (value, how) in self.dtypes.items()
            if value == "bfloat16" and how in _PLAIN
        )

    @cached_property
    def methods(self) -> Mapping[str, str]:
        """Cast method of tensors and modules -> the dtype it casts to, of dtypes that are not quiet."""
        return {
            word: value for (value, how), word in self.spellings.items() if how == "method" and value not in self.quiet
        }

    @cached_property
    def canonical_dtypes(self) -> frozenset[str]:
        """Every canonical dtype."""
        return frozenset(value for value, _ in self.dtypes.values())

    @cached_property
    def canonical_attention(self) -> frozenset[str]:
        """Every canonical attention implementation."""
        return frozenset(self.attention.values())

    @cached_property
    def _longer_attention(self) -> re.Pattern[str]:
        patterns = [f"(?:{pattern})" for _, pattern in self.attention_patterns]
        return re.compile("|".join(patterns) or r"(?!)")

    @cached_property
    def names(self) -> re.Pattern[str]:
        """A value's name as a whole word in running text, in any case; ordinary words only after ``torch.``."""
        plain = sorted({*self.dtypes, *self.attention} - self.ordinary, reverse=True)
        ordinary = sorted(self.ordinary & self.torch_dtypes.keys(), reverse=True)
        longer = [pattern for _, pattern in self.attention_patterns]
        words = (rf"torch\.(?:{_either(ordinary)})", rf"(?:torch\.)?(?:{_either(plain)})", *longer)
        return re.compile(rf"(?<![^\W_])(?:{'|'.join(words)})(?![^\W_])", re.IGNORECASE)

    def names_in(self, text: str) -> Iterator[re.Match[str]]:
        """Every place where a value's name stands as a whole word in running text."""
        lowered = text.lower()
        return self.names.finditer(text) if any(word in lowered for word in self._value_words) else iter(())

    @cached_property
    def _value_words(self) -> tuple[str, ...]:
        """A text without any of these holds no name of a value."""
        plain = {*self.dtypes, *self.attention} - self.ordinary
        parts = [max(re.findall(r"[a-z0-9_/-]+", pattern), key=len) for _, pattern in self.attention_patterns]
        ordinary = [f"torch.{word}" for word in self.ordinary & self.torch_dtypes.keys()]
        return tuple(sorted({*plain, *parts, *ordinary}, key=len))

    def named_in(self, identifier: str, *values: str) -> bool:
        """Whether an identifier names one of the dtypes as a part of its own: ``load_bf16``, ``BF16_BYTES``."""
        parts = identifier.lower().split("_")
        return any((found := self.dtypes.get(part)) and found[0] in values for part in parts)

    # --- settings ----------------------------------------------------------------------------------------------

    def setting(self, key: str | None, above: str | None = None) -> Setting | None:
        """The setting of a key that stands under the key ``above``; the longer name wins."""
        if not key or len(key) > _MAX_WORD:
            return None
        asked = (key, above)
        if asked not in self._found:
            if len(self._found) > 20_000:
                self._found.clear()
            self._found[asked] = self._look_up(key.lower(), above.lower() if above else None)
        return self._found[asked]

    def _look_up(self, key: str, above: str | None) -> Setting | None:
        found = self.settings.get(f"{above}.{key}") if above else None
        found = found or self.settings.get(key)
        for pattern, setting in self._glob_patterns:
            if pattern.match(key):
                found = found.with_more(setting) if found else setting
        return found

    @cached_property
    def _glob_patterns(self) -> tuple[tuple[re.Pattern[str], Setting], ...]:
        return tuple((re.compile(translate(each.name.lower())), each) for each in self.globs)

    @cached_property
    def qualified(self) -> frozenset[str]:
        """The last parts of the names that need the key above them: ``enabled``, ``name``."""
        return frozenset(name.rpartition(".")[2] for name in self.settings if "." in name)

    def hints_at(self, identifier: str, *concepts: str) -> bool:
        """Whether an identifier asks for one of these concepts by a part of its name."""
        lowered = identifier.lower()
        return any(hint in lowered for concept in concepts for hint in self.hints.get(concept, ()))

    @property
    def all_settings(self) -> tuple[Setting, ...]:
        """Every setting, those with ``*`` in their name last."""
        return (*self.settings.values(), *self.globs)

    def is_of(self, identifier: str, *concepts: str) -> bool:
        """Whether an identifier is the name of a setting of one of these concepts."""
        found = self.setting(identifier)
        return found is not None and found.concept in concepts

    # --- devices and packages ----------------------------------------------------------------------------------

    def names_other_device(self, text: str) -> bool:
        """Whether an identifier or a test names a device that is not an NVIDIA GPU as a word of its own."""
        if text not in self._named:
            if len(self._named) > 20_000:
                self._named.clear()
            self._named[text] = not self.device_words.isdisjoint(_words_of(text))
        return self._named[text]

    def is_path_of_other_device(self, path: str) -> bool:
        """Whether a path says that a file is for such a device."""
        return not self._path_words.isdisjoint(_words_of(path))

    def is_other_device(self, value: str) -> bool:
        """Whether ``device=value`` chooses such a device: ``npu``, ``npu:0``."""
        word = value.lower().partition(":")[0]
        return word in self.device_words or any(word in device.values for device in self.devices)

    @cached_property
    def device_words(self) -> frozenset[str]:
        """Every word that names such a device, lower case."""
        return frozenset().union(*(device.words for device in self.devices))

    @cached_property
    def _path_words(self) -> frozenset[str]:
        return frozenset().union(*(device.words for device in self.devices if device.paths))

    @cached_property
    def device_packages(self) -> frozenset[str]:
        """The packages that only import on such a device."""
        return frozenset().union(*(device.packages for device in self.devices))

    @cached_property
    def device_variables(self) -> re.Pattern[str]:
        """The names of the environment variables of such a device."""
        globs = [glob for device in self.devices for glob in device.variables]
        return re.compile("|".join(map(translate, globs)) or r"(?!)")

    def package_of(self, module: str) -> Package | None:
        """The package that a module belongs to, also as a part of another: ``vllm.vllm_flash_attn.flash_attn``."""
        parts = module.split(".")
        return next((package for package in self.packages if package.name in parts), None)

    @cached_property
    def requirement(self) -> re.Pattern[str]:
        """The name of a package in a requirement such as ``flash-attn==2.8.3``, in any case."""
        names = sorted({name for package in self.packages for name in package.installs}, reverse=True)
        return re.compile(_either(names) if names else r"(?!)", re.IGNORECASE)

    def requirements_in(self, text: str) -> Iterator[re.Match[str]]:
        """Every place where the name of a package stands as a requirement has it."""
        lowered = text.lower()
        known = any(name in lowered for package in self.packages for name in package.installs)
        return self.requirement.finditer(text) if known else iter(())

    def installed(self, requirement: str) -> Package | None:
        """The package that a requirement names."""
        match = self.requirement.search(requirement)
        word = match[0].lower() if match else None
        return next((package for package in self.packages if word in package.installs), None)

    # --- programs ----------------------------------------------------------------------------------------------

    def started_by(self, words: Sequence[str], at: int) -> tuple[Program, int] | None:
        """The program that a command starts by the words from ``at`` on, and how many of them say so."""
        if at and words[at - 1] == "-m" and (program := self._modules.get(words[at])):
            return program, 1
        for command, program in self._commands.get(words[at].rpartition("/")[2], ()):
            if list(words[at + 1 : at + len(command)]) == list(command[1:]):
                return program, len(command)
        return None

    def may_start(self, word: str) -> bool:
        """Whether a command that starts a program may begin with this word, or with ``-m`` and it."""
        return word in self._modules or word.rpartition("/")[2] in self._commands

    @cached_property
    def _modules(self) -> Mapping[str, Program]:
        return {module: program for program in self.programs for module in program.modules}

    @cached_property
    def _commands(self) -> Mapping[str, list[tuple[tuple[str, ...], Program]]]:
        found: dict[str, list[tuple[tuple[str, ...], Program]]] = {}
        for program in self.programs:
            for command in program.commands:
                found.setdefault(command[0], []).append((command, program))
        return found

    def started_by_call(self, name: str) -> Program | None:
        """The program that a call of this dotted name starts: ``vllm.LLM``, ``vllm.AsyncLLM.from_vllm_config``."""
        parts = name.split(".")
        if len(parts) > 2 and parts[-1].startswith("from_"):
            parts.pop()
        return next((each for each in self._classes.get(parts[-1], ()) if each.package in parts[:-1]), None)

    @cached_property
    def _classes(self) -> Mapping[str, list[Program]]:
        found: dict[str, list[Program]] = {}
        for program in self.programs:
            for name in program.classes:
                found.setdefault(name, []).append(program)
        return found

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        commands = [
            r"(?:[ \t\\]|\r?\n)+".join(map(re.escape, command)) for each in self.programs for command in each.commands
        ]
        modules = [re.escape(module) for each in self.programs for module in each.modules]
        return re.compile(rf"(?<![\w.-])(?:{'|'.join([*commands, *modules]) or '(?!)'})(?![\w.-])")

    def starts_in(self, text: str) -> Iterator[re.Match[str]]:
        """Every place where the words of a command that starts a program may begin."""
        known = any(name in text for name in self._first_words)
        return self._starts.finditer(text) if known else iter(())

    @cached_property
    def _first_words(self) -> tuple[str, ...]:
        """A text without any of these starts no program."""
        return (*self._commands, *self._modules)

    # --- words that join ---------------------------------------------------------------------------------------

    def joined(
        self,
        settings: Iterable[Setting] = (),
        packages: Iterable[Package] = (),
        dtypes: Iterable[str] = (),
        attention: Iterable[str] = (),
    ) -> Vocabulary:
        """This vocabulary with more words; what it knows already stays as it is and takes more."""
        from dataclasses import replace

        known, globs = dict(self.settings), list(self.globs)
        for setting in settings:
            if _GLOB.search(setting.name):
                globs.append(setting)
            else:
                name = setting.name.lower()
                known[name] = known[name].with_more(setting) if name in known else setting
        more = [package for package in packages if all(package.name != each.name for each in self.packages)]
        return replace(
            self,
            settings=known,
            globs=tuple(globs),
            packages=(*self.packages, *more),
            dtypes={**{name.lower(): (name, "long") for name in dtypes}, **self.dtypes},
            attention={**{name.lower(): name for name in attention}, **self.attention},
            derived={},
            _found={},
            _named={},
        )


@lru_cache(maxsize=256)
def _globs(choices: frozenset[str]) -> re.Pattern[str]:
    """What the choices with ``*`` stand for: single words without an interpolation or a variable."""
    patterns = [r"[^\s$]*".join(map(re.escape, choice.split("*"))) for choice in sorted(choices) if "*" in choice]
    return re.compile("|".join(patterns) or r"(?!)")


def _words_of(text: str) -> set[str]:
    """The words of an identifier, a path or a test in lower case, and each two that stand together: ``MindSpeed``."""
    parts = [part.lower() for part in _PARTS.findall(text)]
    return {*parts, *(first + second for first, second in pairwise(parts))}


def _either(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, words))
