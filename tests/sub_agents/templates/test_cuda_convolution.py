"""Convolutions on warpgroup instructions: emulated on the CPU, and compiled for sm_90."""

from itertools import product

import pytest
from programs.convolution_run import errors, planned, settings
from programs.matmul_cuda import compiled
from programs.moving import moving
from programs.moving_run import special
from programs.sheets import H200

from warpsmith.sub_agents.templates.convolution_tile import convolution_tile
from warpsmith.sub_agents.templates.cuda_convolution import CudaConvolution

TEMPLATE = CudaConvolution()
NAMES = ("convolved_padded", "convolved_dilated", "convolved_1d", "convolved_permuted", "convolved_halves")
PADDED = ("convolved_to_its_end", "convolved_same", "convolved_and_cut_far", "convolved_and_cut_before")
PAIRED = ("convolved_around", "convolved_in_pairs", "convolved_in_even_pairs")
TILED = ("convolved_3d", "convolved_in_slices", "convolved_in_tiles", "convolved_at_points", "convolved_far")


@pytest.mark.parametrize(
    "name", [*NAMES, *PADDED, *PAIRED, *TILED, pytest.param("convolved_beside", marks=pytest.mark.slow)]
)
def test_every_geometry_is_right_in_emulation(name: str) -> None:
    """Rounding to TF32 costs half of 2^-10 a factor; windows over several tiles, planes and blocks of channels."""
    found = dict(enumerate(errors(TEMPLATE, name, 2 if name in TILED else 0)))
    wrong = [each for each in found.values() if not isinstance(each[1], float) or each[1] > 5e-4]
    assert not wrong


@pytest.mark.parametrize("name", ["convolved_in_slices", "convolved_in_pairs"])
def test_offsets_of_64_bits_are_right_too(name: str) -> None:
    ((_, error),) = errors(TEMPLATE, name, 0, wide=True)
    assert isinstance(error, float)
    assert error < 5e-4


def test_what_has_several_groups_is_left_to_others() -> None:
    plan, _ = moving("convolved_groups")
    assert not any(TEMPLATE.fits(step, plan.hints) for step in special(plan))


@pytest.mark.parametrize("name", ["residual_convolution", "strided_convolution"])
def test_settings_of_large_convolutions_compile_without_spilling_and_stay_asynchronous(name: str) -> None:
    """A compiler that has to wait after each instruction puts as many waits as products: there are three a loop."""
    plan, step = planned(name)
    values = {value: (each.shape, each.dtype) for value, each in plan.values.items()}
    for setting in list(settings(TEMPLATE, plan, step, 3)):
        assert TEMPLATE.legal(step, setting, plan.hints, H200)
        found = compiled(TEMPLATE.render(step, setting, values), 4, {"WIDE": 0, "PAIRED": 1}, waits=True)
        main = found[f"{step.name}_kernel"]
        assert main["wgmma"] == int(setting["words"]) // 2
        assert main["waits"] <= 3
        assert not any(each["spills"] > 16 for each in found.values()), (setting, found)
    assert compiled(TEMPLATE.render(step, setting, values), 1, {"WIDE": 1, "PAIRED": 0})


def test_tiles_cover_all_places_within_the_bounds() -> None:
    for height, width, (reach_0, reach_1) in product((1, 7, 56, 300), (1, 9, 56, 57, 301), ((0, 0), (2, 2), (0, 80))):
        for tile_n in (64, 256):
            rows, columns, places, shared, blocks = convolution_tile(
                height, width, tile_n, reach_0, reach_1, 132, 8192, 231424
            )
            assert (rows - 1) * (columns + reach_1) + columns <= tile_n
            assert places >= tile_n + reach_0 * (columns + reach_1) + reach_1
            assert shared <= 231424
            assert blocks * rows * columns >= height * width
            assert columns == width or columns % 4 == 0
