"""Changed inputs that a kernel may overwrite itself, instead of a copy after it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...state.lowered import Value, references
from ...state.program import LoopProgram, MatmulProgram, Step, Store, TorchStep, ViewStep
from ..kernel_source import UPDATE
from .folding import reads


def stored_in_place(
    steps: Sequence[Step], values: Mapping[str, Value], strided: Collection[str], returns: Any
) -> list[Step]:
    """The steps, with stores that go straight into the inputs that they update.

    A store may do so when each element of the input is read by the program only at the point of the space that writes
    it, and when nothing reads the old value afterwards. `strided` names the inputs that are not contiguous.
    """
    found = list(steps)
    kept = set(references(returns))
    for number, step in enumerate(steps):
        if not isinstance(step, TorchStep) or step.op != UPDATE:
            continue
        target, source = (str(argument["ref"]) for argument in step.args)
        maker = next((i for i, each in enumerate(found) if _made_by(each, source)), None)
        if maker is None or target in strided or target in kept or values.get(target) != values.get(source):
            continue
        program = found[maker]
        late = any(target in reads(each) for i, each in enumerate(found) if i > maker and i != number)
        if isinstance(program, LoopProgram) and not late and _overwritable(program, source, target):
            found[maker] = _storing(program, source, target)
    # A view of an input shows its new value: who reads through it is not looked at.
    viewed = {step.base for step in steps if isinstance(step, ViewStep)}
    return found if not viewed & {s.into for s in _stores(found) if s.into} else list(steps)


def _made_by(step: Step, value: str) -> bool:
    return isinstance(step, (LoopProgram, MatmulProgram)) and any(store.value == value for store in step.stores)


def _overwritable(program: LoopProgram, source: str, target: str) -> bool:
    """Whether every load of the target is at the place that the store writes, and no pass follows the store."""
    (store,) = (each for each in program.stores if each.value == source)
    loads = [load for load in program.loads if load.value == target]
    same = all(load.strides == store.strides and load.offset == 0 for load in loads)
    elsewhere = any(s.table == target for s in program.body)
    if not loads or not same or store.into or elsewhere:
        return False
    if not any(program.reduced):
        return True
    # Rows are read more than once: only what depends on all reductions is written after the last reading, and only
    # what varies along the row is written by the program that reads it.
    level = next((s.level for s in program.body if s.name == store.name), 0)
    walked = all(stride != 0 or size == 1 for stride, size in zip(store.strides, program.space, strict=True))
    return walked and level == program.levels


def _storing(program: LoopProgram, source: str, target: str) -> LoopProgram:
    stores = tuple(s.model_copy(update={"into": target}) if s.value == source else s for s in program.stores)
    return program.model_copy(update={"stores": stores})


def _stores(steps: Sequence[Step]) -> list[Store]:
    return [store for step in steps if isinstance(step, LoopProgram) for store in step.stores]
