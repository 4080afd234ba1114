"""The main flow, from a checkout to a plan: files -> mentions -> findings -> patch set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from precpatch.config import Settings, did_you_mean
from precpatch.discover import LEAVES_ROOT, discover
from precpatch.engine.decide import Policy, decide
from precpatch.engine.finding import REPORT, REWRITE, Finding, file_report
from precpatch.engine.groups import settle_groups
from precpatch.engine.rules import Rule, load_rules
from precpatch.errors import UserError
from precpatch.gpu.target import Target
from precpatch.languages import language_of, languages
from precpatch.languages.base import Language, ReadError
from precpatch.languages.python.padding import NEEDLE, PaddingHomes
from precpatch.languages.source import SourceFile
from precpatch.notes import FileNote
from precpatch.patch.edits import Edit, PatchSet
from precpatch.patch.transaction import not_writable
from precpatch.plan import Plan

_PADDING = b"flash_attn.bert_padding"


def plan(root: Path, paths: Sequence[Path], target: Target, settings: Settings, *, show_text: bool = False) -> Plan:
    """Everything that has to change under ``root`` for ``target``; nothing is written.

    Args:
        root: the folder that every path in the plan is relative to.
        paths: only these files and folders; all of ``root`` when empty.
        target: the GPU and the policy.
        settings: which rules, files and folders to use.
        show_text: also list words in comments, docstrings and messages.

    Raises:
        UserError: a path or a rule file cannot be used.
    """
    found = discover(root, paths, settings.include, settings.exclude, suffixes=tuple(languages()))
    originals, errors = _read(root, found.files)
    policy = Policy(chosen_rules(settings), target, settings.unsafe, _padding_homes(root, originals))
    findings: list[Finding] = []
    for path, data in originals.items():
        try:
            findings += file_findings(path, data, policy, show_text=show_text)
        except ReadError as error:
            errors.append(FileNote(path, str(error)))
    findings = _without_read_only(root, findings, _patches(findings, originals))
    findings = settle_groups(policy, findings)
    outside = [note for note in found.skipped if note.message == LEAVES_ROOT]
    findings += [file_report(note.path, "symlink-outside", f"{LEAVES_ROOT}: not looked at") for note in outside]
    return Plan(
        root=root,
        target=target,
        findings=tuple(sorted(findings, key=lambda finding: (finding.mention.path, finding.mention.start))),
        patches=_patches(findings, originals),
        errors=tuple(sorted(errors, key=lambda note: note.path)),
        skipped=tuple(note for note in found.skipped if note not in outside),
        files_scanned=len(found.files),
    )


def _read(root: Path, files: Sequence[str]) -> tuple[dict[str, bytes], list[FileNote]]:
    """The bytes of every file that can matter, and a note for each that cannot be read."""
    originals: dict[str, bytes] = {}
    errors: list[FileNote] = []
    for path in files:
        language = language_of(path)
        try:
            data = (root / path).read_bytes()
        except OSError as error:
            errors.append(FileNote(path, f"cannot be read: {error.strerror}"))
            continue
        if language is not None and language.mentions(data):
            originals[path] = data
    return originals, errors


def _padding_homes(root: Path, originals: Mapping[str, bytes]) -> PaddingHomes | None:
    """Where the padding helpers of flash_attn can come from: looked up in all of the checkout, whatever was named.

    None where no file needs them, or where ``root`` is itself inside a package, whose name is then not known.
    """
    if not any(_PADDING in data for data in originals.values()) or (root / "__init__.py").exists():
        return None
    files = [path for path in discover(root).files if path.endswith(".py")]
    candidates: dict[str, SourceFile] = {}
    for path in files:
        with suppress(ReadError, OSError):
            data = originals.get(path) or (root / path).read_bytes()
            language = language_of(path)
            if NEEDLE in data and language is not None:
                candidates[path] = language.open(path, data)
    packages = [str(PurePosixPath(path).parent) for path in files if PurePosixPath(path).name == "__init__.py"]
    return PaddingHomes.among(packages, candidates)


def _without_read_only(root: Path, findings: list[Finding], patches: PatchSet) -> list[Finding]:
    """Refuse every fix in a file that may not be written: a person has to make it writable first."""
    locked = {note.path for note in not_writable(root, patches)}
    reason = "not-writable: the file or its folder is read-only"
    return [_refused(each, reason) if locked & _written_by(each) else each for each in findings]


def _written_by(finding: Finding) -> set[str]:
    """The files that a fix writes."""
    added = {finding.new_file.path} if finding.new_file else set()
    return {edit.path for edit in finding.edits} | added


def _patches(findings: Sequence[Finding], originals: Mapping[str, bytes]) -> PatchSet:
    accepted = [finding for finding in findings if finding.verdict == REWRITE]
    edits = [edit for finding in accepted for edit in finding.edits]
    new_files = [finding.new_file for finding in accepted if finding.new_file is not None]
    return PatchSet.of(edits, originals.__getitem__, new_files)


def chosen_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules of a run: the built-in ones and the user's, after ``select`` and ``ignore``.

    Raises:
        UserError: a rule file cannot be used, or a name in ``select`` or ``ignore`` is no rule.
    """
    rules = load_rules(settings.rules)
    names = [rule.id for rule in rules]
    for option in ("select", "ignore"):
        for glob in getattr(settings, option):
            if not any(fnmatchcase(name, glob) for name in names):
                near = did_you_mean(glob, names)
                raise UserError(f"{option}: no rule is called {glob!r}.{near} `precpatch rules` lists them.")

    def is_chosen(rule: Rule) -> bool:
        if any(fnmatchcase(rule.id, glob) for glob in settings.ignore):
            return False
        always = rule.action in {"keep", "group"}
        return not settings.select or always or any(fnmatchcase(rule.id, glob) for glob in settings.select)

    return tuple(rule for rule in rules if is_chosen(rule))


