"""A set of tensors with a layout as one kernel program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...state.program import SCANS, Statement
from ...state.sizes import Size, product
from .addresses import Addresses, Number
from .index_maps import Axis, Index, IndexMap, NeedSplit, NotAffine, contiguous_strides, strides_over
from .layout import Layout, Refused, covers, through_view
from .tensors import Literals, Tensor

MAX_STATEMENTS = 200
MAX_LOADS = 24
MAX_STORES = 8

Strides = dict[Axis, Size]


@dataclass
class Access:
    """A load or a store, with strides by axis."""

    name: str
    value: str
    dtype: str
    strides: Strides
    offset: Size = 0


@dataclass
class Emission:
    """A program before its axes are put in order."""

    layout: Layout
    loads: list[Access] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    """`iota` statements name their axis."""
    stores: list[Access] = field(default_factory=list)
    reads: dict[Tensor, None] = field(default_factory=dict)
    matmuls: list[Tensor] = field(default_factory=list)
    """Products in the order of their names: `acc`, then `acc_1`."""


class Emitter:
    """Writes programs for sinks, computing members and whatever is inlined, loading the rest."""

    def __init__(self, layout: Layout, computed: Callable[[Tensor, bool], bool]) -> None:
        self.layout = layout
        self.computed = computed
        self.out = Emission(layout)
        self._known: dict[tuple[Tensor, IndexMap, str | bool, bool], tuple[str | Literals, int]] = {}
        self._loaded: dict[tuple[str, tuple[tuple[Axis, Size], ...], Size], str] = {}
        self._names: set[str] = set()
        self._levels: dict[str, int] = {}
        self._unordered = frozenset(layout.sizes) - layout.reduced
        self._addresses = Addresses(self._counted)
        self._guard: str | bool = True
        """Where what is being written is used at all: nothing is read from a table elsewhere."""
        self._guarded = 0
        """How many gathers around it have indices of which only the guard says that they are inside, and no name."""
        self._picked: dict[tuple[Tensor, str | int, str | bool], tuple[str, int]] = {}
        """Elements of tables, by where they lie and under which guard."""
        self._elsewhere = 0
        """How many gathers around what is being written read it at other places than the space's."""

    def emit(self, sinks: Sequence[Tensor]) -> Emission:
        """Raises Refused where a sink cannot be written by this space."""
        try:
            for sink in sinks:
                self._store(sink)
        except (NotAffine, NeedSplit) as reason:
            raise Refused(str(reason)) from reason
        out = self.out
        if len(out.body) > MAX_STATEMENTS or len(out.loads) > MAX_LOADS or len(out.stores) > MAX_STORES:
            raise Refused("too large for one kernel")
        return out

    def _store(self, sink: Tensor) -> None:
        index_map = self.layout.maps[sink]
        used = {axis for index in index_map for axis, _ in index.terms}
        if not covers(index_map, sink.shape, self.layout.sizes) or not self._unordered <= used:
            raise Refused(f"{sink.name} does not fill the space")
        if used & self.layout.reduced not in (frozenset(), self.layout.reduced):
            raise Refused(f"{sink.name} keeps some of the reduced axes")
        name, _ = self._at(sink, index_map)
        if not isinstance(name, str) or name not in self._names:
            name = self._say(sink.name, "cast", (name,), sink.dtype, 0)
        strides, _ = strides_over(index_map, contiguous_strides(sink.shape), list(self.layout.sizes))
        by_axis = dict(zip(self.layout.sizes, strides, strict=True))
        self.out.stores.append(Access(name, sink.name, sink.dtype, by_axis))

    def _at(self, tensor: Tensor, index_map: IndexMap) -> tuple[str | Literals, int]:
        """The name or literal of one element, and its level."""
        key = (tensor, index_map, self._guard, bool(self._elsewhere))
        if key not in self._known:
            self._known[key] = self._written(tensor, index_map)
        return self._known[key]

    def _written(self, tensor: Tensor, index_map: IndexMap) -> tuple[str | Literals, int]:
        if self._elsewhere and tensor.kind == "reshape" and self._in_a_row(tensor.operands[0]):
            return self._table_element(tensor.operands[0], index_map, tensor.shape)
        if tensor.is_view:
            return self._at(tensor.operands[0], self._through(tensor, index_map))
        if not self.computed(tensor, self._elsewhere > 0):
            return self._load(tensor, index_map)
        if tensor.kind == "matmul":
            if index_map != self.layout.maps[tensor]:
                raise Refused("a product is used at other places than it is made")
            name = self._unique("acc_1" if self.out.matmuls else "acc")
            self.out.matmuls.append(tensor)
            return name, 0
        if tensor.kind == "reduce":
            return self._reduction(tensor, index_map)
        return self._pointwise(tensor, index_map)

    def _pointwise(self, tensor: Tensor, index_map: IndexMap) -> tuple[str | Literals, int]:
        if tensor.op == "literal":
            (content,) = tensor.args
            assert not isinstance(content, Tensor)
            return content, 0
        if tensor.op == "iota":
            return self._iota(tensor, index_map[tensor.dims[0]])
        if tensor.op == "gather":
            return self._gather(tensor, index_map)
        if tensor.is_scan:
            return self._scan(tensor, index_map)
        written = [self._at(a, index_map) if isinstance(a, Tensor) else (a, 0) for a in tensor.args]
        level = max((own for _, own in written), default=0)
        args = tuple(a for a, _ in written)
        if tensor.op == "copy":
            return args[0], level
        return self._say(tensor.name, tensor.op, args, tensor.dtype, level), level

    def _through(self, view: Tensor, index_map: IndexMap) -> IndexMap:
        if not self._elsewhere or view.kind not in ("slice", "reshape"):
            return through_view(view, index_map, self.layout.sizes)
        return self._addresses.through(view, index_map)

    def _in_a_row(self, tensor: Tensor) -> bool:
        """Whether it is in memory, its elements next to each other in the order of its dimensions."""
        if tensor.is_view or self.computed(tensor, True):
            return False
        return tensor.kind != "leaf" or tensor.strides == contiguous_strides(tensor.shape)

    def _gather(self, tensor: Tensor, index_map: IndexMap) -> tuple[str | Literals, int]:
        """The source at computed places, under the guards of all gathers around it."""
        source, guard, *indices = tensor.args
        assert isinstance(source, Tensor)
        at = tuple(self._place(index, index_map) for index in indices)
        guarded = isinstance(guard, Tensor) and not all(
            _stays_inside(index, size, tensor) for index, size in zip(indices, source.shape, strict=True)
        )
        outside, level = self._guard, 0
        if isinstance(guard, Tensor):
            inside, level = self._at(guard, index_map)
            assert isinstance(inside, (str, bool))
            self._guard = self._both(outside, inside, level)
        self._elsewhere += 1
        self._guarded += guarded
        value, own = self._at(source, at)
        self._guard = outside
        self._elsewhere -= 1
        self._guarded -= guarded
        return value, max(own, level)

    def _place(self, index: Tensor | Literals, index_map: IndexMap) -> Index:
        if not isinstance(index, Tensor):
            assert isinstance(index, int)
            return Index(offset=index)
        if index.op == "iota":
            return index_map[index.dims[0]]
        name, level = self._at(index, index_map)
        if isinstance(name, int):
            return Index(offset=name)
        assert isinstance(name, str)
        return self._addresses.computed(name, index.dtype, level)

    def _both(self, outside: str | bool, inside: str | bool, level: int) -> str | bool:
        if isinstance(outside, bool) or isinstance(inside, bool):
            return (inside if outside is True else outside) if True in (outside, inside) else False
        known = max(level, self._levels.get(outside, 0))
        return self._say("there", "logical_and", (outside, inside), "bool", known)

    def _counted(self, op: str, args: tuple[Number, ...], dtype: str, level: int) -> str:
        return self._say(f"i_{args[0]}" if op == "iota" else "at", op, args, dtype, level)

    def _iota(self, tensor: Tensor, index: Index) -> tuple[str | Literals, int]:
        if index.computed:
            level = self._addresses.level(index.computed)
            return self._say(tensor.name, "cast", (index.computed,), tensor.dtype, level), level
        return self._affine_iota(tensor, index), 0

    def _affine_iota(self, tensor: Tensor, index: Index) -> str | Literals:
        parts: list[str | Literals] = []
        for axis, coefficient in index.terms:
            name: str | Literals = self._say(f"i_{axis}", "iota", (axis,), tensor.dtype, 0)
            if coefficient != 1:
                name = self._say(f"i_{axis}", "mul", (name, coefficient), tensor.dtype, 0)
            parts.append(name)
        if index.offset != 0 or not parts:
            parts.append(index.offset)
        total = parts[0]
        for part in parts[1:]:
            total = self._say(tensor.name, "add", (total, part), tensor.dtype, 0)
        return total

    def _scan(self, tensor: Tensor, index_map: IndexMap) -> tuple[str, int]:
        if self._elsewhere or index_map != self.layout.maps.get(tensor):
            raise Refused("a running total is used at other places than it is made")
        own = {axis for index in self.layout.inner[tensor] for axis, _ in index.terms}
        if own != self.layout.reduced or not self._flat(tensor):
            raise Refused("running totals over different axes")
        if not covers(self.layout.inner[tensor], [tensor.shape[d] for d in tensor.dims], self.layout.sizes):
            raise Refused("a running total of which a part is used")
        operand, backwards = tensor.args
        assert isinstance(operand, Tensor)
        assert isinstance(backwards, bool)
        others = {s.args[1] for s in self.out.body if s.op in SCANS}
        if any(each.kind == "reduce" for each in self.layout.inner) or others - {backwards}:
            raise Refused("running totals beside reductions, or in two directions")
        name, level = self._at(operand, index_map)
        name = self._stated(name, tensor.dtype, tensor.name, level)
        return self._say(tensor.name, tensor.op, (name, backwards), tensor.dtype, level), level

    def _reduction(self, tensor: Tensor, index_map: IndexMap) -> tuple[str, int]:
        if index_map != self.layout.maps[tensor]:
            raise Refused("a reduction is used at other places than it is made")
        used = {axis for index in index_map for axis, _ in index.terms}
        inner = self.layout.inner[tensor]
        own = {axis for index in inner for axis, _ in index.terms}
        if own != self.layout.reduced or used != self._unordered:
            raise Refused("reductions over different axes")
        if tensor.op in ("reduce_argmax", "reduce_argmin") and len(own) > 1 and not self._flat(tensor):
            raise Refused("an argument reduction over dimensions that are not adjacent")
        at = list(index_map)
        for dim, index in zip(tensor.dims, inner, strict=True):
            at[dim] = index
        name, level = self._at(tensor.operands[0], tuple(at))
        name = self._stated(name, tensor.operands[0].dtype, tensor.name, level)
        return self._say(tensor.name, tensor.op, (name,), tensor.dtype, level), level + 1

    def _stated(self, arg: str | Literals, dtype: str, of: str, level: int) -> str | Literals:
        """What is folded or totalled up, as a name that kernels know: a literal or a size becomes a statement."""
        known = isinstance(arg, str) and arg in self._names
        return arg if known else self._say(of, "cast", (arg,), dtype, level)

    def _flat(self, tensor: Tensor) -> bool:
        """Whether the reduced dimensions in order give the axes in the order of the space."""
        order = [axis for index in self.layout.inner[tensor] for axis, _ in index.terms]
        return order == [axis for axis in self.layout.sizes if axis in self.layout.reduced]

    def _load(self, tensor: Tensor, index_map: IndexMap) -> tuple[str, int]:
        own = tensor.strides if tensor.kind == "leaf" else contiguous_strides(tensor.shape)
        if self._elsewhere:
            return self._table_element(tensor, index_map, tensor.shape, own)
        strides, offset = strides_over(index_map, own, list(self.layout.sizes))
        by_axis = dict(zip(self.layout.sizes, strides, strict=True))
        key = (tensor.name, tuple(by_axis.items()), offset)
        if key not in self._loaded:
            self.out.reads[tensor] = None
            name = self._unique(f"in_{tensor.name}")
            self.out.loads.append(Access(name, tensor.name, tensor.dtype, by_axis, offset))
            self._loaded[key] = name
        return self._loaded[key], 0

    def _table_element(
        self, tensor: Tensor, index_map: IndexMap, shape: Sequence[Size], strides: Sequence[Size] | None = None
    ) -> tuple[str, int]:
        """An element of something in memory, seen with this shape; contiguous unless `strides` say otherwise."""
        laid = contiguous_strides(shape) if strides is None else tuple(strides)
        at = self._addresses.flat(index_map, laid)
        # What is the same under every guard, such as a channel's scale in each place of a window, is read once.
        guard = True if not self._guarded and self._addresses.always_inside(at) else self._guard
        if (tensor, at, guard) in self._picked:
            return self._picked[tensor, at, guard]
        level = max(self._addresses.level(at), self._levels.get(str(guard), 0))
        self.out.reads[tensor] = None
        name = self._unique(f"of_{tensor.name}")
        self._levels[name] = level
        element = Statement(name=name, op="gather", args=(at, guard), dtype=tensor.dtype, level=level)
        table = {"table": tensor.name, "extent": _extent(shape, laid)}
        self.out.body.append(element.model_copy(update=table))
        self._picked[tensor, at, guard] = name, level
        return name, level

    def _say(self, name: str, op: str, args: tuple[str | Literals, ...], dtype: str, level: int) -> str:
        name = self._unique(name)
        self._levels[name] = level
        self.out.body.append(Statement(name=name, op=op, args=args, dtype=dtype, level=level))
        return name

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        return found


def _stays_inside(index: Tensor | Literals, size: Size, tensor: Tensor) -> bool:
    """Whether an index has a name, which says what it comes from, or is inside a dimension of this size anyway."""
    if isinstance(index, Tensor) and index.op == "literal":
        (index,) = index.args
    if isinstance(index, Tensor):
        return index.op != "iota" or tensor.shape[index.dims[0]] == size
    return isinstance(size, int) and isinstance(index, int) and 0 <= index < size


def _extent(shape: Sequence[Size], strides: Sequence[Size]) -> Size:
    """How many elements lie between the first and the last. Raises NotAffine where that is no product."""
    if tuple(strides) == contiguous_strides(shape):
        return product(shape)
    steps = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    if not all(isinstance(x, int) for step in steps for x in step):
        raise NotAffine("elements of a strided tensor of free sizes")
    return 1 + sum((int(size) - 1) * int(stride) for size, stride in steps)
