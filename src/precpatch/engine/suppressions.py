"""Suppressions: comments in a file that keep a place as it is, ``# precpatch: ignore`` and its kin.

``ignore`` on a line of a mention suppresses every rule there, ``ignore[dtype-value, attention-*]`` those that it
names, by id or glob. ``ignore-file``, on a line of its own, does the same for the whole file. In Python only a real
comment counts, not text in a string that looks like one.
"""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from precpatch.engine.finding import REPORT, Finding
from precpatch.engine.rule import Rule
from precpatch.languages.mention import Mention, place
from precpatch.languages.source import SourceFile

UNKNOWN, UNUSED = "suppression-unknown", "suppression-unused"
"""The ids under which a suppression is told that names no rule, and one that suppresses nothing."""

_SIGN = "precpatch:"
_DIRECTIVE = re.compile(
    r"#[^\S\r\n]*precpatch:[^\S\r\n]*(?P<word>[A-Za-z][\w-]*)(?:\[(?P<names>[^\]\r\n]*)(?P<end>\])?)?"
)
_WORDS = ("ignore", "ignore-file")
_NEAR = 0.75
_MOST_HINTS = 20
_MOST_SHOWN = 3
_SPOKEN_OF = frozenset({"comment", "docstring", "key", "message", "text"})
"""Roles of words that decide nothing, and that not every run lists."""

Span = tuple[int, int]
"""Index of the first character and after the last."""


@dataclass
class _Scope:
    """What the comments on one line, or those for the whole file, suppress there.

    Attributes:
        everything: the comment that suppresses every rule, if there is one.
        names: ids and globs of the rules that are suppressed, each with its comment.
        used: whether something was suppressed by ``everything``, and the names by which something was.
    """

    everything: Span | None = None
    names: dict[str, Span] = field(default_factory=dict)
    used: set[str | None] = field(default_factory=set)
    _known: dict[str, bool] = field(default_factory=dict)

    def covers(self, rule: str) -> bool:
        """Whether a rule is suppressed here, which is noted."""
        if rule not in self._known:
            fitting = {name for name in self.names if name == rule or (_is_glob(name) and fnmatchcase(rule, name))}
            self.used |= fitting
            self._known[rule] = bool(fitting) or self.everything is not None
        if self.everything is not None:
            self.used.add(None)
        return self._known[rule]


class Suppressions:
    """The suppressions of one file, looked up once.

    Attributes:
        source: the file.
    """

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self._file = _Scope()
        self._by_line: dict[int, _Scope] = {}
        self._problems: list[tuple[Span, str]] = []
        for match in _directives(source) if _SIGN in source.text else ():
            self._take(match)
        self._lines = sorted(self._by_line)

    def _take(self, match: re.Match[str]) -> None:
        """Note what one comment says."""
        word, span = match["word"], match.span()
        if word not in _WORDS:
            near = get_close_matches(word, _WORDS, 1, _NEAR)
            if near:
                self._problems.append((span, f"unknown word {word!r}; did you mean {near[0]!r}?"))
            return
        names = None if match["names"] is None else match["names"].replace(",", " ").split()
        line, column = self.source.position(match.start())
        if names is not None and (match["end"] is None or not names):
            problem = "the list of rules is not closed" if match["end"] is None else "the list of rules is empty"
            self._problems.append((span, problem))
        elif word == "ignore":
            _add(self._by_line.setdefault(line, _Scope()), names, span)
        elif self.source.line_text(line)[: column - 1].strip():
            self._problems.append((span, "ignore-file only counts on a line of its own"))
        else:
            _add(self._file, names, span)

    def covers(self, mention: Mention, rule: str) -> bool:
        """Whether a comment suppresses what a rule does to a mention; the comment then counts as used."""
        scopes = [self._file, *self._scopes_at(mention)]
        covering = [scope for scope in scopes if scope.covers(rule)]  # all of them: each that covers it is used
        return bool(covering)

    def _scopes_at(self, mention: Mention) -> Iterator[_Scope]:
        """What is suppressed on the lines of a mention."""
        for at in range(bisect_left(self._lines, mention.line), len(self._lines)):
            if self._lines[at] > mention.end_line:
                return
            yield self._by_line[self._lines[at]]

    # --- what is told of them ----------------------------------------------------------------------------------

    def findings(
        self, mentions: Iterable[Mention], rules: Iterable[Rule], active: Iterable[Rule], known: Set[str]
    ) -> list[Finding]:
        """What a person should know of the suppressions once every mention is decided.

        A comment that names no rule, and one that suppresses nothing. The latter is only said where it is certain: of
        the rules that a name stands for, one has to be for this target, none may be left out of the run, and none may
        fit a mention on the line, even for another target.

        Args:
            mentions: all mentions of the file.
            rules: the rules of the run.
            active: those of them that are for this target.
            known: the ids of all rules, with those that the run leaves out.
        """
        if not (self._lines or self._file.names or self._problems):
            return []
        names = _Names(rules, active, known)
        told = [(span, UNKNOWN, problem) for span, problem in self._problems]
        for scope in (self._file, *self._by_line.values()):
            unknown = _by_comment(scope, (name for name in scope.names if not names.of(name)))
            told += [(span, UNKNOWN, names.unknown(some)) for span, some in unknown.items()]
        told += [(span, UNUSED, problem) for span, problem in self._unused(mentions, names)]
        return [self._finding(span, rule, f"suppresses nothing: {problem}") for span, rule, problem in sorted(told)]

    def _unused(self, mentions: Iterable[Mention], names: _Names) -> Iterator[tuple[Span, str]]:
        standing: dict[int, list[Mention]] = {id(scope): [] for scope in self._by_line.values()}
        for mention in mentions:
            for scope in self._scopes_at(mention):
                standing[id(scope)].append(mention)
        for scope in self._by_line.values():
            here = standing[id(scope)]
            if scope.everything and None not in scope.used and all(each.role in _SPOKEN_OF for each in here):
                yield scope.everything, "no setting stands on this line"
            idle = (name for name in scope.names if name not in scope.used and names.is_idle(name, here))
            for span, some in _by_comment(scope, idle).items():
                yield span, f"{_some(some, 'and')} {'does' if len(some) == 1 else 'do'} not apply on this line"

    def _finding(self, span: Span, rule: str, message: str) -> Finding:
        mention = Mention(
            language="", kind="suppression", value="", spelling="", role="comment", **place(self.source, *span)
        )
        return Finding(rule, mention, REPORT, "warning" if rule == UNKNOWN else "info", message)


