"""Convolutions of each channel by itself in CUDA: emulated on the CPU, and compiled for sm_90."""

import pytest
import torch
from programs.convolution_run import errors, planned, settings
from programs.matmul_cuda import compiled
from programs.moving import moving
from programs.moving_run import special
from programs.references import CASES
from programs.sheets import H200
from torch import nn

from warpsmith.state.program import LoopProgram
from warpsmith.sub_agents.planner import forward_plan
from warpsmith.sub_agents.planner.forward import plan_apart
from warpsmith.sub_agents.templates.cuda_depthwise import CudaDepthwise
from warpsmith.sub_agents.templates.triton_matmul import TritonMatmul
from warpsmith.tools.worker.lowering import lower

TEMPLATE = CudaDepthwise()


@pytest.mark.parametrize(
    "name", ["by_channel_wide", "by_channel_large", "by_channel_twice_over", "convolved_behind", "convolved_and_cut"]
)
def test_every_geometry_is_right_in_emulation(name: str) -> None:
    """Strips that end below the last row, several tiles, strides, dilation, several results a channel."""
    found = list(errors(TEMPLATE, name, 3))
    assert len(found) == 4
    most = 1e-3 if name in ("by_channel_twice_over", "convolved_behind") else 1e-6
    assert not [each for each in found if not isinstance(each[1], float) or each[1] > most]


def test_offsets_of_64_bits_are_right_too() -> None:
    ((_, error),) = errors(TEMPLATE, "by_channel_large", 0, wide=True)
    assert isinstance(error, float)
    assert error < 1e-6


def test_settings_of_a_large_one_compile_without_spilling() -> None:
    plan, step = planned("depthwise_convolution")
    values = {value: (each.shape, each.dtype) for value, each in plan.values.items()}
    for setting in settings(TEMPLATE, plan, step, 4):
        assert TEMPLATE.legal(step, setting, plan.hints, H200)
        (found,) = compiled(TEMPLATE.render(step, setting, values), 1, {"WIDE": 0}).values()
        assert not found["spills"], setting


def test_a_strip_is_as_long_as_wastes_least() -> None:
    """Of 56 rows: four strips of 14, where three of 16 would leave 8 rows to a fourth."""
    plan, step = planned("depthwise_convolution")
    assert {slot.name: slot.default for slot in TEMPLATE.slots(step, plan.hints, H200)}["strip"] == 14


def test_weights_of_large_windows_are_counted_as_shared_memory() -> None:
    """A tile of 45504 bytes and 31 x 31 weights are more than a block gets without asking."""
    module = nn.Conv2d(2, 2, 31, padding=15, groups=2)
    plan = forward_plan(lower(module, [torch.randn(1, 2, 40, 128)]))
    (step,) = special(plan)
    setting = {"strip": 14, "most_rows": 32, "most_columns": 128, "warps": 8}
    assert not TEMPLATE.legal(step, setting, plan.hints, H200)
    assert TEMPLATE.legal(step, {**setting, "most_columns": 64}, plan.hints, H200)


def test_beside_the_library_they_are_loops() -> None:
    """In the plan itself a product; in the one apart a small window is written out, a larger one a reduced axis."""
    for name, reduced in (("by_channel", False), ("by_channel_large", True)):
        lowered = lower(*CASES[name]())
        plan = forward_plan(lowered)
        (step,) = special(plan)
        assert TEMPLATE.fits(step, {})
        apart = plan_apart(lowered, plan)
        assert apart is not None
        (loop,) = apart.steps
        assert isinstance(loop, LoopProgram)
        assert any(loop.reduced) == reduced
    assert not TEMPLATE.fits(special(moving("convolved")[0])[0], {})


def test_triton_multiplies_no_single_rows_of_taps() -> None:
    """A channel by itself with one result leaves 15 of 16 rows of a tensor core's tile to padding."""
    fits = {}
    for groups, results in ((3, 3), (3, 24), (1, 3)):
        plan = forward_plan(lower(nn.Conv2d(3, results, 7, padding=3, groups=groups), [torch.randn(2, 3, 21, 38)]))
        fits[groups, results] = TritonMatmul().fits(special(plan)[0], plan.hints)
    assert fits == {(3, 3): False, (3, 24): True, (1, 3): True}


def test_triton_offers_no_tf32_where_pytorch_takes_none() -> None:
    choices = {}
    for name in ("by_channel_large", "convolved"):
        plan, _ = moving(name)
        slots = TritonMatmul().slots(special(plan)[0], plan.hints, H200)
        choices[name] = next(slot.choices for slot in slots if slot.name == "precision")
    assert "tf32" in choices["convolved"]
    assert "tf32" not in choices["by_channel_large"]
