"""Needles: bytes without which a file cannot hold anything that the rules of a run look for.

They are derived from the vocabulary and from what the active rules ask for, never written by hand. A file in whose
bytes no needle stands is not read, so a target that needs nothing reads nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import cached_property, lru_cache

from precpatch.vocabulary.words import (
    ANY,
    BOOLEAN,
    CHOICE,
    DTYPE,
    NUMBER,
    ModuleCompile,
    Program,
    Setting,
    Vocabulary,
)

_NORMAL = bytes(ord("_") if byte == ord("-") else byte for byte in bytes(range(256)).lower())
_WORDS = bytes(
    byte if chr(byte).isalnum() and byte < 128 else ord("_" if byte == ord("_") else " ") for byte in _NORMAL
)
_ESCAPED = re.compile(r"\\.|\[[^\]]*\]|\(\?.")
_STARS = frozenset("*?[")
_NEAR = 80
"""Between a key and the name that it is given stand at most so many bytes."""

_BEFORE = 300
"""So many bytes before the end of a match are looked at for its begin, where it may begin with one of several words."""

_PART = 4
"""A part of a word that is shorter stands in too many words for them to be remembered."""

_MOST_WORDS = 200_000
"""So many words of files are remembered."""

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


class _Held(dict[bytes, bool]):
    """Whether literals stand in normal bytes: each looked for once, and only where its part stands in a word."""

    def __init__(self, data: bytes, parts: set[bytes], part_of: Mapping[bytes, bytes]) -> None:
        super().__init__()
        self.data = data
        self.parts = parts
        self.part_of = part_of

    def __missing__(self, literal: bytes) -> bool:
        part = self.part_of[literal]
        found = self[literal] = (not part or part in self.parts) and (part == literal or literal in self.data)
        return found


class _Parts:
    """Which of some parts of words stand in the words of a text: most words are those of other files, and known."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = sorted({*parts} - {b""})
        self._seen: set[bytes] = set()
        self._holding: dict[bytes, list[bytes]] = {}

    def of(self, words: frozenset[bytes]) -> set[bytes]:
        """The parts that stand in one of the words."""
        new = words - self._seen
        if new:
            self._learn(new)
        return set().union(*map(self._holding.__getitem__, words & self._holding.keys()))

    def _learn(self, words: frozenset[bytes]) -> None:
        if len(self._seen) > _MOST_WORDS:
            self._seen.clear()
            self._holding.clear()
        self._seen |= words
        text = b" ".join(words)
        for part in self._parts:
            at = text.find(part)
            while at >= 0:
                end = text.find(b" ", at)
                end = end if end >= 0 else len(text)
                self._holding.setdefault(text[text.rfind(b" ", 0, at) + 1 : end], []).append(part)
                at = text.find(part, end)


@lru_cache(maxsize=1)
def _look_at(data: bytes) -> tuple[bytes, frozenset[bytes]]:
    """The normal bytes of a text, and the words in them."""
    return normal(data), frozenset(data.translate(_WORDS).split())


def _part_of(literal: bytes) -> bytes:
    """The longest part of a literal that stands within one word; empty where it has none."""
    longest = max(literal.translate(_WORDS).split(), key=len, default=b"")
    return longest if len(longest) >= _PART else b""


