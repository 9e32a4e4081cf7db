"""Runs the Triton kernels of convolutions: interpreted on the CPU, or compiled for sm_90 without running.

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
from programs.interpreter import run_plan
from programs.moving import moving
from programs.references import CASES
from programs.sheets import H200
from programs.triton_loop_run import compiled, difference, load

from warpsmith.state.program import ForwardPlan, MatmulProgram
from warpsmith.sub_agents.kernel_source import KernelSource
from warpsmith.sub_agents.slot_moves import spread
from warpsmith.sub_agents.templates.registry import templates


def sources(plan: ForwardPlan, count: int) -> Iterator[tuple[str, KernelSource]]:
    """The one step's kernels: of every template that fits, with its default and with settings far from it."""
    (step,) = plan.steps
    assert isinstance(step, MatmulProgram)
    values = {name: (each.shape, each.dtype) for name, each in plan.values.items()}
    for template in templates("triton"):
        if not template.fits(step, plan.hints):
            continue
        slots = template.slots(step, plan.hints, H200)
        others = spread(slots, lambda s, t=template: t.legal(step, s, plan.hints, H200), Random(5), count)  # type: ignore[misc]
        for setting in ({slot.name: slot.default for slot in slots}, *others):
            yield f"{template.name} {setting}", template.render(step, setting, values)


def interpret(name: str, folder: Path) -> Iterator[tuple[str, float | str]]:
    """Differences from the brute-force interpreter."""
    plan, inputs = moving(name)
    module, _ = CASES[name]()
    own = {key: each.detach() for key, each in module.named_parameters()}
    tensors: dict[str, Any] = dict(zip(plan.inputs, inputs, strict=True))
    tensors |= {value: own[qualified] for value, qualified in plan.parameters.items()}
    sizes = {symbol.name: inputs[symbol.input].shape[symbol.dim] for symbol in plan.symbols}
    expected = run_plan(plan, inputs, own)
    for label, source in sources(plan, 3):
        arguments = [tensors[each] for each in source.reads] + [sizes[each] for each in source.symbols]
        yield label, difference(load(source, folder)(*arguments).reshape(expected.shape), expected)


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
            made = {f"{n} {label}": (source, p) for n, p in plans.items() for label, source in sources(p, 1)}
            found = compiled(made, Path(folder))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
