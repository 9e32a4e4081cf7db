"""Rules on made-up counters: each class by what it shows in, and nothing where all is as it should be."""

from typing import Any

import pytest
from scripted.collaborators import GPU, timing

from warpsmith.graph.diagnosis import bottleneck, counters, diagnose, product_flops
from warpsmith.graph.diagnosis.engine import RULES
from warpsmith.state.device import DeviceSheet
from warpsmith.state.evaluation import Check, CompileReport, Estimate, Evaluation, KernelResources, Status
from warpsmith.state.plan import Plan
from warpsmith.state.profile import KernelProfile, Profile
from warpsmith.state.program import ForwardPlan, MatmulProgram, Operand, Symbol
from warpsmith.state.sass import SassFacts
from warpsmith.tools.profiling.metrics import METRICS, stall_metric

H200 = GPU.model_copy(update={"peak_flops": {"fp32": 66.9e12, "bf16": 989.5e12}})
LOADS, STORES = counters.SECTORS_PER_REQUEST["loads"], counters.SECTORS_PER_REQUEST["stores"]
IDLE: dict[str, float] = {
    counters.DRAM: 0.3,
    counters.SM: 0.2,
    counters.L1: 0.2,
    counters.L2: 0.2,
    counters.ACHIEVED_OCCUPANCY: 0.9,
    counters.THEORETICAL_OCCUPANCY: 1.0,
    counters.GRID: 5280.0,
    counters.WAVES: 40.0,
    counters.INSTRUCTIONS: 1e6,
    counters.LOCAL[0]: 0.0,
    counters.LOCAL[1]: 0.0,
    LOADS: 16.0,
    STORES: 16.0,
    stall_metric("long_scoreboard"): 8.0,
    stall_metric("wait"): 1.0,
    stall_metric("not_selected"): 20.0,
}
"""A kernel that saturates nothing and does nothing wrong."""
WIDE = SassFacts(instructions=100, global_load_bits={128: 2}, global_store_bits={128: 2})
NARROW = SassFacts(instructions=100, global_load_bits={16: 2}, global_store_bits={16: 2})


def evaluation(*kernels: KernelResources, speedup: float = 1.0, **fields: Any) -> Evaluation:
    """Passed with 0.25 ms at the speed of light against 1 / speedup ms."""
    given = {"timings": (timing("default", speedup),), "status": Status.PASSED, "tier": "quick", **fields}
    check = Check(workload="default", draw="normal", passed=True)
    report = CompileReport(ok=True, seconds=0.0, kernels=kernels or (resources(),))
    return Evaluation(candidate="k", problem="p", checks=(check,), compile=report, **given)


def resources(name: str = "main", sass: SassFacts | None = WIDE, **fields: Any) -> KernelResources:
    known = {"registers": 32, "spill_bytes": 0, "shared_bytes": 0, "num_warps": 4, "blocks": 5280}
    fits = {"theoretical_occupancy": 1.0, "limiter": "warps"}
    return KernelResources(name=name, sass=sass, **{**known, **fits, **fields})


def counted(duration_ms: float = 1.0, **metrics: float) -> Profile:
    kernel = KernelProfile(name="main", duration_ms=duration_ms, share=1.0, metrics={**IDLE, **metrics})
    return Profile(candidate="k", kernels=(kernel,))


