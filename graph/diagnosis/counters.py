"""NVIDIA's names of the counters that rules read. In a profile percentages are fractions in [0, 1]."""

DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
"""The busiest unit of the SMs."""
CLOCK_HZ = "gpc__cycles_elapsed.avg.per_second"

ACHIEVED_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
THEORETICAL_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
OCCUPANCY_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "blocks": "launch__occupancy_limit_blocks",
    "warps": "launch__occupancy_limit_warps",
}
GRID = "launch__grid_size"
WAVES = "launch__waves_per_multiprocessor"

SECTORS_PER_REQUEST = {
    "loads": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "stores": "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
}
SECTORS = {
    "loads": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "stores": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
}
L1_HIT_RATE = "l1tex__t_sector_hit_rate.pct"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"

INSTRUCTIONS = "smsp__inst_executed.sum"
LOCAL = ("smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum")
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
"""Above 0 the tensor cores worked; may be unknown to a version. Not the count of instructions: on an H200 it counts one
a warp for kernels that multiply no matrix at all."""
PIPES = {
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "multiply-add": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "transcendental": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "load and store": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
}
STALL_PREFIX, STALL_SUFFIX = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
NO_STALLS = ("selected", "not_selected")
"""States that are no waiting: the warp issues, or another one does."""
