"""Drives verl's own PPO workers in one process: no Ray cluster and no inference server.

    python workers.py TREE TINY STEPS DEVICE [HYDRA OVERRIDES...]

Three parts, each from verl's default configuration: the actor with its reference (log-probs and update), the critic
(values and update), and generation with HF. The batch is synthetic and the same in every run, so that figures of two
trees can be compared. Prints one line of JSON a step and part, after the word FIGURES; a part that fails prints its
error and the next one runs.
"""

from __future__ import annotations

import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

BATCH, MICRO_BATCH, PROMPT, RESPONSE = 4, 2, 24, 16
LENGTHS = [16, 12, 9, 14]
FIRST_TOKEN, LAST_TOKEN = 3, 259

Figures = dict[str, float]


def main(tree: str, tiny: str, steps: str, device: str, *overrides: str) -> None:
    """Run the three parts."""
    Drive(Path(tree), Path(tiny), int(steps), device, overrides).run()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Drive:
    """verl's workers as its trainer uses them: of ``fsdp_workers`` where the tree has them, else the engine's."""

    def __init__(self, tree: Path, tiny: Path, steps: int, device: str, overrides: tuple[str, ...]) -> None:
        self.tiny, self.steps, self.device = tiny, steps, device
        self.has_fsdp_workers = (tree / "verl/workers/fsdp_workers.py").exists()
        self.config = configuration(tree, tiny, device, overrides)
        self.actor: Any = None

    def run(self) -> None:
        """Run each part for all steps."""
        parts: dict[str, Callable[[], Iterator[Figures]]] = {
            "actor": self.train_actor,
            "critic": self.train_critic,
            "rollout": self.generate,
        }
        for name, part in parts.items():
            try:
                for step, figures in enumerate(part(), 1):
                    say(part=name, step=step, **figures)
            except Exception as error:
                traceback.print_exc()
                say(part=name, error=f"{type(error).__name__}: {error}")

    def train_actor(self) -> Iterator[Figures]:
        """Log-probs of the policy and of the reference, then an update of the policy."""
        worker = self.worker_class("ActorRolloutRefWorker")
        config = self.config.actor_rollout_ref
        actor, reference = worker(config=config, role="actor"), worker(config=config, role="ref")
        actor.init_model()
        reference.init_model()
        self.actor = actor
        trainer = self.trainer(actor_rollout_wg=actor, ref_policy_wg=reference)
        for step in range(1, self.steps + 1):
            batch = self.batch(step)
            old = actor.compute_log_prob(batch) if self.has_fsdp_workers else trainer._compute_old_log_prob(batch)[0]
            old.batch.pop("entropys", None)
            batch = batch.union(old)
            of_reference = (
                reference.compute_ref_log_prob(batch) if self.has_fsdp_workers else trainer._compute_ref_log_prob(batch)
            )
            batch = batch.union(of_reference)
            out = actor.update_actor(batch) if self.has_fsdp_workers else trainer._update_actor(batch)
            metrics = out.meta_info["metrics"]
            mask = batch.batch["response_mask"]
            yield {
                "loss": metric(metrics, "actor/pg_loss", "pg_loss"),
                "log_prob": ((batch.batch["old_log_probs"] * mask).sum() / mask.sum()).item(),
                "reference": ((batch.batch["ref_log_prob"] * mask).sum() / mask.sum()).item(),
                "grad_norm": metric(metrics, "actor/grad_norm", "grad_norm"),
            }

    def train_critic(self) -> Iterator[Figures]:
        """Values, then an update of the critic. Its value head is new in every run: the seed makes it the same."""
        if self.has_fsdp_workers:
            config = self.config.critic
            if trainer_makes_dataclasses():
                from verl.utils.config import omega_conf_to_dataclass

                config = omega_conf_to_dataclass(config)
            critic = self.worker_class("CriticWorker")(config=config)
            torch.manual_seed(0)
            critic.init_model()
            trainer = None
        else:
            trainer = self.trainer(critic_wg=AtOnce(engine_critic(self.config)))
        for step in range(1, self.steps + 1):
            batch = self.batch(step)
            batch = batch.union(trainer._compute_values(batch) if trainer else critic.compute_values(batch))
            out = trainer._update_critic(batch) if trainer else critic.update_critic(batch)
            metrics = out.meta_info["metrics"]
            mask = batch.batch["response_mask"]
            yield {
                "loss": metric(metrics, "critic/vf_loss"),
                "value": ((batch.batch["values"] * mask).sum() / mask.sum()).item(),
                "grad_norm": metric(metrics, "critic/grad_norm", "grad_norm"),
            }

    def generate(self) -> Iterator[Figures]:
        """Greedy generation with HFRollout's own method. From 0.6 on verl cannot instantiate the class any more."""
        from verl import DataProto
        from verl.workers.rollout.hf_rollout import HFRollout

        module = self.actor.actor_module_fsdp if self.has_fsdp_workers else self.actor.actor.engine.module
        config = OmegaConf.merge(self.config.actor_rollout_ref.rollout, {"response_length": 6})
        for step in range(1, self.steps + 1):
            tokenizer, prompts = self.prompts(step)
            about = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
            asked = DataProto.from_dict(
                {name: tensor.to(self.device) for name, tensor in prompts.items()},
                meta_info={**about, "do_sample": False, "response_length": 6},
            )
            out = HFRollout._generate_minibatch(SimpleNamespace(config=config, module=module), asked)
            yield {"tokens": out.batch["responses"].numel()}

    def worker_class(self, name: str) -> Any:
        """A worker of this tree."""
        if self.has_fsdp_workers:
            from verl.workers import fsdp_workers as workers
        else:
            from verl.workers import engine_workers as workers
        return getattr(workers, name)

    def trainer(self, **workers: Any) -> Any:
        """As much of the trainer as its own methods ask for."""
        from verl.trainer.ppo.ray_trainer import RayPPOTrainer

        known = SimpleNamespace(
            config=self.config,
            ref_in_actor=False,
            use_legacy_worker_impl="enable" if self.has_fsdp_workers else "disable",
            distillation_config=None,
            **workers,
        )
        for name in (
            "_compute_old_log_prob",
            "_compute_ref_log_prob",
            "_update_actor",
            "_compute_values",
            "_update_critic",
        ):
            if hasattr(RayPPOTrainer, name):
                setattr(known, name, partial(getattr(RayPPOTrainer, name), known))
        return known

    def prompts(self, step: int) -> tuple[Any, dict[str, torch.Tensor]]:
        """Padded prompts, and the tokenizer."""
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self.tiny / "model", padding_side="left")
        texts = [f"{step}+{index * 7} is" for index in range(BATCH)]
        encoded = tokenizer(texts, padding="max_length", max_length=PROMPT, truncation=True, return_tensors="pt")
        mask = encoded["attention_mask"]
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        return tokenizer, {"input_ids": encoded["input_ids"], "attention_mask": mask, "position_ids": positions}

    def batch(self, step: int) -> Any:
        """Prompts with random responses of different lengths, rewards and the advantages of one group."""
        from verl import DataProto

        _, prompts = self.prompts(step)
        random = torch.Generator().manual_seed(step)
        mask = (torch.arange(RESPONSE)[None] < torch.tensor(LENGTHS)[:, None]).long()
        responses = torch.randint(FIRST_TOKEN, LAST_TOKEN, (BATCH, RESPONSE), generator=random) * mask
        positions = prompts["position_ids"][:, -1:] + torch.arange(1, RESPONSE + 1)[None]
        score = (responses % 7).float().mul(mask).sum(-1) / mask.sum(-1)
        rewards = torch.zeros(BATCH, RESPONSE)
        rewards[torch.arange(BATCH), mask.sum(-1) - 1] = score
        advantages = (score - score.mean()) / (score.std() + 1e-6)
        attention = torch.cat([prompts["attention_mask"], mask], 1)
        batch = DataProto.from_dict(
            {
                "prompts": prompts["input_ids"],
                "responses": responses,
                "input_ids": torch.cat([prompts["input_ids"], responses], 1),
                "attention_mask": attention,
                "position_ids": torch.cat([prompts["position_ids"], positions], 1),
                "response_mask": mask,
                "token_level_scores": rewards,
                "token_level_rewards": rewards,
                "advantages": advantages[:, None] * mask,
                "returns": rewards.flip(-1).cumsum(-1).flip(-1),
            }
        )
        batch.meta_info.update(
            temperature=1.0,
            micro_batch_size=MICRO_BATCH,
            use_dynamic_bsz=False,
            multi_turn=False,
            max_token_len=4096,
            global_token_num=attention.sum(-1).tolist(),
        )
        return batch


