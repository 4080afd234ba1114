"""What stands around a word: its command, array or assignment, and the conditions that it is under."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from precpatch.languages.shell.conditions import LOOKS, Conditions
from precpatch.languages.shell.grammar import BRANCHES, PART, TESTS, BashTree, Span, end_of_patterns

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_PARENTS = 100
"""So many nodes around a word are asked what they say of it."""

MAX_WORDS = 20
"""So many words of a command are looked at to see which program it runs."""

MAX_START = 4
"""So many words say which program is started."""

SAYS = frozenset({"echo", "printf", "git", "logger"})
"""Programs whose arguments are text for people."""

HANDS_ON = frozenset({"-e", "--env", "--export"})
"""Options of docker, srun and the like that set variables for what is run."""

_MPI = re.compile(r"(?:\S*/)?(?:mpirun|mpiexec|orterun|prterun|horovodrun)")
_PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a word is for: the place that its site inherits.

    Attributes:
        name: where the name of the setting itself stands, if there is one.
    """

    role: str
    key: str | None = None
    key_path: str | None = None
    facts: frozenset[str] = frozenset()
    name: Span | None = None


class Around:
    """What stands around one word; all indexes count from the start of its script.

    Attributes:
        node: the word.
        box: what it is a part of.
        facts: the facts of the branches that it is in.
        scope: the function that it is in.
        branch: the span of the innermost branch or function, else of the script.
    """

    def __init__(self, tree: BashTree, conditions: Conditions, parents: list[Node], node: Node) -> None:
        self.tree = tree
        self.conditions = conditions
        self.parents = parents or [tree.root]
        self.node = node
        self.box = self.parents[-1]
        self.scope = ""
        self.branch: Span = (0, len(tree.code))
        self.facts: frozenset[str] = frozenset()
        below = node
        for parent in reversed(self.parents[-MAX_PARENTS:]):
            self._take(parent, below)
            below = parent

    def _take(self, parent: Node, below: Node) -> None:
        """Take over what ``parent`` says of what is in its child ``below``."""
        if parent.type == "heredoc_body":
            self.facts |= {"heredoc"}
        branch = (parent.start_byte, parent.end_byte) if parent.type in BRANCHES else None
        if parent.type in ("if_statement", "elif_clause", "while_statement"):
            test, body = self.conditions.branches_of(parent)
            if below.start_byte >= body[0]:
                yes = below.type not in ("elif_clause", "else_clause")
                self.facts |= self.conditions.asked(test, yes)
                branch = body if yes else None
        elif parent.type == "list" and below.start_byte != parent.start_byte:
            parts = parent.children
            if len(parts) == 3 and below.start_byte == parts[2].start_byte:
                self.facts |= self.conditions.asked(parts[:1], parts[1].type == "&&", by_tests_only=True)
        elif parent.type == "case_item" and below.start_byte > (end := end_of_patterns(parent)):
            self.facts |= self.conditions.asked_by_patterns(self.tree.code[parent.start_byte : end])
        elif parent.type == "function_definition" and not self.scope:
            name = parent.child_by_field_name("name")
            self.scope = self.tree.text(name) if name is not None else ""
        if branch and self.branch == (0, len(self.tree.code)):
            self.branch = branch

    @cached_property
    def command(self) -> str:
        """The name of the program whose argument the word is."""
        return self.tree.command_name(self.box)

    @cached_property
    def _at(self) -> int:
        """Which of the words of its box it is."""
        return self.tree.place_in(self.box, self.node)

    @property
    def before(self) -> Node | None:
        """The word before it in the same command or array."""
        return self.tree.words_of(self.box)[self._at - 1] if self._at else None

    @property
    def after(self) -> Node | None:
        """The word after it in the same command or array."""
        words = self.tree.words_of(self.box)[self._at + 1 : self._at + 2]
        return words[0] if words and words[0].type in {*PART, "command_substitution"} else None

    @property
    def run(self) -> tuple[int, list[Node]]:
        """The words of its box from the one before it to a few after it, and which of them it is."""
        first = max(self._at - 1, 0)
        return self._at - first, self.tree.words_of(self.box)[first : self._at + MAX_START]

    @cached_property
    def words(self) -> list[str]:
        """The first words of its command, as far as they stand before it."""
        words = self.tree.words_of(self.box) if self.box.type == "command" else []
        return [self.tree.text(each) for each in words[: min(self._at, MAX_WORDS)]]

    @property
    def runs_shell(self) -> bool:
        """Whether the word is a script: the argument of ``eval``, or of ``bash -c`` and the like."""
        return self.command == "eval" or (self._is_program and not self._names_python)

    @property
    def runs_python(self) -> bool:
        """Whether the word is a program for Python: ``python -c '...'``."""
        return self._is_program and self._names_python

    @property
    def _is_program(self) -> bool:
        before = self.before if self.box.type == "command" else None
        return before is not None and re.fullmatch(r"-[a-z]*c", self.tree.text(before)) is not None

    @property
    def _names_python(self) -> bool:
        return any(map(_PYTHON.fullmatch, self.words))

    def installs(self, installers: frozenset[str]) -> bool:
        """Whether the word is what a package installer is to install."""
        is_with = self.before is not None and self.tree.text(self.before) in ("--with", "-w")
        if not is_with and {"install", "add"}.isdisjoint(self.words):
            return False
        return any(word.rpartition("/")[2].rstrip("0123456789.") in installers for word in self.words)

    @property
    def sets_variable(self) -> bool:
        """Whether ``NAME=value`` sets a variable here: after ``env``, docker's ``-e``, or ``-x`` of MPI."""
        before = self.before if self.box.type == "command" else None
        if before is None:
            return False
        option = self.tree.text(before)
        if option in HANDS_ON or (option == "-x" and any(map(_MPI.fullmatch, self.words))):
            return True
        return self.command == "env" and all("=" in word or word.startswith("-") for word in self.words[1:])

    @property
    def role(self) -> str:
        """The role that the place gives whatever stands there, if it gives one."""
        if self.command in SAYS:
            return "message"
        if self.box.type == "case_item":
            return "comparison" if self.node.start_byte < end_of_patterns(self.box) else ""
        return "comparison" if self.box.type in TESTS or self.command in LOOKS else ""

    def setting(self) -> Setting:
        """The setting of a bare word in this place."""
        box, facts = self.box, self.facts
        if box.type == "variable_assignment":
            return self._assigned(box)
        if box.type in ("array", "for_statement"):
            owner = self.parents[-2] if box.type == "array" and len(self.parents) > 1 else box
            name = owner.child_by_field_name("name") or owner.child_by_field_name("variable")
            key = self.tree.text(name) if name is not None else None
            return Setting("lookup", key, None, facts | {"in-list"})
        if self.role:
            return Setting(self.role, facts=facts)
        return Setting("value", facts=facts | {"argument"})

    @property
    def exports(self) -> frozenset[str]:
        """The fact that programs see the variable which the word is assigned to."""
        owner = self.parents[-2] if self.box.type == "variable_assignment" and len(self.parents) > 1 else None
        seen = owner is not None and (owner.type == "command" or self._exports(owner))
        return frozenset({"exported"}) if seen else frozenset()

    def _assigned(self, box: Node) -> Setting:
        name = box.child_by_field_name("name")
        if name is None:
            return Setting("value", facts=self.facts | {"variable"})
        if name.type == "subscript":
            name = name.child_by_field_name("index") or name
        facts = self.facts | {"variable"} | self.exports
        at = (name.start_byte, name.end_byte)
        return Setting("value", self.tree.text(name).strip("\"'"), None, facts, at)

    def _exports(self, owner: Node) -> bool:
        """``export NAME=...`` or ``declare -x NAME=...``."""
        if owner.type != "declaration_command":
            return False
        words = [self.tree.text(child) for child in owner.children[:MAX_WORDS] if child.end_byte <= self.box.start_byte]
        return words[:1] == ["export"] or any(re.fullmatch(r"-\w*x\w*", word) for word in words)
