"""One run: an entry point of verl, from one tree, under ``precpatch guard`` as if on a P40; and what came of it."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

INSIDE = Path(__file__).with_name("inside")
STEPS = 3
TIME_LIMIT_S = 400
TOLERANCE = 1e-3

PARTS = {
    "sft": ["sft"],
    "fsdp_sft": ["fsdp_sft"],
    "workers": ["actor", "critic", "rollout"],
    "ppo": ["ppo"],
}
"""The parts that an entry point proves."""

MODULES = {
    "sft": "verl/trainer/sft_trainer.py",
    "fsdp_sft": "verl/trainer/fsdp_sft_trainer.py",
    "workers": "verl/workers",
    "ppo": "verl/trainer/main_ppo.py",
}
"""Where a release has no such file, it has no such entry point."""

OVERRIDES = {
    # With a fixed batch size its own sequence packing fails, patched or not: split_with_sizes on a NestedTensor.
    ("0.6.0", "sft"): ["data.use_dynamic_bsz=True"],
    ("0.6.1", "sft"): ["data.use_dynamic_bsz=True"],
    # It leaves out the last step.
    ("0.2.0.post2", "ppo"): [f"trainer.total_training_steps={STEPS + 1}"],
}

WATCHED = ("--forbid", "float16")
"""The guard looks at every operator; compiled functions run eagerly under it."""

PRETENDED = ("--allow", "bfloat16,torch.compile,triton")
"""torch is told which card it is, and left alone: functions are compiled for it."""

_FIGURE = re.compile(r"^.*?FIGURES (\{.*\})$", re.MULTILINE)
_LOSS = re.compile(r"step:(\d+) .*?(?:train/loss|critic/vf_loss):(?:np\.float\d+\()?([-\w.+]+)")
_ERROR = re.compile(r"(?:^|[ |])((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:\(\w+\))?: .*)$", re.MULTILINE)
_ECHO = re.compile(r"RayTaskError|ChildFailedError|ActorDiedError|RayActorError")
_MOST_SITES = 5
_LONGEST_ERROR = 200


class Job(NamedTuple):
    """A run to make: a verl release, the kind of tree, the entry point, the set of requirements, Hydra overrides.

    Of more than one of ``processes``, each has a part of the data or of each sequence, and they talk through gloo.
    """

    version: str
    tree: str
    entry: str
    environment: str
    overrides: tuple[str, ...] = ()
    processes: int = 1


@dataclass
class Run:
    """What came of one run.

    Attributes:
        version, tree, entry, device, environment: what ran: a verl release, the kind of tree, the entry point, "cpu" or
            "cuda", the set of requirements.
        exit_code: the command's own.
        losses: the losses by part, one a step.
        errors: why a part did not finish.
        trips, sites, matmuls, attention, compiled_calls, operators, loads, processes: from the guard's report;
            ``sites`` are the first places of trips.
        seconds: how long it took.
    """

    version: str
    tree: str
    entry: str
    device: str
    environment: str
    exit_code: int = 0
    losses: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    trips: int = 0
    sites: list[str] = field(default_factory=list)
    matmuls: dict[str, int] = field(default_factory=dict)
    attention: dict[str, int] = field(default_factory=dict)
    compiled_calls: int = 0
    operators: int = 0
    loads: int = 0
    processes: int = 0
    seconds: int = 0

    def trained(self, part: str) -> bool:
        """Whether a part ran all its steps with finite losses."""
        losses = self.losses.get(part, [])
        return part not in self.errors and len(losses) == STEPS and all(map(math.isfinite, losses))

    def computed_in_float32(self) -> bool:
        """Whether nothing tripped and every matrix product was in float32, with no attention kernel and no compiler."""
        return not (self.trips or self.attention or self.compiled_calls) and set(self.matmuls) == {"float32"}

    def same_losses(self, part: str, reference: list[float]) -> bool:
        """Whether the losses of a part are those of a reference."""
        losses = self.losses.get(part, [])
        near = [math.isclose(one, other, rel_tol=TOLERANCE) for one, other in zip(losses, reference, strict=False)]
        return len(losses) == len(reference) and all(near)

    def as_json(self) -> dict[str, Any]:
        """For results.json."""
        return asdict(self)


def has_entry(tree: Path, entry: str) -> bool:
    """Whether a release has an entry point."""
    return (tree / MODULES[entry]).exists()


def run(
    tree: Path,
    job: Job,
    python: Path,
    folder: Path,
    *,
    device: str = "cpu",
    guard: Sequence[str] = WATCHED,
) -> Run:
    """Run an entry point of ``tree`` in ``folder`` and read what it left there: log.txt and guard.json."""
    folder.mkdir(parents=True)
    result = Run(*job[:3], device, job.environment)
    arguments = [*_arguments(result, tree, _tiny_files(python, folder), folder), *job.overrides]
    command = [python, *_launcher(job.processes), *arguments]
    report = folder / "guard.json"
    precpatch = [sys.executable, "-m", "precpatch", "guard", "--target", "p40", "--pretend", *guard]
    guarded = [*precpatch, "--checkout", tree, "--format", "json", "--output", report, "--", *command]
    result.seconds = _run_to_the_end(guarded, _environment(tree, device), folder)
    _read_log(result, (folder / "log.txt").read_text(errors="replace"))
    _read_report(result, report)
    return result


def _launcher(processes: int) -> list[str]:
    """What starts several processes of a command, as torchrun does."""
    if processes == 1:
        return []
    where = ["--master-addr=127.0.0.1", f"--master-port={_free_port()}"]
    return ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", *where]


def _tiny_files(python: Path, folder: Path) -> Path:
    tiny = folder / "tiny"
    made = subprocess.run(
        [python, INSIDE / "tiny.py", tiny], capture_output=True, text=True, check=False, env=_offline()
    )
    if made.returncode:
        raise RuntimeError(made.stderr)
    return tiny


def _offline() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _environment(tree: Path, device: str) -> dict[str, str]:
    """One process of one, offline; on the CPU with stand-ins for what verl asks of an accelerator."""
    own = {
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(INSIDE / "stand_ins"), str(tree), os.environ.get("PYTHONPATH", "")])
        ),
        "PROOF_DEVICE": device,
        "HYDRA_FULL_ERROR": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
    }
    # verl counts its devices by this variable.
    on_cpu = {"CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "1"} if device == "cpu" else {}
    return {**_offline(), **own, **on_cpu}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _arguments(asked: Run, tree: Path, tiny: Path, folder: Path) -> list[str]:
    """The command line of an entry point, made small. Nothing in it speaks of a precision or an attention kernel."""
    overrides = OVERRIDES.get((asked.version, asked.entry), [])
    if asked.entry == "workers":
        return [str(INSIDE / "workers.py"), str(tree), str(tiny), str(STEPS), asked.device, *overrides]
    module = MODULES[asked.entry].removesuffix(".py").replace("/", ".")
    return ["-m", module, *_SETTINGS[asked.entry](tiny, folder), f"++trainer.device={asked.device}", *overrides]


def _sft(tiny: Path, folder: Path) -> list[str]:
    return [
        f"model.path={tiny / 'model'}",
        f"data.train_files={tiny / 'sft.parquet'}",
        "data.train_batch_size=8",
        "data.micro_batch_size_per_gpu=4",
        "data.use_dynamic_bsz=False",
        "data.max_length=256",
        "++data.num_workers=0",
        "optim.lr=1e-3",
        "++checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        "trainer.resume_mode=disable",
        "trainer.save_freq=-1",
        *_trainer(folder),
    ]


def _fsdp_sft(tiny: Path, folder: Path) -> list[str]:
    return [
        f"model.partial_pretrain={tiny / 'model'}",
        *(f"data.{name}_files={tiny / 'sft.parquet'}" for name in ("train", "val")),
        "data.prompt_key=prompt",
        "data.response_key=response",
        "++data.prompt_dict_keys=[]",
        "++data.response_dict_keys=[]",
        "data.train_batch_size=8",
        "data.micro_batch_size_per_gpu=4",
        "data.max_length=256",
        "optim.lr=1e-3",
        *_trainer(folder),
    ]


def _ppo(tiny: Path, folder: Path) -> list[str]:
    policy = "actor_rollout_ref"
    return [
        *(f"{role}.model.path={tiny / 'model'}" for role in (policy, "critic")),
        *(f"data.{name}_files={tiny / 'rl.parquet'}" for name in ("train", "val")),
        "data.train_batch_size=4",
        "data.max_prompt_length=64",
        "data.max_response_length=8",
        "algorithm.adv_estimator=gae",
        *(f"{role}.ppo_mini_batch_size=4" for role in (f"{policy}.actor", "critic")),
        *(f"{role}.ppo_micro_batch_size_per_gpu=2" for role in (f"{policy}.actor", "critic")),
        *(f"{policy}.{role}.log_prob_micro_batch_size_per_gpu=2" for role in ("rollout", "ref")),
        "critic.forward_micro_batch_size_per_gpu=2",
        f"{policy}.actor.use_kl_loss=True",
        f"{policy}.rollout.name=hf",
        f"{policy}.rollout.tensor_model_parallel_size=1",
        "trainer.n_gpus_per_node=1",
        "trainer.nnodes=1",
        "++trainer.val_before_train=False",
        "trainer.test_freq=-1",
        "trainer.save_freq=-1",
        "++ray_init.num_cpus=4",
        "++ray_kwargs.ray_init.num_cpus=4",
        *_trainer(folder),
    ]


_SETTINGS = {"sft": _sft, "fsdp_sft": _fsdp_sft, "ppo": _ppo}


def _trainer(folder: Path) -> list[str]:
    return [
        "trainer.logger=[console]",
        f"trainer.total_training_steps={STEPS}",
        "trainer.total_epochs=9",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
    ]


def _run_to_the_end(command: list[Any], environment: dict[str, str], folder: Path) -> int:
    """Run with a time limit that ends the whole process tree; seconds."""
    start = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        child = subprocess.Popen(
            list(map(str, command)),
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            child.wait(TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    for name in ("tiny", "checkpoints", "outputs"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return round(time.monotonic() - start)


def _read_log(result: Run, log: str) -> None:
    """The losses and errors of all parts."""
    losses: dict[str, list[float]] = defaultdict(list)
    if result.entry == "workers":
        for text in _FIGURE.findall(log):
            row = json.loads(text)
            if "error" in row:
                result.errors[row["part"]] = row["error"]
            else:
                losses[row["part"]].append(row.get("log_prob", row.get("loss", row.get("tokens"))))
    else:
        losses[result.entry] = [round(float(loss), 6) for _, loss in _LOSS.findall(log)]
    result.losses = dict(losses)
    for part in PARTS[result.entry]:
        if not result.trained(part):
            result.errors[part] = _short(result.errors.get(part) or _last_error(log))


def _last_error(log: str) -> str:
    """The error that ended a program: the last in the log that is not another's echo."""
    errors = [error for error in _ERROR.findall(log) if not _ECHO.search(error)]
    return errors[-1].strip() if errors else "no error in its log"


