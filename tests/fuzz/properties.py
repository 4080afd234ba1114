"""What must hold for every file, whatever stands in it: the properties that all fuzzing asks for."""

from __future__ import annotations

import ast
import json
import time
import warnings
from functools import cache

import yaml
from unbound import unbound

from precpatch.config import Settings
from precpatch.engine.finding import REWRITE, Finding
from precpatch.engine.policy import Policy
from precpatch.gpu.resolve import resolve_target
from precpatch.languages import language_of
from precpatch.languages.shell.grammar import BashTree
from precpatch.languages.source import ReadError
from precpatch.patch.edits import Edit, PatchSet
from precpatch.session import file_findings, policy_for

TARGETS = {"p40": ("p40", "auto", "auto"), "v100": ("v100", "float16", "sdpa")}


class BrokenProperty(AssertionError):  # noqa: N818  (the fault of a file, not of the test)
    """A property that does not hold; the text says which."""


@cache
def policy(target: str, show_text: bool = False) -> Policy:
    """All rules for one of the targets, with the fixes that need a review."""
    return policy_for(Settings(unsafe=True), resolve_target(*TARGETS[target]), show_text=show_text)


def check(path: str, data: bytes, target: str) -> bytes:
    """The file after a run on it, with every property of it looked at.

    Raises:
        BrokenProperty: one of them does not hold.
    """
    started = time.process_time()
    try:
        found = file_findings(path, data, policy(target, show_text=True))
    except ReadError:
        return data
    seconds = time.process_time() - started
    if seconds > 2 + len(data) / 20_000:
        raise BrokenProperty(f"took {seconds:.1f} s for {len(data)} bytes")
    if found:
        _told_where_it_stands(path, data, found)
    edits = [edit for each in found if each.verdict == REWRITE for edit in each.edits]
    if not edits:
        return data
    after = PatchSet.of(edits, lambda _: data).apply_to(path, data)
    _only_the_edits(data, after, edits)
    _is_as_well(path, data, after)
    try:
        again = [each for each in file_findings(path, after, policy(target)) if each.verdict == REWRITE]
    except ReadError as error:
        raise BrokenProperty(f"the result is not read: {error}") from None
    if again and not _is_faulty_script(path, data):
        raise BrokenProperty(f"a second run changes line {again[0].mention.line}: {again[0].mention.text!r}")
    return after


def _is_faulty_script(path: str, data: bytes) -> bool:
    """Whether a script has errors of grammar; `apply` leaves one alone that a second run would change further."""
    return path.endswith(".sh") and bool(BashTree(data.decode("utf-8", "replace")).root.has_error)


def _told_where_it_stands(path: str, data: bytes, found: list[Finding]) -> None:
    language = language_of(path)
    assert language is not None
    encoding = language.open(path, data).encoding
    for each in found:
        mention = each.mention
        if mention.path == path and data[mention.start : mention.end] != mention.text.encode(encoding):
            raise BrokenProperty(f"{mention.text!r} is told where {data[mention.start : mention.end]!r} stands")


def _only_the_edits(data: bytes, after: bytes, edits: list[Edit]) -> None:
    position, shift = 0, 0
    for edit in sorted(set(edits), key=lambda each: each.start):
        if data[position : edit.start] != after[position + shift : edit.start + shift]:
            raise BrokenProperty("bytes outside the edits changed")
        position, shift = edit.end, shift + len(edit.new) - len(edit.old)
    if data[position:] != after[position + shift :]:
        raise BrokenProperty("bytes outside the edits changed")


def _is_as_well(path: str, data: bytes, after: bytes) -> None:
    """The result is what the file's own programs read, where they read it before."""
    suffix = path.rpartition(".")[2]
    if suffix == "py":
        if _compiles(data):
            if not _compiles(after):
                raise BrokenProperty("it does not compile any more")
            lost = unbound(after) - unbound(data)
            if lost:
                raise BrokenProperty(f"names that nothing gives a value: {sorted(lost)}")
    elif suffix in {"json", "ipynb"}:
        if _loads(json.loads, data) and not _loads(json.loads, after):
            raise BrokenProperty("it is no JSON any more")
    elif suffix == "yaml" and _loads(_compose, data) and not _loads(_compose, after):
        raise BrokenProperty("it is no YAML any more")
    if b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n") and after.count(b"\n") != after.count(b"\r\n"):
        raise BrokenProperty("a stray line end")


def _compose(data: bytes) -> object:
    return list(yaml.compose_all(data, Loader=yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader))


def _loads(load: object, data: bytes) -> bool:
    try:
        load(data)  # type: ignore[operator]
    except (ValueError, RecursionError, yaml.YAMLError):
        return False
    return True


def _compiles(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
            compile(data, "m.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True
