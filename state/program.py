"""Kernel programs: what one fused kernel computes, before any language or tile size is chosen.

The planner turns a lowered graph into a `ForwardPlan`: a list of steps, each one kernel (or one PyTorch call that
stays). Writers render a program into Triton or CUDA source with a setting of their template's slots.

A `LoopProgram` runs over an iteration space of axes, some of them reduced. Every load, statement and store is an
element of that space: a load's stride is 0 along axes it is broadcast over, a statement after a reduction has the same
value along the reduced axes, and a store with stride 0 along the reduced axes is written once for each outer element.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Record
from .lowered import Symbol, Value
from .sizes import Size, product, value

# Pointwise vocabulary, by number of operands. Both writers print all of it.
# ruff: noqa: SIM905 - words read better than a column of quotes
UNARY = (
    "neg abs exp exp2 expm1 log log2 log1p sqrt rsqrt reciprocal sin cos tanh erf sigmoid relu floor ceil round trunc "
    "sign logical_not bitwise_not isnan isinf square"
).split()
BINARY = (
    "add sub mul div maximum minimum pow fmod remainder floor_div eq ne lt le gt ge logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor"
).split()
TERNARY = "where clamp".split()
"""`where(condition, a, b)`; `clamp(x, low, high)` with NaN kept, a missing bound written as -inf or inf."""
OTHER = ("cast", "iota", "gather")
"""`cast(x)` converts to the statement's dtype; `iota(axis)` is the index along an axis of the space; `gather(index,
guard)` reads that element of the statement's table where the guard holds, and is zero elsewhere."""
REDUCTIONS = "reduce_sum reduce_prod reduce_max reduce_min reduce_argmax reduce_argmin reduce_any reduce_all".split()
"""Over all reduced axes at once. Argument reductions give the index along the flattened reduced axes, first on ties."""
SCANS = "scan_sum scan_prod scan_max scan_min".split()
"""`scan_sum(x, backwards)`: of each element and all before it (or behind it) along the flattened reduced axes."""


class Load(Record):
    """Reads one element of a value of the forward pass at each point of the space."""

    name: str
    value: str
    dtype: str
    strides: tuple[Size, ...]
    offset: Size = 0


class Statement(Record):
    """One scalar operation; `args` are names of earlier loads or statements, or literals.

    A string that names neither is a symbolic size such as `64*s0` (an int64 value): the count in a mean over a free
    dimension.

    `dtype` is the type that PyTorch would give the result. Arithmetic on float16 and bfloat16 is done in float32, and
    only a `cast` or a store rounds: PyTorch's own rounding between fused operators is not reproduced. `index` is an
    integer as wide as a kernel's own indices; where it is divided, the result matters for positive numbers only.
    """

    name: str
    op: str
    args: tuple[str | bool | int | float, ...]
    dtype: str
    level: int = 0
    """How many reductions must be complete before this can be computed."""
    table: str = ""
    """The value that a `gather` reads, wherever its index says."""
    extent: Size = 0
    """How many elements the table spans; a guarded index is below."""


class Store(Record):
    """Writes a loaded or computed element to a value that the step makes: a contiguous tensor, fresh unless `into`."""

    name: str
    value: str
    dtype: str
    strides: tuple[Size, ...]
    into: str = ""
    """A value that the step loads at the same places and that is overwritten: the result shares its memory."""


class LoopProgram(Record):
    """A fused pointwise or reduction kernel."""

    kind: Literal["loop"] = "loop"
    name: str
    space: tuple[Size, ...]
    reduced: tuple[bool, ...]
    """One flag an axis; none set means pointwise."""
    loads: tuple[Load, ...]
    body: tuple[Statement, ...]
    stores: tuple[Store, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that the kernel reads, tables after what is loaded, in order of first use."""
        return tuple(dict.fromkeys([*(load.value for load in self.loads), *self.tables]))

    @property
    def tables(self) -> dict[str, Statement]:
        """Values read at computed places, each with the first statement that reads it."""
        found: dict[str, Statement] = {}
        for statement in self.body:
            if statement.table:
                found.setdefault(statement.table, statement)
        return found

    @property
    def scans(self) -> bool:
        """Whether it has running totals. Then it has no reductions, and all run in one direction."""
        return any(s.op in SCANS for s in self.body)

    @property
    def levels(self) -> int:
        """How many passes over the reduced axes end in a reduction."""
        return max((s.level for s in self.body if s.op in REDUCTIONS), default=-1) + 1


class WindowAxis(Record):
    """Windows along one dimension of an operand: `taps` elements each, from place to place `stride` further."""

    taps: int
    dilation: int
    stride: int
    padding: int
    """Zeros before the dimension that windows may reach."""
    behind: int
    """Zeros behind it."""
    places: Size
    length: Size
    """Of the dimension; what a window has outside of it is zero."""
    walk: Size
    """Elements of memory from one index to the next."""


class Windows(Record):
    """A factor of (channel and tap, place), read where its windows lie: no copy of it is made."""

    channels: int
    channel_walk: Size
    axes: tuple[WindowAxis, ...]

    @property
    def elements(self) -> Size:
        """Of one image: each is in many windows."""
        return product((self.channels, *(axis.length for axis in self.axes)))


class Softmax(Record):
    """Rows of a left factor that are made where they are read: the softmax of another product's, as in attention."""

    scores: "MatmulProgram"
    """The other product: of the same batch and rows, its columns the outer one's k; it stores nothing."""
    score: str
    """What the softmax is of: a statement's name, or `acc`."""
    ahead: int | None = None
    """Scores further to the right of their row's own place are -inf: 0 where attention is causal."""
    behind: int | None = None
    """Scores further to the left of it are -inf: of a window that slides."""
    zero_rows: bool = False
    """Whether a row whose scores are all -inf is zero; it is NaN otherwise."""


class Operand(Record):
    """One factor of a matrix product: strides along the batch axes, then its rows, then its columns.

    A factor with `windows` has strides of 0 along rows and columns: no stride steps through them. One with `softmax`
    does not lie in memory: its strides are 0, and it names no value.
    """

    value: str
    dtype: str
    strides: tuple[Size, ...]
    offset: Size = 0
    windows: Windows | None = None
    softmax: Softmax | None = None


class MatmulProgram(Record):
    """A (batched) matrix product with a fused pointwise epilogue.

    The epilogue runs over the space (*batch, m, n); in its body the name `acc` is the float32 sum over k. With a second
    right factor `also` a second product of the same left factor is summed beside it, as `acc_1`.
    """

    kind: Literal["matmul"] = "matmul"
    name: str
    batch: tuple[Size, ...]
    m: Size
    n: Size
    k: Size
    a: Operand
    """Strides (*batch, m, k)."""
    b: Operand
    """Strides (*batch, k, n)."""
    also: Operand | None = None
    """Strides (*batch, k, n), of b's dtype."""
    loads: tuple[Load, ...]
    body: tuple[Statement, ...]
    stores: tuple[Store, ...]

    @property
    def space(self) -> tuple[Size, ...]:
        return (*self.batch, self.m, self.n)

    @property
    def scores(self) -> "MatmulProgram | None":
        """The product whose softmax is the left factor."""
        return None if self.a.softmax is None else self.a.softmax.scores

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The factors that lie in memory, those of the scores first."""
        left = (self.a,) if self.scores is None else self.scores.operands
        return (*left, self.b) if self.also is None else (*left, self.b, self.also)

    @property
    def side_loads(self) -> tuple[Load, ...]:
        """What is read beside the factors, that of the scores first."""
        return self.loads if self.scores is None else (*self.scores.side_loads, *self.loads)

    @property
    def reads(self) -> tuple[str, ...]:
        """Values that the kernel reads, in order of first use."""
        factors = [operand.value for operand in self.operands]
        return tuple(dict.fromkeys([*factors, *(load.value for load in self.side_loads)]))

    def flops(self, hints: Mapping[str, int]) -> float:
        """Two for each multiply-add at the hinted sizes, those of the scores and of the second product among them."""
        once = 2.0 * value(product((*self.space, self.k)), hints)
        return once * (1 if self.also is None else 2) + (0.0 if self.scores is None else self.scores.flops(hints))


Softmax.model_rebuild()
Operand.model_rebuild()
MatmulProgram.model_rebuild()


class TorchStep(Record):
    """An operator that no template covers: the candidate calls PyTorch for it."""

    kind: Literal["torch"] = "torch"
    name: str
    op: str
    """As in `Node.op`: `aten.convolution.default`."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = Field(default_factory=dict)
    outputs: tuple[str, ...]
    """Value names, one an output of the operator."""


class ViewStep(Record):
    """A strided view of a value, free at run time: `torch.as_strided(base, shape, strides, offset)`."""

    kind: Literal["view"] = "view"
    name: str
    base: str
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = 0


Step = Annotated[LoopProgram | MatmulProgram | TorchStep | ViewStep, Field(discriminator="kind")]


class ForwardPlan(Record):
    """The whole forward pass as kernels: the values it starts from, the steps in order, and what it returns."""

    inputs: tuple[str, ...]
    """Value names of the forward arguments, in order (scalars included)."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Value name to qualified parameter or buffer name: `{"p_linear_weight": "linear.weight"}`."""
    symbols: tuple[Symbol, ...] = ()
    values: dict[str, Value]
    """Shape and dtype of every tensor value that a step reads or makes."""
    steps: tuple[Step, ...]
    returns: Any
    """As in `LoweredGraph.outputs`, naming values."""
    uncovered: tuple[str, ...] = ()
    """Operators that stay in PyTorch, by name."""
    strides: dict[str, tuple[Size, ...]] = Field(default_factory=dict)
    """Element strides of the inputs and parameters that are not contiguous, by value name."""
    scalars: dict[str, Any] = Field(default_factory=dict)
    """Inputs that are no tensors, with the literal that the plan was made for."""

    @property
    def hints(self) -> dict[str, int]:
        return {symbol.name: symbol.hint for symbol in self.symbols}
