"""How much work a reference is, whoever does it: bytes that move and operations that must be done.

Read off the lowered graph without running it; the roofline divides it by the device's rates. What a program needs to
move as a rule is an estimate, for the speed of light; what it must move is a lower bound for any correct one.
"""

import math
from collections.abc import Mapping

from pydantic import Field

from ..state.base import Record
from ..state.dtypes import BYTES
from ..state.lowered import LoweredGraph, Node, Value, references
from ..state.sizes import Size, product, value
from .needed import OVERLAYS, WRITES_BY_INDEX, is_causal, is_transposed, maker, needed_elements

# Operators that only rename elements or make constants.
FREE = frozenset(("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze"))
FREE |= frozenset(("select", "slice", "split", "split_with_sizes", "unbind", "getitem", "clone", "alias", "detach"))
FREE |= frozenset(("full", "full_like", "zeros", "ones", "zeros_like", "ones_like", "scalar_tensor", "arange", "empty"))
# Views that keep fewer elements than they are given: what lies outside is not read.
NARROWING = frozenset(("select", "slice", "split", "split_with_sizes", "unbind", "narrow"))
# Operators that pick elements by data: how many distinct ones is not known, it may be a single one.
PICKING = frozenset(("embedding", "index_select", "gather", "index", "take", "take_along_dim"))
CONVOLUTIONS = frozenset(("convolution", *(f"conv{how}{n}d" for how in ("", "_transpose") for n in (1, 2, 3))))
ATTENTION = "scaled_dot_product_attention"
MATMULS = frozenset(("mm", "bmm", "matmul", "linear", "addmm", "baddbmm", "dot", "mv", "addmv", "einsum"))


class Work(Record):
    """What is done for one forward call."""

    read_bytes: int = Field(ge=0)
    """Every element of inputs, parameters and buffers that is used, once."""
    write_bytes: int = Field(ge=0)
    """Every element of the outputs, once; outputs that are views of inputs cost nothing."""
    must_read_bytes: int = Field(default=0, ge=0)
    """Every element of memory that no correct program can leave unread, whatever the data."""
    must_write_bytes: int = Field(default=0, ge=0)
    """Every element that no correct program can leave unwritten; results that share their elements count once."""
    matmul_flops: dict[str, float] = Field(default_factory=dict)
    """Two per multiply-add of products and convolutions as written, by operand dtype. Algebra may remove some."""
    other_flops: float = 0.0
    """About one per element and pointwise or reduction operator."""

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.write_bytes


def floor_work(graph: LoweredGraph, hints: Mapping[str, int] | None = None) -> Work:
    """The work of a lowered graph at the hinted sizes, or at others given by symbol name."""
    return _Accounting(graph, {**graph.hints, **(hints or {})}).total()


