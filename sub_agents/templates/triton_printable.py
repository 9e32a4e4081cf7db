"""Whether Triton has words for all that a loop program says."""

from ...state.program import REDUCTIONS, SCANS, LoopProgram
from .triton_expression import TYPES, Term, computed, literal, prints
from .triton_loop import definitions


def printable(program: LoopProgram) -> bool:
    """Whether Triton can hold every dtype and print every operator of the program."""
    dtypes = {each.name: each.dtype for each in definitions(program)}
    if not {*dtypes.values(), *(store.dtype for store in program.stores)} <= set(TYPES):
        return False
    for statement in program.body:
        if statement.op in (*REDUCTIONS, *SCANS):
            continue
        terms = tuple(
            Term("x", computed(dtypes.get(arg, "int64"))) if isinstance(arg, str) else literal(arg)
            for arg in statement.args
        )
        if not prints(statement.op, statement.dtype, terms):
            return False
    return True
