"""The tensors of a forbidden dtype among what goes into an operator and comes out of it."""

from __future__ import annotations

from typing import Any


class Dtypes:
    """Finds tensors of a forbidden dtype."""

    def __init__(self, torch: Any, names: list[str]) -> None:
        """``names`` are names in ``torch``; one that this torch has not got cannot be used either."""
        self._tensor = torch.Tensor
        self._names = {getattr(torch, name): name for name in names if hasattr(torch, name)}

    def of_first(self, values: Any) -> Any:
        """The dtype of the first tensor of ``values`` if a kernel runs on it, else None."""
        for value in values:
            if isinstance(value, self._tensor):
                return None if value.is_meta or type(value).__name__ == "FakeTensor" else value.dtype
        return None

    def among(self, values: Any) -> list[str]:
        """The forbidden dtypes of the tensors in nested ``values``, one entry a tensor."""
        found: list[str] = []
        self._collect(values, found)
        return found

    def is_cast(self, targets: Any, sources: Any) -> bool:
        """Whether a forbidden tensor among ``targets`` is filled from one of another dtype."""
        pairs = zip(self._tensors(targets), self._tensors(sources))  # noqa: B905 (strict is of Python 3.10)
        return any(to.dtype in self._names and to.dtype != of.dtype for to, of in pairs)

    def _tensors(self, value: Any) -> list[Any]:
        """The tensors in nested ``value``."""
        if isinstance(value, (list, tuple)):
            return [tensor for each in value for tensor in self._tensors(each)]
        return [value] if isinstance(value, self._tensor) else []

    def _collect(self, value: Any, found: list[str]) -> None:
        if isinstance(value, self._tensor):
            name = self._names.get(value.dtype)
            if name is not None and _is_real(value):
                found.append(name)
        elif isinstance(value, (list, tuple)):
            for each in value:
                self._collect(each, found)
        elif isinstance(value, dict):
            for each in value.values():
                self._collect(each, found)


def _is_real(tensor: Any) -> bool:
    """Whether a kernel would run: not for a tensor that only has a shape, nor for one without elements."""
    return tensor.device.type != "meta" and type(tensor).__name__ != "FakeTensor" and tensor.numel() != 0
