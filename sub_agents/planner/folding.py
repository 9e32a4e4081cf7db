"""Views that only give a kernel's result another shape: the kernel makes it in that shape instead."""

from collections.abc import Mapping
from typing import Any

from ...state.lowered import Value, references
from ...state.program import LoopProgram, MatmulProgram, Step, TorchStep, ViewStep
from ...state.sizes import product
from .index_maps import contiguous_strides


def folded(steps: list[Step], values: dict[str, Value], returns: Any) -> tuple[list[Step], dict[str, Value], Any]:
    """Steps, values and returns without views that are plain reshapes of one kernel's own result."""
    renamed = dict(_foldable(steps, values, returns))
    shapes = {base: values[view] for view, base in renamed.items()}
    # By kind too: a kernel may be named like a view.
    kept = [
        _renamed_step(each, renamed) for each in steps if not isinstance(each, ViewStep) or each.name not in renamed
    ]
    left = {name: shapes.get(name, value) for name, value in values.items() if name not in renamed}
    return kept, left, renamed_references(returns, renamed)


def _foldable(steps: list[Step], values: Mapping[str, Value], returns: Any) -> list[tuple[str, str]]:
    made = {s.value for step in steps if isinstance(step, (LoopProgram, MatmulProgram)) for s in step.stores}
    whole = set(references(returns))
    for step in steps:
        if isinstance(step, TorchStep):
            whole |= set(references([*step.args, *step.kwargs.values()]))
    views = [step for step in steps if isinstance(step, ViewStep)]
    bases = [view.base for view in views]
    return [
        (view.name, view.base)
        for view in views
        if view.base in made
        and view.base not in whole
        and bases.count(view.base) == 1
        and view.offset == 0
        and view.name != view.base
        and product(view.shape) == product(values[view.base].shape)
        and all(
            s == c or n == 1 for s, c, n in zip(view.strides, contiguous_strides(view.shape), view.shape, strict=True)
        )
    ]


def _renamed_step(step: Step, names: Mapping[str, str]) -> Step:
    if isinstance(step, TorchStep):
        return step.model_copy(
            update={"args": tuple(renamed_references(a, names) for a in step.args)}
            | {"kwargs": {key: renamed_references(a, names) for key, a in step.kwargs.items()}}
        )
    if isinstance(step, ViewStep) and step.base in names:
        return step.model_copy(update={"base": names[step.base]})
    return step


def reads(step: Step) -> list[str]:
    """Values that a step reads, as often as it does."""
    if isinstance(step, TorchStep):
        return list(dict.fromkeys(references([*step.args, *step.kwargs.values()])))
    if isinstance(step, ViewStep):
        return [step.base]
    if isinstance(step, LoopProgram):
        return list(step.reads)
    return [*(operand.value for operand in step.operands), *(load.value for load in step.side_loads)]


def renamed_references(structure: Any, names: Mapping[str, str]) -> Any:
    """The structure with other names under `ref`; those without a new name stay."""
    if isinstance(structure, (list, tuple)):
        return [renamed_references(part, names) for part in structure]
    if isinstance(structure, dict):
        if isinstance(structure.get("ref"), str):
            return {"ref": names.get(structure["ref"], structure["ref"])}
        return {key: renamed_references(part, names) for key, part in structure.items()}
    return structure
