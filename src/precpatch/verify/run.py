"""The verification: its steps, in order."""

from __future__ import annotations

import ast
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from precpatch.discover import discover
from precpatch.engine.policy import Policy
from precpatch.errors import UserError
from precpatch.gpu.target import Target
from precpatch.guard.inject.precpatch_guard import VARIABLE
from precpatch.guard.order import make_order
from precpatch.languages import languages
from precpatch.plan import Plan
from precpatch.verify.configs import composable, config_job, configs_step, defaults_job, patched_words
from precpatch.verify.hazards import Watch
from precpatch.verify.imports import flash_with_gpu, import_all, imports_step, module_job
from precpatch.verify.modules import Config, Module, Modules, unhandled
from precpatch.verify.outcome import STEPS, Step, skipped
from precpatch.verify.parse import parse_step
from precpatch.verify.processes import Answer, Workplace, do_jobs
from precpatch.verify.scan import scan_step
from precpatch.verify.verdicts import FLASH_ATTN, Judge

_OFFLINE = {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
}


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to verify.

    Attributes:
        root: the checkout.
        target: the GPU and the policy that it has to fit.
        make_policy: the rules that the scan asks, for the target.
        make_plan: scans the checkout for the target.
        files: the files that the scan looked at.
        steps: which steps to do.
        mend: the command that writes what a scan finds.
        python: the interpreter that runs verl.
        block: further packages that count as not there.
        allow: packages that are not blocked.
        required: paths or names of the entry points that have to start.
        seconds: how long one import may take.
    """

    root: Path
    target: Target
    make_policy: Callable[[], Policy]
    make_plan: Callable[[], Plan]
    files: tuple[str, ...]
    steps: frozenset[str]
    mend: str
    python: str = sys.executable
    block: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    seconds: float = 300.0


def verify(order: Order) -> tuple[Step, ...]:
    """Do the steps.

    Raises:
        UserError: the interpreter cannot be used, or an entry point that was named is not there.
    """
    work = _Work(order)
    doers: dict[str, Callable[[], Step]] = {
        "parse": lambda: parse_step(order.root, order.files),
        "scan": lambda: scan_step(work.plan, order.mend),
        "imports": work.imports,
        "configs": work.configs,
    }
    return tuple(_timed(doers[name]) if name in order.steps else skipped(name, "not asked for") for name in STEPS)


def _timed(do: Callable[[], Step]) -> Step:
    start = time.monotonic()
    step = do()
    return replace(step, seconds=time.monotonic() - start)


class _Work:
    """The steps that share their processes, or a scan."""

    def __init__(self, order: Order) -> None:
        """For the checkout, interpreter and target of ``order``."""
        self._order = order
        self._guard = make_order(order.target, block=order.block, allow=order.allow)

    @cached_property
    def plan(self) -> Plan:
        """The scan of the checkout."""
        return self._order.make_plan()

    @cached_property
    def _judge(self) -> Judge:
        blocked = frozenset(self._guard.block)
        foreign = sorted(self._modules.foreign_to([*self._entries, *self._reached]))
        answers = do_jobs(self._workplace, [{"id": 0, "kind": "packages", "names": foreign}])
        absent = blocked | frozenset(answers[0].get("absent", ()))
        return Judge(self._modules, self._order.target.name, absent, has_flash=FLASH_ATTN not in blocked)

    def imports(self) -> Step:
        """The step ``imports``."""
        if not self._reached and not self._entries:
            return skipped("imports", "there is no Python module")
        answers = self._module_answers
        return imports_step(self._judge, self._entries, self._required, answers, self._order.python)

    def configs(self) -> Step:
        """The step ``configs``."""
        if not self._reached and not self._entries:
            return skipped("configs", "there is no Python module")
        done = self._answers
        configs = [done[("config", number)] for number, _ in enumerate(self._known_configs)]
        watch = Watch(self._order.make_policy(), lambda: self.plan)
        defaults, python = done[("defaults", 0)], self._order.python
        return configs_step(self._judge, self._configs, configs, defaults, watch=watch, python=python)

    @cached_property
    def _modules(self) -> Modules:
        """All Python files of the checkout: what is named is looked at, the rest can be imported from it."""
        files = [path for path in discover(self._order.root, suffixes=(".py",)).files if path.endswith(".py")]
        named = [path for path in self._order.files if path.endswith(".py")]
        return Modules(self._order.root, sorted({*files, *named}))

    @cached_property
    def _entries(self) -> list[Module]:
        found = self._modules.entries([path for path in self._order.files if path.endswith(".py")])
        return found + [module for module in self._required if module not in found]

    @cached_property
    def _required(self) -> list[Module]:
        return [self._named(name) for name in self._order.required]

    def _named(self, name: str) -> Module:
        place = Path(os.path.normpath(self._order.root / name))  # ./a.py and the whole path name a file as well
        path = place.relative_to(self._order.root).as_posix() if place.is_relative_to(self._order.root) else ""
        found = self._modules.by_path.get(path) or self._modules.by_name.get(name)
        if found is None:
            raise UserError(f"--entry {name}: no such module in the checkout")
        return found

    @cached_property
    def _reached(self) -> list[Module]:
        """What the entry points reach; every module of a package where there is none."""
        if self._entries:
            return self._modules.reached(self._entries)
        named = set(self._order.files)
        return [each for each in self._modules.by_path.values() if each.is_packaged and each.path in named]

    @cached_property
    def _configs(self) -> list[Config]:
        return [config for module in self._entries for config in module.configs]

    @cached_property
    def _known_configs(self) -> list[Config]:
        """The configs to compose, each once."""
        return composable(self._configs)

    @cached_property
    def _answers(self) -> dict[tuple[str, object], Answer]:
        """What the processes answered: by ("module", path), ("config", number) and ("defaults", 0)."""
        chosen = [*self._entries, *self._reached]
        keys: list[tuple[str, object]] = [("module", module.path) for module in chosen]
        jobs = [module_job(number, module) for number, module in enumerate(chosen)]
        if "configs" in self._order.steps:
            resolvers = sorted(self._modules.resolvers(chosen))
            for number, config in enumerate(self._known_configs):
                keys.append(("config", number))
                entry = module_job(-1 - number, self._modules.by_path[config.path])
                jobs.append(config_job(len(jobs), config, entry, resolvers, self._order.root))
            keys.append(("defaults", 0))
            jobs.append(defaults_job(len(jobs)))
        answers = import_all(self._workplace, chosen, jobs, self._judge)
        return {key: answers[number] for number, key in enumerate(keys)}

    @cached_property
    def _module_answers(self) -> dict[str, Answer]:
        """The answers on modules by path, and as on a machine with a GPU where that leads to flash_attn."""
        answers = {str(path): answer for (kind, path), answer in self._answers.items() if kind == "module"}
        capability = self._order.target.capability.compute_capability
        if self._judge.has_flash or capability is None:
            return answers
        chosen = [*self._entries, *self._reached]
        doubtful = [each for each in chosen if not answers[each.path].get("failure") and self._imports_flash(each)]
        return {**answers, **flash_with_gpu(replace(self._workplace, capability=capability), doubtful, self._judge)}

    def _imports_flash(self, module: Module) -> bool:
        """Whether a module imports flash_attn under a condition, outside of functions and with no handler around."""
        tree = self._modules.tree(module)
        return tree is not None and any(map(_is_flash_import, unhandled(tree, lazily=False)))

    @cached_property
    def _workplace(self) -> Workplace:
        # What the user's entries are relative to is the folder where precpatch was started.
        path = [os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
        ours = {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1", **_OFFLINE}
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        target = self._order.target
        return Workplace(
            python=self._order.python,
            root=self._order.root,
            environment={**environment, **ours},
            seconds=self._order.seconds,
            words=patched_words(target),
            block=self._guard.block,
            card=target.name,
        )


def _is_flash_import(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        names: Sequence[str] = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    else:
        return False
    return any(name.partition(".")[0] == FLASH_ATTN for name in names)


def files_of(root: Path, paths: Sequence[Path], settings: Any) -> tuple[str, ...]:
    """The files that a scan with these settings looks at."""
    return discover(root, paths, settings.include, settings.exclude, suffixes=tuple(languages())).files
