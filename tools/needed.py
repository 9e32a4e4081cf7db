"""How many elements of each value no correct program can do without: a true lower bound, whatever the data.

Demand runs from the results back to memory. A value that is delivered is needed whole; of what an operator reads, as
large a share is needed as of what it makes, except where it is known to look at less. What data picks, an index or a
condition, may be any elements, so nothing is needed of it for sure. Demands of several users may be for the same
elements: the largest counts, and the sum only of slices that do not meet.
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, prod
from typing import Any

from ..state.lowered import LoweredGraph, Node, references
from ..state.sizes import Size, product, value
from .windows_read import positions_read, taps_read

# Views and copies: what is returned through views alone is never read.
VIEWS = frozenset(("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "unsqueeze", "squeeze"))
VIEWS |= frozenset(("select", "slice", "split", "split_with_sizes", "unbind", "getitem", "alias", "detach", "diagonal"))
# Operators that take nothing but a shape from their first argument.
MAKERS = frozenset(("full_like", "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "randint_like"))
MAKERS |= frozenset(("new_full", "new_zeros", "new_ones", "new_empty", "copy", "fill"))
# Operators that pick elements of their first argument by data: how many distinct ones is not known.
PICKING = frozenset(("embedding", "index_select", "gather", "index", "_unsafe_index", "take", "take_along_dim"))
PICKING |= frozenset(
    (
        "_embedding_bag",
        "_embedding_bag_forward_only",
        "as_strided",
        "masked_select",
        "masked_scatter",
        "grid_sampler_2d",
        "grid_sampler_3d",
    )
)
SPLITS = frozenset(("split", "split_with_sizes", "unbind"))
OVERLAYS = frozenset(("slice_scatter", "select_scatter", "diagonal_scatter"))
"""Their second argument takes the place of a part of the first."""
WRITES_BY_INDEX = frozenset(("index_put", "_unsafe_index_put", "scatter", "index_copy"))
_RESIZES = frozenset(f"upsample_{how}" for how in "nearest1d nearest2d nearest3d linear1d bilinear2d".split())  # noqa: SIM905
_RESIZES |= frozenset(("_upsample_nearest_exact2d", "upsample_bicubic2d", "upsample_trilinear3d"))
_POOLS = frozenset(("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices"))
_CONVOLUTIONS = frozenset(("conv1d", "conv2d", "conv3d", "convolution"))


def needed_elements(graph: LoweredGraph, hints: Mapping[str, int]) -> dict[str, int]:
    """Elements of every value, by node name, that are needed at the given sizes; 0 where none is for sure."""
    return _Demand(graph, hints).of


def maker(nodes: Mapping[str, Node], name: str) -> Node:
    """The node whose elements a value is a view of: itself where it is none."""
    node = nodes[name]
    while node.operator in VIEWS and references(node.args):
        viewed = nodes[references(node.args)[0]]
        if node.operator == "getitem" and viewed.operator not in SPLITS:
            return node
        node = viewed
    return node


class _Demand:
    def __init__(self, graph: LoweredGraph, hints: Mapping[str, int]) -> None:
        self.graph = graph
        self.hints = hints
        self.nodes = {node.name: node for node in graph.nodes}
        self.of: dict[str, int] = {node.name: 0 for node in graph.nodes}
        self.shares: dict[str, Fraction] = {}
        """Of operators with several results the share of the result of which most is needed."""
        self.slices: dict[tuple[str, int], list[range]] = {}
        """By value and dimension the places that slices of it need whole."""
        for name in {*references(graph.outputs), *graph.updates.values()}:
            if name in graph.updates.values() or not maker(self.nodes, name).is_memory:
                self.of[name] = self._count(name)
        for node in reversed(graph.nodes):
            self._settle(node)

    def _settle(self, node: Node) -> None:
        """Passes what is needed of a node on to what it reads; all its users are settled."""
        for dim in range(len(self._shape(node.name))):
            whole = self._shape(node.name)[dim]
            apart = _total(self.slices.get((node.name, dim), []))
            if whole:
                self.of[node.name] = max(self.of[node.name], apart * (self._count(node.name) // whole))
        if node.output is None:
            share = self.shares.get(node.name, Fraction(0))
        else:
            share = Fraction(self.of[node.name], self._count(node.name) or 1)
        if share == 0 and not self.of[node.name]:
            return
        if node.operator == "getitem":
            self._pick(node, references(node.args)[0], share)
            return
        for name in references([node.args, node.kwargs]):
            self.of[name] = max(self.of[name], min(self._wanted(node, name, share), self._count(name)))

    def _pick(self, node: Node, several: str, share: Fraction) -> None:
        """One result of an operator with several: of a split they are parts, of others the largest share counts."""
        self.shares[several] = max(self.shares.get(several, Fraction(0)), share)
        split = self.nodes[several]
        if split.operator not in SPLITS:
            return
        self.of[several] += self.of[node.name]
        if split.operator == "split_with_sizes" and share == 1:
            sizes = [self._number(size) or 0 for size in split.args[1]]
            start, dim = sum(sizes[: node.args[1]]), split.args[2] if len(split.args) > 2 else 0
            self._note_places(references(split.args)[0], dim, range(start, start + sizes[node.args[1]]))

    def _wanted(self, node: Node, name: str, share: Fraction) -> int:
        """Elements that a node needs of what it reads under a name, for a share of its own."""
        whole, first = self._count(name), references([node.args])[:1] == [name]
        operator = node.operator
        if operator in SPLITS or (operator in VIEWS and operator != "expand"):
            self._note_slice(node, name, share)
            return self.of[node.name]
        if first and (operator in MAKERS or operator in PICKING) or operator == "where" and not first:
            return 0
        if first and operator in ("addmm", "baddbmm", "addmv") and node.kwargs.get("beta") == 0:
            return 0
        if operator in ("cat", "stack"):
            return max(0, whole - self._count(node.name) + self.of[node.name])
        if operator in OVERLAYS and first:
            # In place the rest stays where it is.
            kept = 0 if self.graph.updates else whole - self._count(references(node.args)[1])
            return max(0, kept - self._count(node.name) + self.of[node.name])
        if operator in WRITES_BY_INDEX:
            # Every place may be written over, and every value but one of several for the same place dropped.
            return ceil(share * whole) if first and any(given is True for given in node.args) else 0
        return ceil(share * self._looked_at(node, name))

    def _looked_at(self, node: Node, name: str) -> int:
        """Elements of an argument that a node looks at for all of its result."""
        whole, position = self._count(name), references(node.args).index(name) if name in references(node.args) else -1
        operator, own = node.operator, self._shape(name)
        if operator == "constant_pad_nd":
            return prod(max(0, size + cut) for size, cut in zip(own, self._cut(node, len(own)), strict=True))
        if operator in _RESIZES:
            made = self._shape(node.name)
            return prod(min(size, to) for size, to in zip(own, made, strict=True))
        slides = operator in _CONVOLUTIONS and not is_transposed(node) and position in (0, 1)
        if slides or operator in _POOLS:
            return self._window(node, name, position)
        if operator == "unfold":
            dim = int(node.args[1]) % len(own)
            windows = self._shape(node.name)[dim]
            taps, step = self._number(node.args[2]) or 0, self._number(node.args[3]) or 1
            return whole // max(own[dim], 1) * positions_read(own[dim], windows, taps, step, 0, 1)
        if operator == "scaled_dot_product_attention" and position in (0, 1, 2) and _has_mask(node):
            return 0  # It may hide any keys, and all but one from a query.
        if operator == "scaled_dot_product_attention" and position in (1, 2) and is_causal(node):
            queries = self._shape(references(node.args)[0])[-2]
            return whole // own[-2] * min(queries, own[-2]) if own[-2] else 0
        return whole

    def _window(self, node: Node, name: str, position: int) -> int:
        """What a pool or convolution looks at of its input (position 0) or weight (1)."""
        args, own = node.args, self._shape(name)
        made = self._shape(node.name) or self._first_result(node.name)
        pooled = node.operator in _POOLS
        sizes = self._shape(references(args)[0])
        # A convolution's weight has two dimensions more than its window, whether its input is batched or not.
        dims = int(node.operator.partition("pool")[2][0]) if pooled else len(self._shape(references(args)[1])) - 2
        window = _listed(args[1], dims) if pooled else self._shape(references(args)[1])[2:]
        given = args[2:] if pooled else args[3:]
        stride = _listed(given[0], dims) if given and given[0] not in ([], ()) else window if pooled else (1,) * dims
        padding = _listed(given[1], dims) if len(given) > 1 else (0,) * dims
        spaced = not node.operator.startswith("avg") and len(given) > 2
        dilation = _listed(given[2], dims) if spaced else (1,) * dims
        if not all(isinstance(n, int) for n in (*window, *stride, *padding, *dilation)):
            return prod(own)  # Padding by name: `same` has a stride of 1.
        read = positions_read if position == 0 else taps_read
        each = zip(sizes[-dims:], made[-dims:], window, stride, padding, dilation, strict=True)
        return prod(own[:-dims]) * prod(read(*along) for along in each)

    def _first_result(self, name: str) -> tuple[int, ...]:
        return next(self._shape(n.name) for n in self.graph.nodes if n.op == "getitem" and references(n.args) == [name])

    def _note_slice(self, node: Node, name: str, share: Fraction) -> None:
        if node.operator not in ("slice", "select", "narrow") or share != 1 or not self._shape(name):
            return
        dim = node.args[1] if len(node.args) > 1 else 0
        size = self._shape(name)[dim]
        start, end, step = ([self._number(a) for a in node.args[2:5]] + [None] * 3)[:3]
        if node.operator == "slice":
            places = range(size)[slice(start, end, step)]
        elif start is not None:
            length = 1 if node.operator == "select" else end or 0
            places = range(start % size, start % size + length)
        else:
            return
        self._note_places(name, dim, places)

    def _note_places(self, name: str, dim: int, places: range) -> None:
        self.slices.setdefault((name, dim % len(self._shape(name))), []).append(places)

    def _cut(self, node: Node, dims: int) -> list[int]:
        """By dimension how many elements a pad of negative width takes away, as a number below 0."""
        widths = [min(0, self._number(width) or 0) for width in node.args[1]]
        pairs = [widths[i] + widths[i + 1] for i in range(0, len(widths), 2)]
        return [0] * (dims - len(pairs)) + pairs[::-1]

    def _number(self, given: Any) -> int | None:
        return value(given["size"], self.hints) if isinstance(given, dict) and "size" in given else given

    def _shape(self, name: str) -> tuple[int, ...]:
        found = self.nodes[name].output
        return tuple(value(size, self.hints) for size in found.shape) if found else ()

    def _count(self, name: str) -> int:
        found = self.nodes[name].output
        shape: tuple[Size, ...] = found.shape if found else (0,)
        return value(product(shape), self.hints)


def is_transposed(node: Node) -> bool:
    """Whether a convolution is a transposed one."""
    return "transpose" in node.operator or (node.operator == "convolution" and node.args[6] is True)


def is_causal(node: Node) -> bool:
    """Whether a scaled dot product attention hides later keys from a query."""
    return bool(node.kwargs.get("is_causal", node.args[5] if len(node.args) > 5 else False))


def _has_mask(node: Node) -> bool:
    return node.kwargs.get("attn_mask", node.args[3] if len(node.args) > 3 else None) is not None


def _listed(given: Any, dims: int) -> tuple[Any, ...]:
    """One number for each dimension, also where it is written once for all."""
    several = tuple(given) if isinstance(given, list | tuple) else (given,)
    return several * dims if len(several) == 1 else several


def _total(places: list[range]) -> int:
    """Members of ranges that do not meet, larger ones first; a range that meets a counted one is left out."""
    counted: list[range] = []
    for each in sorted(places, key=len, reverse=True):
        if not any(_meet(each, other) for other in counted):
            counted.append(each)
    return sum(map(len, counted))


def _meet(one: range, other: range) -> bool:
    """Whether two ranges may share a member."""
    if not one or not other:
        return False
    apart = one[-1] < other[0] or other[-1] < one[0]
    return not apart and (one.step != other.step or (one.start - other.start) % one.step == 0)