def configuration(tree: Path, tiny: Path, device: str, overrides: tuple[str, ...]) -> Any:
    """verl's own configuration of PPO, made small. Nothing in it speaks of a precision or an attention kernel."""
    folder = tree / "verl/trainer/config"
    model, policy = tiny / "model", "actor_rollout_ref"
    small = [
        *(f"{role}.model.path={model}" for role in (policy, "critic")),
        *(f"{role}.optim.lr=1e-3" for role in (f"{policy}.actor", "critic")),
        *(f"{role}.ppo_mini_batch_size={BATCH}" for role in (f"{policy}.actor", "critic")),
        *(f"{role}.ppo_micro_batch_size_per_gpu={MICRO_BATCH}" for role in (f"{policy}.actor", "critic")),
        *(f"{policy}.{role}.log_prob_micro_batch_size_per_gpu={MICRO_BATCH}" for role in ("rollout", "ref")),
        f"critic.forward_micro_batch_size_per_gpu={MICRO_BATCH}",
        f"{policy}.actor.use_kl_loss=True",
        f"{policy}.rollout.tensor_model_parallel_size=1",
        f"{policy}.rollout.name=vllm",
        *(["critic.enable=True"] if has_critic_switch(folder) else []),
        *(f"data.{name}_files={tiny / 'rl.parquet'}" for name in ("train", "val")),
        f"data.train_batch_size={BATCH}",
        f"data.max_prompt_length={PROMPT}",
        f"data.max_response_length={RESPONSE}",
        "algorithm.adv_estimator=grpo",
        f"++trainer.device={device}",
    ]
    with initialize_config_dir(str(folder), version_base=None):
        config = compose("ppo_trainer", [*small, *overrides])
    OmegaConf.resolve(config)
    return config


