"""A problem: what to compute, on which inputs, under which precision policy."""

from typing import Any, Literal, get_args

from pydantic import Field

from .base import Record, digest

Precision = Literal["reference", "strict-fp32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


class TensorSpec(Record):
    """Shape, dtype and layout of one tensor, without its values."""

    shape: tuple[int, ...]
    dtype: str
    """torch's name without the prefix: `float32`, `bfloat16`, `int64`, `bool`."""
    strides: tuple[int, ...]
    """In elements, one a dimension; 0 along an expanded one."""


class Workload(Record):
    """One choice of shapes, dtypes and input draw for a problem."""

    name: str
    """`default` is `get_inputs()` as the file has it."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments that the problem's `get_inputs` is called with."""
    inputs: tuple[Any, ...] = ()
    """One entry an input: a `TensorSpec` as a dict, or the literal value of a scalar."""
    input_bytes: int = 0
    output_bytes: int = 0
    timed: bool = True
    """False for workloads that a problem lists under `checks`: judged, but no part of a speedup."""


class Target(Record):
    """A published time to beat, with the conditions it was measured under."""

    ms: float
    gpu: str
    workload: str
    source: str


class Problem(Record):
    """A PyTorch reference with its workloads. The source is only ever imported in a worker."""

    name: str
    path: str
    source: str
    workloads: tuple[Workload, ...]
    ranges: dict[str, tuple[int, int]] = Field(default_factory=dict)
    """Keyword arguments of `get_inputs` that may vary, with the least and greatest value."""
    init_arguments: Any = None
    """The constructor's arguments, described as nested JSON (kinds of containers kept)."""
    precision: Precision = "reference"
    layouts: Literal["given", "any"] = "given"
    """`any`: a kernel must also be right on misaligned inputs and on strided views; else that only labels it."""
    target: Target | None = None
    baselines: tuple[str, ...] = ()
    """Names of hand-written baselines that the file ships."""

    @property
    def id(self) -> str:
        """Content hash of source and precision: what cached results are keyed by."""
        return digest(self.source, self.precision)[:16]

    @property
    def primary(self) -> Workload:
        """The workload that exploration is measured on: `get_inputs()` without arguments."""
        return self.workloads[0]

    @property
    def timed_workloads(self) -> tuple[Workload, ...]:
        """Those that speedups are taken over, the primary one first."""
        return tuple(w for w in self.workloads if w.timed)

    @property
    def smallest(self) -> Workload:
        """The workload with the fewest bytes: what a dry run checks on."""
        return min(self.workloads, key=lambda w: w.input_bytes + w.output_bytes)
