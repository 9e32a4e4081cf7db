"""Pairs of reductions that one pass can do: a maximum with the sum of exponentials below it, a mean with the squared
deviations from it. Found by structure alone.

Each thread treats its tile of registers as a small row (tile maximum, then tile sum; tile mean, then tile deviations)
and merges tiles: the online softmax (Milakov and Gimelshein 2018) and Chan, Golub and LeVeque's moments (1979).
"""

from dataclasses import dataclass
from typing import Literal

from ...state.program import LoopProgram, Statement
from ...state.sizes import Size, product
from .cuda_types import is_float


@dataclass(frozen=True)
class Merge:
    """`second` is computed in the pass of `first`; `inner` are the statements between, `source` the reduced value."""

    kind: Literal["softmax", "moments"]
    first: str
    second: str
    source: str
    inner: tuple[str, ...]
    mean: str = ""


def find_merges(program: LoopProgram, elements: frozenset[str]) -> tuple[Merge, ...]:
    """Every such pair; a reduction is in one pair at most."""
    by_name = {s.name: s for s in program.body}
    found: list[Merge] = []
    for second in program.body:
        if second.op != "reduce_sum" or not is_float(second.dtype):
            continue
        merge = _softmax(second, by_name) or _moments(second, by_name, _count(program))
        if merge and merge.source in elements and not any({m.first, m.second} & {merge.first} for m in found):
            found.append(merge)
    return tuple(found)


def _count(program: LoopProgram) -> Size:
    return product(size for size, flag in zip(program.space, program.reduced, strict=True) if flag)


def _argument(statement: Statement | None, index: int, by_name: dict[str, Statement]) -> Statement | None:
    if statement is None or len(statement.args) <= index:
        return None
    arg = statement.args[index]
    return by_name.get(arg) if isinstance(arg, str) else None


def _softmax(second: Statement, by_name: dict[str, Statement]) -> Merge | None:
    weight = _argument(second, 0, by_name)
    if weight is None or weight.op != "exp":
        return None
    shifted = _argument(weight, 0, by_name)
    first = _argument(shifted, 1, by_name)
    if shifted is None or shifted.op != "sub" or first is None or first.op != "reduce_max" or not is_float(first.dtype):
        return None
    source = shifted.args[0]
    if not isinstance(source, str) or first.args[0] != source:
        return None
    return Merge("softmax", first.name, second.name, source, (shifted.name, weight.name))


def _moments(second: Statement, by_name: dict[str, Statement], count: Size) -> Merge | None:
    squared = _argument(second, 0, by_name)
    deviation = _argument(squared, 0, by_name)
    if squared is None or deviation is None or not _is_square(squared) or deviation.op != "sub":
        return None
    mean = _argument(deviation, 1, by_name)
    first = _argument(mean, 0, by_name)
    source = deviation.args[0]
    if mean is None or first is None or first.op != "reduce_sum" or not is_float(first.dtype):
        return None
    if not isinstance(source, str) or first.args[0] != source or not _divides_by(mean, count, by_name):
        return None
    return Merge("moments", first.name, second.name, source, (deviation.name, squared.name), mean.name)


def _is_square(statement: Statement) -> bool:
    if statement.op == "square":
        return True
    if statement.op == "mul":
        return statement.args[0] == statement.args[1]
    return statement.op == "pow" and statement.args[1] == 2


def _divides_by(mean: Statement, count: Size, by_name: dict[str, Statement]) -> bool:
    by = mean.args[1] if len(mean.args) == 2 else None
    named = by_name.get(by) if isinstance(by, str) else None
    if named is not None and named.op == "cast":
        by = named.args[0]
    if mean.op == "div":
        return by == count
    if mean.op == "mul" and isinstance(by, float) and isinstance(count, int):
        return abs(by * count - 1) < 1e-6
    return False