@dataclass(frozen=True)
class Needle:
    """What has to stand in normal bytes: one of ``literals``, and what ``regex`` describes, if there is one.

    Attributes:
        begins: bytes that each match begins with, where they are certain; ends: bytes that each match ends with.
        needs: bytes that no match is without.
        reach: the most bytes of a match, one of the literals among them; 0 where that is not certain.
    """

    literals: tuple[bytes, ...]
    regex: bytes = b""
    begins: bytes = b""
    ends: bytes = b""
    needs: tuple[bytes, ...] = ()
    reach: int = 0

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        return re.compile(self.regex)

    def spans(self, data: bytes, held: _Held) -> Iterator[tuple[int, int]]:
        """Where it matches, from left to right; bytes are looked for first, for that is the fastest search there is."""
        for each in self.needs:
            if not held[each]:
                return
        for literal in self.literals:
            if held[literal]:
                break
        else:
            return
        anchor = self.begins or self.ends
        if not anchor:
            yield from (match.span() for match in self._pattern.finditer(data))
            return
        at, done = data.find(anchor), 0
        while at >= 0:
            if not self.begins:
                match = self._pattern.search(data, max(done, at - _BEFORE), at + len(anchor) + 1)
            elif not self.reach or any(data.find(each, at, at + self.reach) >= 0 for each in self.literals):
                match = self._pattern.match(data, at)
            else:
                match = None
            if match is not None:
                yield match.span()
                done = match.end()
            at = data.find(anchor, max(done, at + 1))


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
        data, held = self._held_in(data)
        return any(True for _ in self._literals_in(held)) or any(True for _ in self._near_in(data, held))

    def places(self, data: bytes) -> Iterator[int]:
        """Where needles stand in the bytes, in any case: each at its first and its last byte, in no order."""
        data, held = self._held_in(data)
        yield from places_of(data, self._literals_in(held))
        for start, end in self._near_in(data, held):
            yield from (start, end - 1)

    def _held_in(self, data: bytes) -> tuple[bytes, _Held]:
        data, words = _look_at(data)
        return data, _Held(data, self._parts.of(words), self._part_of)

    def _literals_in(self, held: _Held) -> Iterator[bytes]:
        """The literals that stand in the bytes."""
        yield from held.parts & self._whole
        yield from filter(held.__getitem__, self._pieced)

    def _near_in(self, data: bytes, held: _Held) -> Iterator[tuple[int, int]]:
        """Where the needles that are more than bytes match."""
        for part in (b"", *(held.parts & self._gated.keys())):
            for needle in self._gated.get(part, ()):
                yield from needle.spans(data, held)

    @cached_property
    def _part_of(self) -> dict[bytes, bytes]:
        near = (each for needle in self.near for each in needle.literals + needle.needs)
        return {each: _part_of(each) for each in (*self.literals, *near)}

    @cached_property
    def _parts(self) -> _Parts:
        return _Parts(self._part_of.values())

    @cached_property
    def _whole(self) -> frozenset[bytes]:
        """The literals that are a part themselves."""
        return frozenset(each for each in self.literals if self._part_of[each] == each)

    @cached_property
    def _pieced(self) -> tuple[bytes, ...]:
        """The other literals."""
        return tuple(each for each in self.literals if each not in self._whole)

    @cached_property
    def _gated(self) -> dict[bytes, list[Needle]]:
        """The needles that are more than bytes, by a part that none of their matches is without."""
        gated: dict[bytes, list[Needle]] = {}
        for needle in self.near:
            certain = needle.needs if len(needle.literals) > 1 else needle.needs + needle.literals
            gated.setdefault(max((self._part_of[each] for each in certain), key=len, default=b""), []).append(needle)
        return gated

    def __or__(self, other: Needles) -> Needles:
        return Needles(_shortest((*self.literals, *other.literals)), tuple(dict.fromkeys((*self.near, *other.near))))


def places_of(data: bytes, literals: Iterable[bytes]) -> Iterator[int]:
    """Where each of some literals stands in the bytes, literal by literal."""
    for literal in literals:
        at = data.find(literal)
        while at >= 0:
            yield at
            at = data.find(literal, at + len(literal))


def needles_for(vocabulary: Vocabulary, wanted: Iterable[Wanted]) -> Needles:
    """The needles of all that is wanted."""
    known: dict[Wanted, list[Needle]] = vocabulary.derived.setdefault("wanted", {})
    found: list[Needle] = []
    for each in dict.fromkeys(wanted):
        if each not in known:
            known[each] = [_as_normal(needle) for needle in _needles(vocabulary, each)]
        found += known[each]
    shortest = _shortest({literal for needle in found if not needle.regex for literal in needle.literals})
    near = dict.fromkeys(needle for needle in found if needle.regex)
    return Needles(shortest, tuple(each for each in near if not _covered(each, shortest)))