def classes(found: Evaluation, profile: Profile | None, flops: float = 0.0, device: DeviceSheet = H200) -> list[str]:
    return [finding.bottleneck for finding in diagnose(found, profile, device, flops).findings]


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({}, "latency"),
        ({counters.DRAM: 0.92}, "memory"),
        ({counters.SM: 0.9, counters.PIPES["multiply-add"]: 0.88}, "compute"),
        ({counters.PIPES["tensor"]: 0.85}, "compute"),
        ({counters.DRAM: 0.85, counters.SM: 0.9}, "compute"),
        ({counters.L1: 0.95}, "cache"),
        ({counters.DRAM: 0.7}, "memory"),
        ({counters.SM: 0.7}, "compute"),
        ({LOADS: 32.0}, "uncoalesced"),
        ({STORES: 32.0, counters.DRAM: 0.9}, "uncoalesced"),
        ({counters.CONFLICTS: 9e6, counters.SHARED_WAVEFRONTS: 1e7}, "bank_conflicts"),
        ({counters.LOCAL[0]: 1e5, counters.LOCAL[1]: 1e5}, "spills"),
        ({counters.GRID: 66.0, counters.WAVES: 0.5}, "partial_wave"),
        ({counters.GRID: 133.0, counters.WAVES: 133 / 132}, "tail"),
        (
            {
                counters.THEORETICAL_OCCUPANCY: 0.125,
                counters.OCCUPANCY_LIMITS["registers"]: 2.0,
                counters.OCCUPANCY_LIMITS["warps"]: 16.0,
            },
            "occupancy",
        ),
    ],
)
def test_counters_name_the_class(metrics: dict[str, float], expected: str) -> None:
    assert classes(evaluation(), counted(**metrics))[0] == expected


@pytest.mark.parametrize(
    ("metrics", "absent"),
    [
        ({LOADS: 32.0, counters.L1_HIT_RATE: 0.6}, "uncoalesced"),  # 16 bytes a thread out of lines that L1 keeps
        ({LOADS: 32.0, counters.SECTORS["loads"]: 1e4}, "uncoalesced"),  # a handful of requests
        ({counters.CONFLICTS: 2e6, counters.SHARED_WAVEFRONTS: 1e7}, "bank_conflicts"),
        ({counters.CONFLICTS: 9e3, counters.SHARED_WAVEFRONTS: 1e4, counters.CLOCK_HZ: 1.8e9}, "bank_conflicts"),
        ({counters.LOCAL[0]: 1e4}, "spills"),
        ({counters.WAVES: 12.01}, "tail"),
        ({counters.WAVES: 1.95}, "tail"),
        ({counters.THEORETICAL_OCCUPANCY: 0.125, counters.PIPES["tensor"]: 0.7}, "occupancy"),
        ({counters.DRAM: 0.9, counters.GRID: 66.0}, "partial_wave"),
    ],
)
def test_what_does_no_harm_is_not_blamed(metrics: dict[str, float], absent: str) -> None:
    assert absent not in classes(evaluation(), counted(**metrics))


def test_one_block_too_many_is_a_tail_though_the_tool_rounds_its_waves_to_one() -> None:
    limits = dict.fromkeys(counters.OCCUPANCY_LIMITS.values(), 2.0)
    found = diagnose(evaluation(), counted(**limits, **{counters.GRID: 265.0, counters.WAVES: 1.0}), H200)
    assert found.text.startswith("tail: main runs 1.004 waves of blocks, so 50% of the last one's room is empty")
    exact = {**limits, counters.GRID: 264.0, counters.WAVES: 1.0}
    assert classes(evaluation(), counted(**exact)) == ["latency"]


def test_narrow_loads_of_a_kernel_that_computes_most_of_the_time_are_not_blamed() -> None:
    narrow = evaluation(resources(sass=NARROW))
    assert classes(narrow, counted(**{LOADS: 2.0, STORES: 2.0, counters.SM: 0.7})) == ["compute", "latency"]


def test_narrow_loads_are_blamed_where_warps_wait_for_memory_and_not_elsewhere() -> None:
    coalesced = {LOADS: 2.0, STORES: 2.0}
    narrow = evaluation(resources(sass=NARROW))
    assert classes(narrow, counted(**coalesced)) == ["scalar_loads", "latency"]
    assert classes(narrow, counted(**coalesced, **{stall_metric("barrier"): 30.0})) == ["latency"]
    assert classes(narrow, counted(**coalesced, **{counters.DRAM: 0.85})) == ["memory"]
    assert classes(evaluation(), counted()) == ["latency"]