def file_findings(path: str, data: bytes, policy: Policy, *, show_text: bool = False) -> list[Finding]:
    """The findings of one file, from its bytes alone; none where its language is not known.

    Raises:
        ReadError: the bytes cannot be decoded or parsed.
    """
    language = language_of(path)
    if language is None or not language.mentions(data):
        return []
    source = language.open(path, data)
    mentions = language.read(source, text=show_text)
    return settle_groups(policy, _checked(language, source, decide(policy, language, source, mentions)))


def _checked(language: Language, source: SourceFile, findings: list[Finding]) -> list[Finding]:
    """The findings after their edits were tried together: fixes that collide or break the file become reports."""
    findings = _without_collisions(findings)
    edits = [edit for finding in findings for edit in _accepted(finding)]
    if not edits:
        return findings
    changed = PatchSet.of(edits, lambda _: source.data).apply_to(source.path, source.data)
    problem = language.check(source, changed)
    if problem is None:
        return findings
    return [_refused(finding, f"the rewritten file would not parse ({problem})") for finding in findings]


def _without_collisions(findings: list[Finding]) -> list[Finding]:
    """Refuse every fix, group by group, whose edits touch those of a fix accepted before it."""
    taken: list[Edit] = []
    refused: set[str] = set()
    for finding in findings:
        if finding.verdict != REWRITE:
            continue
        if any(_collide(edit, other) for edit in finding.edits for other in taken):
            refused.add(_group(finding))
        else:
            taken += finding.edits
    return [
        _refused(each, "its place is changed by another fix") if _group(each) in refused else each for each in findings
    ]


def _collide(edit: Edit, other: Edit) -> bool:
    return edit != other and edit.start < other.end and other.start < edit.end


def _group(finding: Finding) -> str:
    return finding.group or f"{finding.mention.path}:{finding.mention.start}"


def _refused(finding: Finding, reason: str) -> Finding:
    if finding.verdict != REWRITE:
        return finding
    message = f"{finding.message}; not rewritten: {reason}"
    return replace(finding, verdict=REPORT, message=message, edits=(), new_file=None, after=None, override=None)


def _accepted(finding: Finding) -> tuple[Edit, ...]:
    return finding.edits if finding.verdict == REWRITE else ()
