"""What evidence from outside changes about a verdict, and what it does not."""

import pytest
from scripted.verdicts import passed

from warpsmith.state.errors import InfraError
from warpsmith.state.evaluation import Status
from warpsmith.state.evidence import Evidence, Hazard, KernelUse, ProfilerTiming, Reproduction, SanitizerResult
from warpsmith.tools.evidence import Witnesses, settled, traced, wanted
from warpsmith.tools.outside import CannotRun

OWN = KernelUse(name="mine", kind="own", launches=1, ms=0.3, share=0.75)
LIBRARY = KernelUse(name="void at::native::fill(int)", kind="pytorch", launches=2, ms=0.1, share=0.25)


def profiler(judge_ms: float, agrees: bool) -> ProfilerTiming:
    return ProfilerTiming(
        workload="default",
        profiler_ms=0.1,
        busiest_stream_ms=0.1,
        judge_ms=judge_ms,
        bound_ms=0.012,
        agrees=agrees,
    )


def test_evidence_that_fits_changes_no_verdict() -> None:
    clean = SanitizerResult(tool="memcheck", outcome="clean", workload="small")
    same = Reproduction(workload="default", runs=2, bitwise=True, within_tolerance=True)
    evidence = Evidence(sanitizers=(clean,), reproduction=same, profiler=profiler(0.1, agrees=True), kernels=(OWN,))
    found = settled(passed(), evidence)
    assert (found.status, found.labels, found.evidence) == (Status.PASSED, (), evidence)


def test_a_time_that_its_kernels_do_not_fit_in_is_unverified_and_shown() -> None:
    found = settled(passed(ms=0.05), Evidence(profiler=profiler(0.05, agrees=False)))
    assert found.status is Status.UNVERIFIED
    assert found.message == "timed as 0.0500 ms on default, but its kernels alone take 0.1000 ms by the profiler"
    assert found.timings


def test_a_hazard_weighs_more_than_anything_else() -> None:
    hazard = SanitizerResult(
        tool="racecheck", outcome="hazard", workload="small", hazard=Hazard(kernel="mine", kind="Race reported")
    )
    differs = Reproduction(workload="default", runs=2, bitwise=False, within_tolerance=False, reason="differs")
    evidence = Evidence(sanitizers=(hazard,), reproduction=differs, profiler=profiler(0.05, agrees=False))
    found = settled(passed(), evidence)
    assert (found.status, found.message) == (Status.UNSAFE, "racecheck on small: Race reported in mine")
    assert found.timings == ()


def test_what_could_not_be_asked_is_a_label() -> None:
    missing = SanitizerResult(tool="memcheck", outcome="not run", reason="no compute-sanitizer")
    found = settled(passed(), Evidence(sanitizers=(missing,), profiler_reason="no permission"))
    assert found.status is Status.PASSED
    assert found.labels == ("no_profiler_evidence", "not_sanitized")


@pytest.mark.parametrize(
    ("kernels", "labelled", "share"),
    [
        ((OWN, LIBRARY), False, 0.75),
        ((LIBRARY,), True, 0.0),
        ((KernelUse(name="unheard_of", kind="other", launches=1, ms=1.0, share=1.0),), False, 0.0),
    ],
)
def test_a_kernel_that_leaves_everything_to_libraries_is_called_so(kernels, labelled, share) -> None:
    found = settled(passed(), Evidence(kernels=kernels, profiler=profiler(0.1, agrees=True)))
    assert ("torch_only" in found.labels) is labelled
    assert found.custom_share == share
    assert found.kernels == {kernel.name: kernel.ms for kernel in kernels}


def test_libraries_are_counted_by_launches() -> None:
    assert Evidence(kernels=(OWN, LIBRARY)).libraries == {"pytorch": 2}


def test_a_trace_from_inside_is_told_apart_too() -> None:
    found = passed().model_copy(update={"kernels": {"void at::native::fill(int)": 0.1, "mine": 0.3}})
    assert [(kernel.name, kernel.kind, kernel.share) for kernel in traced(found, {"mine"})] == [
        ("mine", "own", pytest.approx(0.75)),
        ("void at::native::fill(int)", "pytorch", pytest.approx(0.25)),
    ]


def test_only_kernels_that_passed_are_looked_at_and_only_at_the_tiers_asked_for() -> None:
    assert wanted(passed(), ("full", "record"))
    assert not wanted(passed(), ("full",))
    failed = settled(passed(ms=0.05), Evidence(profiler=profiler(0.05, agrees=False)))
    assert not wanted(failed, ("full", "record"))


@pytest.mark.parametrize("lost", [CannotRun("the program was lost"), InfraError("no box")])
def test_losing_the_counters_costs_no_other_evidence(lost) -> None:
    class Lost:
        def profile(self, *_):
            raise lost

    witnesses = object.__new__(Witnesses)
    witnesses._profiler, witnesses._profiles = Lost(), {}
    witnesses._counters(object(), set())
    assert witnesses._profiles == {}
