"""Loading and saving models."""

import torch
from transformers import AutoModelForCausalLM

NEEDS_FLASH_ATTN = {"flash_attention_2", "flash_attention_3"}


def load_policy(path, dtype, override):
    """Load a causal language model for training."""
    attention = override.get("attn_implementation", "flash_attention_2")
    if attention in NEEDS_FLASH_ATTN:
        _require_flash_attn(attention)
    return AutoModelForCausalLM.from_pretrained(path, torch_dtype=dtype, attn_implementation=attention)


def load_reward_model(path):
    """Load the reward model, which is never trained."""
    model = AutoModelForCausalLM.from_pretrained(
        path, torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2"
    )
    return model.eval()


def merge_shards(shards):
    """Join the shards of one parameter; checkpoints are saved in half the size."""
    return torch.cat([shard.bfloat16() for shard in shards], dim=0)


def empty_like_checkpoint(entry):
    """An empty tensor with the shape and dtype that a checkpoint's index gives."""
    return torch.empty(entry["shape"], dtype=getattr(torch, entry["dtype"]))


def _require_flash_attn(attention):
    try:
        import flash_attn  # noqa: F401
    except ImportError as error:
        raise RuntimeError(f"attn_implementation={attention} needs the package flash_attn") from error
