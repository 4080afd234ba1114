"""One check of the facts: the case that holds, else the cards that the installed version runs on."""

from __future__ import annotations

from precpatch.doctor.checks.check import Check
from precpatch.doctor.checks.situation import Situation
from precpatch.doctor.checks.torch import install_command
from precpatch.doctor.facts import Case, CheckFacts, Support
from precpatch.doctor.versions import version_of, within
from precpatch.gpu.capability import format_compute_capability, parse_compute_capability


def package_check(situation: Situation, facts: CheckFacts) -> Check | None:
    """The verdict of ``facts``; None where there is nothing to say."""
    for case in facts.cases:
        if situation.holds(case):
            return _by_case(situation, facts, case)
    version = situation.value(facts.package)
    if version is None:
        return _unknown(facts, facts.missing) if facts.missing and situation.card else None
    if situation.card is None:
        return None
    if version_of(version) is None:
        return _unknown(facts, f"{facts.title} {version}: this is no version that can be compared")
    rows = support_of(situation, facts, version)
    if rows:
        return _by_support(situation, facts, rows[0], version)
    if facts.shown == "unless-known":
        return None
    return _unknown(facts, f"{facts.title} {version}: no fact about this version on {_card(situation)}")


def support_of(situation: Situation, facts: CheckFacts, version: str) -> list[Support]:
    """The rows about ``version`` with the CUDA of the torch build."""
    cuda = situation.environment.cuda
    return [
        row for row in facts.support if within(version, row.versions) and (row.cuda is None or within(cuda, row.cuda))
    ]


def serves(situation: Situation, row: Support) -> bool:
    """Whether the versions of ``row`` run on the target."""
    card = situation.card
    if card is None:
        return False
    if row.minimum is not None:
        return card >= (parse_compute_capability(row.minimum) or card)
    return row.code is not None and row.code.serves(card, situation.facts.alone)


def newest_serving(situation: Situation, facts: CheckFacts) -> Support | None:
    """The last row whose versions run on the target and say what to install."""
    return next((row for row in reversed(facts.support) if row.install and serves(situation, row)), None)


def install_of(situation: Situation, row: Support | None) -> str | None:
    """The command that installs the versions of ``row``."""
    return f"{situation.environment.pip} install '{row.install}'" if row else None


def _by_case(situation: Situation, facts: CheckFacts, case: Case) -> Check:
    version = situation.value(facts.package)
    return Check(
        id=facts.id,
        title=facts.title,
        status=case.status,
        seen=_filled(situation, case.seen, version) or "",
        why=facts.why,
        fix=_filled(situation, case.fix, version) if case.fix else None,
        doubt=case.doubt(version),
        sources=case.sources,
    )


def _by_support(situation: Situation, facts: CheckFacts, row: Support, version: str) -> Check:
    served = serves(situation, row)
    fix = None
    if not served:
        fix = install_of(situation, newest_serving(situation, facts))
        fix = fix or (_filled(situation, row.otherwise, version) if row.otherwise else None)
    return Check(
        id=facts.id,
        title=facts.title,
        status="ok" if served else "fail",
        seen=f"{facts.title} {version} {_reach(row)}; the target has {_card(situation)}",
        why=facts.why,
        fix=fix,
        doubt=row.doubt(version),
        sources=row.sources,
    )


def _reach(row: Support) -> str:
    cuda = f" (CUDA {row.cuda})" if row.cuda else ""
    return f"has code for {row.code}{cuda}" if row.code else f"needs {row.minimum} or more{cuda}"


def _unknown(facts: CheckFacts, seen: str) -> Check:
    return Check(id=facts.id, title=facts.title, status="unknown", seen=seen, why=facts.why)


def _filled(situation: Situation, text: str, version: str | None) -> str | None:
    """``text`` with its placeholders filled; None where it needs a torch build and there is none."""
    torch = install_command(situation) if "{torch}" in text else ""
    if torch is None:
        return None
    return text.format(
        pip=situation.environment.pip,
        torch=torch,
        version=version,
        capability=_card(situation),
        dtype=situation.target.dtype,
        attention=situation.target.attention,
    )


def _card(situation: Situation) -> str:
    return format_compute_capability(situation.card) or "no compute capability"
