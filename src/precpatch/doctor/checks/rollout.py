"""Can the rollout engines that the checkout's configs name run on the target."""

from __future__ import annotations

from dataclasses import dataclass

from precpatch.doctor.checkout import UNSET
from precpatch.doctor.checks.check import Check
from precpatch.doctor.checks.packages import newest_serving, package_check, serves, support_of
from precpatch.doctor.checks.situation import Situation
from precpatch.doctor.facts import CheckFacts, Engine, Source
from precpatch.doctor.versions import within
from precpatch.gpu.capability import format_compute_capability

WHY = (
    "verl generates its samples with the engine of rollout.name. Where none runs, the trainer half (SFT, log-probs, "
    "updates) is all that a card can do."
)
OVERRIDE = "++actor_rollout_ref.rollout.name"

_SAID = {"ok": "runs on", "warn": "is doubtful on", "fail": "does not run on", "unknown": "is not known on"}


@dataclass(frozen=True, slots=True)
class _Offer:
    """An engine that can run on the target.

    Attributes:
        engine: its name.
        requirement: what to install for it; "" where verl is enough.
        asked: False where this verl asks for another version of it.
        sources: where that was read.
    """

    engine: str
    requirement: str
    asked: bool
    sources: tuple[Source, ...]


def rollout_checks(situation: Situation) -> tuple[Check, ...]:
    """A check for each engine that a config names, or one on the choice where they leave it open."""
    if situation.checkout is None or situation.card is None:
        return ()
    places = situation.checkout.engines
    named = [engine for engine in situation.facts.engines if engine.name in places]
    if named:
        return tuple(_named(situation, each, f"rollout.name is {each.name} ({places[each.name]})") for each in named)
    return (_open_choice(situation, places[UNSET]),) if UNSET in places else ()


def _named(situation: Situation, engine: Engine, seen: str) -> Check:
    if engine.check is None:
        return _of_verl(situation, engine, seen)
    facts = situation.facts.check(engine.check)
    installed = package_check(situation, facts)
    if installed is None:
        return _not_installed(situation, engine, facts, seen)
    return _installed(situation, engine, installed, f"{seen}; the installed {facts.title}")


def _of_verl(situation: Situation, engine: Engine, seen: str) -> Check:
    """An engine that is part of verl, in some of its releases."""
    verl = situation.verl
    status, said = "unknown", "whether this verl has it is not known"
    if within(verl, engine.verl or ""):
        status, said = "ok", f"verl {verl} runs it without another package"
    elif within(verl, engine.not_verl or ""):
        status, said = "fail", f"verl {verl} no longer has it: the class is there, and nothing can build it"
    return Check(
        id=f"rollout-{engine.name}",
        title="rollout engine",
        status=status,
        seen=f"{seen}; {said}",
        why=WHY,
        fix=_another(situation, engine) if status == "fail" else None,
        doubt=engine.fact.doubt(verl) if engine.fact else "",
        sources=engine.fact.sources if engine.fact else (),
    )


def _installed(situation: Situation, engine: Engine, installed: Check, seen: str) -> Check:
    """The verdict on the installed package, and whether it is what this verl asks for."""
    facts = situation.facts.check(engine.check or "")
    version = situation.environment.packages[facts.package]
    asked = situation.facts.asked_of(engine.name, situation.verl)
    status, sources, fix = installed.status, installed.sources, installed.fix
    said = f"{version} {_SAID[status]} {_card(situation)}"
    if asked and status != "unknown" and not within(version, asked.versions):
        status = "warn" if status == "ok" else status
        said += f", and verl {situation.verl} asks for {asked.versions}"
        sources += asked.sources
        offer = _offer(situation, engine)
        fix = _install(situation, offer) if offer and offer.asked else fix
    if status == "fail":
        fix = fix or _another(situation, engine)
    return Check(
        id=f"rollout-{engine.name}",
        title="rollout engine",
        status=status,
        seen=f"{seen} {said}",
        why=WHY,
        fix=fix,
        doubt=installed.doubt,
        sources=sources,
    )


