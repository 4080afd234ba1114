"""Looks at every operator that reaches PyTorch's dispatcher, in every thread, and at what is compiled."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from .dtypes import Dtypes
from .journal import LOADS, OPERATORS
from .kernels import watch_compile, watch_triton
from .operators import ATTENTION, Operator
from .pretend import pretend
from .regions import watch_autocast
from .settings import Settings
from .threads import Threads
from .trips import LOAD, PRODUCE, Trips


def watch(torch: Any, settings: Settings, trips: Trips, threads: Threads) -> None:
    """Watch this process for the rest of its life; ``torch`` was just imported.

    Where nothing is to be watched for, torch is left as it is: functions compile then, as they would on the target.
    """
    if settings.pretend:
        pretend(torch, settings.pretend, settings.card)
    if not (settings.forbid or settings.kernels):
        return
    trips.frames.hide(torch)
    trips.journal.watch_torch(str(torch.__version__))
    _look_away(torch)
    dtypes = Dtypes(torch, settings.forbid)
    threads.use(torch, _mode_of(torch, _Watch(torch, settings, dtypes, trips)))
    watch_autocast(torch, settings.forbid, trips)
    watch_compile(torch, settings.kernels, trips)
    watch_triton(settings.kernels, dtypes, trips)


def _look_away(torch: Any) -> None:
    """Keep out of sight what is no use of a dtype, or cannot be done in sight.

    ``torch.cuda.is_bf16_supported`` tries bfloat16 on a tensor: asking is not using. ``torch.jit.trace`` cannot trace
    under a dispatch mode; what it traced is seen whenever it runs.
    """
    unseen = importlib.import_module("torch.utils._python_dispatch")._disable_current_modes

    def hide(module: Any, name: str) -> None:
        function = getattr(module, name, None)
        if function is None:
            return

        @functools.wraps(function)
        def call_unseen(*args: Any, **kwargs: Any) -> Any:
            with unseen():
                return function(*args, **kwargs)

        setattr(module, name, call_unseen)

    hide(torch.cuda, "_check_bf16_tensor_supported")
    hide(torch.jit, "trace")
    hide(torch.jit, "trace_module")


class _Watch:
    """Looks at operators. One for the process."""

    def __init__(self, torch: Any, settings: Settings, dtypes: Dtypes, trips: Trips) -> None:
        self._dispatcher = torch._C
        self._is_inference = torch.is_inference_mode_enabled
        self._composite = torch._C.DispatchKey.CompositeImplicitAutograd
        self._dtypes = dtypes
        self._strict = settings.strict
        self._trips = trips
        self._journal = trips.journal
        self._operators: dict[Any, Operator] = {}

    def call(self, mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """Call an operator and look at what goes in and out; one that fails on forbidden arguments trips as well."""
        operator = self._operators.get(func)
        if operator is None:
            operator = self._operators[func] = Operator(func, self._dispatcher)
        if operator.is_composite and self._is_inference():
            # Elsewhere autograd takes it apart before it comes this far.
            with mode:
                return func._op_dk(self._composite, *args, **kwargs)
        self._journal.counts[OPERATORS] += 1
        taken = self._dtypes.among((args, kwargs))
        try:
            out = func(*args, **kwargs)
        except Exception:
            if taken:
                self._look(operator, args, taken, taken)
            raise
        made = self._dtypes.among(out)
        if taken or made:
            self._look(operator, args, taken, made)
        if operator.role:
            self._tally(operator, args)
        return out

    def _tally(self, operator: Operator, args: Any) -> None:
        """Count a matrix product by its dtype, or an attention kernel by its name."""
        dtype = self._dtypes.of_first(args)
        if dtype is not None:
            journal = self._journal
            number = journal.tallies.get((operator, dtype))
            if number is None:
                name = operator.name if operator.role == ATTENTION else str(dtype).rpartition(".")[2]
                number = journal.tallies[operator, dtype] = journal.number_of(operator.role, name)
            journal.counts[number] += 1

    def _look(self, operator: Operator, args: Any, taken: list[str], made: list[str]) -> None:
        if operator.is_copy_into:
            kind = PRODUCE if self._dtypes.is_cast(args[0], args[1:2]) else LOAD
        else:
            kind = operator.kind(taken, made, args)
        if kind == LOAD and not self._strict:
            self._journal.counts[LOADS] += 1
        else:
            self._trips.record(kind, operator.name, (made or taken)[0], sys._getframe(1))


def _mode_of(torch: Any, watch: _Watch) -> Any:
    """The class of dispatch modes that hand every operator to ``watch``."""
    base = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A tensor made of other tensors (DTensor, NestedTensor) unwraps first: its own operators are looked at.
        if any(hasattr(each, "__tensor_flatten__") for each in types):
            return NotImplemented
        return watch.call(self, func, args, kwargs or {})

    members = {
        "__torch_dispatch__": dispatch,
        "supports_higher_order_operators": True,
        # Dynamo never traces under the guard; else torch would import it to keep it out of ``dispatch``.
        "_should_skip_dynamo": classmethod(lambda _: False),
    }
    return type("PrecisionGuard", (base,), members)
