"""The step ``imports``: the entry points import, and so does what they reach, or it needs what the target has not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from precpatch.engine.padding import SHIM as HELPERS
from precpatch.report.line import plural
from precpatch.verify.modules import Module, Modules
from precpatch.verify.outcome import FAILED, OK, Problem, Step
from precpatch.verify.processes import Answer, Job, Workplace, do_jobs
from precpatch.verify.verdicts import DOES_NOT_RUN, FLASH_ATTN, Judge, Verdict

_FRAMEWORKS = ("torch", "hydra", "omegaconf")
_MOST_ALSO = 3
_HELPER = f".{HELPERS}"


def module_job(number: int, module: Module) -> Job:
    """The job to import a module. One that may be a script has its folder on the path, as when it is run."""
    folders = [] if module.base == "." else [module.base]
    is_script = not module.is_packaged and not module.is_relative
    if not module.is_packaged:
        folders.append(module.path.rpartition("/")[0] or ".")
    name = "" if is_script or not all(map(str.isidentifier, module.name.split("."))) else module.name
    return {"id": number, "kind": "module", "name": name, "path": module.path, "folders": folders}


def imports_step(
    judge: Judge,
    entries: Sequence[Module],
    required: Sequence[Module],
    answers: Mapping[str, Answer],
    python: str,
) -> Step:
    """What the answers mean, which are by the path of the module.

    Args:
        judge: says what a failure means.
        entries: the entry points.
        required: those of them that have to start; where the user named none, at least one that uses torch has to.
        answers: how each import went.
        python: the interpreter, for the advice.
    """
    modules = judge.modules
    failed = {
        path: verdict for path, answer in answers.items() if (verdict := judge.judge(modules.by_path[path], answer))
    }
    stuck = {module.path: failed[module.path] for module in entries if module.path in failed}
    fatal = {path: verdict for path, verdict in stuck.items() if not verdict.needs or verdict.is_there}
    fatal |= {module.path: failed[module.path] for module in required if module.path in failed}
    if not required and not fatal:
        fatal = _no_way_in(modules, entries, stuck)
    fatal |= {path: verdict for path, verdict in failed.items() if verdict.needs in _FRAMEWORKS}
    causes = {verdict.problem for verdict in fatal.values()}
    broken = {path: verdict for path, verdict in failed.items() if not verdict.needs or verdict.problem in causes}
    unneeded = {
        path: f"needs {verdict.needs}" for path, verdict in failed.items() if path not in broken and path not in stuck
    }
    cannot_start = {path: verdict for path, verdict in stuck.items() if path not in broken}
    imported = len(answers) - len(failed)
    lost = _lost(modules, [modules.by_path[path] for path in answers])
    problems = [*_problems(broken, python)]
    told = "".join(problem.message for problem in problems)
    problems += [problem for problem in _missing_helpers(lost) if problem.message.partition(",")[0] not in told]
    return Step(
        "imports",
        FAILED if problems else OK,
        _summary(entries, imported, len(unneeded)),
        tuple(problems),
        (*_notes(cannot_start, unneeded), *_other_lost(lost)),
        unneeded,
        {
            "entry_points": len(entries),
            "cannot_start": len(cannot_start),
            "imported": imported,
            "not_needed": len(unneeded),
            "failed": len(broken),
        },
    )


def _no_way_in(modules: Modules, entries: Sequence[Module], stuck: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The entry points that train and cannot start, where not one of those can."""
    trainers = [module for module in entries if modules.uses_at_once(module, "torch")] or list(entries)
    if any(module.path not in stuck for module in trainers):
        return {}
    return {module.path: stuck[module.path] for module in trainers}


def _lost(modules: Modules, reached: Sequence[Module]) -> dict[str, list[Problem]]:
    """The modules of the checkout that are imported, be it in a function, and are not there; and where."""
    lost: dict[str, list[Problem]] = {}
    for module, line, name in modules.lost(reached):
        lost.setdefault(name, []).append(Problem(module.path, line, f"{name} is not there"))
    return {name: sorted(places) for name, places in lost.items()}


def _missing_helpers(lost: Mapping[str, list[Problem]]) -> Iterator[Problem]:
    """Those that apply has added, so that something has removed them since."""
    for name, places in lost.items():
        if name.endswith(_HELPER):
            more = f" (and for {plural(len(places) - 1, 'other import')})" if len(places) > 1 else ""
            yield replace(places[0], message=f"{name}, which apply added, is not there{more}: revert and apply again")


def _other_lost(lost: Mapping[str, list[Problem]]) -> Iterator[str]:
    """Those that were never there: a release may lack a folder, and be used without it."""
    for name, places in lost.items():
        if not name.endswith(_HELPER):
            yield f"{name} is not in the checkout; imported at {places[0].place}"