def _not_installed(situation: Situation, engine: Engine, facts: CheckFacts, seen: str) -> Check:
    """Whether there is a release of the engine to install."""
    offer = _offer(situation, engine)
    said = f"{facts.title} is not installed" if offer else f"no known {facts.title} runs on {_card(situation)}"
    if offer and not offer.asked:
        said += f", and what this verl asks for does not run on {_card(situation)}"
    return Check(
        id=f"rollout-{engine.name}",
        title="rollout engine",
        status="warn" if offer else "fail",
        seen=f"{seen}; {said}",
        why=WHY,
        fix=_install(situation, offer) if offer else _another(situation, engine),
        doubt=_untried(offer),
        sources=offer.sources if offer else _sources_of(facts),
    )


def _open_choice(situation: Situation, place: str) -> Check:
    """The configs leave the engine to the launch command."""
    offers = _offers(situation)
    asked = [offer for offer in offers if offer.asked]
    verl = f"verl {situation.verl}" if situation.verl else "this verl"
    if asked:
        status, said = "ok", f"on {_card(situation)} it can be {' or '.join(offer.engine for offer in asked)}"
    elif offers:
        status = "warn"
        said = f"no engine in a version that {verl} asks for runs on {_card(situation)}; {offers[0].requirement} does"
    else:
        status, said = "fail", f"no engine of {verl} runs on {_card(situation)}"
    checks = [situation.facts.check(engine.check) for engine in situation.facts.engines if engine.check]
    shown = [offer.sources for offer in asked or offers] or [_sources_of(facts) for facts in checks]
    return Check(
        id="rollout",
        title="rollout engine",
        status=status,
        seen=f"rollout.name is left to the launch command ({place}); {said}",
        why=WHY,
        fix=_install(situation, offers[0]) if status == "warn" else None,
        doubt=_untried(offers[0]) if status == "warn" else "",
        sources=tuple(dict.fromkeys(source for group in shown for source in group)),
    )


def _offers(situation: Situation) -> list[_Offer]:
    found = (_offer(situation, engine) for engine in situation.facts.engines)
    return [offer for offer in found if offer]


def _offer(situation: Situation, engine: Engine) -> _Offer | None:
    """How the engine can run on the target: in the version that verl asks for, else in another one."""
    if engine.check is None:
        has_it = engine.fact is not None and within(situation.verl, engine.verl or "")
        return _Offer(engine.name, "", True, engine.fact.sources) if engine.fact and has_it else None
    facts = situation.facts.check(engine.check)
    asked = situation.facts.asked_of(engine.name, situation.verl)
    rows = support_of(situation, facts, asked.newest) if asked else []
    if asked and rows and serves(situation, rows[0]):
        return _Offer(engine.name, f"{facts.package}{asked.versions}", True, rows[0].sources + asked.sources)
    best = newest_serving(situation, facts)
    if best is None or best.install is None:
        return None
    return _Offer(engine.name, best.install, asked is None, best.sources + (asked.sources if asked else ()))


def _another(situation: Situation, engine: Engine) -> str | None:
    """The override that chooses an engine that can run, one that verl asks for first."""
    others = [offer for offer in _offers(situation) if offer.engine != engine.name]
    others.sort(key=lambda offer: not offer.asked)
    return f"{OVERRIDE}={others[0].engine}" if others else None


def _install(situation: Situation, offer: _Offer) -> str:
    return f"{situation.environment.pip} install '{offer.requirement}'"


def _untried(offer: _Offer | None) -> str:
    return "" if offer is None or offer.asked else f"{offer.requirement} was not tried with this verl"


def _sources_of(facts: CheckFacts) -> tuple[Source, ...]:
    return tuple(dict.fromkeys(source for row in facts.support for source in row.sources))


def _card(situation: Situation) -> str:
    return format_compute_capability(situation.card) or ""
