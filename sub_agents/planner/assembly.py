"""Emissions as program records: axes put in order and merged."""

from collections.abc import Callable, Mapping, Sequence

from ...state.program import SCANS, Load, LoopProgram, MatmulProgram, Operand, Statement, Store
from ...state.sizes import Size, product, value
from .emission import Access, Emission, Strides
from .index_maps import Axis
from .layout import Refused
from .tensors import Tensor


def loop_program(emission: Emission, name: str, hints: Mapping[str, int]) -> LoopProgram:
    """Orders and merges the axes: (outer, reduced, inner), each as few as its accesses allow."""
    order = _ordered(emission, hints)
    accesses = [*(a.strides for a in emission.loads), *(a.strides for a in emission.stores)]
    sizes = dict(emission.layout.sizes)
    reduced = emission.layout.reduced
    order = _merged(order, sizes, accesses, [reduced, frozenset(sizes) - reduced], _used_by_iota(emission))
    if not order:
        order, sizes["one"] = ["one"], 1
        for strides in accesses:
            strides["one"] = 0
    return LoopProgram(
        name=name,
        space=tuple(sizes[axis] for axis in order),
        reduced=tuple(axis in reduced for axis in order),
        loads=tuple(_load_record(a, order) for a in emission.loads),
        body=_body(emission, order),
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
        merged = _merged(group, sizes, accesses, [frozenset(group)], _used_by_iota(emission))
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
    batch = _merged(order[:-2], sizes, [*accesses, *walks], [frozenset(order[:-2])], fixed)
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
        body=_body(emission, order),
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


def _body(emission: Emission, order: Sequence[Axis]) -> tuple[Statement, ...]:
    return tuple(
        s.model_copy(update={"args": (order.index(str(s.args[0])),)}) if s.op == "iota" else s for s in emission.body
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
    if any(s.op in ("reduce_argmax", "reduce_argmin", *SCANS) for s in emission.body):
        middle = [axis for axis in emission.layout.sizes if axis in reduced]
    return [axis for axis in axes if axis not in reduced and axis not in inner] + middle + inner


def _merged(
    order: Sequence[Axis],
    sizes: dict[Axis, Size],
    accesses: Sequence[Strides],
    groups: Sequence[frozenset[Axis]],
    fixed: frozenset[Axis],
) -> list[Axis]:
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
    return result


def _one_walk(outer: Axis, inner: Axis, sizes: Mapping[Axis, Size], accesses: Sequence[Strides]) -> bool:
    return all(s[outer] == product((s[inner], sizes[inner])) for s in accesses)
