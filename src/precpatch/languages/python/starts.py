"""Programs that Python code starts: by a class that is called, by a list of words, by a text that is a command."""

from __future__ import annotations

import ast
import re

from precpatch.languages.python.tree import Ancestors, Tree, string
from precpatch.vocabulary import Program, Vocabulary

_MOST_WORDS = 20
"""So many words of a command are looked at."""

_MAX_TEXT = 4000
"""A text of more characters is no command."""

_ASSIGNED = re.compile(r"[A-Za-z_]\w*=\S*")
_FLAG = re.compile(r"-[A-Za-z]{1,3}")
"""An option of Python that takes no word after it."""

_GOES_BEFORE = frozenset({"&&", "||", ";", "exec", "nohup"})
_ARGUMENT = re.compile(r"-{1,2}[A-Za-z]|[^\s/]*/")
"""What a command has and prose has not: an option, or a path."""


def by_item(node: ast.Constant, ancestors: Ancestors, tree: Tree, vocabulary: Vocabulary) -> Program | None:
    """The program of a command that is a list of words, told for its first word or the module that Python runs."""
    if not vocabulary.may_start(str(node.value)):
        return None
    box = ancestors[-1] if ancestors else None
    at = tree.place_of(node, box.elts) if isinstance(box, (ast.List, ast.Tuple)) else None
    if at is None or not isinstance(box, (ast.List, ast.Tuple)):
        return None
    first = max(at - 1, 0)
    words = [string(each) or "" for each in box.elts[first : at + _MOST_WORDS]]
    found = vocabulary.started_by(words, at - first)
    if found is None:
        return None
    program, length = found
    is_module = at > first and words[0] == "-m"
    is_sure = length > 1 or is_module or (at == 0 and _has_arguments(words[1:]))
    return program if is_sure else None


def _has_arguments(words: list[str]) -> bool:
    """Whether the words after a program are what it is given, and not other names beside its own."""
    return any(not word or _ARGUMENT.match(word) for word in words)


def by_text(text: str, ancestors: Ancestors, vocabulary: Vocabulary) -> Program | None:
    """The program of a command that a text begins with."""
    if len(text) > _MAX_TEXT or next(vocabulary.starts_in(text), None) is None:
        return None
    is_joined = bool(ancestors) and isinstance(ancestors[-1], ast.BinOp)
    words = text.split(None, _MOST_WORDS)[:_MOST_WORDS]
    begin = True
    for at, word in enumerate(words):
        if begin and not _ASSIGNED.fullmatch(word):
            module = _module_after(words, at)
            for place in (at, module) if module else (at,):
                found = vocabulary.started_by(words, place) if place < len(words) else None
                if found is not None:
                    return found[0] if is_joined or _has_arguments(words[place + found[1] :]) else None
            begin = False
        begin = begin or word in _GOES_BEFORE or word.endswith(";") or words[max(at - 1, 0) : at + 1] == ["uv", "run"]
    return None


def _module_after(words: list[str], at: int) -> int:
    """Where the module of ``python -u -m MODULE`` stands, after the word at ``at``; 0 for another command."""
    for place in range(at + 1, len(words) - 1):
        if words[place] == "-m":
            return place + 1
        if not _FLAG.fullmatch(words[place]):
            break
    return 0
