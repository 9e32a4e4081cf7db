"""Attention: a product whose left factor is the softmax of another product becomes one step, which writes neither."""

from collections.abc import Mapping, MutableMapping, Sequence
from math import inf
from typing import Any

from ...state.lowered import Value, references
from ...state.program import LoopProgram, MatmulProgram, Operand, Softmax, Step, Store
from ..attention_tiles import fits_tiles
from .batches import refined, split
from .folding import reads
from .masks import Masks
from .registry import INTEGERS

SOFTMAX = {"reduce_max", "sub", "exp", "reduce_sum", "div"}
SAFE = {*SOFTMAX, "eq", "where"}
"""With rows of -inf alone made zero."""


def attended(
    steps: Sequence[Step], values: MutableMapping[str, Value], returns: Any, hints: Mapping[str, int]
) -> list[Step]:
    """The steps with every such pair of products as one, in the second's place; `values` loses what lay between them.

    What is between is scores and their softmax: neither may be read by anything else.
    """
    found = list(steps)
    for outer in steps:
        if not isinstance(outer, MatmulProgram) or outer.also is not None or outer.a.value not in values:
            continue
        between = _made_for_one(found, outer.a.value, returns)
        if not isinstance(between, LoopProgram) or len(between.loads) != 1:
            continue
        inner = _made_for_one(found, between.loads[0].value, returns)
        if not isinstance(inner, MatmulProgram):
            continue
        fused = _fused(inner, between, outer)
        if fused is not None and fits_tiles(fused, hints):
            for name in (outer.a.value, between.loads[0].value):
                values.pop(name)
            found = [fused if step is outer else step for step in found if step is not inner and step is not between]
    return found


def _made_for_one(steps: Sequence[Step], value: str, returns: Any) -> LoopProgram | MatmulProgram | None:
    """The kernel that makes this value and nothing else, where it is read once and not returned."""
    makers = [
        step
        for step in steps
        if isinstance(step, LoopProgram | MatmulProgram) and [store.value for store in step.stores] == [value]
    ]
    if len(makers) != 1 or value in references(returns) or sum(reads(step).count(value) for step in steps) != 1:
        return None
    return makers[0]


def _fused(inner: MatmulProgram, between: LoopProgram, outer: MatmulProgram) -> MatmulProgram | None:
    shared = refined(inner.batch, outer.batch)
    if shared is None or any(_numbers_batch(each) and each.batch != shared for each in (inner, outer)):
        return None
    inner, outer = split(inner, shared), split(outer, shared)
    (scored,), (weighed,) = inner.stores, between.stores
    zero_rows = _is_softmax(between, weighed)
    if zero_rows is None or inner.also is not None or inner.scores is not None or not _lie_alike(inner, between, outer):
        return None
    softmax = Softmax(
        scores=inner.model_copy(update={"stores": ()}),
        score=scored.name,
        ahead=Masks(inner).reach(scored.name),
        behind=Masks(inner, to_the_right=False).reach(scored.name),
        zero_rows=zero_rows,
    )
    left = Operand(value="", dtype=outer.a.dtype, strides=(0,) * len(outer.a.strides), softmax=softmax)
    return outer.model_copy(update={"name": f"attention_{outer.name}", "a": left})


def _numbers_batch(program: MatmulProgram) -> bool:
    """Whether the number of a matrix in the batch is a value in it, which would be another in other batch axes."""
    return any(s.op == "iota" and int(s.args[0]) < len(program.batch) for s in program.body)


def _lie_alike(inner: MatmulProgram, between: LoopProgram, outer: MatmulProgram) -> bool:
    """Whether rows and columns of the three are the same ones: by their places in memory, which are one value's."""
    (scored,), (weighed,), (load,) = inner.stores, between.stores, between.loads
    rows = between.reduced == (False,) * (len(between.space) - 1) + (True,)
    return (
        rows
        and between.space[-1] == inner.n == outer.k
        and load.strides == weighed.strides
        and load.strides[-1] == 1
        and load.offset == outer.a.offset == 0
        and (inner.batch, inner.m) == (outer.batch, outer.m)
        and scored.strides == outer.a.strides
        and scored.into == weighed.into == ""
    )


def _is_softmax(program: LoopProgram, weighed: Store) -> bool | None:
    """Whether rows of -inf alone become zero, where the program is a softmax; None where it is none.

    Casts on the way, to a wider type and back, change nothing that kernels do.
    """
    if any(statement.dtype == "float64" for statement in program.body):
        return None
    alias: dict[object, object] = {}
    for statement in program.body:
        if statement.op == "cast" and statement.dtype not in INTEGERS:
            alias[statement.name] = alias.get(statement.args[0], statement.args[0])
    rest = [statement for statement in program.body if statement.name not in alias]
    made = {statement.op: statement for statement in rest}
    if len(made) != len(rest) or set(made) not in (SOFTMAX, SAFE):
        return None

    def args(op: str) -> tuple[object, ...]:
        return tuple(alias.get(arg, arg) for arg in made[op].args)

    x, peak, weight, share = program.loads[0].name, made["reduce_max"].name, made["exp"].name, made["div"].name
    plain = (
        args("reduce_max") == (x,)
        and args("sub") == (x, peak)
        and args("exp") == (made["sub"].name,)
        and args("reduce_sum") == (weight,)
        and args("div") == (weight, made["reduce_sum"].name)
    )
    stored = alias.get(weighed.name, weighed.name)
    if set(made) == SOFTMAX:
        return False if plain and stored == share else None
    empty = made["eq"].name
    zeroed = args("eq") == (peak, -inf) and args("where") == (empty, 0.0, share)
    return True if plain and zeroed and stored == made["where"].name else None
