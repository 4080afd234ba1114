"""A Site: a place where a value stands, as grammar sees it. What its words mean is for the teller.

Readers yield Sites and know nothing of precisions, attention or engines; ``tell`` turns those that say something in
the vocabulary into Mentions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TEXT = "text"
"""A text: a string, a scalar, a word of a command."""

BOOLEAN = "boolean"
"""A boolean, in the word that the language or the writer has for it: ``True``, ``yes``, ``on``, ``1``."""

NUMBER = "number"
"""A whole number, in digits."""

OBJECT = "object"
"""A dtype itself, ``torch.bfloat16`` or an imported name; the word is its canonical name."""

TYPE = "type"
"""The type of a tensor or a storage, ``torch.cuda.BFloat16Tensor``; the word is its own name."""

METHOD = "method"
"""A cast by method, ``.bfloat16()``; the word is the canonical dtype."""

MODULE = "module"
"""A module that is imported, by its dotted name."""

REQUIREMENT = "requirement"
"""What a package installer is to install."""

CALL = "call"
"""A function or method that is told by itself, such as torch.compile; the word is its name in the vocabulary."""

START = "start"
"""A program that is started; the word is its name, the key its concept."""

CHOICE = "choice"
"""A member of an enum, by its name."""

UNRESOLVED = "unresolved"
"""An expression whose value is known at run time only; the word, if there is one, is what is told of it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value stands: under which key, and in what.

    Attributes:
        key: the key as it is meant, without quotes.
        start: index of the key's first character in the file's text, without quotes; -1 where it is not written.
        end: index after its last character.
        box: what holds the key; two slots with the same box stand side by side in one mapping, call or command.
        above: the slot of the mapping that holds the key, if it stands under a key itself.
        alone: whether nothing else stands in the box.
        renames: whether the key can be given another name: it is an argument or an entry, not a variable that is read
            elsewhere.
    """

    key: str
    start: int = -1
    end: int = -1
    box: int = 0
    above: Slot | None = None
    alone: bool = False
    renames: bool = True


@dataclass(frozen=True, slots=True)
class Site:
    """One value at its place.

    Attributes:
        start: index of the first character in the file's text of what a mention shows and an edit replaces.
        end: index after its last character.
        form: TEXT, BOOLEAN, NUMBER, OBJECT, TYPE, METHOD, MODULE, REQUIREMENT, CALL, START, CHOICE or UNRESOLVED.
        word: what it says, quotes and escapes undone; a boolean in its own word.
        role: one of ``mention.ROLES``, as far as grammar tells.
        slot: the key that it stands under, with its place, where it has one.
        key: the name of the setting that it is for; that of the slot, but for names that only Python can tell.
        key_path: the dotted path to it.
        callee: dotted name of the function that it is an argument of.
        scope: qualified name of the class or function around it, "" at the top.
        facts: what else the reader knows of the place; ``vocabulary/facts.yaml`` has them all.
        allowed: canonical values that a declared set accepts, if there is one.
        used_by: the settings that take the value of the variable which it is assigned to, by their paths.
        also: the same place as the value of the other settings that take it.
        setup: what it is set in together with others: a command, a document, a statement; 0 where that is not known.
    """

    start: int
    end: int
    form: str
    word: str
    role: str
    slot: Slot | None = None
    key: str | None = None
    key_path: str | None = None
    callee: str | None = None
    scope: str = ""
    facts: frozenset[str] = field(default_factory=frozenset)
    allowed: tuple[str, ...] | None = None
    used_by: tuple[str, ...] = ()
    also: tuple[Site, ...] = ()
    setup: int = 0

    @property
    def above(self) -> str | None:
        """The key that the setting's key stands under: by its slot, else by its path."""
        if self.slot is not None and self.slot.above is not None:
            return self.slot.above.key
        parts = (self.key_path or "").split(".")
        return parts[-2] if len(parts) > 1 else None
