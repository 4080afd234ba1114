import os
import subprocess
import sys

os.environ["VLLM_ATTENTION_BACKEND"] = "FLASH_ATTN"


def build(model, rollouts):
    return [
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.dtype=float32",
        f"actor_rollout_ref.rollout.n={rollouts}",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        "actor_rollout_ref.model.use_remove_padding=False",
        "actor_rollout_ref.actor.use_torch_compile=False",
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2",
    ]


def main():
    env = dict(os.environ, NVTE_FLASH_ATTN="1")
    subprocess.run([sys.executable, "-m", "verl.trainer.main_ppo", *build("org/m", 4)], check=True, env=env)