def _as_normal(needle: Needle) -> Needle:
    return replace(needle, literals=tuple(map(normal, needle.literals)))


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
        plain = [key for key in self.wanted.keys or () if not set(key) & _STARS]
        if len(plain) == len(self.wanted.keys or ()):
            return plain
        return [each.name for each in self._asked if what in each.takes]

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
                regex = rb"(?:" + statement + rb"|" + call + rb")(?<!\w)" + name + rb"(?!\w)"
                literal = package.name.lower().encode()
                found.append(Needle((literal,), regex, ends=literal))
                found += [Needle((installed.encode(),)) for installed in package.installs]
        return found

    def _may_be(self, name: str) -> bool:
        """Whether a module of a package of this name can be what is wanted: ``triton.*`` wants triton."""
        return self._is_wanted(name) or any(
            _longest(glob).decode() in name.lower() or name.lower() in glob.lower() for glob in self.wanted.values or ()
        )

    def _switches(self) -> list[Needle]:
        found = [needle for setting in self._asked for needle in self._setting(setting)]
        for call in self.vocabulary.calls:
            if self._key is None or self._key.match(call):
                found.append(Needle(((f".{_last(call)}" if "." not in call else call).encode(),)))
                if "." in call:  # under another name of the module: `th.compile`
                    found += _imported(call)
        method = self.vocabulary.module_compile
        if method is not None and (self._key is None or self._key.match(method.stands_for)):
            found.append(_compiled(method))
        for program in self.vocabulary.programs:
            if (self._key is None or self._key.match(program.concept)) and self._is_wanted(program.name):
                found += _started(program)
        return found

    @cached_property
    def _asked(self) -> list[Setting]:
        """The settings with a key that is asked for."""
        keys = self.wanted.keys
        if keys is None:
            return list(self.vocabulary.all_settings)
        plain = {key.lower() for key in keys if not set(key) & _STARS}
        globs = _either(tuple(key for key in keys if set(key) & _STARS))
        return [
            setting
            for setting, names in _names_of(self.vocabulary)
            if not plain.isdisjoint(names)
            or (globs and any(map(globs.match, names)))
            or ("*" in setting.name and self._fits(setting))
        ]

    def _fits(self, setting: Setting) -> bool:
        """Whether a key that is asked for is one of a setting whose name has a star, or the other way round."""
        return any(_glob(setting.name.lower()).match(key.lower()) for key in self.wanted.keys or ())

    def _setting(self, setting: Setting) -> list[Needle]:
        takes = setting.takes & {BOOLEAN, NUMBER, CHOICE, ANY}
        found = []
        if self.wanted.values is None or "variable" in self.wanted.values:
            found += _taken(setting.name)
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


@lru_cache(maxsize=512)
def _glob(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))


def _names_of(vocabulary: Vocabulary) -> list[tuple[Setting, tuple[str, str]]]:
    """Every setting with the names that keys ask for it by: in full, and without the section."""
    found: list[tuple[Setting, tuple[str, str]]] | None = vocabulary.derived.get("names")
    if found is None:
        names = ((each, each.name.lower()) for each in vocabulary.all_settings)
        found = vocabulary.derived["names"] = [(each, (name, _last(name))) for each, name in names]
    return found


def _either(globs: tuple[str, ...] | None) -> re.Pattern[str] | None:
    return None if not globs else re.compile("|".join(translate(glob.lower()) for glob in globs))


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _longest(glob: str) -> bytes:
    """The longest run of plain characters in a glob, in lower case; nothing where it has none."""
    return max(re.findall(r"[A-Za-z0-9_/.-]+", glob), key=len, default="").lower().encode()