def _short(error: str) -> str:
    """The first sentence of an error, without the folder of this run."""
    return re.sub(r"/\S*/(?=[\w.-]+\b)", "", error).split(". ")[0][:_LONGEST_ERROR]


def _read_report(result: Run, path: Path) -> None:
    if not path.exists():
        reason = "took too long" if result.seconds >= TIME_LIMIT_S else "the guard left no report"
        result.errors |= dict.fromkeys(PARTS[result.entry], reason)
        return
    report = json.loads(path.read_text())
    summary = report["summary"]
    result.exit_code = report["exit_code"]
    for name in ("trips", "operators", "loads", "processes", "matmuls", "attention", "compiled_calls"):
        setattr(result, name, summary.get(name, getattr(result, name)))
    result.sites = list(dict.fromkeys(map(_site, report["sites"])))[:_MOST_SITES]


def _site(site: dict[str, Any]) -> str:
    """A place of a trip, by the path that it has in verl."""
    place = site["caller"] or site
    words = ", ".join([*site["dtypes"]] or [*site["kinds"]])
    if place["path"] is None:
        return f"backward pass: {words}"
    inside = re.search(r"verl/(?!.*verl/).*|[^/]*$", place["path"])
    return f"{inside[0] if inside else place['path']}:{place['line']} {place['function']}: {words}"
