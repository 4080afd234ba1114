"""What the tests of a script ask: for a name of bfloat16 or FlashAttention, or for another device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

from precpatch.languages import spell
from precpatch.languages.shell.grammar import KEY, OPTION, PART, TESTS, BashTree, Span
from precpatch.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_TEST = 1000
"""A condition of more characters than this is not looked at."""

MAX_NAME = 60
"""So many characters around a name in code are looked at to see which identifier it is a part of."""

LOOKS = frozenset({"test", "[", "grep", "egrep", "fgrep", "rg", "pgrep", "pkill"})
"""Programs that only look for something."""

_PROBES = frozenset({"command", "hash", "type", "which"})
"""Programs that say whether there is another one."""

_HOLDS_TESTS = frozenset({"list", "pipeline", "redirected_statement", "subshell", "compound_statement"})
_HERE = frozenset({"heredoc_redirect", "heredoc_body"})
_ASKING = frozenset({*TESTS, "herestring_redirect"})
_BEFORE = re.compile(r"-?\w*$")
_AFTER = re.compile(r"\w*(?:=(?!=))?")
_GPU = re.compile(r"(?<![A-Za-z])(?:cuda|gpu|nvidia)(?![A-Za-z])", re.IGNORECASE)
_CAPABILITY = re.compile(r"\bcompute_cap\b|\bget_device_capability\b")
"""What asks a GPU for its compute capability: a query of nvidia-smi, and the function of torch."""

_SET = re.compile(r"(?<![\w$.{-])(?P<name>[A-Za-z_]\w{0,100})=(?P<value>[^\n]{1,1000})")
_LEAST = re.compile(
    r"(?P<how>-g[et]|-l[et]|-eq|[<>]=?|(?<!!)={1,2}|=~)\s*[\"'^(]{0,3}(?P<major>\d{1,3})(?P<minor>(?:\.|,\s*)\d)?(?![\w.])"
)
_EXITS = re.compile(r"\bexit\(\s*(?P<well>0\s+if\b)?\s*(?P<no>not\b)?")
_STEPS = 4
"""From the query to the variable that a test looks at lead at most so many assignments."""

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
            elif test.type in ("test_command", "parenthesized_expression") or "((" in operators:
                facts |= self._ask(test.children, holds, False)
            elif test.type in _HOLDS_TESTS or operators & {"&&", "||"}:
                asked = self._ask(test.children, holds, by_tests_only)
                either = ("||" if holds else "&&") in operators
                facts |= asked - {"capability-guard"} if either else asked
            elif not by_tests_only or self._is_test(test):
                facts |= self._asked_by_text(self._question(test), holds, self.tree.text(test))
            elif self._asks_for_device(test):
                facts |= self._asked_by_text("", holds, self.tree.text(test))
        return facts

    def _is_test(self, node: Node) -> bool:
        """Whether a command only asks: a test, a search, or a variable that is run as ``true`` or ``false``."""
        if node.type in _ASKING or self.tree.command_name(node) in LOOKS:
            return True
        return node.type == "command" and len(node.children) == 1 and self.tree.text(node).strip('"').startswith("$")

    def _asks_for_device(self, node: Node) -> bool:
        """Whether a command asks for a device: it looks for a program or module, or runs a tool of the device."""
        words = self.tree.text(node).split(maxsplit=2)
        name = self.tree.command_name(node)
        if name.startswith("python"):
            return words[1:2] == ["-c"]
        if name in _PROBES:
            return name != "command" or words[1:2] in (["-v"], ["-V"])
        return words[:1] == [name] and "." not in name and self.vocabulary.names_other_device(name)

    def _question(self, test: Node) -> str:
        """The text of a test without what it sets, which is written anew: what it asks must not hang on that."""
        first = test.start_byte
        text = list(self.tree.text(test))
        stack = [test]
        while stack:
            node = stack.pop()
            spans = [(node.start_byte, node.end_byte)] if node.type == "variable_assignment" else []
            if node.type in _HERE:
                spans = list(self._named_in(node))
            elif node.type == "command" and self.tree.command_name(node) not in LOOKS:
                spans = list(self._set_by(node))
            for start, end in spans:
                text[start - first : end - first] = " " * (end - start)
            stack += node.children
        return "".join(text)

    def _set_by(self, command: Node) -> Iterator[Span]:
        """The settings among the words of a command, and the names in the code that it runs."""
        words = [word for word in self.tree.words_of(command) if word.type in PART]
        for word, after in zip_longest(words, words[1:]):
            start, end = word.start_byte, word.end_byte
            first, _ = spell.stripped(self.tree.code, start, end)
            follows = self.tree.text(after) if after is not None else "-"
            is_value = not follows.startswith(("-", "$", '"$')) and not (follows[:1] in ("'", '"') and " " in follows)
            if KEY.match(self.tree.code, first, end):
                yield start, end
            elif after is not None and is_value and OPTION.fullmatch(self.tree.code, start, end):
                yield start, after.end_byte
            elif word.type in ("string", "raw_string"):
                yield from self._named_in(word)

    def _named_in(self, node: Node) -> Iterator[Span]:
        """The names in code that stand for a value or a setting, not for a function such as ``is_bf16_supported``."""
        text = self.tree.text(node)
        for start, end in (match.span() for match in self.vocabulary.names_in(text)):
            before = _BEFORE.search(text[max(start - MAX_NAME, 0) : start])
            after = _AFTER.match(text[end : end + MAX_NAME])
            around = f"{before[0] if before else ''}{after[0] if after else ''}"
            if not around or "-" in around or "=" in around:
                yield node.start_byte + start, node.start_byte + end

    @cached_property
    def _capabilities(self) -> re.Pattern[str]:
        """What a test asks the compute capability by: the query itself, or a variable that is set from it."""
        assigned = [(match["name"], match["value"]) for match in _SET.finditer(self.tree.code)]
        asking, names = _CAPABILITY, set[str]()
        for _ in range(_STEPS if _CAPABILITY.search(self.tree.code) else 0):
            new = {name for name, value in assigned if name not in names and asking.search(value)}
            if not new:
                break
            names |= new
            every = "|".join(map(re.escape, sorted(names)))
            asking = re.compile(
                rf"{_CAPABILITY.pattern}|\$\{{?(?:{every})(?!\w)|(?<![\w.'\"-])(?:{every})(?=\s*[<>]=?)"
            )
        return asking

    def _is_native(self, test: str, holds: bool) -> bool:
        """Whether a test of the compute capability, which ``holds`` or does not, lets only native bfloat16 by."""
        asked = self._capabilities.search(test)
        least = _LEAST.search(test, asked.start()) if asked else None
        if least is None or " -o " in test:
            return False
        if (exits := _EXITS.search(test)) is not None and not exits["well"]:  # what is true is a failure of the command
            holds = holds == bool(exits["no"])
        if test.lstrip("[( ").startswith("! "):
            holds = not holds
        major = int(least["major"])
        capability = float(f"{major}.{(least['minor'] or '.0')[-1]}") if major < 20 else major / 10
        is_above = capability >= 7.5 or (capability == 7 and major == 7 and not least["minor"])
        if least["how"] in ("-lt", "<", "-le", "<="):
            return not holds and (is_above if least["how"] in ("-le", "<=") else capability >= 8)
        return holds and (is_above if least["how"] in ("-gt", ">") else capability >= 8)

    def _asked_by_text(self, test: str, holds: bool, everything: str | None = None) -> frozenset[str]:
        """What one comparison asks when it ``holds`` or does not; a device may stand in ``everything`` around it."""
        facts = {"capability-guard"} if self._is_native(everything or test, holds) else set()
        if _NEGATED.search(test.lower()):
            holds = not holds
        if not holds:
            return frozenset(facts)
        words = [match[0] for match in self.vocabulary.names_in(test)]
        if any((dtype := self.vocabulary.dtype_of(word)) and dtype[0] == "bfloat16" for word in words):
            facts.add("asks-bf16")
        if any(self.vocabulary.attention_of(word) in self.vocabulary.flash for word in words):
            facts.add("asks-flash-attention")
        if self.vocabulary.names_other_device(test if everything is None else everything):
            facts.add("other-device")
        return frozenset(facts)
