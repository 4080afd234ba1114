"""torch.cuda reports the compute capability of the target. Kernels still run on the real GPU."""

from __future__ import annotations

from typing import Any


class _Properties:
    """The properties of the real GPU, some of them replaced."""

    def __init__(self, real: Any, **replaced: Any) -> None:
        self._real = real
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def pretend(torch: Any, capability: list[int], card: str) -> None:
    """Answer for the target; ``torch.cuda.is_bf16_supported`` follows from it, whether CUDA is there does not."""
    major, minor = capability
    real = torch.cuda.get_device_properties

    def properties(device: Any = None) -> _Properties:
        return _Properties(real(device), major=major, minor=minor, name=card)

    torch.cuda.get_device_properties = properties
    torch.cuda.get_device_capability = lambda device=None: (major, minor)
    torch.cuda.get_device_name = lambda device=None: card
