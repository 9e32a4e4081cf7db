"""Verdicts as a judge gives them, for tests of what comes after."""

from warpsmith.state.evaluation import Check, Evaluation, Status
from warpsmith.state.timing import Sample, Timing


def passed(candidate: str = "c", ms: float = 0.001) -> Evaluation:
    """A kernel that passed at the record tier in so many ms."""
    sample = Sample(median_ms=ms, std_ms=0.0, low_ms=ms, high_ms=ms, count=50)
    timing = Timing(
        workload="default",
        candidate=sample,
        baseline=sample,
        baseline_name="eager",
        speedup=1.0,
        verdict="tie",
        stable=True,
        floor_ms=0.0,
        sol_ms=0.0,
    )
    check = Check(workload="default", draw="problem", passed=True)
    return Evaluation(
        candidate=candidate,
        problem="p",
        status=Status.PASSED,
        tier="record",
        checks=(check,),
        timings=(timing,),
    )
