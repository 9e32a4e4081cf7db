"""Runs rendered Triton loop kernels: interpreted on the CPU, or compiled for sm_90 without running.

    TRITON_INTERPRET=1 python -m programs.triton_loop_run interpret TEMPLATE ...    errors by case and setting
    python -m programs.triton_loop_run defaults|pairwise TEMPLATE ...               registers and spills likewise

Both print one JSON object, by template. The interpreter must be chosen before triton is imported, so tests start a
process.
"""

import importlib.util
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from programs import examples
from programs.cover import every_choice
from programs.interpreter import run_plan
from programs.moving import moving
from programs.sheets import H200
from programs.triton_loop_cases import Case, cases, running_totals

from warpsmith.state.lowered import bound
from warpsmith.state.program import ForwardPlan, LoopProgram
from warpsmith.state.sizes import value
from warpsmith.sub_agents.kernel_source import KernelSource, Template
from warpsmith.sub_agents.slot_moves import spread
from warpsmith.sub_agents.slots import Setting
from warpsmith.sub_agents.templates.pairwise import pairwise
from warpsmith.sub_agents.templates.registry import templates


def program_of(plan: ForwardPlan) -> LoopProgram:
    (step,) = plan.steps
    assert isinstance(step, LoopProgram)
    return step


def load(source: KernelSource, folder: Path) -> Any:
    """The function that the source defines, as a module of its own file (Triton reads its lines)."""
    number = len(list(folder.iterdir()))
    path = folder / f"kernel_{number}.py"
    path.write_text("\n".join((*source.imports, "", source.code)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, source.function)


def settings(template: Template, plan: ForwardPlan, count: int) -> list[Setting]:
    """The defaults and an even spread."""
    program, hints = program_of(plan), plan.hints
    slots = template.slots(program, hints, H200)

    def legal(setting: Setting) -> bool:
        return template.legal(program, setting, hints, H200)

    return [{slot.name: slot.default for slot in slots}, *spread(slots, legal, Random(5), count)]


def rendered(template: Template, plan: ForwardPlan, setting: Setting) -> KernelSource:
    values = {name: (each.shape, each.dtype) for name, each in plan.values.items()}
    return template.render(program_of(plan), setting, values)


def difference(got: torch.Tensor, expected: torch.Tensor) -> float | str:
    """Relative error in the root mean square, or what else is wrong. Integers, NaN and infinities must be equal."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"{tuple(got.shape)} {got.dtype} instead of {tuple(expected.shape)} {expected.dtype}"
    if not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(got, expected) else "unequal"
    got, expected = got.double(), expected.double()
    finite = expected.isfinite()
    special = torch.where(finite, torch.zeros_like(expected), expected)
    if not torch.equal(torch.nan_to_num(special, nan=7.0), torch.nan_to_num(torch.where(finite, 0.0, got), nan=7.0)):
        return "NaN or infinity elsewhere"
    scale = expected[finite].norm()
    return float((got[finite] - expected[finite]).norm() / scale) if scale > 0 else float(got[finite].abs().sum())


def interpret(template: Template, count: int = 2) -> dict[str, float | str]:
    """The worst difference of each case and setting from the brute-force interpreter."""
    warnings.simplefilter("ignore")
    worst: dict[str, float | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (plan, inputs) in cases().items():
            if not template.fits(program_of(plan), plan.hints):
                continue
            for setting in settings(template, plan, count):
                worst[f"{name} {setting}"] = _interpreted(template, (plan, inputs), setting, Path(folder))
    return worst


def _interpreted(template: Template, case: Case, setting: Setting, folder: Path) -> float | str:
    plan, inputs = case
    source = rendered(template, plan, setting)
    tensors = dict(zip(plan.inputs, deepcopy(inputs), strict=True))
    sizes = bound(plan.symbols, lambda number, dim: inputs[number].shape[dim])
    expected = run_plan(plan, deepcopy(inputs))
    try:
        got = load(source, folder)(*(tensors[name] for name in source.reads), *(sizes[name] for name in source.symbols))
    except Exception as error:  # noqa: BLE001 - the test shows what a kernel raised, with its case
        return f"{type(error).__name__}: {error}"[-300:]
    pairs = zip(_leaves(got), _leaves(expected), strict=True)
    found = [difference(g, e) for g, e in pairs]
    return next((each for each in found if isinstance(each, str)), max(f for f in found if isinstance(f, float)))


def _leaves(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


LARGE = {
    "relu_add": examples.relu_add(4096, 4096),
    "softmax": examples.softmax(4096, 4096),
    "softmax_free": examples.softmax("s0", "s1", {"s0": (0, 0, 4096), "s1": (0, 1, 4096)}),
    "softmax_huge": examples.softmax(4096, 393216),
    "layer_norm_bf16": examples.layer_norm(8192, 8192, "bfloat16"),
    "layer_norm_huge": examples.layer_norm(16, 2**20),
    "sum_all": examples.sum_all(2**28),
    "sum_past_int32": examples.sum_all(2**32 + 8),
    "argmax_rows": examples.EXAMPLES["argmax_rows"],
    "gate": examples.EXAMPLES["transposed_bf16_two_outputs"],
    "group_norm": examples.EXAMPLES["group_norm"],
    "running_totals": running_totals(torch.empty(0, 0))[0],
}
MOVING = ("largest_3x3", "joined_sum", "added_up_long", "largest_so_far_long", "added_up_one_row")
"""Further programs, planned where they are asked for."""


COVERED = ("relu_add", "gate", "softmax_free", "layer_norm_huge", "running_totals")
"""Programs whose settings are covered, the first that a template fits pairwise, the next by every choice; all others
compile with the defaults."""


def compile_only(template: Template, cover: str, trace: Any) -> dict[str, Any]:
    """Static facts of each kernel, or the compiler's error."""
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, setting in _covered(template) if cover == "pairwise" else _defaults(template):
            plan = LARGE[name]
            facts[f"{name} {setting}"] = _compiled(rendered(template, plan, setting), plan, trace, Path(folder))
    return facts


def _defaults(template: Template) -> Iterator[tuple[str, Setting]]:
    for name, plan in LARGE.items():
        if template.fits(program_of(plan), plan.hints):
            yield from ((name, setting) for setting in settings(template, plan, 0))


def _add_moving() -> None:
    """Before anything stands in for a GPU: nothing can be exported then."""
    LARGE.update({name: moving(name)[0] for name in MOVING})


def _covered(template: Template) -> Iterator[tuple[str, Setting]]:
    fitting = [name for name in COVERED if template.fits(program_of(LARGE[name]), LARGE[name].hints)]
    for place, name in enumerate(fitting[:2]):
        plan = LARGE[name]
        slots = template.slots(program_of(plan), plan.hints, H200)
        legal = partial(template.legal, program_of(plan), hints=plan.hints, device=H200)
        for setting in every_choice(slots, legal, place) if place else pairwise(slots, legal):
            yield name, setting


def _compiled(source: KernelSource, plan: ForwardPlan, trace: Any, folder: Path) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from warpsmith.tools.worker import fake_cuda

    trace.kernels.clear()
    trace.forget_launches() if hasattr(trace, "forget_launches") else trace._launches.clear()
    with FakeTensorMode(allow_non_fake_inputs=True), fake_cuda.OnCpu(trace):
        tensors = []
        for name in source.reads:
            record = plan.values[name]
            shape = [value(size, plan.hints) for size in record.shape]
            tensors.append(torch.empty(shape, dtype=getattr(torch, record.dtype)))
        trace.watch(tensors)
        try:
            load(source, folder)(*tensors, *(plan.hints[name] for name in source.symbols))
        except Exception as error:  # noqa: BLE001 - the test shows what the compiler said, with its case
            return f"{type(error).__name__}: {error}"[-400:]
    return [[kernel.registers, kernel.spill_bytes, kernel.shared_bytes] for kernel in trace.kernels.values()]


def compiled(sources: Mapping[str, tuple[KernelSource, ForwardPlan]], folder: Path) -> dict[str, Any]:
    """Static facts of each source's kernels, or the compiler's error. Nothing can be exported afterwards."""
    from warpsmith.tools.worker import fake_cuda

    trace = fake_cuda.Trace("sm_90")
    fake_cuda.install(trace)
    return {label: _compiled(source, plan, trace, folder) for label, (source, plan) in sources.items()}


def compile_all(chosen: list[Template], cover: str) -> dict[str, Any]:
    from warpsmith.tools.worker import fake_cuda

    if cover != "pairwise":
        _add_moving()
    trace = fake_cuda.Trace("sm_90")
    fake_cuda.install(trace)
    return {template.name: compile_only(template, cover, trace) for template in chosen}


def main() -> None:
    """Prints the JSON that the tests read."""
    action, *names = sys.argv[1:]
    torch.set_num_threads(1)
    chosen = [template for template in templates("triton") if template.name in names]
    if action == "interpret":
        found: dict[str, Any] = {template.name: interpret(template) for template in chosen}
    else:
        found = compile_all(chosen, action)
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