def _near(key: str, words: Iterable[str], whole: bool = True) -> Needle:
    """A key, as a ``whole`` word or as the start of one, with one of ``words`` near it; ``*`` in them is any end."""
    words = list(words)
    names = [normal(_longest(word) if "*" in word else word.encode()) for word in words]
    either = b"|".join(
        re.escape(name) + (rb"[^\s\"']*" if "*" in word else b"") for name, word in zip(names, words, strict=True)
    )
    start = (b"_" if whole else b"_?").join(map(re.escape, normal(_longest(key)).split(b"_")))
    between = rb"[\s\S]{0,%d}?" % _NEAR
    # The literal comes first, so that the search for it is the fast one; what must not stand before it comes after it.
    key_alone = start + rb"(?<![a-z0-9]" + start + rb")" if whole else start
    parts = normal(_longest(key)).split(b"_")
    regex = key_alone + between + rb"(?<![a-z0-9])(?:" + either + rb")(?!\w)"
    reach = len(b"_".join(parts)) + _NEAR + max(map(len, names), default=0)
    begins = b"_".join(parts) if whole else parts[0]
    return Needle(tuple(names), regex, begins=begins, needs=tuple(parts), reach=reach)


def _taken(name: str) -> list[Needle]:
    """A setting that takes a variable of a script or a template: ``dtype=$DTYPE``, ``--dtype "{{x}}"``."""
    key = normal(_longest(_last(name)))
    section = normal(name.rpartition(".")[0].encode())
    before = re.escape(section) + rb"[._]" if section else b""
    literals, taken = (section or key,), before + re.escape(key) + rb"(?:=|\s+)[\"']?"
    return [
        Needle(literals, taken + mark, begins=section or key, needs=(start, key))
        for start, mark in ((b"$", rb"\$"), (b"{{", rb"\{\{"))
    ]


def _imported(call: str) -> list[Needle]:
    """A function of a module by its bare name, in a file that imports the module under another one."""
    module, _, name = (each.encode() for each in call.rpartition("."))
    literals = (b"." + name, b"import " + name)
    as_other = rb"import(?<!\wimport)\s+%b\s+as\s" % re.escape(module)
    by_name = rb"from(?<!\wfrom)\s+%b\s+import\b[^\n]*\b%b\b" % (re.escape(module), name)
    return [
        Needle(literals, as_other, begins=b"import", needs=(module,)),
        Needle(literals, by_name, begins=b"from", needs=(module,)),
    ]


def _compiled(method: ModuleCompile) -> Needle:
    """The method of a module that compiles it, with one of its arguments or with none."""
    begin = normal(f".{method.method}(".encode())
    arguments = b"|".join(re.escape(normal(each.encode())) for each in sorted(method.arguments))
    return Needle((begin,), re.escape(begin) + rb"\s*(?:\)|(?:" + arguments + rb")\s*=)", begins=begin)


def _started(program: Program) -> list[Needle]:
    """What starts a program: a command, also as a list of words, a module that Python runs, or a class of it."""
    found = []
    for command in program.commands:
        words = tuple(normal(word.encode()) for word in command)
        regex = rb"[\s\"',\\]{1,40}".join(map(re.escape, words)) + rb"(?!\w)"
        found.append(Needle(words[:1], regex, begins=words[0], needs=words))
    for module in program.modules:
        name = normal(module.encode())
        regex = rb"_m[\s\"',\\]{1,40}" + re.escape(name)
        found.append(Needle((name,), regex, ends=name))
    package = normal(program.package.encode())
    for name in (normal(each.encode()) for each in program.classes):
        regex = name + rb"(?<![a-z0-9_]" + name + rb")(?:\(|\.from_|\s+as\s)"
        found.append(Needle((package,), regex, begins=name, needs=(package, name)))
    return found
