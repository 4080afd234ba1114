"""The main flow, from a checkout to a plan: files -> mentions -> findings -> patch set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from precpatch.config import Settings, did_you_mean
from precpatch.discover import LEAVES_ROOT, Discovery, discover
from precpatch.doctor.pins import with_pins
from precpatch.engine.decide import decide
from precpatch.engine.finding import REPORT, REWRITE, Finding, file_report
from precpatch.engine.padding import PaddingHomes, with_homes
from precpatch.engine.policy import Policy
from precpatch.engine.rules import Rule, load_rules
from precpatch.engine.settle import settle_checkout, settle_file
from precpatch.errors import UserError
from precpatch.gpu.target import Target
from precpatch.languages import language_of, languages
from precpatch.languages.base import Language, ReadError, Reading
from precpatch.languages.json.other import OtherReading
from precpatch.languages.json.reader import JsonReading
from precpatch.languages.plain import PlainLanguage, may_decide, script_language
from precpatch.languages.source import BY_LOOK
from precpatch.notes import FileNote
from precpatch.patch.edits import FilePatch, PatchSet
from precpatch.patch.transaction import not_writable
from precpatch.plan import Plan
from precpatch.shim import padding_source

CHANGES_AGAIN = "a second run would change the file further, so precpatch does not understand it well enough"
_HEAD = 4096
"""So many bytes say whether a file is text, and what its first line is."""


def plan(
    root: Path,
    paths: Sequence[Path],
    target: Target,
    settings: Settings,
    *,
    show_text: bool = False,
    twice: bool = False,
) -> Plan:
    """Everything that has to change under ``root`` for ``target``; nothing is written.

    Args:
        root: the folder that every path in the plan is relative to.
        paths: only these files and folders; all of ``root`` when empty.
        target: the GPU and the policy.
        settings: which rules, files and folders to use.
        show_text: also list words in comments, docstrings and messages.
        twice: read each file that changes once more as it will be, and leave one alone that would change again.

    Raises:
        UserError: a path or a rule file cannot be used.
    """
    policy = policy_for(settings, with_pins(root, target), show_text=show_text)
    others = may_decide if policy.needles["shell"] else None
    found = discover(root, paths, settings.include, settings.exclude, suffixes=tuple(languages()), others=others)
    run = _Run(root, policy)
    for path in found.files:
        run.take(path)
    for path in found.others:
        run.take_other(path)
    run.settle_waiting(found)
    locked = {note.path for note in not_writable(root, run.patches())}
    run.findings = settle_checkout(run.policy, run.findings, locked)
    if twice:
        run.leave_what_would_change_again()
    outside = [note for note in found.skipped if note.message == LEAVES_ROOT]
    told = [file_report(note.path, "symlink-outside", f"{LEAVES_ROOT}: not looked at") for note in outside]
    return Plan(
        root=root,
        target=target,
        findings=tuple(sorted([*run.findings, *told], key=lambda each: (each.mention.path, each.mention.start))),
        patches=run.patches(),
        errors=tuple(sorted(run.errors, key=lambda note: note.path)),
        skipped=tuple(note for note in found.skipped if note not in outside),
        files_scanned=len(found.files) + run.scripts,
    )


@dataclass
class _Run:
    """One run over the files of a checkout.

    Attributes:
        originals: the bytes of the files that a fix may change.
        waiting: the files with a fix that depends on the rest of the checkout.
        by_look: the readers of the files that change and are not known by their suffix.
        scripts: number of files that are near to a script, or are one by their first line.
    """

    root: Path
    policy: Policy
    findings: list[Finding] = field(default_factory=list)
    errors: list[FileNote] = field(default_factory=list)
    originals: dict[str, bytes] = field(default_factory=dict)
    waiting: list[tuple[Reading, list[Finding]]] = field(default_factory=list)
    by_look: dict[str, Language] = field(default_factory=dict)
    scripts: int = 0

    def take(self, path: str) -> None:
        """Read a file and decide about it."""
        try:
            data = _bytes_at(self.root, path)
        except OSError as error:
            self.errors.append(FileNote(path, f"cannot be read: {error.strerror}"))
            return
        self._decide(path, data)

    def _decide(self, path: str, data: bytes, language: Language | None = None) -> None:
        try:
            reading = read_file(path, data, self.policy, language)
        except ReadError as error:
            self.errors.append(FileNote(path, str(error)))
            return
        if reading is None:
            return
        if language is not None:
            self.by_look[path] = language
        if isinstance(reading, JsonReading) and not reading.is_known:
            self.findings += _named(path, OtherReading(reading.source, self.policy.vocabulary), self.policy)
            return
        found = decide(self.policy, reading)
        if any(finding.waits for finding in found):
            self.waiting.append((reading, found))
        else:
            self._settle(reading, found)

    def take_other(self, path: str) -> None:
        """Read a file that is near to a script; of one that no reader knows, say whether it sets something."""
        try:
            with open(self.root / path, "rb") as file:
                head = file.read(_HEAD)
                if b"\0" in head:
                    return
                data = head + file.read()
        except OSError as error:
            if language_of(path) is not None:
                self.errors.append(FileNote(path, f"cannot be read: {error.strerror}"))
            return
        language = language_of(path) or script_language(path, head)
        if language is None:
            self.findings += unread(path, data, self.policy)
            return
        self.scripts += 1
        self._decide(path, data, language)

    def settle_waiting(self, found: Discovery) -> None:
        """Make the fixes that depend on the rest of the checkout."""
        homes = _padding_homes(self.root, found) if self.waiting else None
        for reading, findings in self.waiting:
            self._settle(reading, with_homes(homes, reading.source, findings))

    def _settle(self, reading: Reading, findings: Sequence[Finding]) -> None:
        settled = settle_file(self.policy, reading, findings)
        if any(finding.edits for finding in settled):
            self.originals[reading.source.path] = reading.source.data
        self.findings += settled

    def leave_what_would_change_again(self) -> None:
        """Refuse the fixes of every file that a second run would change once more, until none is left.

        No rule means that; a file that shows it is not understood well enough to be changed.
        """
        settled: set[FilePatch] = set()
        while True:
            made = [patch for patch in self.patches().files if patch.sha256 is not None and patch not in settled]
            again = {patch.path for patch in made if self._changes_again(patch)}
            if not again:
                return
            settled.update(made)
            self.findings = settle_checkout(self.policy, self.findings, again, CHANGES_AGAIN)

    def _changes_again(self, patch: FilePatch) -> bool:
        path = patch.path
        after = patch.apply_to(self.originals[path])
        try:
            reading = read_file(path, after, self.policy, self.by_look.get(path))
        except ReadError:
            return True
        if reading is None:
            return False
        found = settle_file(self.policy, reading, with_homes(None, reading.source, decide(self.policy, reading)))
        return any(finding.verdict == REWRITE for finding in found)

    def patches(self) -> PatchSet:
        """The edits of all rewrites, as they stand now."""
        accepted = [finding for finding in self.findings if finding.verdict == REWRITE]
        edits = [edit for finding in accepted for edit in finding.edits]
        new_files = [finding.new_file for finding in accepted if finding.new_file is not None]
        return PatchSet.of(edits, self.originals.__getitem__, new_files)


def _padding_homes(root: Path, found: Discovery) -> PaddingHomes | None:
    """Where the padding helpers of flash_attn can come from: looked up in all of the checkout, whatever was named.

    None where ``root`` is itself inside a package, whose name is then not known.
    """
    if (root / "__init__.py").exists():
        return None
    modules = [path for path in found.checkout() if path.endswith(".py")]
    packages = [str(PurePosixPath(path).parent) for path in modules if PurePosixPath(path).name == "__init__.py"]
    return PaddingHomes.among(packages, _bytes_of(root, modules), padding_source())


def _bytes_of(root: Path, modules: Iterable[str]) -> Iterable[tuple[str, bytes]]:
    for path in modules:
        with suppress(OSError):
            yield path, _bytes_at(root, path)


def _bytes_at(root: Path, path: str) -> bytes:
    """The bytes of a file of the checkout, without a Path for each: there may be thousands."""
    with open(f"{root}/{path}", "rb") as file:
        return file.read()


def policy_for(settings: Settings, target: Target, *, show_text: bool = False) -> Policy:
    """The policy of a run.

    Raises:
        UserError: a rule file cannot be used, or a name in ``select`` or ``ignore`` is no rule.
    """
    rules = load_rules(settings.rules, deciding=True)
    ids = frozenset(rule.id for rule in rules)
    return Policy(_chosen(rules, settings), target, settings.unsafe, show_text, ids)


def _chosen(rules: Sequence[Rule], settings: Settings) -> tuple[Rule, ...]:
    """The rules after ``select`` and ``ignore``."""
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


def unread(path: str, data: bytes, policy: Policy) -> list[Finding]:
    """One report on a file of a kind that no reader knows, if a line of it sets what the rules look for.

    A list of requirements is known well enough for the report of the rule itself.
    """
    if not policy.needles["shell"].stand_in(data):
        return []
    language = PlainLanguage()
    try:
        source = language.open(path, data)
    except ReadError:
        return []
    reading = language.read(source, policy.vocabulary)
    return _acting(policy, reading) if reading.is_list else _named(path, reading, policy)


def _acting(policy: Policy, reading: Reading) -> list[Finding]:
    return [each for each in decide(policy, reading) if each.action in (REWRITE, REPORT) and each.rule in policy.known]


def _named(path: str, reading: Reading, policy: Policy) -> list[Finding]:
    """One report on a file that is not understood, if something in it acts."""
    found = _acting(policy, reading)
    if not found:
        return []
    first = min((each.mention for each in found), key=lambda mention: mention.start)
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    says = f"{first.key}: {first.text}" if first.key else first.text
    message = f"no reader understands this file, and it decides ({says}{more}): see to it yourself"
    return [replace(file_report(path, "not-read", message), mention=replace(first, language="", kind="file"))]


def read_file(path: str, data: bytes, policy: Policy, language: Language | None = None) -> Reading | None:
    """The reading of one file; None where its language is not known or nothing that the rules look for stands in it.

    Args:
        path: the file, relative to the root of the run.
        data: its bytes.
        policy: what decides.
        language: the reader, where the file is not known by its suffix.

    Raises:
        ReadError: the bytes cannot be decoded or parsed.
    """
    known = language or language_of(path)
    needles = policy.needles.get(known.name) if known else None
    if known is None or not needles or not (needles.stand_in(data) or known.hides(data)):
        return None
    source = known.open(path, data)
    if language is not None:
        source = replace(source, facts=source.facts | {BY_LOOK})
    return known.read(source, policy.vocabulary, policy.show_text)


def file_findings(path: str, data: bytes, policy: Policy) -> list[Finding]:
    """The findings of one file, from its bytes alone; none where its language is not known.

    Raises:
        ReadError: the bytes cannot be decoded or parsed.
    """
    reading = read_file(path, data, policy)
    if reading is None:
        return []
    found = with_homes(None, reading.source, decide(policy, reading))
    return settle_file(policy, reading, found)
