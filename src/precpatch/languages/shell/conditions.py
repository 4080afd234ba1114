"""What the tests of a script ask: for a name of bfloat16 or FlashAttention, or for another device."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from precpatch.languages.shell.grammar import TESTS, BashTree, Span
from precpatch.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_TEST = 1000
"""A condition of more characters than this is not looked at."""

LOOKS = frozenset({"test", "[", "grep", "egrep", "fgrep", "rg"})
"""Programs that only look for something."""

_GPU = re.compile(r"(?<![A-Za-z])(?:cuda|gpu|nvidia)(?![A-Za-z])", re.IGNORECASE)
_NEGATED = re.compile(r"!=|(?<!\S)-z\s|==?\s*[\"']?(?:false|0|no|off)\b")


class Conditions:
    """The conditions of one script; each is looked at once."""

    def __init__(self, tree: BashTree, vocabulary: Vocabulary) -> None:
        self.tree = tree
        self.vocabulary = vocabulary
        self._branches: dict[int, tuple[list[Node], Span]] = {}
        self._asked: dict[tuple[int, int, bool, bool], frozenset[str]] = {}

    def branches_of(self, node: Node) -> tuple[list[Node], Span]:
        """The condition of an ``if``, ``elif`` or ``while``, and the span of what it decides about."""
        if node.id not in self._branches:
            children = node.children
            at = next((i for i, child in enumerate(children) if child.type in ("then", "do_group")), len(children) - 1)
            body = [child for child in children[at + 1 :] if child.type in ("elif_clause", "else_clause")]
            end = body[0].start_byte if body else node.end_byte
            self._branches[node.id] = children[1:at], (children[at].start_byte, end)
        return self._branches[node.id]

    def asked(self, tests: list[Node], holds: bool, by_tests_only: bool = False) -> frozenset[str]:
        """The facts of what is reached when all ``tests`` hold, or when they do not.

        What stands before ``&&`` may be any command, and only asks where it is a test: ``by_tests_only``.
        """
        if not tests or tests[-1].end_byte - tests[0].start_byte > MAX_TEST:
            return frozenset()
        key = tests[0].start_byte, tests[-1].end_byte, holds, by_tests_only
        if key not in self._asked:
            facts = self._ask(tests, holds, by_tests_only)
            if _GPU.search(self.tree.code, tests[0].start_byte, tests[-1].end_byte):
                facts -= {"other-device"}
            self._asked[key] = facts
        return self._asked[key]

    def asked_by_patterns(self, patterns: str) -> frozenset[str]:
        """The facts of a branch of ``case`` with these patterns."""
        facts = self._asked_by_text(patterns, True)
        return facts - {"other-device"} if _GPU.search(patterns) else facts

    def _ask(self, tests: Iterable[Node], holds: bool, by_tests_only: bool) -> frozenset[str]:
        """What each of ``tests`` asks when it holds, or when it does not."""
        facts: frozenset[str] = frozenset()
        for test in tests:
            operators = {child.type for child in test.children}
            if test.type in ("negated_command", "unary_expression") and "!" in operators:
                facts |= self._ask(test.children[1:], not holds, by_tests_only)
            elif test.type == "list" or operators & {"&&", "||"}:
                facts |= self._ask(test.children, holds, by_tests_only)
            elif test.type in ("test_command", "parenthesized_expression"):
                facts |= self._ask(test.children, holds, False)
            elif not by_tests_only or test.type in TESTS or self.tree.command_name(test) in LOOKS:
                facts |= self._asked_by_text(self.tree.text(test), holds)
        return facts

    def _asked_by_text(self, test: str, holds: bool) -> frozenset[str]:
        """What one comparison asks when it ``holds`` or does not."""
        if _NEGATED.search(test.lower()):
            holds = not holds
        if not holds:
            return frozenset()
        facts = set()
        words = [match[0] for match in self.vocabulary.names_in(test)]
        if any((dtype := self.vocabulary.dtype_of(word)) and dtype[0] == "bfloat16" for word in words):
            facts.add("asks-bf16")
        if any(self.vocabulary.attention_of(word) in self.vocabulary.flash for word in words):
            facts.add("asks-flash-attention")
        if self.vocabulary.names_other_device(test):
            facts.add("other-device")
        return frozenset(facts)
