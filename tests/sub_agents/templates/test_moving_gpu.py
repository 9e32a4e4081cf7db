"""What reads at computed places, adds up or attends, on a GPU: defaults of all templates against brute force."""

from pathlib import Path
from typing import Any, Literal

import pytest
from cuda_emulation.holding import H200
from programs.attention import ATTENTION
from programs.interpreter import run_step
from programs.moving import MOVING, moving
from programs.moving_run import special
from programs.references import CASES
from programs.triton_loop_run import difference, load

from warpsmith.state.lowered import bound
from warpsmith.state.program import LoopProgram, MatmulProgram
from warpsmith.sub_agents.templates.registry import templates

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("language", ["triton", "cuda"])
@pytest.mark.parametrize("name", [*MOVING, *ATTENTION])
def test_defaults_are_right(name: str, language: Literal["triton", "cuda"], tmp_path: Path) -> None:
    import torch

    plan, inputs = moving(name)
    module, _ = CASES[name]()
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    tensors: dict[str, Any] = dict(zip(plan.inputs, inputs, strict=True))
    tensors |= {value: own[qualified].detach() for value, qualified in plan.parameters.items()}
    symbols = bound(plan.symbols, lambda number, dim: inputs[number].shape[dim])
    values = {value: (record.shape, record.dtype) for value, record in plan.values.items()}
    for step in plan.steps:
        before = dict(tensors)
        tensors |= run_step(step, tensors, symbols, plan)
        if not isinstance(step, LoopProgram) and step not in special(plan):
            continue
        assert isinstance(step, LoopProgram | MatmulProgram)
        # Convolutions are tried in plain TF32 first, as PyTorch computes them.
        windows = isinstance(step, MatmulProgram) and step.b.windows is not None
        most = 2e-3 if windows or torch.float16 in {value.dtype for value in inputs} else 1e-5
        for template in (each for each in templates(language) if each.fits(step, plan.hints)):
            setting = {slot.name: slot.default for slot in template.slots(step, plan.hints, H200)}
            source = template.render(step, setting, values)
            arguments = [before[value].cuda() for value in source.reads]
            got = load(source, tmp_path)(*arguments, *(symbols[symbol] for symbol in source.symbols))
            torch.cuda.synchronize()
            made = got if isinstance(got, tuple) else (got,)
            for mine, store in zip(made, step.stores, strict=True):
                found = difference(mine.cpu(), tensors[store.value])
                assert isinstance(found, float), f"{template.name}: {found}"
                assert found < most, f"{template.name}: {found}"
