"""Runs the Triton kernels of convolutions and attention: interpreted on the CPU, or compiled for sm_90 without running.

    TRITON_INTERPRET=1 python -m programs.moving_run interpret NAME ...    errors by case, template and setting
    python -m programs.moving_run compile NAME ...                         registers and spills likewise

Both print one JSON object. The interpreter must be chosen before triton is imported, so tests start a process.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from programs.attention import OTHER_SIZES
from programs.interpreter import run_step
from programs.moving import moving
from programs.references import CASES
from programs.sheets import H200
from programs.triton_loop_run import compiled, difference, load

from warpsmith.state.lowered import bound
from warpsmith.state.program import ForwardPlan, MatmulProgram, Step
from warpsmith.sub_agents.kernel_source import KernelSource
from warpsmith.sub_agents.slot_moves import spread
from warpsmith.sub_agents.templates.registry import templates


def sources(plan: ForwardPlan, step: Step, count: int) -> Iterator[tuple[str, KernelSource]]:
    """A product's kernels: of every template that fits, with its default and with settings far from it."""
    assert isinstance(step, MatmulProgram)
    values = {name: (each.shape, each.dtype) for name, each in plan.values.items()}
    for template in templates("triton"):
        if not template.fits(step, plan.hints):
            continue
        slots = template.slots(step, plan.hints, H200)
        others = spread(slots, lambda s, t=template: t.legal(step, s, plan.hints, H200), Random(5), count)  # type: ignore[misc]
        for setting in ({slot.name: slot.default for slot in slots}, *others):
            yield f"{template.name} {setting}", template.render(step, setting, values)


def special(plan: ForwardPlan) -> list[Step]:
    """Products with windows, and attention; nothing else is looked at."""
    products = [step for step in plan.steps if isinstance(step, MatmulProgram)]
    return [step for step in products if step.b.windows is not None or step.scores is not None]


def interpret(name: str, folder: Path) -> Iterator[tuple[str, float | str]]:
    """Differences from the brute-force interpreter, also at other sizes where there are some."""
    plan, inputs = moving(name)
    for given in (inputs, *([OTHER_SIZES[name]()] if name in OTHER_SIZES else [])):
        found = list(compared(name, plan, given, folder))
        yield from found if given is inputs else [(f"other sizes, {label}", each) for label, each in found]


def compared(name: str, plan: ForwardPlan, inputs: list[Any], folder: Path) -> Iterator[tuple[str, float | str]]:
    """Every kernel's difference, by template and setting."""
    module, _ = CASES[name]()
    own = {key: each.detach() for key, each in (*module.named_parameters(), *module.named_buffers())}
    tensors: dict[str, Any] = dict(zip(plan.inputs, inputs, strict=True))
    tensors |= {value: own[qualified] for value, qualified in plan.parameters.items()}
    sizes = bound(plan.symbols, lambda number, dim: inputs[number].shape[dim])
    for step in plan.steps:
        made = run_step(step, tensors, sizes, plan)
        for label, source in sources(plan, step, 2) if step in special(plan) else ():
            arguments = [tensors[each] for each in source.reads] + [sizes[each] for each in source.symbols]
            (expected,) = made.values()
            yield label, difference(load(source, folder)(*arguments).reshape(expected.shape), expected)
        tensors |= made


def main() -> None:
    """Prints the JSON that the tests read."""
    action, *names = sys.argv[1:]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        if action == "interpret":
            found: dict[str, Any] = {name: dict(interpret(name, Path(folder))) for name in names}
        else:
            plans = {name: moving(name)[0] for name in names}
            steps = [(name, plan, step) for name, plan in plans.items() for step in special(plan)]
            made = {f"{n} {label}": (source, p) for n, p, step in steps for label, source in sources(p, step, 1)}
            found = compiled(made, Path(folder))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
