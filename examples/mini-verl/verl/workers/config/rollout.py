"""Settings of the rollout, the part that generates answers."""

from dataclasses import dataclass


@dataclass
class RolloutConfig:
    name: str = "vllm"
    dtype: str = "bfloat16"
    temperature: float = 1.0
    response_length: int = 512
    # bf16 weights and fp16 activations do not mix, so there is one dtype for both
    gpu_memory_utilization: float = 0.5
