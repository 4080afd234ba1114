"""Needles: bytes without which a file cannot hold anything that the rules of a run look for.

They are derived from the vocabulary and from what the active rules ask for, never written by hand. A file in whose
bytes no needle stands is not read, so a target that needs nothing reads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property

from precpatch.vocabulary.words import ANY, BOOLEAN, CHOICE, DTYPE, NUMBER, Setting, Vocabulary

_NORMAL = bytes(ord("_") if byte == ord("-") else byte for byte in bytes(range(256)).lower())
_ESCAPED = re.compile(r"\\.|\[[^\]]*\]|\(\?.")
_NEAR = 80
"""Between a key and the name that it is given stand at most so many bytes."""

_LONG_STEM = 6
"""A name whose part before the digits is so long is told by that: it may be put together from two literals."""

_TELLING = 7
"""A key of at least so many characters says enough by itself; a shorter one only with a value near it."""


def normal(data: bytes) -> bytes:
    """Bytes as needles are looked for in them: in lower case, and with ``_`` for ``-``, as options have it."""
    return data.translate(_NORMAL)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one alternative of a rule asks for; None where it does not mind.

    Attributes:
        kinds: the kinds of mention.
        values: globs of canonical values.
        keys: globs of keys.
        needles: bytes that a fact of the place cannot be without.
    """

    kinds: tuple[str, ...] | None = None
    values: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    needles: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Needle:
    """One of ``literals`` has to stand in normal bytes, and ``pattern``, if there is one, has to match."""

    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes] | None = None

    def stands_in(self, data: bytes) -> bool:
        """Whether it is there."""
        if not any(literal in data for literal in self.literals):
            return False
        return self.pattern is None or self.pattern.search(data) is not None


@dataclass(frozen=True)
class Needles:
    """The needles of a run; without any, no file is read.

    Attributes:
        literals: any of these bytes, none of which holds another; all of them normal.
        near: needles that are more than bytes.
    """

    literals: tuple[bytes, ...] = ()
    near: tuple[Needle, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.literals or self.near)

    def stand_in(self, data: bytes) -> bool:
        """Whether a needle stands in the bytes, in any case."""
        data = normal(data)
        return any(literal in data for literal in self.literals) or any(map(_standing_in(data), self.near))

    def places(self, data: bytes) -> Iterator[int]:
        """Where needles stand in normal bytes: each at its first and its last byte, in no order."""
        for literal in self.literals:
            at = data.find(literal)
            while at >= 0:
                yield at
                at = data.find(literal, at + len(literal))
        for needle in self.near:
            if needle.pattern is not None and any(literal in data for literal in needle.literals):
                for match in needle.pattern.finditer(data):
                    yield from (match.start(), match.end() - 1)

    def __or__(self, other: Needles) -> Needles:
        return Needles(_shortest((*self.literals, *other.literals)), tuple(dict.fromkeys((*self.near, *other.near))))


def _standing_in(data: bytes) -> Callable[[Needle], bool]:
    return lambda needle: needle.stands_in(data)


def needles_for(vocabulary: Vocabulary, wanted: Iterable[Wanted]) -> Needles:
    """The needles of all that is wanted."""
    found = [needle for each in dict.fromkeys(wanted) for needle in _needles(vocabulary, each)]
    found = [Needle(tuple(map(normal, needle.literals)), needle.pattern) for needle in found]
    plain = {literal for needle in found if needle.pattern is None for literal in needle.literals}
    shortest = _shortest(plain)
    near = dict.fromkeys(needle for needle in found if needle.pattern is not None)
    return Needles(shortest, tuple(each for each in near if not _covered(each, shortest)))


def needles_of_values(vocabulary: Vocabulary) -> Needles:
    """The needles of every name of a dtype or an attention implementation that is not quiet, and of every setting."""
    found: Needles | None = vocabulary.derived.get("values")
    if found is None:
        found = needles_for(vocabulary, [Wanted(kinds=("dtype", "attention", "import", "switch"))])
        vocabulary.derived["values"] = found
    return found


def needles_of_words(vocabulary: Vocabulary) -> Needles:
    """The needles of every word, and of the keys that only mean something under another: ``enabled`` under ``bf16``."""
    found: Needles | None = vocabulary.derived.get("words")
    if found is None:
        under = [name.rpartition(".") for name in vocabulary.settings if "." in name]
        near = Needles(near=tuple(_near(section, (key,), whole=False) for section, _, key in under))
        found = vocabulary.derived["words"] = needles_of_values(vocabulary) | near
    return found