def has_critic_switch(folder: Path) -> bool:
    """Whether the configuration switches the critic on and off, as it does from 0.6 on."""
    critic = folder / "critic/critic.yaml"
    return critic.exists() and "\nenable:" in critic.read_text()


def trainer_makes_dataclasses() -> bool:
    """Whether the trainer hands the critic a dataclass, as it does from 0.6 on, and no mapping."""
    from verl.trainer.ppo import ray_trainer

    return "omega_conf_to_dataclass(self.config.critic)" in inspect.getsource(ray_trainer)


def engine_critic(config: Any) -> Any:
    """The critic as verl's trainer makes it from 0.8 on."""
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.engine_workers import TrainingWorker, TrainingWorkerConfig
    from verl.workers.utils.losses import value_loss

    critic = omega_conf_to_dataclass(config.critic)
    engine = critic.engine
    engine.use_dynamic_bsz = False
    engine.micro_batch_size_per_gpu = engine.infer_micro_batch_size_per_gpu = MICRO_BATCH
    worker = TrainingWorker(
        config=TrainingWorkerConfig(
            model_type="value_model",
            model_config=getattr(critic, "model", None) or critic.model_config,
            engine_config=engine,
            optimizer_config=critic.optim,
            checkpoint_config=critic.checkpoint,
        )
    )
    torch.manual_seed(0)
    worker.reset()
    worker.set_loss_fn(partial(value_loss, config=critic))
    return worker


class AtOnce:
    """A worker whose results are there at once, where Ray hands out futures."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> SimpleNamespace:
            result = getattr(self._worker, name)(*args, **kwargs)
            return SimpleNamespace(get=lambda: result)

        return call


def metric(metrics: dict[str, Any], *names: str) -> float:
    """The first of a metric that some versions give alone and some in a list."""
    value = next(metrics[name] for name in names if name in metrics)
    value = value[0] if isinstance(value, (list, tuple)) else value
    return float(value.aggregate() if hasattr(value, "aggregate") else value)


def say(**figures: Any) -> None:
    """Print a line for the program that reads this one's log."""
    rounded = {name: round(value, 6) if isinstance(value, float) else value for name, value in figures.items()}
    print("FIGURES " + json.dumps(rounded), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
