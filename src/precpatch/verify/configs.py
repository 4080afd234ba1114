"""The step ``configs``: the configs of the entry points compose, and their dataclasses take the patched values."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from precpatch.gpu.target import BFLOAT16, FLASH_ATTENTION_2, Target
from precpatch.report.line import plural
from precpatch.verify.hazards import DEFAULT_OF, Watch
from precpatch.verify.modules import Config
from precpatch.verify.outcome import FAILED, OK, Problem, Step
from precpatch.verify.processes import Answer, Job
from precpatch.verify.verdicts import Judge, Verdict
from precpatch.vocabulary import builtin_vocabulary

_SPELLINGS = ("long", "short", "torch-name")


def patched_words(target: Target) -> dict[str, str]:
    """The words that a patch for ``target`` writes, and those that stood there before."""
    spell = builtin_vocabulary().spell
    dtypes = {} if target.uses_bf16 else {spell(target.dtype, how): spell(BFLOAT16, how) for how in _SPELLINGS}
    attention = {} if target.uses_flash_attention else {target.attention: FLASH_ATTENTION_2}
    return {**dtypes, **attention}


def is_known(config: Config) -> bool:
    """Whether the syntax tells which config it is."""
    return config.folder is not None and config.name is not None and "://" not in config.folder


def composable(configs: Sequence[Config]) -> list[Config]:
    """The configs that can be composed, each once."""
    return list({_file(config): config for config in reversed(configs) if is_known(config)}.values())[::-1]


def config_job(number: int, config: Config, entry: Job, resolvers: Sequence[str], root: Path) -> Job:
    """The job to compose a config after the job ``entry``; the checkout registers ``resolvers``, if only later."""
    job = {
        "id": number,
        "kind": "config",
        "folder": str((root / (config.folder or "")).resolve()),
        "config": config.name,
        "started_in": str((root / config.path).parent),
        "entry": entry,
        "resolvers": list(resolvers),
    }
    return job if config.version is ... else {**job, "version_base": config.version}


def defaults_job(number: int) -> Job:
    """The job to look at the dataclasses of everything that was imported."""
    return {"id": number, "kind": "defaults"}


def configs_step(
    judge: Judge,
    configs: Sequence[Config],
    answers: Sequence[Answer],
    defaults: Answer,
    *,
    watch: Watch,
    python: str,
) -> Step:
    """What the answers mean.

    Args:
        judge: says what a failure means.
        configs: the configs of the entry points.
        answers: one for each of ``composable(configs)``.
        defaults: the answer on the dataclasses.
        watch: says which values the target gets wrong.
        python: the interpreter, for the advice.
    """
    known = composable(configs)
    pairs = list(zip(known, answers, strict=True))
    problems = [problem for config, answer in pairs for problem in _problems(config, answer, judge, python)]
    told = defaults.get("crash") or defaults.get("failure", {}).get("text")
    problems += [Problem("", 0, f"the dataclasses cannot be read: {told}")] if told else []
    problems += [Problem(each["path"], each["line"], each["text"]) for each in defaults.get("refusals", ())]
    wrong = list(_wrong_values(pairs, defaults, watch))
    problems += wrong
    composed = [config for config, answer in pairs if "failures" in answer]
    built = sum(answer.get("built", 0) for answer in answers)
    waiting = sum(len(answer.get("unbuilt", ())) for answer in answers)
    classes = int(defaults.get("classes", 0))
    return Step(
        "configs",
        FAILED if problems else OK,
        _summary(len(composed), built, classes),
        tuple(dict.fromkeys(problems)),
        tuple(dict.fromkeys([*_config_notes(configs, pairs), *_target_notes(answers, judge), *_waiting(waiting)])),
        figures={
            "configs": len(composed),
            "built": built,
            "waiting": waiting,
            "dataclasses": classes,
            "hazards": len(wrong),
        },
    )


def _summary(configs: int, built: int, classes: int) -> str:
    composed = f"{plural(configs, 'config')} composed" if configs else "no config of an entry point"
    return f"{composed}, {plural(built, 'dataclass', 'dataclasses')} built, {classes} read"


def _file(config: Config) -> str:
    return posixpath.normpath(f"{config.folder}/{(config.name or '').removesuffix('.yaml')}.yaml")


def _problems(config: Config, answer: Answer, judge: Judge, python: str) -> Iterator[Problem]:
    verdict = judge.judge(judge.modules.by_path[config.path], answer)
    if verdict is not None:
        yield _not_composed(config, verdict, python)
    for text in answer.get("problems", ()):
        yield Problem(_file(config), 0, text)
    for each in answer.get("failures", ()):
        found = judge.judge(judge.modules.holding(each["target"]), each)
        if found is not None and not found.needs:
            yield Problem(found.problem.path, found.problem.line, f"_target_ {each['target']}: {found.problem.message}")


def _wrong_values(pairs: Sequence[tuple[Config, Answer]], defaults: Answer, watch: Watch) -> Iterator[Problem]:
    """The values that train wrong: those that a config gives to a run, then the defaults of other classes."""
    told = set()
    for config, answer in pairs:
        for text in watch.hazards(_file(config), answer.get("values", ())):
            told.add(text)
            yield Problem(_file(config), 0, text)
    for each in defaults.get("values", ()):
        if not any(f"({DEFAULT_OF}{each['name']})" in text for text in told):
            for text in watch.hazards(each["path"], each["values"], is_class=True):
                yield Problem(each["path"], each["line"], text)


def _not_composed(config: Config, verdict: Verdict, python: str) -> Problem:
    if verdict.needs in {"hydra", "omegaconf"}:
        told = f"{verdict.needs} is not installed for {python}: name the interpreter that runs verl with --python FILE"
        return Problem("", 0, told)
    return Problem(_file(config), 0, f"does not compose: {verdict.problem.message}")


def _config_notes(configs: Sequence[Config], pairs: Sequence[tuple[Config, Answer]]) -> Iterator[str]:
    for config in configs:
        if not is_known(config):
            yield f"{config.path}:{config.line}: its config is only known when it runs"
    for config, answer in pairs:
        if answer.get("absent"):
            yield f"{config.path}:{config.line}: there is no {_file(config)}, so --config-name has to be given"
        if "waits" in answer:
            yield f"{_file(config)} only composes with what you give: {answer['waits']}"


def _target_notes(answers: Sequence[Answer], judge: Judge) -> Iterator[str]:
    lost = sorted({name for answer in answers for name in answer.get("lost", ())})
    if lost:
        yield f"_target_ that name nothing in the checkout: {', '.join(lost)}"
    unneeded: dict[str, set[str]] = {}
    for each in (each for answer in answers for each in answer.get("failures", ())):
        found = judge.judge(judge.modules.holding(each["target"]), each)
        if found is not None and found.needs:
            unneeded.setdefault(found.needs, set()).add(each["target"])
    for needs, names in sorted(unneeded.items()):
        yield f"{plural(len(names), '_target_ is', '_target_ are')} not needed here: needs {needs}"


def _waiting(number: int) -> list[str]:
    told = plural(number, "dataclass waits", "dataclasses wait")
    return [f"{told} for values that you give, and only their checks of precision were read"] if number else []
