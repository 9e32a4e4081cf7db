"""Reading what Nsight Compute prints. `recorded_raw_page.csv` is of version 2025.3.1 on an H200, less some columns."""

from pathlib import Path

import pytest

from warpsmith.tools.profiling import ncu
from warpsmith.tools.profiling.metrics import BASIC_METRICS, CLOCK, DURATION, METRICS, TIMING_METRICS

RECORDED = (Path(__file__).parent / "recorded_raw_page.csv").read_text()


def test_every_kernel_of_a_recorded_page_is_read_in_order() -> None:
    names = [kernel.name for kernel in ncu.read(RECORDED)]
    assert [name.split("<")[0] for name in names] == [
        "void at::vectorized_elementwise_kernel",
        "addk",
        "void at::vectorized_elementwise_kernel",
    ]


def test_values_are_in_base_units_and_percentages_are_fractions() -> None:
    addk = ncu.read(RECORDED)[1]
    assert addk.values[DURATION] == pytest.approx(13_344e-9)
    assert addk.values["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == pytest.approx(0.2627)
    assert addk.values["sm__maximum_warps_per_active_cycle_pct"] == 1.0
    assert addk.values["launch__grid_size"] == 16384
    assert addk.values["launch__waves_per_multiprocessor"] == 15.52
    assert (addk.stream, addk.grid) == ("7", "(16384, 1, 1)")


def test_a_metric_that_the_page_does_not_have_is_absent() -> None:
    assert "lts__t_sector_hit_rate.pct" not in ncu.read(RECORDED)[1].values


@pytest.mark.parametrize("written", ["n/a", "", "nan", "(!) error"])
def test_a_value_that_is_no_number_is_absent(written: str) -> None:
    page = f'"ID","Kernel Name","{DURATION}"\n"","","ns"\n"0","k","{written}"\n'
    assert ncu.read(page)[0].values == {}


@pytest.mark.parametrize(
    ("unit", "seconds"), [("ns", 12e-9), ("nsecond", 12e-9), ("us", 12e-6), ("msecond", 12e-3), ("s", 12.0)]
)
def test_times_are_read_in_every_unit_that_versions_print(unit: str, seconds: float) -> None:
    page = f'"ID","Kernel Name","{DURATION}"\n"","","{unit}"\n"0","k","12.0"\n'
    assert ncu.read(page)[0].values[DURATION] == pytest.approx(seconds)


@pytest.mark.parametrize("log", ["", "==ERROR== no\n", '"ID"\n', '"ID","Kernel Name"\n"",""\n'])
def test_a_log_without_kernels_gives_none(log: str) -> None:
    assert ncu.read(log) == []


def test_lines_that_look_like_rows_before_the_header_are_none() -> None:
    assert len(ncu.read('"0","2308","fake"\n' + RECORDED)) == 3


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            "no permission",
        ),
        ("==WARNING== No kernels were profiled.", "nothing captured"),
        (
            "==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool is active",
            "the driver gives no counters",
        ),
        ("==ERROR== Something new", "Something new"),
        ("", "nothing said"),
    ],
)
def test_a_failure_has_a_reason(log: str, reason: str) -> None:
    assert ncu.failure(log, "nothing said") == reason


def test_metrics_that_a_version_does_not_know_are_named() -> None:
    log = "==ERROR== Failed to find metric sm__made_up.sum\n==ERROR== Failed to find metric lts__other.avg.pct\n"
    assert ncu.unknown_metrics(log) == {"sm__made_up.sum", "lts__other.avg.pct"}


def test_the_clocks_are_left_alone_and_only_the_calls_are_captured() -> None:
    options = ncu.arguments(METRICS, "log", flush_each_kernel=True)
    said = dict(zip(options[::2], options[1::2], strict=False)) | dict(zip(options[1::2], options[2::2], strict=False))
    assert said["--clock-control"] == "none"
    assert said["--profile-from-start"] == "off"
    asked = options[-1].split(",")
    assert DURATION in asked
    assert not any(name.startswith("launch__") for name in asked)


def test_the_table_names_each_metric_once_and_keeps_its_subsets() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert {metric.name for metric in TIMING_METRICS} == {DURATION, CLOCK}
    assert DURATION in {metric.name for metric in BASIC_METRICS}
    assert all(metric.percent == ("pct" in metric.name) for metric in METRICS)
