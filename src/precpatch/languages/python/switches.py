"""Rewrites of boolean precision switches, which come in pairs: ``bf16=True`` beside ``fp16=False``."""

from __future__ import annotations

import ast
import re

from precpatch.languages.mention import Mention
from precpatch.languages.python.edit import replace_literal
from precpatch.languages.python.tree import Tree, string
from precpatch.languages.source import SourceFile
from precpatch.patch.edits import Edit

_BF16 = re.compile(r"bf(?:loat)?16")

Pair = tuple[str, int, ast.expr]
"""A name, the character index at which the name itself stands, and the value."""


def edits(source: SourceFile, mention: Mention, dtype: str) -> tuple[Edit, ...]:
    """Turn the bf16 switch ``mention`` off; for "float16" turn its fp16 twin on as well.

    The twin stands in the same call or dict. Where there is none, the bf16 switch is renamed to it. Nothing, where
    neither can be done: a person must look.
    """
    if dtype == "float32":
        return (_set(source, mention.start, mention.end, "False"),)
    tree = Tree(source)
    if (mention.key or "").endswith(".enabled"):
        return _section_edits(tree, source, mention)
    twin_name = (mention.key or "").replace("bf16", "fp16")
    pairs = _pairs_around(tree, source, mention)
    for name, _, value in pairs:
        if name == twin_name:
            start, end = source.offset(tree.start(value)), source.offset(tree.end(value))
            return _set(source, mention.start, mention.end, "False"), _set(source, start, end, "True")
    for name, at, value in pairs:
        if source.offset(tree.start(value)) == mention.start:
            return (Edit(source.path, source.offset(at), name.encode(), twin_name.encode()),)
    return ()


def _section_edits(tree: Tree, source: SourceFile, mention: Mention) -> tuple[Edit, ...]:
    """``{"bf16": {"enabled": True}, "fp16": {"enabled": False}}``: the sections change places.

    Where there is no section for fp16, that for bf16 becomes it.
    """
    name = (mention.key or "").removesuffix(".enabled")
    twin_name = _BF16.sub("fp16", name)
    for node, _ in tree.walk(frozenset({mention.line})):
        pairs = _pairs_of(tree, node) if isinstance(node, ast.Dict) else []
        sections = {word: (at, value) for word, at, value in pairs}
        at, section = sections.get(name, (0, None))
        enabled = _enabled(tree, section)
        if enabled is None or source.offset(tree.start(enabled)) != mention.start:
            continue
        if twin_name not in sections:
            return (Edit(source.path, source.offset(at), name.encode(), twin_name.encode()),)
        twin = _enabled(tree, sections[twin_name][1])
        if twin is None:
            return ()
        start, end = source.offset(tree.start(twin)), source.offset(tree.end(twin))
        return _set(source, mention.start, mention.end, "False"), _set(source, start, end, "True")
    return ()


def _enabled(tree: Tree, section: ast.expr | None) -> ast.expr | None:
    """The literal that switches a section on or off."""
    for word, _, value in _pairs_of(tree, section) if isinstance(section, ast.Dict) else ():
        if word == "enabled" and isinstance(value, ast.Constant) and isinstance(value.value, bool):
            return value
    return None


def _set(source: SourceFile, start: int, end: int, value: str) -> Edit:
    old = source.data[start:end]
    return Edit(source.path, start, old, replace_literal(old.decode(source.encoding), value).encode(source.encoding))


def _pairs_around(tree: Tree, source: SourceFile, mention: Mention) -> list[Pair]:
    """The names and values of the call or dict that the switch stands in."""
    for node, _ in tree.walk(frozenset({mention.line})):
        pairs = _pairs_of(tree, node)
        if any(source.offset(tree.start(value)) == mention.start for _, _, value in pairs):
            return pairs
    return []


def _pairs_of(tree: Tree, node: ast.AST) -> list[Pair]:
    if isinstance(node, ast.Call):
        return [(word.arg, tree.start(word), word.value) for word in node.keywords if word.arg]
    if isinstance(node, ast.Dict):
        named = [(string(key), key, value) for key, value in zip(node.keys, node.values, strict=True)]
        return [
            (name, tree.start(key) + tree.text(key).index(name), value)
            for name, key, value in named
            if name and key and name in tree.text(key)
        ]
    return []
