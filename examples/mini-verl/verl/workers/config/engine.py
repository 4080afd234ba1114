"""Settings of the training engines."""

from dataclasses import dataclass, field


@dataclass
class EngineConfig:
    """What all engines share.

    dtype: compute dtype, "bfloat16" unless the user says otherwise.
    """

    strategy: str = ""
    dtype: str = "bfloat16"
    param_offload: bool = False
    mixed_precision: dict = field(default_factory=dict)

    def __post_init__(self):
        if not self.strategy:
            raise ValueError("strategy must be set, for example to 'fsdp'")


@dataclass
class FSDPEngineConfig(EngineConfig):
    strategy: str = "fsdp"
    reshard_after_forward: bool = True


@dataclass
class MegatronEngineConfig(EngineConfig):
    strategy: str = "megatron"
    tensor_parallel_size: int = 1

    def __post_init__(self):
        super().__post_init__()
        assert self.dtype in ["bfloat16", "float16"], f"dtype {self.dtype} is not supported by Megatron"
