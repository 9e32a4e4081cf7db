"""Lowers a reference to core ATen operators with `torch.export`, without running it: only fake tensors flow.

Free dimensions are found by export itself (`Dim.AUTO`). A dimension whose sizes cannot all be written (a float is
computed from it, say) is frozen and the export repeated; what cannot be exported at all comes back as a
`LoweredGraph` with `unsupported` set to one line.
"""

import functools
import inspect
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, default_decompositions, export

from ...state.lowered import LoweredGraph
from .graph_record import Unsupported, Unwritable, record
from .problem_module import first_line

# Kept whole: composites that the planner knows as one operator, and operators that PyTorch runs far faster whole than
# taken apart (attention, recurrent cells, which would unroll over time).
KEPT = frozenset("linear matmul einsum addmm baddbmm scaled_dot_product_attention lstm gru rnn_tanh rnn_relu".split())  # noqa: SIM905
KEPT |= frozenset("silu mish hardswish hardsigmoid hardtanh softplus gelu elu selu celu leaky_relu relu6".split())  # noqa: SIM905
KEPT |= frozenset("log_sigmoid softsign logsumexp std std_mean var var_mean linalg_vector_norm norm rms_norm".split())  # noqa: SIM905
KEPT |= frozenset(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3))
MAX_NODES = 3000
FREEZES = 4
"""Exports tried with fewer and fewer free dimensions before all of them are frozen."""

_READS_DATA = ("GuardOnDataDependentSymNode", "DataDependentOutputException")

Dynamic = Mapping[int, Sequence[int]]
"""Input number to the dimensions of it that may vary."""


class DeadlinePassed(Exception):
    """Lowering took longer than it may."""


def lower(
    model: nn.Module, inputs: Sequence[Any], deadline_s: float = 20.0, dynamic: Dynamic | None = None
) -> LoweredGraph:
    """The model's forward on inputs like these, as operators. Never raises for a model's fault.

    Args:
        model: on any device, in the mode (train or eval) that it is to be judged in; its data is not read.
        inputs: the forward arguments by position; tensors may be on any device, `meta` included.
        deadline_s: seconds after which lowering gives up. Only enforced in the main thread of a process.
        dynamic: the dimensions that may vary; None tries all of them, `{}` none.
    """
    free = _free_dimensions(inputs, dynamic)
    try:
        with _deadline(deadline_s), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _lower(model, tuple(inputs), free)
    except DeadlinePassed:
        return _unsupported(f"lowering took longer than {deadline_s:g} s")
    except Unsupported as error:
        return _unsupported(str(error))
    except Exception as error:  # noqa: BLE001 - whatever export raises is the model's to answer for
        if type(error).__name__ in _READS_DATA:
            return _unsupported("control flow on data: forward branches, loops or picks a place by what a tensor holds")
        return _unsupported(f"torch.export failed: {first_line(error)}")


def _lower(model: nn.Module, inputs: tuple[Any, ...], free: dict[int, tuple[int, ...]]) -> LoweredGraph:
    for _ in range(FREEZES):
        if not any(free.values()):
            break
        try:
            return _record(_export(model, inputs, free), model)
        except Unwritable as error:
            kept = {i: tuple(d for d in dims if (i, d) not in error.dimensions) for i, dims in free.items()}
            free = kept if kept != free else {}
        except (DeadlinePassed, Unsupported):
            raise
        except Exception:  # noqa: BLE001 - a model that refuses free dimensions may still export with fixed ones
            free = {}
    return _record(_export(model, inputs, {}), model)


def _export(model: nn.Module, inputs: tuple[Any, ...], free: dict[int, tuple[int, ...]]) -> ExportedProgram:
    if any(isinstance(value, (list, tuple, dict)) for value in inputs):
        raise Unsupported("an input is a list, tuple or dict; only tensors and scalars are lowered")
    exported = export(model, inputs, dynamic_shapes=_dynamic_shapes(model, inputs, free), strict=False)
    if len(exported.graph.nodes) > MAX_NODES:
        raise Unsupported(f"{len(exported.graph.nodes)} operators, more than the {MAX_NODES} that are lowered")
    return exported.run_decompositions(dict(_decompositions()))


def _dynamic_shapes(model: nn.Module, inputs: tuple[Any, ...], free: dict[int, tuple[int, ...]]) -> Any:
    """Export's way to say which dimensions are free; arguments behind a `*` are a tuple of their own."""
    shapes = tuple(
        {dim: Dim.AUTO for dim in free.get(i, ())} or None if isinstance(value, torch.Tensor) else None
        for i, value in enumerate(inputs)
    )
    if not any(shapes):
        return None
    kinds = [parameter.kind for parameter in inspect.signature(model.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        return shapes
    named = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*shapes[:named], shapes[named:])


@functools.cache
def _decompositions() -> dict[Any, Any]:
    """Core ATen's table without the operators that are kept whole; building it costs more than most exports."""
    return {op: rule for op, rule in default_decompositions().items() if str(op).split(".")[1] not in KEPT}


def _record(exported: ExportedProgram, model: nn.Module) -> LoweredGraph:
    if len(exported.graph.nodes) > MAX_NODES:
        raise Unsupported(f"{len(exported.graph.nodes)} operators, more than the {MAX_NODES} that are lowered")
    return record(exported, model)


def _free_dimensions(inputs: Sequence[Any], dynamic: Dynamic | None) -> dict[int, tuple[int, ...]]:
    """Dimensions of size 0 or 1 are always fixed: they broadcast or make the result empty."""
    return {
        i: tuple(d for d in range(value.dim()) if value.shape[d] > 1 and (dynamic is None or d in dynamic.get(i, ())))
        for i, value in enumerate(inputs)
        if isinstance(value, torch.Tensor)
    }


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(signum: int, frame: FrameType | None) -> None:
        raise DeadlinePassed

    before = signal.signal(signal.SIGALRM, expire)
    # Repeated, because the first exception may be swallowed by a broad handler inside export.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3), 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _unsupported(why: str) -> LoweredGraph:
    return LoweredGraph(nodes=(), outputs=None, unsupported=why)
