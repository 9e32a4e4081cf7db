"""Batch axes of products, cut into the axes that another product has."""

from collections.abc import Sequence
from typing import TypeVar

from ...state.program import Load, MatmulProgram, Operand, Statement, Store
from ...state.sizes import Size, product

Strided = TypeVar("Strided", Load, Operand, Store)


def refined(one: Sequence[Size], other: Sequence[Size]) -> tuple[Size, ...] | None:
    """Whichever of two batches is the other with some axes cut into several; None where neither is."""
    if _runs(other, one) is not None:
        return tuple(one)
    return tuple(other) if _runs(one, other) is not None else None


def split(program: MatmulProgram, batch: Sequence[Size]) -> MatmulProgram:
    """The same product over a batch that refines its own."""
    runs = _runs(program.batch, batch) or []
    more = len(batch) - len(program.batch)

    def cut(access: Strided) -> Strided:
        return access.model_copy(update={"strides": _cut(access.strides, runs)})

    def moved(statement: Statement) -> Statement:
        if statement.op != "iota":
            return statement
        return statement.model_copy(update={"args": (int(statement.args[0]) + more,)})

    return program.model_copy(
        update={
            "batch": tuple(batch),
            "a": cut(program.a),
            "b": cut(program.b),
            "also": None if program.also is None else cut(program.also),
            "loads": tuple(cut(load) for load in program.loads),
            "body": tuple(moved(statement) for statement in program.body),
            "stores": tuple(cut(store) for store in program.stores),
        }
    )


def _cut(strides: Sequence[Size], runs: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The strides with those of batch axes spread over the axes that they are made of."""
    found: list[Size] = []
    for stride, run in zip(strides, runs, strict=False):
        found += [product((stride, *run[place + 1 :])) for place in range(len(run))]
    return (*found, *strides[len(runs) :])


def _runs(coarse: Sequence[Size], fine: Sequence[Size]) -> list[tuple[Size, ...]] | None:
    """For each coarse axis the fine axes that it is made of, in order."""
    found: list[tuple[Size, ...]] = []
    left = list(fine)
    for size in coarse:
        run: tuple[Size, ...] = ()
        while not run or (left and product(run) != size):
            if not left:
                return None
            run = (*run, left.pop(0))
        if product(run) != size:
            return None
        found.append(run)
    return found if not left else None
