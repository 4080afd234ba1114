"""Deciding: every mention of a file ends in exactly one verdict, and every rewrite in checked edits.

In three steps: the first rule that claims a mention gives its verdict; mentions that follow others (a check and the
default it guards, an import and its uses, packing and the attention beside it) are settled with them; then the edits
are made, and what cannot be written in one piece becomes a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from precpatch.engine.finding import KEEP, REPORT, REWRITE, SUPPRESSED, UNSAFE, Finding
from precpatch.engine.policy import Policy
from precpatch.engine.rules import Match, Rule
from precpatch.engine.setups import ATTENTION, PACKING, SEQUENCE_PARALLEL, Setups, with_neighbours
from precpatch.engine.suppressions import Suppressions
from precpatch.languages.base import Reading
from precpatch.languages.mention import ROLES, Mention, place
from precpatch.languages.source import BY_LOOK, SourceFile
from precpatch.patch.edits import Edit

WAITS = "padding"
"""What a rule rewrites to where the rest of the checkout decides: the edits are made last."""


@dataclass
class _Case:
    """One mention on its way to a verdict."""

    mention: Mention
    rule: Rule | None
    verdict: str
    message: str
    edits: tuple[Edit, ...] = ()
    group: str | None = None

    @property
    def waits(self) -> bool:
        """Whether its edits are made last."""
        return self.verdict == REWRITE and self.rule is not None and self.rule.to == WAITS

    def lower(self, verdict: str, message: str) -> None:
        """Take a rewrite back."""
        self.verdict, self.message, self.edits = verdict, message, ()


def decide(policy: Policy, reading: Reading) -> list[Finding]:
    """The findings of each mention, in the same order: its verdict, and the reports that come beside it.

    Switches and imports that no rule claims are not told: they say nothing about this target.
    """
    source = reading.source
    suppressions = Suppressions(source)
    mentions = with_neighbours(policy.vocabulary, reading.mentions)
    if BY_LOOK in source.facts:
        mentions = [_with_fact(mention, BY_LOOK) for mention in mentions]
    cases = [_shared_verdict(policy, suppressions, mention) for mention in mentions]
    _hold_back_attention(policy, cases)
    _settle_followers(cases)
    _settle_sizes(policy, cases)
    _hold_back_refused(policy, cases)
    _settle_imports(cases)
    _make_edits(policy, reading, cases)
    _hold_back_attention(policy, cases)
    told = [case for case in cases if case.rule is not None or case.mention.kind in {"dtype", "attention"}]
    findings = [_finding(source, each) for case in told for each in (case, *_alongside(policy, suppressions, case))]
    return [*findings, *suppressions.findings(reading.mentions, policy.rules, policy.active, policy.known)]


# --- the first verdict ---------------------------------------------------------------------------------------------


def _with_fact(mention: Mention, fact: str) -> Mention:
    also = tuple(_with_fact(each, fact) for each in mention.also)
    return replace(mention, facts=mention.facts | {fact}, also=also)


def _shared_verdict(policy: Policy, suppressions: Suppressions, mention: Mention) -> _Case:
    """The verdict on a mention; where several settings take its value, the most careful of theirs.

    A switch is only rewritten where that suits all of them; the name of a dtype means the same to each.
    """
    cases = [_first_verdict(policy, suppressions, each) for each in (mention, *mention.also)]
    told = [case for case in cases if case.rule is not None]
    if not told:
        return cases[0]
    case = next((each for each in told if each.verdict != REWRITE), told[0])
    differs = len(told) < len(cases) and mention.kind == "switch"
    if case.verdict == REWRITE and (differs or len({each.rule.to for each in told if each.rule}) > 1):
        case.lower(REPORT, f"{case.message}; not rewritten: it means something else to another setting")
    if mention.used_by:
        case.message = f"{case.message}; used by {', '.join(mention.used_by)}"
    return case


def _first_verdict(policy: Policy, suppressions: Suppressions, mention: Mention) -> _Case:
    rule = next((rule for rule in _claiming(policy, mention) if rule.decides), None)
    if rule is None:
        return _Case(mention, None, KEEP, f"kept: {_why_unclaimed(policy, mention)}")
    message = _message(rule, policy, mention)
    if suppressions.covers(mention, rule.id):
        return _Case(mention, rule, SUPPRESSED, "suppressed by a comment")
    if rule.action in {"report", "keep"}:
        return _Case(mention, rule, rule.action, message)
    if (rule.safety == "unsafe" or BY_LOOK in mention.facts) and not policy.unsafe:
        return _Case(mention, rule, UNSAFE, f"{message} (a fix to review: --unsafe makes it)")
    return _Case(mention, rule, REWRITE, message)


def _why_unclaimed(policy: Policy, mention: Mention) -> str:
    """Why no rule claims a mention, for a person."""
    if mention.role in {"comment", "docstring", "message", "text", "key"}:
        return ROLES[mention.role]
    if mention.kind == "dtype" and mention.value != "bfloat16":
        return f"{mention.value} is not what the rules look for"
    if mention.kind == "attention" and mention.value not in policy.vocabulary.flash:
        return f"{mention.value} runs everywhere"
    if mention.role == "value" and mention.key:
        return f"no rule knows {mention.key} as a precision setting"
    return ROLES[mention.role]


def _alongside(policy: Policy, suppressions: Suppressions, case: _Case) -> list[_Case]:
    """The reports of rules that only add to what is rewritten at the place."""
    if case.verdict != REWRITE:
        return []
    return [
        _Case(case.mention, rule, REPORT, _message(rule, policy, case.mention))
        for rule in _claiming(policy, case.mention)
        if rule.alongside and not suppressions.covers(case.mention, rule.id)
    ]


def _claiming(policy: Policy, mention: Mention) -> Iterator[Rule]:
    """The rules that claim a mention, in the order in which they are asked."""
    for rule, matches in policy.rules_for(mention):
        if rule.follows and not mention.follows and rule.otherwise == KEEP:
            continue
        if any(match.fits_else(mention) and _allows(match, policy, mention) for match in matches):
            yield rule


def claims(rule: Rule, policy: Policy, mention: Mention) -> bool:
    """Whether the rule, which is for this target, claims the mention."""
    if rule.follows and not mention.follows and rule.otherwise == KEEP:
        return False
    return any(match.fits(mention) and _allows(match, policy, mention) for match in rule.matches)


def _allows(match: Match, policy: Policy, mention: Mention) -> bool:
    """Whether the values that a declared set accepts are as asked."""
    if match.allows_target is None:
        return True
    return mention.allowed is not None and (policy.wanted(mention) in mention.allowed) is match.allows_target


def _message(rule: Rule, policy: Policy, mention: Mention) -> str:
    text = rule.message
    values = {
        "value": mention.value,
        "key": mention.key or "",
        "callee": mention.callee or "",
        "dtype": policy.target.dtype,
        "attention": policy.target.attention,
        "target": policy.target.name,
        "wanted": policy.wanted(mention),
        "pin": str(policy.target.vllm_pin or ""),
    }
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return " ".join(text.split())


# --- mentions that change together ---------------------------------------------------------------------------------


def _settle_followers(cases: list[_Case]) -> None:
    """A mention that follows others acts only where one of them is rewritten, and then in one group with it."""
    at = {case.mention.start: case for case in cases}
    for case in cases:
        if case.rule is None or not case.rule.follows or case.verdict != REWRITE or case.mention.role == "import":
            continue
        leaders = [at[start] for start in case.mention.follows if start in at and at[start].verdict == REWRITE]
        if not leaders:
            case.lower(case.rule.otherwise, case.message)
            continue
        _join(cases, [case, *leaders])


def _hold_back_refused(policy: Policy, cases: list[_Case]) -> None:
    """A check that stays as it is, suppressed or its rule left out, holds back the default that it would refuse."""
    at = {case.mention.start: case for case in cases}
    for case in cases:
        mention = case.mention
        refuses = mention.allowed is not None and policy.wanted(mention) not in mention.allowed
        if mention.role != "allowed-values" or "check" not in mention.facts or not refuses or case.verdict == REWRITE:
            continue
        for start in mention.follows:
            if start in at and at[start].verdict == REWRITE and at[start].mention.value == mention.value:
                reason = f"the check on line {mention.line} stays and would refuse it"
                at[start].lower(REPORT, f"{at[start].message}; not rewritten: {reason}")


def _hold_back_attention(policy: Policy, cases: list[_Case]) -> None:
    """Attention stays FlashAttention where it would be silently wrong beside packing, or a size, that stays.

    What stays is reported, suppressed, or of a rule that is left out. Packing that is turned off with it makes a
    framework that asks for packing refuse the size, which is not silent.
    """
    told = {REPORT, SUPPRESSED, UNSAFE}
    stays = Setups(policy.vocabulary, (case.mention for case in cases if case.verdict in told or case.rule is None))
    sizes = Setups(policy.vocabulary, (case.mention for case in cases if case.verdict != REWRITE))
    lowered: list[_Case] = []
    for case in cases:
        if case.verdict != REWRITE or stays.concept(case.mention) != ATTENTION:
            continue
        mention = case.mention
        other = next(stays.beside(mention, PACKING), None)
        if other is None and "sequence-parallel" in mention.facts and "packed" not in mention.facts:
            other = next(sizes.beside(mention, SEQUENCE_PARALLEL), None)
        if other is not None:
            case.lower(REPORT, f"{case.message}; not rewritten: {_stays_beside(policy, other)}")
            lowered.append(case)
    _lower_groups(cases, lowered)


def _stays_beside(policy: Policy, other: Mention) -> str:
    """Why attention cannot change while ``other`` stays."""
    value = "a value of run time" if other.value == "variable" else other.value
    gets_wrong = f"which {policy.target.attention} gets wrong without an error"
    return f"{other.key} on line {other.line} stays {value}, {gets_wrong}"


def _settle_sizes(policy: Policy, cases: list[_Case]) -> None:
    """A size of sequence parallelism becomes 1 together with the packing and the attention beside it, or not at all."""
    setups = Setups(policy.vocabulary, (case.mention for case in cases if case.rule is not None))
    at = {(case.mention.start, case.mention.kind): case for case in cases}
    joined: set[int] = set()
    for case in cases:
        if case.verdict != REWRITE or setups.concept(case.mention) != SEQUENCE_PARALLEL or case.mention.setup in joined:
            continue
        joined.add(case.mention.setup)
        beside = (SEQUENCE_PARALLEL, PACKING, ATTENTION)
        found = [at[each.start, each.kind] for concept in beside for each in setups.beside(case.mention, concept)]
        stays = next((each for each in found if each.verdict in {REPORT, SUPPRESSED, UNSAFE}), None)
        if stays is None:
            _join(cases, found)
            continue
        for each in found:
            if each.verdict == REWRITE:
                why = f"not rewritten: {stays.mention.key} on line {stays.mention.line} stays, and they go together"
                each.lower(REPORT, f"{each.message}; {why}")


def _join(cases: list[_Case], members: list[_Case]) -> None:
    """Put the members, and all that are in a group with one of them, in one group."""
    old = {member.group for member in members if member.group}
    group = f"{members[0].mention.path}:{min(member.mention.start for member in members)}"
    for case in cases if old else ():
        if case.group in old:
            case.group = group
    for member in members:
        member.group = group


def _settle_imports(cases: list[_Case]) -> None:
    """``from torch import bfloat16 [as bf]`` changes with its uses: all of them, some of them, or none."""
    at = {case.mention.start: case for case in cases}
    by_uses: dict[int, list[_Case]] = {}
    for case in cases:
        if case.mention.kind == "dtype" and case.mention.role == "import":
            by_uses.setdefault(id(case.mention.follows), []).append(case)
    for imports in by_uses.values():
        uses = [at[start] for start in imports[0].mention.follows if start in at]
        stays = next((case for case in imports if case.verdict != REWRITE), None)
        if stays is not None:
            _keep_with_import(cases, stays, uses)
        _settle_import(cases, [case for case in imports if case.verdict == REWRITE], uses)


def _settle_import(cases: list[_Case], imports: list[_Case], uses: list[_Case]) -> None:
    """Settle the imports of one name, which all have the same uses."""
    changing = [use for use in uses if use.verdict == REWRITE]
    if not changing:
        for case in imports:
            case.lower(KEEP, "kept: no use of the name is rewritten")
        return
    mixed = len(changing) < len(uses) or any("mixed-import" in case.mention.facts for case in imports)
    if not mixed and all("aliased" in case.mention.facts for case in imports):
        for use in changing:
            use.lower(KEEP, f"kept: follows the import on line {imports[0].mention.line}")
        return
    for case in imports:
        if mixed or "aliased" in case.mention.facts:
            case.mention = replace(case.mention, facts=case.mention.facts | {"mixed-import"})
    _join(cases, [*imports, *changing])


def _keep_with_import(cases: list[_Case], imported: _Case, uses: list[_Case]) -> None:
    """The uses of an import that stays as it is, and all that goes with them, stay too: the new name is unknown."""
    held = [use for use in uses if use.verdict == REWRITE]
    for use in held:
        use.lower(REPORT, f"{use.message}; not rewritten: the import of the name on line {imported.mention.line} stays")
    _lower_groups(cases, held)


def _lower_groups(cases: list[_Case], lowered: list[_Case]) -> None:
    """Take back what is in one group with a case that was lowered."""
    groups = {case.group for case in lowered} - {None}
    for case in cases if groups else ():
        if case.group in groups and case.verdict == REWRITE:
            case.lower(REPORT, f"{case.message}; its group cannot be rewritten as a whole")


# --- edits ---------------------------------------------------------------------------------------------------------


def _make_edits(policy: Policy, reading: Reading, cases: list[_Case]) -> None:
    for case in cases:
        if case.verdict in {REWRITE, UNSAFE} and case.rule is not None and not case.waits:
            case.edits = _edits(policy, reading, case.rule, case.mention)
    _drop_unchanged(cases)
    failed = {case.group or id(case) for case in cases if case.verdict == REWRITE and not (case.edits or case.waits)}
    for case in cases:
        if case.verdict == REWRITE and (case.group or id(case)) in failed:
            alone = case.group is None
            reason = "it cannot be rewritten in place" if alone else "its group cannot be rewritten as a whole"
            case.lower(REPORT, f"{case.message}; {reason}")


def _drop_unchanged(cases: list[_Case]) -> None:
    """An edit that changes nothing is no edit: the place says what the target wants already."""
    for case in cases:
        if case.edits and all(edit.old == edit.new for edit in case.edits):
            case.lower(KEEP, "kept: says what the target wants already")


def _edits(policy: Policy, reading: Reading, rule: Rule, mention: Mention) -> tuple[Edit, ...]:
    """The edits that a rule asks for; none where it cannot be written in one piece."""
    value = {"dtype": policy.target.dtype, "attention": policy.target.attention}.get(rule.to, rule.to)
    change = reading.extend if rule.action == "extend" else reading.rewrite
    try:
        return change(mention, value)
    except ValueError:
        return ()


def _finding(source: SourceFile, case: _Case) -> Finding:
    rule = case.rule
    return Finding(
        rule=rule.id if rule else "",
        mention=_shown(source, case),
        verdict=case.verdict,
        severity=rule.severity if rule and case.verdict != KEEP else "info",
        message=case.message,
        after=_after(source, case),
        edits=case.edits,
        override=_override(case),
        group=case.group,
        waits=case.waits,
    )


def _shown(source: SourceFile, case: _Case) -> Mention:
    """The mention as it is told: for a list that is extended, the whole list and not the one name in it."""
    if case.rule is None or case.rule.action != "extend" or len(case.edits) != 1:
        return case.mention
    edit = case.edits[0]
    start = source.index(edit.start)
    return replace(case.mention, **place(source, start, start + len(edit.old.decode(source.encoding))))


def _after(source: SourceFile, case: _Case) -> str | None:
    """The text that stands in the mention's place once its edits are made."""
    if not case.edits or case.verdict not in {REWRITE, UNSAFE}:
        return None
    edit = case.edits[0]
    return edit.new.decode(source.encoding, "replace")


def _override(case: _Case) -> str | None:
    """The Hydra override that would do the same, where the file is a whole trainer config."""
    mention = case.mention
    if case.verdict != REWRITE or "primary-config" not in mention.facts or not mention.key_path or not case.edits:
        return None
    if "[" in mention.key_path or mention.role not in {"value", "switch"}:
        return None
    value = case.edits[0].new.decode("utf-8", "replace").strip("'\"")
    return f"++{mention.key_path}={value}"
