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
from collections.abc import Collection, Iterable, Iterator, Sequence
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
            fitting = {name for name in self.names if fnmatchcase(rule, name)}
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
        self, mentions: Iterable[Mention], rules: Sequence[Rule], active: Collection[Rule], known: Collection[str]
    ) -> list[Finding]:
        """What a person should know of the suppressions once every mention is decided.

        A comment that names no rule, and one that suppresses nothing. The latter is only said where it is certain: a
        name has to be that of a rule which is for this target, none that it names may
        be left out of the run, and none of them may fit a mention on the line even for another target.

        Args:
            mentions: all mentions of the file.
            rules: the rules of the run.
            active: those of them that are for this target.
            known: the ids of all rules, with those that the run leaves out.
        """
        if not (self._lines or self._file.names or self._problems):
            return []
        found = [self._finding(span, UNKNOWN, f"suppresses nothing: {problem}") for span, problem in self._problems]
        for scope in (self._file, *self._by_line.values()):
            for name, span in scope.names.items():
                if not any(fnmatchcase(rule, name) for rule in known):
                    near = get_close_matches(name, list(known), 1)
                    hint = f"; did you mean {near[0]!r}?" if near else "; `precpatch rules` lists them"
                    found.append(self._finding(span, UNKNOWN, f"suppresses nothing: no rule is called {name!r}{hint}"))
        found += [self._finding(span, UNUSED, text) for span, text in self._unused(mentions, rules, active, known)]
        return sorted(found, key=lambda finding: finding.mention.start)

    def _unused(
        self, mentions: Iterable[Mention], rules: Sequence[Rule], active: Collection[Rule], known: Collection[str]
    ) -> Iterator[tuple[Span, str]]:
        standing: dict[int, list[Mention]] = {id(scope): [] for scope in self._by_line.values()}
        for mention in mentions:
            for scope in self._scopes_at(mention):
                standing[id(scope)].append(mention)
        for scope in self._by_line.values():
            here = standing[id(scope)]
            if scope.everything and None not in scope.used and all(each.role in _SPOKEN_OF for each in here):
                yield scope.everything, "suppresses nothing: no setting stands on this line"
            for name in scope.names.keys() - scope.used:
                if _is_idle(name, here, rules, active, known):
                    yield scope.names[name], f"suppresses nothing: {name} does not apply on this line"

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


def _is_idle(
    name: str, here: Sequence[Mention], rules: Sequence[Rule], active: Collection[Rule], known: Collection[str]
) -> bool:
    """Whether the rules that a name stands for have no business with the mentions, for certain."""
    named = {rule.id: rule for rule in rules if fnmatchcase(rule.id, name)}
    if any(fnmatchcase(rule, name) and rule not in named for rule in known):
        return False
    if not any(rule.id in named for rule in active):
        return False
    return not any(match.fits(mention) for rule in named.values() for match in rule.matches for mention in here)


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
