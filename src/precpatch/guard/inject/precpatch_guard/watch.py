"""Looks at every operator that reaches PyTorch's dispatcher, in every thread, and at what is compiled."""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

from .kernels import watch_compile, watch_triton
from .operators import ATTENTION, Operator
from .pretend import pretend
from .settings import Settings
from .trips import LOAD, Trips


def watch(torch: Any, settings: Settings, trips: Trips) -> None:
    """Watch this process for the rest of its life; ``torch`` was just imported."""
    trips.frames.hide(torch)
    trips.journal.watch_torch(str(torch.__version__))
    if settings.pretend:
        pretend(torch, settings.pretend, settings.card)
    _let_torch_ask(torch)
    dtypes = Dtypes(torch, settings.forbid)
    _watch_threads(torch, _mode_of(torch, _Watch(dtypes, settings.strict, trips)))
    watch_compile(torch, settings.kernels, trips)
    watch_triton(settings.kernels, dtypes, trips)


def _let_torch_ask(torch: Any) -> None:
    """Keep the tensor out of sight with which ``torch.cuda.is_bf16_supported`` tries bfloat16: asking is not using."""
    ask = getattr(torch.cuda, "_check_bf16_tensor_supported", None)
    if ask is None:
        return
    unseen = importlib.import_module("torch.utils._python_dispatch")._disable_current_modes

    def ask_unseen(device: Any) -> Any:
        with unseen():
            return ask(device)

    torch.cuda._check_bf16_tensor_supported = ask_unseen


class Dtypes:
    """Finds tensors of a forbidden dtype."""

    def __init__(self, torch: Any, names: list[str]) -> None:
        """``names`` are names in ``torch``; one that this torch has not got cannot be used either."""
        self._tensor = torch.Tensor
        self._names = {getattr(torch, name): name for name in names if hasattr(torch, name)}

    def first(self, values: Any) -> str:
        """The dtype of the first tensor of ``values`` if a kernel would run on it; "" for none."""
        for value in values:
            if isinstance(value, self._tensor):
                return str(value.dtype).rpartition(".")[2] if _is_real(value) else ""
        return ""

    def among(self, values: Any) -> list[str]:
        """The forbidden dtypes of the tensors in nested ``values``, one entry a tensor."""
        found: list[str] = []
        self._collect(values, found)
        return found

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


class _Watch:
    """Looks at operators. One for the process."""

    def __init__(self, dtypes: Dtypes, strict: bool, trips: Trips) -> None:
        self._dtypes = dtypes
        self._strict = strict
        self._trips = trips
        self._operators: dict[Any, Operator] = {}

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator and look at what goes in and out; one that fails on forbidden arguments trips as well."""
        operator = self._operators.get(func)
        if operator is None:
            operator = self._operators[func] = Operator(func)
        self._trips.journal.operator()
        taken = self._dtypes.among((args, kwargs))
        try:
            out = func(*args, **kwargs)
        except Exception:
            if taken:
                self._look(operator, taken, taken)
            raise
        made = self._dtypes.among(out)
        if taken or made:
            self._look(operator, taken, made)
        if operator.role:
            self._tally(operator, args)
        return out

    def _tally(self, operator: Operator, args: Any) -> None:
        """Count a matrix product by its dtype, or an attention kernel by its name."""
        dtype = self._dtypes.first(args)
        if dtype:
            journal = self._trips.journal
            counts, key = (journal.attention, operator.name) if operator.role == ATTENTION else (journal.matmuls, dtype)
            counts[key] = counts.get(key, 0) + 1

    def _look(self, operator: Operator, taken: list[str], made: list[str]) -> None:
        kind = operator.kind(taken, made)
        if kind == LOAD and not self._strict:
            self._trips.journal.loads += 1
        else:
            self._trips.record(kind, operator.name, (made or taken)[0], sys._getframe(1))


def _mode_of(torch: Any, watch: _Watch) -> Any:
    """The class of dispatch modes that hand every operator to ``watch``."""
    base = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A tensor made of other tensors (DTensor, NestedTensor) unwraps first: its own operators are looked at.
        if any(hasattr(each, "__tensor_flatten__") for each in types):
            return NotImplemented
        return watch.call(func, args, kwargs or {})

    members = {
        "__torch_dispatch__": dispatch,
        "supports_higher_order_operators": True,
        # Dynamo never traces under the guard; else torch would import it to keep it out of ``dispatch``.
        "_should_skip_dynamo": classmethod(lambda _: False),
    }
    return type("PrecisionGuard", (base,), members)


def _watch_threads(torch: Any, mode: Any) -> None:
    """Enter a mode in this thread and in all that follow.

    Threads that Python did not start, such as those of Ray's asyncio actors, are entered when they first call a module;
    the autograd engine's inherit the mode of the thread that called ``backward``.
    """
    entered = threading.local()
    depth = torch._C._len_torch_dispatch_stack

    def enter() -> None:
        if not hasattr(entered, "mode"):
            entered.mode = None if depth() else mode().__enter__()

    enter()
    thread: Any = threading.Thread
    run_thread, call_module = thread._bootstrap_inner, torch.nn.Module.__call__

    def run_watched(self: Any) -> None:
        enter()
        run_thread(self)

    def call_watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        enter()
        return call_module(self, *args, **kwargs)

    thread._bootstrap_inner = run_watched
    torch.nn.Module.__call__ = call_watched