def _shortest(literals: Iterable[bytes]) -> tuple[bytes, ...]:
    """The literals without those that hold another one."""
    kept: list[bytes] = []
    for literal in sorted(set(literals), key=lambda each: (len(each), each)):
        if not any(other in literal for other in kept):
            kept.append(literal)
    return tuple(kept)


def _covered(needle: Needle, literals: Iterable[bytes]) -> bool:
    """Whether each literal of a needle holds one that is enough by itself."""
    return all(any(other in literal for other in literals) for literal in needle.literals)


def _needles(vocabulary: Vocabulary, wanted: Wanted) -> list[Needle]:
    if wanted.needles:
        return [Needle((needle,)) for needle in wanted.needles]
    finder = _Finder(vocabulary, wanted)
    if wanted.kinds is not None:
        return [needle for kind in wanted.kinds for needle in finder.of_kind(kind)]
    if wanted.keys is not None:
        return finder.of_keys()
    return [
        *finder.of_kind("dtype"),
        *finder.of_kind("attention"),
        *(finder.of_kind("switch") if wanted.values else []),
    ]


class _Finder:
    """The needles of one alternative."""

    def __init__(self, vocabulary: Vocabulary, wanted: Wanted) -> None:
        self.vocabulary = vocabulary
        self.wanted = wanted

    @cached_property
    def _value(self) -> re.Pattern[str] | None:
        return _either(self.wanted.values)

    @cached_property
    def _key(self) -> re.Pattern[str] | None:
        return _either(self.wanted.keys)

    def _is_wanted(self, value: str) -> bool:
        return self._value is None or self._value.match(value.lower()) is not None

    def of_kind(self, kind: str) -> list[Needle]:
        """The needles of one kind of mention."""
        finders = {"dtype": self._dtypes, "attention": self._attention, "import": self._imports}
        return finders.get(kind, self._switches)()

    def of_keys(self) -> list[Needle]:
        """The needles of keys alone: whatever stands under them."""
        return [*self._dtypes(), *self._attention(), *self._switches()]

    def _dtypes(self) -> list[Needle]:
        found = []
        for word, (value, _) in self.vocabulary.dtypes.items():
            if not self._is_wanted(value) or (self._value is None and value in self.vocabulary.quiet):
                continue
            if word not in self.vocabulary.ordinary:
                stem = word.rstrip("0123456789")
                found.append(Needle(((stem if len(stem) >= _LONG_STEM else word).encode(),)))
            elif self._value is not None and self.wanted.keys is not None:
                found += [_near(_last(key), (word,)) for key in self._keys_taking(DTYPE)]
        found += [
            Needle((f".{method}".encode(),))
            for method, value in self.vocabulary.methods.items()
            if self._is_wanted(value) and method in self.vocabulary.ordinary
        ]
        return found

    def _keys_taking(self, what: str) -> list[str]:
        """The keys that are asked for: those without a star as they are, else those of the settings that fit."""
        plain = [key for key in self.wanted.keys or () if not set(key) & set("*?[")]
        if len(plain) == len(self.wanted.keys or ()):
            return plain
        return [each.name for each in self.vocabulary.all_settings if what in each.takes and self._asks_for(each)]

    def _attention(self) -> list[Needle]:
        found = []
        for word, value in self.vocabulary.attention.items():
            if self._is_wanted(value) and not (self._value is None and value in self.vocabulary.quiet):
                found.append(Needle((word.encode(),)))
        for value, pattern in self.vocabulary.attention_patterns:
            if self._is_wanted(value):
                found.append(Needle((_longest(_ESCAPED.sub(" ", pattern)),)))
        return found

    def _imports(self) -> list[Needle]:
        found = []
        for package in self.vocabulary.packages:
            if self._value is None or any(map(self._may_be, (package.name, *(self.wanted.values or ())))):
                name = re.escape(package.name.lower()).encode()
                statement = rb"\b(?:import|from)\s[\s\w.,()]{0,200}?"
                call = rb"(?:\bimport_module|__import__)\(\s*[\"'fr]*"
                pattern = re.compile(rb"(?:" + statement + rb"|" + call + rb")(?<!\w)" + name + rb"(?!\w)")
                found.append(Needle((package.name.lower().encode(),), pattern))
                found += [Needle((installed.encode(),)) for installed in package.installs]
        return found

    def _may_be(self, name: str) -> bool:
        """Whether a module of a package of this name can be what is wanted: ``triton.*`` wants triton."""
        return self._is_wanted(name) or any(
            _longest(glob).decode() in name.lower() or name.lower() in glob.lower() for glob in self.wanted.values or ()
        )

    def _switches(self) -> list[Needle]:
        found = [
            needle
            for setting in self.vocabulary.all_settings
            if self._asks_for(setting)
            for needle in self._setting(setting)
        ]
        for call in self.vocabulary.calls:
            if self._key is None or self._key.match(call):
                found.append(Needle(((f".{_last(call)}" if "." not in call else call).encode(),)))
                if "." in call:  # under another name of the module: `th.compile`
                    found.append(_imported(call))
        return found

    def _asks_for(self, setting: Setting) -> bool:
        names = {setting.name.lower(), _last(setting.name).lower()}
        return self._key is None or any(self._key.match(name) for name in names) or self._fits(setting)

    def _fits(self, setting: Setting) -> bool:
        """Whether a key that is asked for is one of a setting whose name has a star, or the other way round."""
        if "*" not in setting.name:
            return False
        pattern = re.compile(translate(setting.name.lower()))
        return any(pattern.match(key.lower()) for key in self.wanted.keys or ())

    def _setting(self, setting: Setting) -> list[Needle]:
        takes = setting.takes & {BOOLEAN, NUMBER, CHOICE, ANY}
        found = []
        if self.wanted.values is None or "variable" in self.wanted.values:
            found.append(_taken(setting.name))
            if self.wanted.values == ("variable",):
                return found
        if takes & {BOOLEAN, NUMBER, ANY}:
            found.append(Needle((_longest(setting.name.partition(".")[0]),)))
        elif CHOICE in takes:
            choices = tuple(sorted(choice for choice in setting.choices if self._is_wanted(choice)))
            key = _last(setting.name)
            if choices and "." not in setting.name and len(key) >= _TELLING:
                found.append(Needle((_longest(key),)))
            elif choices:
                found.append(_near(key, choices))
            if "." in setting.name and CHOICE in takes:  # what it is set to may stand elsewhere, under a name
                found.append(Needle((setting.name.lower().encode(),)))
        return found