def _add(scope: _Scope, names: Iterable[str] | None, span: Span) -> None:
    if names is None:
        scope.everything = scope.everything or span
    else:
        for name in names:
            scope.names.setdefault(name, span)


def _by_comment(scope: _Scope, names: Iterable[str]) -> dict[Span, list[str]]:
    """The names by the comment that they stand in."""
    found: dict[Span, list[str]] = {}
    for name in names:
        found.setdefault(scope.names[name], []).append(name)
    return found


def _some(names: Sequence[str], word: str) -> str:
    """The first few names, and how many more there are."""
    shown = [repr(name) for name in names[:_MOST_SHOWN]]
    more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
    return f" {word} ".join([*shown, *more])


def _is_glob(name: str) -> bool:
    return not {"*", "?", "["}.isdisjoint(name)


class _Names:
    """The rules that names in suppressions stand for.

    Attributes:
        rules: the rules of the run, by id.
        active: the ids of those that are for this target.
        known: the ids of all rules, with those that the run leaves out.
    """

    def __init__(self, rules: Iterable[Rule], active: Iterable[Rule], known: Set[str]) -> None:
        self.rules = {rule.id: rule for rule in rules}
        self.active = frozenset(rule.id for rule in active)
        self.known = known
        self._found: dict[str, frozenset[str]] = {}
        self._hints = 0

    def of(self, name: str) -> frozenset[str]:
        """The ids of all rules that a name, an id or a glob, stands for."""
        if name not in self._found:
            fitting = (rule for rule in self.known if fnmatchcase(rule, name))
            self._found[name] = frozenset(fitting if _is_glob(name) else {name} & self.known)
        return self._found[name]

    def unknown(self, names: Sequence[str]) -> str:
        """What to say of names that stand for no rule; only the first few get the nearest id, which takes long."""
        self._hints += 1
        near = get_close_matches(names[0], list(self.known), 1) if self._hints <= _MOST_HINTS else []
        hint = f"did you mean {near[0]!r}?" if near else "`precpatch rules` lists them"
        return f"no rule is called {_some(names, 'or')}; {hint}"

    def is_idle(self, name: str, here: Sequence[Mention]) -> bool:
        """Whether the rules that a name stands for have no business with these mentions, for certain."""
        named = self.of(name)
        if named.isdisjoint(self.active) or not named <= self.rules.keys():
            return False
        return not any(match.fits(each) for rule in named for match in self.rules[rule].matches for each in here)


def _directives(source: SourceFile) -> Iterator[re.Match[str]]:
    """The comments that speak to precpatch."""
    comments = _python_comments(source) if PurePosixPath(source.path).suffix == ".py" else None
    if comments is None:
        yield from _DIRECTIVE.finditer(source.text)
        return
    for start, end in comments:
        yield from _DIRECTIVE.finditer(source.text, start, end)


def _python_comments(source: SourceFile) -> Sequence[Span] | None:
    """Where the comments of a Python file stand; None where that cannot be told."""
    comments = []
    starts = source.line_starts
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.text, newline="").readline):
            if token.type == tokenize.COMMENT and _SIGN in token.string:
                start = starts[token.start[0] - 1] + token.start[1]
                comments.append((start, start + len(token.string)))
    except (tokenize.TokenError, SyntaxError, IndexError):
        return None
    is_certain = all(source.text[start : start + 1] == "#" for start, _ in comments)
    return comments if is_certain else None
