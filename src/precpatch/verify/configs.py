"""The step ``configs``: the configs of the entry points compose, and their dataclasses take the patched values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from precpatch.gpu.target import Target
from precpatch.report.line import plural
from precpatch.verify.modules import Config
from precpatch.verify.outcome import FAILED, OK, Problem, Step
from precpatch.verify.processes import Answer, Job
from precpatch.verify.verdicts import Judge

_DTYPES = {
    "float32": {"float32": "bfloat16", "fp32": "bf16", "torch.float32": "torch.bfloat16"},
    "float16": {"float16": "bfloat16", "fp16": "bf16", "torch.float16": "torch.bfloat16"},
}


def patched_words(target: Target) -> dict[str, str]:
    """The words that a patch for ``target`` writes, and those that stood there before."""
    dtypes = {} if target.uses_bf16 else _DTYPES.get(target.dtype, {})
    attention = {} if target.uses_flash_attention else {target.attention: "flash_attention_2"}
    return {**dtypes, **attention}


def is_known(config: Config) -> bool:
    """Whether the syntax tells which config it is."""
    return config.folder is not None and config.name is not None and "://" not in config.folder


def config_job(number: int, config: Config, root: Path) -> Job:
    """The job to compose a config."""
    job = {
        "id": number,
        "kind": "config",
        "folder": str((root / (config.folder or "")).resolve()),
        "config": config.name,
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
    python: str,
) -> Step:
    """What the answers mean: one for each of ``configs`` that the syntax tells, and the one on the dataclasses."""
    known = [config for config in configs if is_known(config)]
    problems: dict[Problem, None] = {}
    notes: dict[str, None] = {}
    for config, answer in zip(known, answers, strict=True):
        problems |= dict.fromkeys(_problems(config, answer, judge, python))
        notes |= dict.fromkeys(_unneeded_targets(answer, judge))
    for refusal in defaults.get("refusals", ()):
        problems[Problem(refusal["path"], refusal["line"], refusal["text"])] = None
    built = sum(answer.get("built", 0) for answer in answers)
    waiting = sum(len(answer.get("unbuilt", ())) for answer in answers)
    if waiting:
        told = plural(waiting, "dataclass waits", "dataclasses wait")
        notes[f"{told} for values that you give, and only their checks of precision were read"] = None
    for config in configs:
        if config not in known:
            notes[f"{config.path}:{config.line}: its config is only known when it runs"] = None
    return Step(
        "configs",
        FAILED if problems else OK,
        _summary(len(known), built, defaults.get("classes", 0)),
        tuple(problems),
        tuple(notes),
        figures={"configs": len(known), "built": built, "waiting": waiting, "dataclasses": defaults.get("classes", 0)},
    )


def _summary(configs: int, built: int, classes: int) -> str:
    composed = f"{plural(configs, 'config')} composed" if configs else "no config of an entry point"
    return f"{composed}, {plural(built, 'dataclass', 'dataclasses')} built, {classes} read"


def _problems(config: Config, answer: Answer, judge: Judge, python: str) -> Iterator[Problem]:
    name = f"{config.folder}/{config.name}"
    verdict = judge.judge(judge.modules.by_path[config.path], answer)
    if verdict is not None:
        hint = f", for {python}: name the interpreter that runs verl with --python FILE" if verdict.needs else ""
        yield Problem(config.path, config.line, f"config {name}: {verdict.problem.message}{hint}")
    for text in answer.get("problems", ()):
        yield Problem(config.path, config.line, f"config {name}: {text}")
    for each in answer.get("failures", ()):
        found = judge.judge(judge.modules.holding(each["target"]), each)
        if found is not None and not found.needs:
            yield Problem(found.problem.path, found.problem.line, f"_target_ {each['target']}: {found.problem.message}")


def _unneeded_targets(answer: Answer, judge: Judge) -> Iterator[str]:
    for each in answer.get("failures", ()):
        found = judge.judge(judge.modules.holding(each["target"]), each)
        if found is not None and found.needs:
            yield f"_target_ {each['target']} is not needed here: it needs {found.needs}"