def test_strided_words_are_uncoalesced_by_the_width_of_the_code() -> None:
    words = WIDE.model_copy(update={"global_load_bits": {32: 4}})
    assert classes(evaluation(resources(sass=words)), counted(**{LOADS: 16.0}))[0] == "uncoalesced"
    assert "uncoalesced" not in classes(evaluation(), counted(**{LOADS: 16.0}))


def test_products_without_tensor_cores_are_seen_with_and_without_counters() -> None:
    # 0.25 ms is the speed of light: 1e10 FLOPs take 0.15 ms on the ordinary cores.
    multiplying = evaluation(resources(sass=WIDE.model_copy(update={"fma": 512})))
    assert classes(multiplying, None, 1e10)[0] == "tensor_cores_unused"
    assert classes(multiplying, counted(**{counters.TENSOR: 0.0}), 1e10)[0] == "tensor_cores_unused"
    assert classes(multiplying, counted(**{counters.TENSOR: 0.3}), 1e10)[0] == "latency"
    assert classes(multiplying, None, 1e9) == []  # a matrix-vector product: memory is what takes the time
    assert classes(evaluation(), None, 1e10) == []


def test_a_kernel_beside_one_with_tensor_cores_is_not_blamed() -> None:
    split = resources("split", WIDE.model_copy(update={"fma": 300}))
    product = resources("product", WIDE.model_copy(update={"tensor": {"HGMMA": 4}}))
    assert classes(evaluation(split, product), None, 1e10) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"spill_bytes": 64, "registers": 255}, ["spills"]),
        ({"theoretical_occupancy": 0.0625, "limiter": "shared memory"}, ["occupancy"]),
        ({"theoretical_occupancy": 0.0625, "limiter": "warps"}, []),
        ({"blocks": 32}, ["partial_wave"]),
        ({"sass": NARROW}, ["scalar_loads"]),
        ({}, []),
    ],
)
def test_the_compile_alone_tells_something(fields: dict[str, Any], expected: list[str]) -> None:
    assert classes(evaluation(resources(**fields)), None) == expected


def test_few_warps_are_fine_on_tensor_cores() -> None:
    product = WIDE.model_copy(update={"tensor": {"HGMMA": 4}})
    low = resources(sass=product, theoretical_occupancy=0.125, limiter="shared memory")
    assert classes(evaluation(low), None) == []


def test_launches_and_other_libraries_come_before_what_kernels_are_like() -> None:
    strided = counted(**{LOADS: 32.0})
    assert classes(evaluation(labels=("launch_bound",)), strided)[:2] == ["launch", "uncoalesced"]
    assert classes(evaluation(custom_share=0.2), strided)[:2] == ["outside", "uncoalesced"]
    kernel = KernelProfile(name="main", duration_ms=0.002, share=1 / 200, metrics=IDLE)
    many = Profile(candidate="k", kernels=(kernel,) * 200)
    assert diagnose(evaluation(), many, H200).text.startswith("launch: 200 kernels a call, 5 us each")


def test_near_the_speed_of_light_only_the_roof_is_named() -> None:
    near = evaluation(speedup=3.9)
    assert classes(near, None) == ["speed_of_light"]
    assert classes(near, counted(**{counters.DRAM: 0.95, LOADS: 32.0})) == ["memory", "speed_of_light"]
    assert diagnose(near, None, H200).sol_fraction == pytest.approx(0.975)


def test_the_kernel_with_the_most_time_over_all_its_launches_is_looked_at() -> None:
    small = KernelProfile(name="often", duration_ms=0.2, share=0.2, metrics={**IDLE, counters.DRAM: 0.95})
    large = KernelProfile(name="once", duration_ms=0.4, share=0.4, metrics={**IDLE, counters.SM: 0.95})
    found = diagnose(evaluation(), Profile(candidate="k", kernels=(large, small, small, small)), H200)
    assert [(f.bottleneck, f.kernel) for f in found.findings] == [("memory", "often"), ("compute", "once")]