class _Accounting:
    def __init__(self, graph: LoweredGraph, hints: Mapping[str, int]) -> None:
        self.graph = graph
        self.hints = hints
        self.nodes = {node.name: node for node in graph.nodes}
        self.delivered = dict.fromkeys([*references(graph.outputs), *graph.updates.values()])
        """Nodes whose values a call leaves behind, in results or in inputs changed in place."""
        self.live = self._live()

    def total(self) -> Work:
        flops: dict[str, float] = {}
        other = 0.0
        for node in self.graph.nodes:
            if node.name not in self.live or node.operator in ("", *FREE):
                continue
            dtype, amount = self._matmul(node)
            if dtype:
                flops[dtype] = flops.get(dtype, 0.0) + amount
            else:
                other += self._elements_touched(node)
        return Work(
            read_bytes=sum(self._read(node) for node in self.graph.nodes if node.is_memory),
            write_bytes=sum(self._written(name) for name in self.delivered),
            must_read_bytes=self._must_read(),
            must_write_bytes=self._must_write(),
            matmul_flops=flops,
            other_flops=other,
        )

    def _must_read(self) -> int:
        needed = needed_elements(self.graph, self.hints)
        total = 0
        for node in self.graph.nodes:
            if node.is_memory and node.output is not None and needed[node.name]:
                stored = needed[node.name] * self._distinct(node) / self._count(node.output.shape)
                total += math.ceil(stored) * BYTES.get(node.output.dtype, 1)
        return total

    def _must_write(self) -> int:
        most: dict[str, int] = {}
        for name in self.delivered:
            made = maker(self.nodes, name)
            written = self._written(name)
            if made.operator in OVERLAYS and name in self.graph.updates.values():
                placed = self._value(references(made.args)[1])
                written = min(written, self._count(placed.shape) * BYTES.get(placed.dtype, 1) if placed else 0)
            elif made.operator in WRITES_BY_INDEX and name in self.graph.updates.values():
                written = 0
            most[made.name] = max(most.get(made.name, 0), written)
        return sum(most.values())

    def _live(self) -> set[str]:
        found: set[str] = set()
        waiting = list(self.delivered)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.nodes:
                found.add(name)
                waiting += references([*self.nodes[name].args, *self.nodes[name].kwargs.values()])
        return found

    def _read(self, node: Node) -> int:
        """Elements used: all, unless every use is a view that narrows; expanded dimensions count once."""
        if node.name not in self.live or node.output is None:
            return 0
        uses = [user for user in self.graph.nodes if user.name in self.live and node.name in references([*user.args])]
        returned = node.name in self.delivered
        if not uses and not returned:
            return 0
        elements = self._distinct(node)
        if uses and not returned and all(user.operator in NARROWING | PICKING for user in uses):
            elements = min(elements, sum(self._narrowed(user, node) for user in uses))
        if returned and not uses:
            return 0
        return elements * BYTES.get(node.output.dtype, 4)

    def _distinct(self, node: Node) -> int:
        assert node.output is not None
        if node.strides is None:
            return self._count(node.output.shape)
        kept = [s for s, stride in zip(node.output.shape, node.strides, strict=True) if stride != 0]
        return self._count(tuple(kept))

    def _narrowed(self, node: Node, read: Node) -> int:
        if node.operator in PICKING:
            return 0 if node.args[0] == {"ref": read.name} else self._distinct(read)
        if node.output is not None:
            return self._count(node.output.shape)
        picks = [n for n in self.graph.nodes if n.op == "getitem" and n.name in self.live]
        return sum(self._count(n.output.shape) for n in picks if n.output and n.args[0]["ref"] == node.name)

    def _written(self, name: str) -> int:
        """A result may be returned as a view of fewer elements; one of an input costs nothing."""
        node = self.nodes[name]
        found = node.output
        fewest = self._count(found.shape) if found else 0
        while node.operator in FREE - {"clone", "full", "arange"} and node.args and references([node.args[0]]):
            node = self.nodes[references([node.args[0]])[0]]
            fewest = min(fewest, self._count(node.output.shape)) if node.output else fewest
        if node.is_memory or found is None:
            return 0
        return fewest * BYTES.get(found.dtype, 4)

    def _matmul(self, node: Node) -> tuple[str, float]:
        name = node.operator
        operands = [self._value(ref) for ref in references([*node.args])]
        tensors = [v for v in operands if v is not None]
        if node.output is None or not tensors:
            return "", 0.0
        outputs = self._count(node.output.shape)
        if name in MATMULS:
            return tensors[-1].dtype if name != "linear" else tensors[0].dtype, 2.0 * outputs * self._inner(name, node)
        if name in CONVOLUTIONS:
            # A transposed one adds every element of its input, times a window, to its output.
            places = self._count(tensors[0].shape) if is_transposed(node) else outputs
            return tensors[1].dtype, 2.0 * places * self._count(tensors[1].shape[1:])
        if name == ATTENTION:
            query, key, heads = tensors[0].shape, tensors[1].shape, tensors[2].shape
            queries, keys = self._count(query[-2:-1]), self._count(key[-2:-1])
            scores = self._count(query[:-2]) * _pairs(queries, keys, is_causal(node))
            return tensors[0].dtype, 2.0 * scores * (self._count(query[-1:]) + self._count(heads[-1:]))
        return "", 0.0

    def _inner(self, name: str, node: Node) -> int:
        """Length of the sum behind each output element."""
        refs = references([*node.args])
        first = self._value(refs[1 if name in ("addmm", "baddbmm", "addmv") else 0])
        if name != "einsum":
            return self._count(first.shape[-1:]) if first else 1
        equation = node.args[0].replace(" ", "")
        sources, _, result = equation.partition("->")
        sizes: dict[str, Size] = {}
        for labels, ref in zip(sources.split(","), refs, strict=False):
            found = self._value(ref)
            sizes |= dict(zip(labels, found.shape if found else (), strict=False))
        return self._count(tuple(size for label, size in sizes.items() if label not in result))

    def _elements_touched(self, node: Node) -> float:
        counts = [self._count(v.shape) for ref in references([*node.args]) if (v := self._value(ref)) is not None]
        if node.output is not None:
            counts.append(self._count(node.output.shape))
        return float(max(counts, default=0))

    def _value(self, name: str) -> Value | None:
        node = self.nodes.get(name)
        return node.output if node else None

    def _count(self, shape: tuple[Size, ...]) -> int:
        return value(product(shape), self.hints) if shape else 1


def _pairs(queries: int, keys: int, causal: bool) -> int:
    """Keys that queries see, over all queries: of a causal attention each sees those up to its own number."""
    if not causal:
        return queries * keys
    square = min(queries, keys)
    return square * (square + 1) // 2 + (queries - square) * keys


def gemm_ms(work: Work, flops_by_dtype: Mapping[str, float]) -> float:
    """Milliseconds of the matrix work at given rates (FLOP/s by operand dtype); an unknown dtype counts nothing."""
    names = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}
    rates = {dtype: flops_by_dtype.get(names.get(dtype, dtype), math.inf) for dtype in work.matmul_flops}
    return sum(1e3 * amount / rates[dtype] for dtype, amount in work.matmul_flops.items())
