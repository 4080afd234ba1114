"""Words that decide nothing: in comments, docstrings, messages and identifiers. Only listed with --show-kept."""

from __future__ import annotations

import ast
import sys
import tokenize
from bisect import bisect_right
from collections.abc import Iterable
from io import StringIO
from itertools import accumulate

from precpatch.languages.mention import Mention, place
from precpatch.languages.python.find import Finder
from precpatch.languages.source import SourceFile

Span = tuple[int, int]
"""Character indexes of the first character and after the last."""


def leftover_words(finder: Finder, mentions: Iterable[Mention]) -> list[Mention]:
    """A mention for each name that none of ``mentions`` covers."""
    source, vocabulary = finder.source, finder.vocabulary
    taken = _Spans((mention.start, mention.end) for mention in mentions)
    strings = _strings(finder)
    comments = _Spans(_comments(source))
    words = []
    for match in vocabulary.names_in(source.text):
        dtype = vocabulary.dtype_of(match[0])
        value = dtype[0] if dtype else vocabulary.attention_of(match[0])
        if value is None or value in vocabulary.quiet or taken.hold(source.offset(match.start())):
            continue
        role = strings.at(match.start()) or ("comment" if comments.hold(match.start()) else "key")
        kind, spelling = ("dtype", dtype[1]) if dtype else ("attention", "name")
        words.append(
            Mention(
                language="python", kind=kind, value=value, spelling=spelling, role=role, **place(source, *match.span())
            )
        )
    return words


class _Spans:
    """Spans that do not overlap, or of which the outer ones come first."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = sorted(spans)
        self._ends = list(accumulate((end for _, end in self._spans), max))

    def hold(self, at: int) -> bool:
        """Whether one of them holds the place."""
        last = bisect_right(self._spans, (at, sys.maxsize)) - 1
        return last >= 0 and self._ends[last] > at


class _Roles:
    """The string literals of a file, with what they are for."""

    def __init__(self, spans: Iterable[tuple[Span, str]]) -> None:
        self._spans = sorted(spans)

    def at(self, place: int) -> str | None:
        """What the literal at a place is for."""
        last = bisect_right(self._spans, ((place, sys.maxsize), "")) - 1
        if last < 0:
            return None
        (_, end), role = self._spans[last]
        return role if place < end else None


def _strings(finder: Finder) -> _Roles:
    """The spans of the string literals, with what they are for."""
    found = []
    for node, ancestors in finder.nodes:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            role = finder.roles.of(node, ancestors).name
            span = finder.tree.start(node), finder.tree.end(node)
            found.append((span, role if role in {"docstring", "message"} else "text"))
    return _Roles(found)


def _comments(source: SourceFile) -> list[Span]:
    spans = []
    try:
        for token in tokenize.generate_tokens(StringIO(source.text).readline):
            if token.type == tokenize.COMMENT:
                first = source.line_starts[token.start[0] - 1] + token.start[1]
                spans.append((first, first + len(token.string)))
    except (tokenize.TokenError, SyntaxError):
        # The tokenizer refuses some files that the parser takes; the words after that place count as names.
        return spans
    return spans