def _summary(entries: Sequence[Module], imported: int, unneeded: int) -> str:
    ways = plural(len(entries), "entry point") if entries else "no entry point found, so every module was looked at"
    return f"{ways}, {plural(imported, 'module')} imported, {unneeded} not needed here"


def _problems(broken: Mapping[str, Verdict], python: str) -> Iterator[Problem]:
    """One problem for all modules that fail at the same place."""
    by_place: dict[Problem, list[str]] = {}
    for path, verdict in broken.items():
        by_place.setdefault(verdict.problem, []).append(path)
    for problem, paths in sorted(by_place.items()):
        needs = broken[paths[0]].needs
        needs = "" if DOES_NOT_RUN in problem.message and needs not in _FRAMEWORKS else needs  # it would not help
        yield replace(problem, message=f"{problem.message}{_advice(needs, python)}{_also(problem.path, paths)}")


def _advice(needs: str, python: str) -> str:
    if needs in _FRAMEWORKS:
        return f", for {python}: name the interpreter that runs verl with --python FILE"
    return f"; install {needs} for {python}, or name another interpreter with --python FILE" if needs else ""


def _also(path: str, paths: Sequence[str]) -> str:
    others = sorted(each for each in paths if each != path)
    if not others:
        return ""
    more = f" and {len(others) - _MOST_ALSO} more" if len(others) > _MOST_ALSO else ""
    return f" (stops {', '.join(others[:_MOST_ALSO])}{more})"


def _notes(cannot_start: Mapping[str, Verdict], unneeded: Mapping[str, str]) -> Iterator[str]:
    for path, verdict in cannot_start.items():
        yield f"{path} cannot start here: it needs {verdict.needs} ({verdict.problem.place})"
    counts: dict[str, int] = {}
    for why in unneeded.values():
        counts[why] = counts.get(why, 0) + 1
    if counts:
        named = ", ".join(
            f"{count} {why}" for why, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        )
        yield f"not needed here: {named}"


def import_all(place: Workplace, modules: Iterable[Module], jobs: Sequence[Job], judge: Judge) -> dict[int, Answer]:
    """Do import jobs and others; a failure that an earlier one may have brought about is tried again by itself.

    Of those that fail at the same place one is tried again, and the others where that one comes out differently.
    """
    by_path = {module.path: module for module in modules}
    answers = do_jobs(place, jobs)
    for job in jobs:
        if job["kind"] == "config" and _is_doubtful_config(answers[job["id"]]):
            answers |= do_jobs(place, [job])
    doubtful: dict[Problem, list[Job]] = {}
    for job in jobs:
        verdict = judge.judge(by_path[job["path"]], answers[job["id"]]) if job["kind"] == "module" else None
        is_doubtful = answers[job["id"]].get("again") or not job.get("name")
        if verdict and is_doubtful and not (verdict.needs or _is_flash(verdict)):
            doubtful.setdefault(verdict.problem, []).append({**job, "folders_first": not job["name"]})
    for problem, same in doubtful.items():
        answers |= _tried_again(place, same, problem, lambda job, each: judge.judge(by_path[job["path"]], each))
    return answers


def _is_doubtful_config(answer: Answer) -> bool:
    return bool(answer.get("again") and any(answer.get(name) for name in ("failure", "crash", "problems")))


def _tried_again(
    place: Workplace, same: Sequence[Job], problem: Problem, judge: Callable[[Job, Answer], Verdict | None]
) -> dict[int, Answer]:
    """The answers to jobs that have all failed with ``problem``, as far as a process of their own changes them."""
    answers = do_jobs(place, same[:1])
    verdict = judge(same[0], answers[same[0]["id"]])
    if verdict is not None and verdict.problem == problem:
        return answers
    left = list(same[1:])
    while left:
        answers |= do_jobs(place, left)  # they share a process; those that fail in it are tried without the first
        left = [job for job in left[1:] if judge(job, answers[job["id"]])]
    return answers


def _is_flash(verdict: Verdict) -> bool:
    """Whether it is the import of flash_attn that fails, which nothing before can have brought about."""
    return f"'{FLASH_ATTN}" in verdict.problem.message


def flash_with_gpu(place: Workplace, modules: Sequence[Module], judge: Judge) -> dict[str, Answer]:
    """The modules that import flash_attn only where a GPU is visible, as if one were; other failures do not count."""
    jobs = [module_job(number, module) for number, module in enumerate(modules)]
    answers = do_jobs(place, jobs) if jobs else {}
    found: dict[str, Answer] = {}
    for job, module in zip(jobs, modules, strict=True):
        verdict = judge.judge(module, answers[job["id"]])
        if verdict and not verdict.needs and _is_flash(verdict):
            found[module.path] = answers[job["id"]]
    return found
