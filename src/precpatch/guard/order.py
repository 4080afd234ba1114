"""What the guard is asked to watch for, from the target and the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from precpatch.errors import UserError
from precpatch.gpu.target import Target
from precpatch.guard.inject.precpatch_guard.settings import TORCH_COMPILE, TRITON

MODES = ("record", "raise")
DTYPES = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")

_PACKAGES = {"runs_flash_attention_2": "flash_attn", "runs_vllm": "vllm", "runs_sglang": "sglang"}
_KERNELS = {"runs_inductor": TORCH_COMPILE, "runs_triton": TRITON}


@dataclass(frozen=True)
class Order:
    """What trips.

    Attributes:
        target: the GPU to behave like.
        forbid: names of the dtypes.
        block: packages that cannot be imported.
        kernels: what cannot be launched: "torch.compile" (through Inductor), "triton".
        mode: one of ``MODES``.
        strict: views and up-casts of forbidden tensors trip as well.
        pretend: torch.cuda reports the target's compute capability.
    """

    target: Target
    forbid: tuple[str, ...]
    block: tuple[str, ...]
    kernels: tuple[str, ...]
    mode: str
    strict: bool
    pretend: bool

    @property
    def watches_operators(self) -> bool:
        """There is a dtype or a kernel to watch for; else torch is left as it is, and compiles what it is handed."""
        return bool(self.forbid or self.kernels)

    @property
    def is_idle(self) -> bool:
        """There is nothing to watch for and nothing to pretend."""
        return not (self.watches_operators or self.block or self.pretend)


def make_order(
    target: Target,
    *,
    mode: str = "record",
    forbid: Sequence[str] = (),
    block: Sequence[str] = (),
    allow: Sequence[str] = (),
    strict: bool = False,
    pretend: bool = False,
) -> Order:
    """What ``target`` has not got, with ``forbid`` and ``block`` added and ``allow`` taken out.

    Raises:
        UserError: ``pretend`` is asked of a target without a compute capability.
    """
    if pretend and target.capability.compute_capability is None:
        raise UserError(f"--pretend needs a target with a compute capability; {target.name} has none")
    dtypes = [*forbid] if target.native_bf16 else ["bfloat16", *forbid]
    return Order(
        target=target,
        forbid=_without(dtypes, allow),
        block=_without([*_missing(target, _PACKAGES), *block], allow),
        kernels=_without(_missing(target, _KERNELS), allow),
        mode=mode,
        strict=strict,
        pretend=pretend,
    )


def _missing(target: Target, names: dict[str, str]) -> list[str]:
    return [name for question, name in names.items() if not target.ask(question)]


def _without(names: Sequence[str], allow: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name not in allow)
