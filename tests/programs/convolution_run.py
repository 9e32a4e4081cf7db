"""Runs CUDA kernels of convolutions in emulation, against the brute-force interpreter."""

from collections.abc import Iterator
from random import Random
from typing import Any

from programs.interpreter import run_step
from programs.matmul_cuda import emulated
from programs.moving import moving
from programs.moving_run import special
from programs.references import CASES
from programs.sheets import H200
from programs.triton_loop_run import difference

from warpsmith.evals.suite import select
from warpsmith.state.lowered import bound
from warpsmith.state.program import ForwardPlan, MatmulProgram
from warpsmith.sub_agents.kernel_source import Template
from warpsmith.sub_agents.planner import forward_plan
from warpsmith.sub_agents.slot_moves import spread
from warpsmith.sub_agents.slots import Setting
from warpsmith.tools.worker.lowering import lower


def errors(template: Template, name: str, others: int, wide: bool = False) -> Iterator[tuple[Setting, float | str]]:
    """Differences from the brute-force interpreter, with the default setting and with others far from it.

    Offsets are of 64 bits where `wide`, as they are for tensors that no test can hold.
    """
    plan, inputs = moving(name)
    module, _ = CASES[name]()
    tensors: dict[str, Any] = dict(zip(plan.inputs, inputs, strict=True))
    own = dict((*module.named_parameters(), *module.named_buffers()))
    tensors |= {value: own[qualified].detach() for value, qualified in plan.parameters.items()}
    sizes = bound(plan.symbols, lambda number, dim: inputs[number].shape[dim])
    (step,) = special(plan)
    (expected,) = run_step(step, tensors, sizes, plan).values()
    values = {value: (each.shape, each.dtype) for value, each in plan.values.items()}
    for setting in settings(template, plan, step, others):
        source = template.render(step, setting, values)
        if wide:
            assert "wide = int(" in source.code
            source = source.model_copy(update={"code": source.code.replace("wide = int(", "wide = 1 or int(")})
        function, torch = emulated(source)
        found = function(*(tensors[each] for each in source.reads), *(sizes[each] for each in source.symbols))
        torch.check_guards()
        yield setting, difference(found.reshape(expected.shape), expected)


def settings(template: Template, plan: ForwardPlan, step: Any, others: int) -> Iterator[Setting]:
    """The default, and legal ones far from it."""
    slots = template.slots(step, plan.hints, H200)
    yield {slot.name: slot.default for slot in slots}
    yield from spread(slots, lambda s: template.legal(step, s, plan.hints, H200), Random(5), others)


def planned(name: str) -> tuple[ForwardPlan, MatmulProgram]:
    """The plan of a problem with one convolution, and that step."""
    namespace: dict[str, Any] = {"__name__": name}
    exec(select(name)[0].path.read_text(), namespace)  # noqa: S102 - a problem file of this project
    model = namespace["Model"](*namespace["get_init_inputs"]()).eval()
    plan = forward_plan(lower(model, namespace["get_inputs"]()))
    (step,) = special(plan)
    assert isinstance(step, MatmulProgram)
    return plan, step
