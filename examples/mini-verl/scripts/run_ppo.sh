#!/usr/bin/env bash
# PPO on one node. rollout.dtype=bfloat16 halves the memory of the weights.
set -euo pipefail

MODEL=${MODEL:-models/demo-0.5b-bf16}
DTYPE=${DTYPE:-bfloat16}

python3 -m verl.trainer.main_ppo \
    actor_rollout_ref.model.path="$MODEL" \
    actor_rollout_ref.model.attn_implementation=flash_attention_2 \
    actor_rollout_ref.actor.fsdp.mixed_precision.param_dtype=bf16 \
    actor_rollout_ref.rollout.dtype="$DTYPE" \
    trainer.experiment_name=ppo_bf16_demo \
    "$@"
