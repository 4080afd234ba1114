"""The tree of a script, from tree-sitter's bash grammar: its nodes, and the way to the one at a place."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING

from precpatch.languages.source import ReadError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

MAX_LEVELS = 2000
"""A script nested deeper than this is refused; commands in a row with ``&&`` between them nest none."""

MAX_ARRAYS = 200
"""So many arrays may be open at a time: bash nests none, and tree-sitter takes the square of their number to parse."""

_PARENS = re.compile(r"""'[^']*'|"(?:\\[\s\S]|[^"\\])*"|\\[\s\S]|(?<!\S)\#[^\n]*|=\(|\)""")

PART = frozenset(
    {
        *("word", "string", "string_content", "raw_string", "ansi_c_string", "translated_string", "concatenation"),
        *("number", "expansion", "simple_expansion", "variable_name", "command_name", "extglob_pattern", "regex"),
    }
)
"""Nodes that are a word or a part of one."""

TESTS = frozenset({"binary_expression", "unary_expression", "test_command", "parenthesized_expression"})
OPENS = frozenset({"<<", "<<-"})
HOLDS_OPTIONS = frozenset({"command", "array", "file_redirect", "ERROR"})
"""Options and their values stand here; after ``--root <your_root>`` the grammar gives the rest to the redirection."""

STARTS = frozenset({"command", "array"})
"""A program is started by the words of these."""

BRANCHES = frozenset({"else_clause", "case_item", "function_definition"})

KEY = re.compile(r"(?P<mark>\+{1,2}|~|-{1,2})?(?P<path>[A-Za-z_][\w.@/-]*)=(?!=)")
"""The key of an override, an option or a variable, with what stands before it."""

OPTION = re.compile(r"(?P<mark>-{1,2})(?P<path>[A-Za-z][\w.-]*)")

Span = tuple[int, int]
"""Index of the first character and after the last."""


@cache
def _parser() -> Parser:
    """The parser of bash, loaded only when a script has something of interest."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class BashTree:
    """The tree of one script. What was asked of a node is remembered, for a node may have thousands of children."""

    def __init__(self, code: str) -> None:
        self.code = code
        _refuse_arrays(code)
        self.tree: Tree = _parser().parse(code.encode())
        self.root = self.tree.root_node
        self._last: list[Node] = [self.root]
        self._levels: list[int] = [1]
        self._children: dict[int, tuple[list[Node], list[int]]] = {}
        self._words: dict[int, list[Node]] = {}
        self._word_starts: dict[int, list[int]] = {}

    def chain(self, index: int) -> list[Node]:
        """The nodes around the character ``index``, from the root to the innermost.

        Raises:
            ReadError: they are nested too deeply.
        """
        chain, levels = self._last, self._levels
        while len(chain) > 1 and not chain[-1].start_byte <= index < chain[-1].end_byte:
            chain.pop()
            levels.pop()
        while levels[-1] < MAX_LEVELS:
            child = self._child_at(chain[-1], index)
            if child is None:
                return [chain[0], *chain[max(len(chain) - MAX_LEVELS, 1) :]]
            chain.append(child)
            levels.append(levels[-1] + (child.type != "list"))
        line = self.code.count("\n", 0, index) + 1
        raise ReadError(f"line {line}: nested deeper than {MAX_LEVELS} levels")

    def _child_at(self, node: Node, index: int) -> Node | None:
        children, starts = self._children_of(node)
        at = bisect_right(starts, index) - 1
        return children[at] if at >= 0 and index < children[at].end_byte else None

    def _children_of(self, node: Node) -> tuple[list[Node], list[int]]:
        if node.id not in self._children:
            children = sorted((each for each in node.children if each.end_byte > each.start_byte), key=_start)
            self._children[node.id] = children, [child.start_byte for child in children]
        return self._children[node.id]

    def words_of(self, box: Node) -> list[Node]:
        """The words of a command or an array."""
        if box.id not in self._words:
            self._words[box.id] = [child for child in box.named_children if child.type != "comment"]
            self._word_starts[box.id] = [word.start_byte for word in self._words[box.id]]
        return self._words[box.id]

    def place_in(self, box: Node, node: Node) -> int:
        """Which of the words of ``box`` the node is."""
        self.words_of(box)
        return max(bisect_right(self._word_starts[box.id], node.start_byte) - 1, 0)

    def text(self, node: Node) -> str:
        """The source text of a node."""
        return self.code[node.start_byte : node.end_byte]

    def command_name(self, node: Node) -> str:
        """The name of the program that a command runs, without its folder."""
        if node.type == "test_command":
            return "["
        name = node.child_by_field_name("name") if node.type == "command" else None
        return self.text(name).rpartition("/")[2] if name is not None else ""

    def faults(self) -> list[int]:
        """Where the parser gave up: the start of each error or missing node."""
        faults, stack = [], [self.root] if self.root.has_error else []
        while stack:
            node = stack.pop()
            if node.is_error or node.is_missing:
                faults.append(node.start_byte)
            stack += [child for child in node.children if child.has_error]
        return sorted(faults)


def _refuse_arrays(code: str) -> None:
    """Refuse a script in which too many arrays are open at a time, before it is parsed.

    Raises:
        ReadError: there are.
    """
    if code.count("=(") <= MAX_ARRAYS:
        return
    depth = 0
    for match in _PARENS.finditer(code):
        if match[0] == "=(":
            depth += 1
        elif match[0] == ")":
            depth = max(depth - 1, 0)
        if depth > MAX_ARRAYS:
            line = code.count("\n", 0, match.start()) + 1
            raise ReadError(f"line {line}: more than {MAX_ARRAYS} arrays inside each other")


def _start(node: Node) -> int:
    return node.start_byte


def end_of_patterns(case: Node) -> int:
    """Where the patterns of a branch of ``case`` end."""
    return next((child.start_byte for child in case.children if child.type == ")"), case.end_byte)