def _either(globs: tuple[str, ...] | None) -> re.Pattern[str] | None:
    return None if globs is None else re.compile("|".join(translate(glob.lower()) for glob in globs))


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _longest(glob: str) -> bytes:
    """The longest run of plain characters in a glob, in lower case; nothing where it has none."""
    return max(re.findall(r"[A-Za-z0-9_/.-]+", glob), key=len, default="").lower().encode()


def _near(key: str, words: Iterable[str], whole: bool = True) -> Needle:
    """A key, as a ``whole`` word or as the start of one, with one of ``words`` near it."""
    names = [normal(word.encode()) for word in words]
    either = b"|".join(map(re.escape, names))
    start = (b"_" if whole else b"_?").join(map(re.escape, normal(_longest(key)).split(b"_")))
    between = rb"[\s\S]{0,%d}?" % _NEAR
    # The literal comes first, so that the search for it is the fast one; what must not stand before it comes after it.
    key_alone = start + rb"(?<![a-z0-9]" + start + rb")" if whole else start
    return Needle(tuple(names), re.compile(key_alone + between + rb"(?<![a-z0-9])(?:" + either + rb")(?!\w)"))


def _taken(name: str) -> Needle:
    """A setting that takes a variable of a script: ``dtype=$DTYPE``, ``--dtype "${1}"``."""
    key = normal(_longest(_last(name)))
    section = normal(name.rpartition(".")[0].encode())
    before = re.escape(section) + rb"[._]" if section else b""  # plain bytes first: the search for them is the fast one
    return Needle((section or key,), re.compile(before + re.escape(key) + rb"(?:=|\s+)[\"']?\$"))


def _imported(call: str) -> Needle:
    """A function of a module by its bare name, in a file that imports the module under another one."""
    module, _, name = call.rpartition(".")
    pattern = re.compile(
        rb"\bimport\s+%b\s+as\s|\bfrom\s+%b\s+import\b[^\n]*\b%b\b"
        % ((re.escape(module.encode()),) * 2 + (name.encode(),))
    )
    return Needle((f".{name}".encode(), f"import {name}".encode()), pattern)
