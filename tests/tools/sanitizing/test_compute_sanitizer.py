"""Reading what compute-sanitizer saves. `recorded_memcheck.xml` is one record of version 2025.3.1 on an H200."""

from pathlib import Path

import pytest

from warpsmith.state.evidence import SanitizerResult
from warpsmith.tools.sanitizing import compute_sanitizer

RECORDED = (Path(__file__).parent / "recorded_memcheck.xml").read_text()
CLEAN = '<?xml version="1.0" encoding="utf-8"?>\n<ComputeSanitizerOutput/>\n'
OWN = {"mine"}


def report(*records: tuple[str, str]) -> str:
    """A file in the recorded form, of records (level, kernel)."""
    written = (
        f"<record><kind>K</kind><level>{level}</level><what><text>told</text></what>"
        f"<where><func>{kernel}</func></where></record>"
        for level, kernel in records
    )
    return f"<ComputeSanitizerOutput>{''.join(written)}</ComputeSanitizerOutput>"


def test_the_first_hazard_is_told_with_kernel_kind_and_size() -> None:
    found = compute_sanitizer.verdict("memcheck", RECORDED, OWN, "small")
    assert found.hazard is not None
    assert found.hazard.kernel == "oob"
    assert found.hazard.kind == "Invalid __global__ read of size 4 bytes is out of bounds"
    assert found.hazard.size_bytes == 4
    assert compute_sanitizer.in_words([found]) == (
        "memcheck on small: Invalid __global__ read of size 4 bytes is out of bounds in oob"
    )


def test_a_file_that_ends_in_the_middle_still_tells_what_came_before() -> None:
    cut = RECORDED[: RECORDED.index("</ComputeSanitizerOutput>")] + "  <record>\n    <kind>Pre"
    assert [finding.hazard.kernel for finding in compute_sanitizer.read(cut)] == ["oob"]
    assert not compute_sanitizer.is_whole(cut)
    assert compute_sanitizer.is_whole(CLEAN)
    assert compute_sanitizer.is_whole(RECORDED)


def test_no_record_is_clean() -> None:
    found = compute_sanitizer.verdict("racecheck", CLEAN, OWN, "small")
    assert (found.outcome, found.set_aside) == ("clean", 0)


@pytest.mark.parametrize("level", ["Warning", "Info", "WARNING"])
def test_a_warning_accuses_nobody(level: str) -> None:
    found = compute_sanitizer.verdict("racecheck", report((level, "mine")), OWN, "small")
    assert (found.outcome, found.set_aside) == ("clean", 1)


@pytest.mark.parametrize(
    ("tool", "kernel", "outcome"),
    [
        ("initcheck", "mine", "hazard"),
        ("initcheck", "put_together_at_run_time", "hazard"),
        ("initcheck", "void at::native::reduce_kernel&lt;512&gt;(R)", "clean"),
        ("racecheck", "void cutlass::Kernel2&lt;G&gt;(P)", "clean"),
        ("racecheck", "mine", "hazard"),
        ("synccheck", "nvjet_tst_128", "clean"),
        ("memcheck", "void at::native::index_kernel&lt;4&gt;(I)", "hazard"),
    ],
)
def test_libraries_are_accused_by_memcheck_alone(tool, kernel, outcome) -> None:
    found = compute_sanitizer.verdict(tool, report(("Error", kernel)), OWN, "small")
    assert found.outcome == outcome


def test_the_first_error_of_its_own_is_told_where_libraries_come_first() -> None:
    mixed = report(("Error", "void at::native::fill(int)"), ("Warning", "mine"), ("Error", "mine"))
    found = compute_sanitizer.verdict("initcheck", mixed, OWN, "small")
    assert found.hazard is not None
    assert (found.hazard.kernel, found.set_aside) == ("mine", 2)


def test_a_record_that_is_no_xml_does_not_hide_the_next() -> None:
    broken = "<ComputeSanitizerOutput><record><level>Error</level><where><func>a<b</func></where></record>"
    assert [f.hazard.kernel for f in compute_sanitizer.read(broken + report(("Error", "mine")))] == ["mine"]


def test_only_memcheck_takes_the_option_on_errors_of_the_api() -> None:
    assert "--report-api-errors" in compute_sanitizer.arguments("memcheck", "log")
    assert "--report-api-errors" not in compute_sanitizer.arguments("racecheck", "log")


def test_a_result_without_its_reason_or_its_hazard_does_not_construct() -> None:
    with pytest.raises(ValueError, match="reason"):
        SanitizerResult(tool="memcheck", outcome="not run")
    with pytest.raises(ValueError, match="hazard"):
        SanitizerResult(tool="memcheck", outcome="hazard")
