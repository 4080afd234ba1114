"""A Mention: one place in one file that speaks of a dtype, an attention implementation or a switch.

A reader states facts in a Mention; it takes no decision. The rules decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from precpatch.languages.source import SourceFile

KINDS = ("dtype", "attention", "switch", "import")

ROLES = {
    "value": "it decides: assigned, passed, returned or set",
    "autocast": "the dtype of an autocast region",
    "method-cast": "a cast by method, such as .bfloat16()",
    "interpolation-default": "the default inside a ${...} interpolation",
    "comparison": "compared with something, not chosen",
    "allowed-values": "one of the values that a check, choices or a Literal accepts",
    "lookup": "an entry of a table or an answer of a converter",
    "annotation": "part of a type annotation",
    "key": "a key or a name, not a value",
    "docstring": "text in a docstring",
    "comment": "text in a comment",
    "message": "text for people: a log line, an error, help",
    "text": "text whose use is not known",
    "import": "an import",
    "switch": "a boolean or named switch",
}


@dataclass(frozen=True, slots=True)
class Mention:
    """Where a value stands and what it does there.

    Attributes:
        path: file, relative to the root of the run, with ``/``.
        language: name of the reader ("python", "yaml").
        kind: one of ``KINDS``.
        value: canonical value: "bfloat16", "float16", "flash_attention_2", "true", ...
        spelling: how it is written, which a rewrite keeps. Dtypes: "torch" (an object such as ``torch.bfloat16``),
            "long" ("bfloat16"), "short" ("bf16"), "torch-name" ("torch.bfloat16" in a string), "method"
            (``.bfloat16()``). Other kinds: "name".
        role: one of ``ROLES``.
        start: byte offset in the file where the source text of the mention starts.
        end: byte offset after its last byte.
        text: that source text.
        line: line of ``start``, from 1; ``column``, ``end_line`` and ``end_column`` likewise, columns in characters
            from 1, the end column being the one after the last character.
        key: the setting that the value is for ("param_dtype"), if one is known.
        key_path: the dotted path to it ("actor.fsdp_config.param_dtype"), if one is known.
        callee: dotted name of the function that it is an argument of, if any.
        scope: qualified name of the class or function around it, "" at the top.
        facts: further facts by name, which rules can ask for (``Languages`` document theirs).
        allowed: canonical values that a declared set (Literal, choices, a check's list) accepts, if there is one.
        follows: ``start`` offsets of the mentions in the same file that this one changes together with.
        used_by: the settings that take the value of the variable which it is assigned to, by their paths.
        also: what the same place is for the other settings that take it.
        setup: mentions of one file with the same number are set together, in one command, document or statement; with 0
            it may go with any.
    """

    path: str
    language: str
    kind: str
    value: str
    spelling: str
    role: str
    start: int
    end: int
    text: str
    line: int
    column: int
    end_line: int
    end_column: int
    key: str | None = None
    key_path: str | None = None
    callee: str | None = None
    scope: str = ""
    facts: frozenset[str] = field(default_factory=frozenset)
    allowed: tuple[str, ...] | None = None
    follows: tuple[int, ...] = ()
    used_by: tuple[str, ...] = ()
    also: tuple[Mention, ...] = ()
    setup: int = 0


def place(source: SourceFile, start: int, end: int) -> dict[str, Any]:
    """The position fields of a Mention whose text is the characters ``start`` to ``end`` of the source's text."""
    line, column = source.position(start)
    end_line, end_column = source.position(end)
    return {
        "path": source.path,
        "start": source.offset(start),
        "end": source.offset(end),
        "text": source.text[start:end],
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }
