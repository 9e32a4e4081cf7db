"""Attention: a product whose left factor is the softmax of another product becomes one step, which writes neither."""

from collections.abc import Mapping, MutableMapping, Sequence
from math import inf
from typing import Any

from ...state.lowered import Value
from ...state.program import LoopProgram, MatmulProgram, Operand, Softmax, Statement, Step, Store, TorchStep, ViewStep
from .batches import refined, split
from .folding import references

SOFTMAX = {"reduce_max", "sub", "exp", "reduce_sum", "div"}
SAFE = {*SOFTMAX, "eq", "where"}
"""With rows of -inf alone made zero."""


def attended(steps: Sequence[Step], values: MutableMapping[str, Value], returns: Any) -> list[Step]:
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
        if fused is not None:
            for name in (outer.a.value, between.loads[0].value):
                values.pop(name)
            found = [fused if step is outer else step for step in found if step is not inner and step is not between]
    return found


def _made_for_one(steps: Sequence[Step], value: str, returns: Any) -> LoopProgram | MatmulProgram | None:
    """The kernel that makes this value and nothing else, where one step reads it and it is not returned."""
    makers = [
        step
        for step in steps
        if isinstance(step, LoopProgram | MatmulProgram) and [store.value for store in step.stores] == [value]
    ]
    if len(makers) != 1 or value in references(returns) or sum(_reads(step, value) for step in steps) != 1:
        return None
    return makers[0]


def _reads(step: Step, value: str) -> bool:
    if isinstance(step, ViewStep):
        return step.base == value
    if isinstance(step, TorchStep):
        return value in references([*step.args, *step.kwargs.values()])
    return value in step.reads


def _fused(inner: MatmulProgram, between: LoopProgram, outer: MatmulProgram) -> MatmulProgram | None:
    shared = refined(inner.batch, outer.batch)
    if shared is None or _numbers_batch(inner) or _numbers_batch(outer):
        return None
    inner, outer = split(inner, shared), split(outer, shared)
    (scored,), (weighed,) = inner.stores, between.stores
    zero_rows = _is_softmax(between, weighed)
    if zero_rows is None or inner.also is not None or inner.scores is not None or not _lie_alike(inner, between, outer):
        return None
    softmax = Softmax(
        scores=inner.model_copy(update={"stores": ()}),
        score=scored.name,
        ahead=_ahead(inner, scored.name),
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
    """Whether rows of -inf alone become zero, where the program is a softmax; None where it is none."""
    made = {statement.op: statement for statement in program.body}
    if len(made) != len(program.body) or set(made) not in (SOFTMAX, SAFE):
        return None
    x, weight, share = program.loads[0].name, made["exp"].name, made["div"]
    plain = (
        made["reduce_max"].args == (x,)
        and made["sub"].args == (x, made["reduce_max"].name)
        and made["exp"].args == (made["sub"].name,)
        and made["reduce_sum"].args == (weight,)
        and share.args == (weight, made["reduce_sum"].name)
    )
    if set(made) == SOFTMAX:
        return False if plain and weighed.name == share.name else None
    empty, kept = made["eq"], made["where"]
    zeroed = empty.args == (made["reduce_max"].name, -inf) and kept.args == (empty.name, 0.0, share.name)
    return True if plain and zeroed and weighed.name == kept.name else None


def _ahead(inner: MatmulProgram, score: str) -> int | None:
    """How far right of its own place a row has scores, where a comparison of row and column masks the others."""
    made = {statement.name: statement for statement in inner.body}
    final = made.get(score)
    if final is None or final.op != "where":
        return None
    condition, yes, no = final.args
    masks = yes == -inf
    if not masks and no != -inf:
        return None
    return _least_masked(_plain(condition, made), masks, len(inner.space), made)


def _plain(condition: object, made: Mapping[str, Statement]) -> Statement | None:
    """The comparison, without `and true` around it."""
    statement = made.get(str(condition))
    while statement is not None and statement.op == "logical_and" and statement.args[1] is True:
        statement = made.get(str(statement.args[0]))
    return statement


def _least_masked(compared: Statement | None, masks: bool, axes: int, made: Mapping[str, Statement]) -> int | None:
    """Scores whose column is more than this right of their row are masked."""
    if compared is None or compared.op not in ("ge", "gt", "le", "lt"):
        return None
    left, right = (_affine(arg, axes, made) for arg in compared.args)
    if left is None or right is None:
        return None
    rows, columns, offset = (x - y for x, y in zip(left, right, strict=True))
    # As `column - row + offset <op> 0`, where the score is masked.
    op = compared.op if masks else {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}[compared.op]
    if (rows, columns) == (1, -1):
        rows, columns, offset, op = -1, 1, -offset, {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}[op]
    if (rows, columns) != (-1, 1) or op not in ("ge", "gt"):
        return None
    return -offset - 1 if op == "ge" else -offset


def _affine(arg: object, axes: int, made: Mapping[str, Statement]) -> tuple[int, int, int] | None:
    """What a value has of the row's number, the column's, and besides; None for anything else."""
    if isinstance(arg, int) and not isinstance(arg, bool):
        return 0, 0, arg
    statement = made.get(str(arg))
    if statement is None:
        return None
    if statement.op == "iota":
        place = int(statement.args[0]) - (axes - 2)
        return (int(place == 0), int(place == 1), 0) if place >= 0 else None
    if statement.op not in ("add", "sub"):
        return None
    x, y = (_affine(each, axes, made) for each in statement.args)
    if x is None or y is None:
        return None
    sign = 1 if statement.op == "add" else -1
    return x[0] + sign * y[0], x[1] + sign * y[1], x[2] + sign * y[2]
