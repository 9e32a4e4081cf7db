"""What a person reads of the evidence: every question that was asked has its line, also where it was not answered."""

from warpsmith.graph.evidence_lines import evidence_lines
from warpsmith.state.evidence import Evidence, Hazard, KernelUse, ProfilerTiming, Reproduction, SanitizerResult


def test_everything_that_was_found_is_told() -> None:
    evidence = Evidence(
        sanitizers=(
            SanitizerResult(tool="memcheck", outcome="clean", workload="small"),
            SanitizerResult(tool="racecheck", outcome="hazard", hazard=Hazard(kernel="sums", kind="Race reported")),
            SanitizerResult(tool="initcheck", outcome="not run", reason="did not end within 90 s"),
        ),
        reproduction=Reproduction(workload="default", runs=2, bitwise=True, within_tolerance=True),
        profiler=ProfilerTiming(
            workload="default", profiler_ms=0.2, busiest_stream_ms=0.2, judge_ms=0.21, bound_ms=0.022, agrees=True
        ),
        kernels=(
            KernelUse(name="sums", kind="own", launches=1, ms=0.15, share=0.75),
            KernelUse(name="nvjet_tst", kind="cublas", launches=2, ms=0.05, share=0.25),
        ),
        kernels_from="profiler",
    )
    assert list(evidence_lines(evidence)) == [
        "  sanitizers: memcheck clean, racecheck found Race reported in sums, "
        "initcheck not run (did not end within 90 s)",
        "  fresh processes: 2 give the same bits on default",
        "  profiler: 0.2 ms in kernels agrees with 0.21 ms timed on default (bound 0.022 ms)",
        "  kernels of a call, by the profiler; not its own: 2 of cublas",
        "     75% 0.15 ms own: sums",
        "     25% 0.05 ms x2 cublas: nvjet_tst",
    ]


def test_what_could_not_be_asked_says_why() -> None:
    evidence = Evidence(
        reproduction=Reproduction(workload="default", runs=1, reason="one gave no answer"),
        profiler_reason="no permission",
    )
    assert list(evidence_lines(evidence)) == [
        "  fresh processes: not compared (one gave no answer)",
        "  profiler: not profiled (no permission)",
    ]
