"""A set of tensors with a layout as one kernel program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...state.program import Load, LoopProgram, MatmulProgram, Operand, Statement, Store
from ...state.sizes import Size, product, value
from .index_maps import Axis, Index, IndexMap, NeedSplit, NotAffine, contiguous_strides, strides_over
from .layout import Layout, Refused, covers, through_view
from .tensors import Literals, Tensor

MAX_STATEMENTS = 120
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

    def __init__(self, layout: Layout, computed: Callable[[Tensor], bool], hints: Mapping[str, int]) -> None:
        self.layout = layout
        self.computed = computed
        self.hints = hints
        self.out = Emission(layout)
        self._known: dict[tuple[Tensor, IndexMap], tuple[str | Literals, int]] = {}
        self._loaded: dict[tuple[str, tuple[tuple[Axis, Size], ...], Size], str] = {}
        self._names: set[str] = set()
        self._unordered = frozenset(layout.sizes) - layout.reduced

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
        key = (tensor, index_map)
        if key not in self._known:
            self._known[key] = self._written(tensor, index_map)
        return self._known[key]

    def _written(self, tensor: Tensor, index_map: IndexMap) -> tuple[str | Literals, int]:
        if tensor.is_view:
            return self._at(tensor.operands[0], through_view(tensor, index_map, self.layout.sizes))
        if not self.computed(tensor):
            return self._load(tensor, index_map), 0
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
            return self._iota(tensor, index_map[tensor.dims[0]]), 0
        written = [self._at(a, index_map) if isinstance(a, Tensor) else (a, 0) for a in tensor.args]
        level = max((own for _, own in written), default=0)
        args = tuple(a for a, _ in written)
        if tensor.op == "copy":
            return args[0], level
        return self._say(tensor.name, tensor.op, args, tensor.dtype, level), level

    def _iota(self, tensor: Tensor, index: Index) -> str | Literals:
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
        return self._say(tensor.name, tensor.op, (name,), tensor.dtype, level), level + 1

    def _flat(self, tensor: Tensor) -> bool:
        """Whether the reduced dimensions in order give the axes in the order of the space."""
        order = [axis for index in self.layout.inner[tensor] for axis, _ in index.terms]
        return order == [axis for axis in self.layout.sizes if axis in self.layout.reduced]

    def _load(self, tensor: Tensor, index_map: IndexMap) -> str:
        own = tensor.strides if tensor.kind == "leaf" else contiguous_strides(tensor.shape)
        strides, offset = strides_over(index_map, own, list(self.layout.sizes))
        by_axis = dict(zip(self.layout.sizes, strides, strict=True))
        key = (tensor.name, tuple(by_axis.items()), offset)
        if key not in self._loaded:
            self.out.reads[tensor] = None
            name = self._unique(f"in_{tensor.name}")
            self.out.loads.append(Access(name, tensor.name, tensor.dtype, by_axis, offset))
            self._loaded[key] = name
        return self._loaded[key]

    def _say(self, name: str, op: str, args: tuple[str | Literals, ...], dtype: str, level: int) -> str:
        name = self._unique(name)
        self.out.body.append(Statement(name=name, op=op, args=args, dtype=dtype, level=level))
        return name

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        return found


def loop_program(emission: Emission, name: str, hints: Mapping[str, int]) -> LoopProgram:
    """Orders and merges the axes: (outer, reduced, inner), each as few as its accesses allow."""
    order = _ordered(emission, hints)
    accesses = [*(a.strides for a in emission.loads), *(a.strides for a in emission.stores)]
    sizes = dict(emission.layout.sizes)
    reduced = emission.layout.reduced
    order, renamed = _merged(order, sizes, accesses, [reduced, frozenset(sizes) - reduced], _used_by_iota(emission))
    if not order:
        order, sizes["one"] = ["one"], 1
        for strides in accesses:
            strides["one"] = 0
    return LoopProgram(
        name=name,
        space=tuple(sizes[axis] for axis in order),
        reduced=tuple(axis in reduced for axis in order),
        loads=tuple(_load_record(a, order) for a in emission.loads),
        body=_body(emission, order, renamed),
        stores=tuple(_store_record(a, order) for a in emission.stores),
    )


def matmul_program(emission: Emission, name: str, locate: Callable[[Tensor], Operand]) -> MatmulProgram:
    """`locate` gives an operand as a strided view of the value that it lies in."""
    if not emission.matmuls or emission.layout.reduced:
        raise Refused("no product in it")
    product_of = emission.matmuls[0]
    if any(emission.layout.maps[each] != emission.layout.maps[product_of] for each in emission.matmuls):
        raise Refused("two products at different places")
    a_tensor = product_of.operands[0]
    k = a_tensor.shape[-1]
    groups = [[axis for axis, _ in index.terms] for index in emission.layout.maps[product_of]]
    sizes = dict(emission.layout.sizes)
    accesses = [*(a.strides for a in emission.loads), *(a.strides for a in emission.stores)]
    order: list[Axis] = []
    for group in groups:
        merged, _ = _merged(group, sizes, accesses, [frozenset(group)], _used_by_iota(emission))
        if len(merged) > 1:
            raise Refused("rows or columns of the product do not stay together")
        if not merged:
            merged = [f"one{len(order)}"]
            sizes[merged[0]] = 1
            for strides in accesses:
                strides[merged[0]] = 0
        order += merged
    operands = [locate(a_tensor), *(locate(each.operands[1]) for each in emission.matmuls)]
    # Batch axes that the operands and the epilogue all walk as one are one.
    walks = [dict(zip(order[:-2], operand.strides[:-2], strict=True)) for operand in operands]
    fixed = _used_by_iota(emission)
    batch, _ = _merged(order[:-2], sizes, [*accesses, *walks], [frozenset(order[:-2])], fixed)
    a, b, *also = (
        operand.model_copy(update={"strides": (*(walk[axis] for axis in batch), *operand.strides[-2:])})
        for operand, walk in zip(operands, walks, strict=True)
    )
    order = [*batch, *order[-2:]]
    return MatmulProgram(
        name=name,
        batch=tuple(sizes[axis] for axis in batch),
        m=sizes[order[-2]],
        n=sizes[order[-1]],
        k=k,
        a=a,
        b=b,
        also=also[0] if also else None,
        loads=tuple(_load_record(x, order) for x in emission.loads),
        body=_body(emission, order, {axis: axis for axis in order}),
        stores=tuple(_store_record(x, order) for x in emission.stores),
    )


def _load_record(access: Access, order: Sequence[Axis]) -> Load:
    strides = tuple(access.strides[axis] for axis in order)
    return Load(name=access.name, value=access.value, dtype=access.dtype, strides=strides, offset=access.offset)


def _store_record(access: Access, order: Sequence[Axis]) -> Store:
    strides = tuple(access.strides[axis] for axis in order)
    return Store(name=access.name, value=access.value, dtype=access.dtype, strides=strides)


def _used_by_iota(emission: Emission) -> frozenset[Axis]:
    return frozenset(str(s.args[0]) for s in emission.body if s.op == "iota")


def _body(emission: Emission, order: Sequence[Axis], renamed: Mapping[Axis, Axis]) -> tuple[Statement, ...]:
    return tuple(
        s.model_copy(update={"args": (order.index(renamed[str(s.args[0])]),)}) if s.op == "iota" else s
        for s in emission.body
    )


def _ordered(emission: Emission, hints: Mapping[str, int]) -> list[Axis]:
    """Memory order of the access with most axes; reduced axes in the middle."""
    axes, reduced = list(emission.layout.sizes), emission.layout.reduced
    candidates = [*emission.loads, *emission.stores] if reduced else [*emission.stores, *emission.loads]
    main = max(candidates, key=lambda a: sum(s != 0 for s in a.strides.values()), default=None)
    if main is not None:
        slots = [i for i, axis in enumerate(axes) if main.strides[axis] != 0]
        by_stride = sorted((axes[i] for i in slots), key=lambda axis: -value(main.strides[axis], hints))
        for slot, axis in zip(slots, by_stride, strict=True):
            axes[slot] = axis
    if not reduced:
        return axes
    last = max(i for i, axis in enumerate(axes) if axis in reduced)
    inner = axes[last + 1 :]
    middle = [axis for axis in axes if axis in reduced]
    if any(s.op in ("reduce_argmax", "reduce_argmin") for s in emission.body):
        middle = [axis for axis in emission.layout.sizes if axis in reduced]
    return [axis for axis in axes if axis not in reduced and axis not in inner] + middle + inner


def _merged(
    order: Sequence[Axis],
    sizes: dict[Axis, Size],
    accesses: Sequence[Strides],
    groups: Sequence[frozenset[Axis]],
    fixed: frozenset[Axis],
) -> tuple[list[Axis], dict[Axis, Axis]]:
    """Merges neighbours of one group that every access walks as one; strides and sizes are updated in place."""
    result: list[Axis] = []
    for axis in order:
        last = result[-1] if result else None
        together = last is not None and any(last in group and axis in group for group in groups)
        if last is not None and together and not {last, axis} & fixed and _one_walk(last, axis, sizes, accesses):
            sizes[last] = product((sizes[last], sizes[axis]))
            for strides in accesses:
                strides[last] = strides[axis]
        else:
            result.append(axis)
    return result, {axis: axis for axis in order}


def _one_walk(outer: Axis, inner: Axis, sizes: Mapping[Axis, Size], accesses: Sequence[Strides]) -> bool:
    return all(s[outer] == product((s[inner], sizes[inner])) for s in accesses)