@pytest.mark.parametrize("before", ["", "(anonymous namespace)::", "mine::"])
def test_resources_are_found_by_the_name_that_a_profiler_prints(before: str) -> None:
    compiled = evaluation(resources("other", WIDE), resources("row_sum", NARROW))
    metrics = {**IDLE, LOADS: 2.0, STORES: 2.0}
    name = f"void {before}row_sum<float, 4>(const float *)"
    printed = KernelProfile(name=name, duration_ms=1.0, share=1.0, metrics=metrics)
    found = diagnose(compiled, Profile(candidate="k", kernels=(printed,)), H200)
    assert (found.findings[0].kernel, found.bottleneck) == ("row_sum", "scalar_loads")


def test_every_result_has_its_fraction_of_the_speed_of_light() -> None:
    assert diagnose(evaluation(speedup=2.0), None, H200).sol_fraction == 0.5
    dry = evaluation(
        status=Status.UNVERIFIED,
        message="untimed",
        timings=(),
        estimate=Estimate(ms=2.0, sol_fraction=0.25, basis="made up"),
    )
    found = diagnose(dry, None, H200)
    assert (found.sol_fraction, found.estimated, found.profiled) == (0.25, True, False)


def test_a_failed_candidate_has_no_bottleneck() -> None:
    failed = Evaluation(candidate="k", problem="p", status=Status.TIMEOUT, tier="quick", message="too long")
    assert bottleneck(failed, counted(), H200) == ""
    assert diagnose(failed, None, H200).bottleneck is None


def test_the_text_begins_with_the_class_and_names_kernel_and_number() -> None:
    text = bottleneck(evaluation(), counted(**{counters.DRAM: 0.92}), H200)
    assert text == "memory: main keeps DRAM 92% busy; only moving fewer bytes helps"
    stalled = bottleneck(evaluation(), counted(), H200)
    assert "saturates neither memory (30%) nor compute (20%) with 90% of the warps active" in stalled
    assert "warps wait mostly for data from global or local memory" in stalled


def test_hints_give_a_direction_and_every_rule_its_source() -> None:
    """A rule without a docstring or a finding without a source would be somebody's opinion."""
    assert all(rule.__doc__ for rule in RULES)
    found = diagnose(evaluation(), counted(**{LOADS: 32.0, counters.GRID: 66.0}), H200).findings
    assert len(found) == 3
    assert all(finding.source and finding.hint for finding in found)


def test_every_counter_that_rules_read_is_asked_of_the_profiler() -> None:
    read = [value for name, value in vars(counters).items() if name.isupper() and not name.startswith(("STALL", "NO_"))]
    names = {name for value in read for name in (value.values() if isinstance(value, dict) else [value])}
    flat = {name for entry in names for name in ([entry] if isinstance(entry, str) else entry)}
    assert flat <= {metric.name for metric in METRICS}
    assert stall_metric("wait") == f"{counters.STALL_PREFIX}wait{counters.STALL_SUFFIX}"


def test_products_of_a_plan_are_counted_at_the_primary_sizes() -> None:
    operand = Operand(value="a", dtype="bfloat16", strides=(64, 1))
    step = MatmulProgram(name="m", batch=(2,), m="s0", n=32, k=64, a=operand, b=operand, loads=(), body=(), stores=())
    forward = ForwardPlan(
        inputs=(), values={}, steps=(step,), returns=None, symbols=(Symbol(name="s0", hint=16, input=0, dim=0),)
    )
    assert product_flops(Plan(summary="", strategies=(), forward=forward)) == 2.0 * 2 * 16 * 32 * 64
    twice = forward.model_copy(update={"steps": (step.model_copy(update={"also": operand}),)})
    assert product_flops(Plan(summary="", strategies=(), forward=twice)) == 2 * 2.0 * 2 * 16 * 32 * 64
    assert product_flops(Plan(summary="", strategies=())) == 0.0
    assert product_flops(None) == 0.0
