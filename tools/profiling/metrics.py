"""What is asked of Nsight Compute, in one table: every name, what it says, and how its value becomes a record's.

Names are NVIDIA's (Nsight Compute documentation, "Metrics Reference" and "Metrics Decoder"). They differ a little
between versions and GPUs: one that the tool does not know, or has no value for, is absent from a profile and is never
made up. Percentages become fractions in [0, 1].
"""

from typing import NamedTuple

DURATION = "gpu__time_duration.sum"
CLOCK = "gpc__cycles_elapsed.avg.per_second"
STALLS = (
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "gmma",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
    "warpgroup_arrive",
)


class Metric(NamedTuple):
    """One counter."""

    name: str
    about: str
    percent: bool = False
    """The tool gives 0 to 100."""
    asked: bool = True
    """False for facts of the launch, which come with every profile."""


def stall_metric(reason: str) -> str:
    """Average warps stalled for a reason, per issued instruction."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


METRICS: tuple[Metric, ...] = (
    Metric(DURATION, "GPU time of the kernel, ns in the tool, kept in ms as `duration_ms`"),
    Metric(CLOCK, "SM clock while it ran, Hz"),
    Metric("dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM bandwidth against its peak", percent=True),
    Metric(
        "sm__throughput.avg.pct_of_peak_sustained_elapsed", "busiest unit of the SMs against its peak", percent=True
    ),
    Metric("lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2 against its peak", percent=True),
    Metric("l1tex__throughput.avg.pct_of_peak_sustained_active", "L1 against its peak", percent=True),
    Metric("dram__bytes_read.sum", "bytes read from DRAM"),
    Metric("dram__bytes_write.sum", "bytes written to DRAM"),
    Metric("sm__warps_active.avg.pct_of_peak_sustained_active", "achieved occupancy", percent=True),
    Metric("sm__maximum_warps_per_active_cycle_pct", "theoretical occupancy", percent=True, asked=False),
    Metric("launch__occupancy_limit_registers", "blocks an SM by registers", asked=False),
    Metric("launch__occupancy_limit_shared_mem", "blocks an SM by shared memory", asked=False),
    Metric("launch__occupancy_limit_blocks", "blocks an SM by the hardware", asked=False),
    Metric("launch__occupancy_limit_warps", "blocks an SM by warps", asked=False),
    Metric("launch__registers_per_thread", "registers a thread", asked=False),
    Metric("launch__shared_mem_per_block", "shared memory a block, bytes", asked=False),
    Metric("launch__grid_size", "blocks of the launch", asked=False),
    Metric("launch__block_size", "threads a block", asked=False),
    Metric("launch__thread_count", "threads of the launch", asked=False),
    Metric("launch__waves_per_multiprocessor", "waves of blocks: its fraction is the tail", asked=False),
    Metric("launch__sm_count", "multiprocessors", asked=False),
    Metric("smsp__inst_executed_op_local_ld.sum", "local memory loads, warp instructions: spills or arrays"),
    Metric("smsp__inst_executed_op_local_st.sum", "local memory stores, warp instructions"),
    Metric("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "shared memory bank conflicts"),
    Metric("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "wavefronts of shared memory: what conflicts add to"),
    Metric("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", "sectors a global load touches"),
    Metric("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio", "sectors a global store touches"),
    Metric("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "global loads, warp requests"),
    Metric("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", "global stores, warp requests"),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sectors of global loads"),
    Metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "sectors of global stores"),
    Metric("l1tex__t_sector_hit_rate.pct", "L1 hit rate", percent=True),
    Metric("lts__t_sector_hit_rate.pct", "L2 hit rate", percent=True),
    Metric("smsp__inst_executed.sum", "instructions, by warps"),
    Metric("smsp__issue_active.avg.pct_of_peak_sustained_active", "cycles in which a scheduler issues", percent=True),
    Metric("smsp__warps_eligible.avg.per_cycle_active", "warps ready to issue, a scheduler"),
    Metric("sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "tensor pipe", percent=True),
    Metric("sm__inst_executed_pipe_tensor.sum", "tensor instructions, by warps"),
    Metric("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor pipe busy", percent=True),
    Metric("sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "multiply-add pipe", percent=True),
    Metric("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active", "load and store pipe", percent=True),
    Metric("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", "transcendental pipe", percent=True),
    *(Metric(stall_metric(reason), f"warps stalled: {reason.replace('_', ' ')}") for reason in STALLS),
)
TIMING_METRICS: tuple[Metric, ...] = tuple(m for m in METRICS if m.name in (DURATION, CLOCK))
"""One pass, so no replay: what a call took, kernel by kernel, in its own order and with its own caches."""
BASIC_METRICS: tuple[Metric, ...] = tuple(
    m for m in METRICS if m.name.startswith(("gpu__time", "dram__throughput", "sm__throughput")) or not m.asked
)
"""What every version since 2019 knows: asked where the whole table is refused without a word on which name."""
