"""Sheets of GPUs that were probed and of targets that were not."""

from typing import Any

import pytest

from warpsmith.state.errors import InvalidInput
from warpsmith.tools.device_sheets import measured_sheet, target_sheet

PROBED: dict[str, Any] = {
    "name": "A card",
    "arch": "sm_90",
    "sm_count": 132,
    "l2_bytes": 60 << 20,
    "shared_bytes_per_block": 227 << 10,
    "shared_bytes_per_sm": 228 << 10,
    "memory_bytes": 141 << 30,
    "free_bytes": 100 << 30,
    "copy_bytes_per_s": 4.3e12,
    "peak_bytes_per_s": 4.9e12,
    "matmul_flops": {"bf16": 700e12, "fp32": 51e12},
    "processes": 1,
}


def test_a_target_is_marked_as_simulated_and_has_its_architectures_rates():
    sheet = target_sheet("sm_90", {"torch": "2"})
    assert sheet.simulated
    assert (sheet.arch, sheet.sm_count, sheet.peak_bytes_per_s) == ("sm_90", 132, 4.8e12)
    assert sheet.peak_flops["bf16"] == 989.5e12
    assert sheet.copy_bytes_per_s < sheet.peak_bytes_per_s
    assert sheet.matmul_flops["bf16"] < sheet.peak_flops["bf16"]


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_100"])
def test_every_listed_target_is_whole(arch):
    sheet = target_sheet(arch, {})
    assert {"bf16", "fp16", "tf32", "fp32", "fp64"} <= set(sheet.peak_flops)
    assert sheet.shared_bytes_per_block <= sheet.shared_bytes_per_sm


def test_an_unknown_target_is_one_line_with_the_choices():
    with pytest.raises(InvalidInput, match="--arch sm_12: unknown; one of sm_80, sm_89, sm_90, sm_100"):
        target_sheet("sm_12", {})


def test_a_probed_card_keeps_what_was_measured_and_takes_peaks_from_the_data_sheet():
    sheet = measured_sheet(PROBED, {"torch": "2"})
    assert not sheet.simulated
    assert sheet.name == "A card"
    assert sheet.matmul_flops == {"bf16": 700e12, "fp32": 51e12}
    assert sheet.peak_flops["bf16"] == 989.5e12
    assert sheet.peak_bytes_per_s == 4.9e12


def test_the_bandwidth_that_voids_is_never_below_what_a_copy_reached():
    assert measured_sheet({**PROBED, "peak_bytes_per_s": 0.0}, {}).peak_bytes_per_s == 4.8e12
    assert measured_sheet({**PROBED, "copy_bytes_per_s": 6e12}, {}).peak_bytes_per_s == 6e12


def test_an_unknown_architecture_voids_only_what_beats_twice_its_own_libraries():
    sheet = measured_sheet({**PROBED, "arch": "sm_77"}, {})
    assert sheet.peak_flops == {"bf16": 1400e12, "fp32": 102e12}
