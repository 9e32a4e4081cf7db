"""What probably limits a kernel, from static facts, timings and counters. A hint to writers, never a verdict.

Counters by Nsight Compute's names, as fractions in [0, 1] (`state.profile`).
"""

from ..state.device import DeviceSheet
from ..state.evaluation import Evaluation
from ..state.profile import KernelProfile, Profile

MEMORY = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
BUSY = 0.8
"""Share of a peak rate from which the unit counts as saturated."""
LOW_OCCUPANCY = 0.25


def bottleneck(evaluation: Evaluation, profile: Profile | None, device: DeviceSheet) -> str:
    """The suspected class and why, in one line; empty where nothing stands out or the kernel failed."""
    if not evaluation.timings and evaluation.estimate is None:
        return ""
    found = _from_timing(evaluation)
    if not found and profile is not None and profile.kernels:
        found = _from_counters(max(profile.kernels, key=lambda kernel: kernel.share))
    return found or _from_resources(evaluation, device)


def _from_timing(evaluation: Evaluation) -> str:
    timing = evaluation.primary
    if timing is not None and timing.sol_fraction >= 0.9:
        return f"near the speed of light: {timing.sol_fraction:.0%} of it"
    if "launch_bound" in evaluation.labels:
        return "launch: the kernel is shorter than its launch; fewer launches help"
    if evaluation.custom_share is not None and evaluation.custom_share < 0.5:
        return f"outside: {1 - evaluation.custom_share:.0%} of GPU time is spent in PyTorch's kernels"
    return ""


def _from_counters(kernel: KernelProfile) -> str:
    memory, compute = kernel.metrics.get(MEMORY, 0.0), kernel.metrics.get(COMPUTE, 0.0)
    occupancy = kernel.metrics.get(OCCUPANCY, 1.0)
    if memory >= BUSY and memory >= compute:
        return f"memory bandwidth: {kernel.name} keeps DRAM {memory:.0%} busy; move fewer bytes"
    if compute >= BUSY:
        return f"compute: {kernel.name} keeps the SMs {compute:.0%} busy; do less or cheaper arithmetic"
    if occupancy < LOW_OCCUPANCY:
        return f"latency: {kernel.name} has only {occupancy:.0%} of the warps active; smaller tiles or fewer registers"
    return f"latency: {kernel.name} saturates neither memory ({memory:.0%}) nor compute ({compute:.0%})"


def _from_resources(evaluation: Evaluation, device: DeviceSheet) -> str:
    for kernel in evaluation.compile.kernels if evaluation.compile else ():
        if kernel.spill_bytes:
            return f"registers: {kernel.name} spills {kernel.spill_bytes} bytes a thread; smaller tiles or more warps"
        if kernel.shared_bytes and kernel.shared_bytes > device.shared_bytes_per_sm // 2:
            return f"shared memory: {kernel.name} takes {kernel.shared_bytes} bytes, so one block a multiprocessor"
    return ""
