"""What a person reads of a compiled kernel."""

import pytest

from warpsmith.graph.kernel_lines import kernel_lines
from warpsmith.graph.verdict import verdict_lines
from warpsmith.state.evaluation import Check, CompileReport, Evaluation, KernelResources, Status
from warpsmith.state.sass import SassFacts


def line(**fields: object) -> str:
    kernel = KernelResources.model_validate({"name": "k", **fields})
    (found,) = kernel_lines(CompileReport(ok=True, seconds=0.0, kernels=(kernel,)))
    return found


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "k: registers unknown"),
        ({"registers": 31, "theoretical_occupancy": 1.0, "limiter": "warps"}, "k: 31 registers, 100% of the warps fit"),
        (
            {"registers": 255, "spill_bytes": 64, "theoretical_occupancy": 0.125, "limiter": "registers"},
            "k: 255 registers, 64 bytes a thread in local memory, 12% of the warps fit, limited by registers",
        ),
        (
            {"registers": 9, "shared_bytes": 1536, "sass": SassFacts(global_load_bits={32: 1, 128: 2})},
            "k: 9 registers, 1.5 KiB of shared memory a block, loads of 128 bits",
        ),
        (
            {"registers": 168, "sass": SassFacts(bulk_copies=4, tensor={"HGMMA": 8})},
            "k: 168 registers, loads of whole tiles, tensor cores by HGMMA",
        ),
    ],
)
def test_a_kernel_in_one_line(fields: dict[str, object], shown: str) -> None:
    assert line(**fields) == shown


def test_of_many_kernels_the_first_are_shown_and_the_rest_counted() -> None:
    kernels = tuple(KernelResources(name=f"k{number}") for number in range(11))
    found = list(kernel_lines(CompileReport(ok=True, seconds=0.0, kernels=kernels)))
    assert (len(found), found[-1]) == (9, "3 more kernels")
    assert list(kernel_lines(None)) == []


def test_a_verdict_tells_where_an_output_is_wrong_and_of_each_kernel() -> None:
    check = Check(workload="odd", draw="normal", passed=False, worst="at [3]: 1 instead of 2", place="tail")
    report = CompileReport(ok=True, seconds=0.0, kernels=(KernelResources(name="k", registers=9),))
    evaluation = Evaluation(
        candidate="c",
        problem="p",
        status=Status.INCORRECT_NUMERICAL,
        tier="quick",
        message="wrong",
        checks=(check, check.model_copy(update={"hidden": True, "worst": ""})),
        compile=report,
    )
    lines = list(verdict_lines(evaluation))
    assert "  wrong on odd, normal, only at the end of a dimension (tail): at [3]: 1 instead of 2" in lines
    assert "  wrong on a hidden workload, only at the end of a dimension (tail): error beyond its bound" in lines
    assert "  kernel k: 9 registers" in lines
