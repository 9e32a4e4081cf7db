"""Rules on arithmetic units and on warps that wait."""

from ...state.bottleneck import Finding
from . import counters
from .evidence import Evidence

_SATURATED = 0.8
_LEANING = 0.6
_LOW_OCCUPANCY = 0.25
_BUSY_TENSOR = 0.4
"""Products on tensor cores are made for a few warps: they are not blamed for having few from here on."""
_PRODUCTS_MATTER = 0.5
"""Of the speed of light, what the products would take on the ordinary cores at the data sheet's rate."""
_WAITS_FOR = {
    "long_scoreboard": "data from global or local memory",
    "short_scoreboard": "shared memory or transcendental functions",
    "mio_throttle": "the queue of shared memory and transcendental functions",
    "lg_throttle": "the queue of global and local memory",
    "tex_throttle": "the queue of texture memory",
    "barrier": "other warps of the block at a barrier",
    "membar": "a memory barrier",
    "wait": "the fixed latency of the instruction before",
    "math_pipe_throttle": "an arithmetic unit",
    "gmma": "the tensor cores",
    "no_instruction": "instructions to be fetched",
    "imc_miss": "constants",
    "branch_resolving": "branches",
    "sleeping": "its own sleep",
}


def compute(evidence: Evidence) -> Finding | None:
    """An arithmetic unit or the instruction rate is busy nearly all the time."""
    busy = evidence.arithmetic
    if busy < _SATURATED or busy < evidence.share(counters.DRAM):
        return None
    pipes = {name: evidence.share(metric) for name, metric in counters.PIPES.items()}
    busiest = max(pipes, key=lambda name: pipes[name])
    unit = f", the {busiest} unit {pipes[busiest]:.0%}" if pipes[busiest] else ""
    return Finding(
        bottleneck="compute",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} keeps the SMs {busy:.0%} busy{unit}",
        hint="less or cheaper arithmetic helps",
        source="Nsight Compute, GPU Speed Of Light and Compute Workload Analysis",
    )


def tensor_cores_unused(evidence: Evidence) -> Finding | None:
    """Matrix products that would take a good part of the least time run on the ordinary cores."""
    call = evidence.call
    rate = call.device.peak_flops.get("fp32", 0.0)
    if call.uses_tensor_cores is not False or not call.product_flops or not call.sol_ms or not rate:
        return None
    if 1e3 * call.product_flops / rate < _PRODUCTS_MATTER * call.sol_ms:
        return None  # A matrix-vector product waits for memory whatever multiplies.
    return Finding(
        bottleneck="tensor_cores_unused",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} multiplies matrices without a tensor core instruction",
        hint="tensor cores multiply ten times faster where the precision policy admits their operands",
        source="NVIDIA Deep Learning Performance, Matrix Multiplication Background: tensor core requirements",
    )


def occupancy(evidence: Evidence) -> Finding | None:
    """Few warps fit on a multiprocessor and nothing is saturated: latencies show."""
    fits, limiter = evidence.theoretical_occupancy, evidence.limiter
    if fits is None or fits > _LOW_OCCUPANCY or limiter not in ("registers", "shared memory", "blocks"):
        return None
    if evidence.profiled and evidence.busiest_unit >= (_BUSY_TENSOR if evidence.call.uses_tensor_cores else _LEANING):
        return None
    sass = evidence.resources.sass if evidence.resources else None
    if not evidence.profiled and sass is not None and (sass.tensor or sass.bulk_copies):
        return None  # Products on tensor cores run well with few warps.
    return Finding(
        bottleneck="occupancy",
        kernel=evidence.kernel,
        evidence=f"{limiter} {'let' if limiter != 'shared memory' else 'lets'} {fits:.0%} of the warps of "
        f"{evidence.kernel} fit on a multiprocessor",
        hint=f"less of {'it' if limiter == 'shared memory' else 'them'} a block, or more independent work a thread, "
        "hides latency",
        source="CUDA C++ Best Practices Guide, Occupancy; Nsight Compute, Occupancy",
    )


def leaning(evidence: Evidence) -> Finding | None:
    """Memory or arithmetic is busy more than half the time without being saturated: the busier one is named."""
    dram, busy = evidence.share(counters.DRAM), evidence.arithmetic
    if max(dram, busy) < _LEANING:
        return None
    return Finding(
        bottleneck="memory" if dram >= busy else "compute",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} keeps DRAM {dram:.0%} and the SMs {busy:.0%} busy",
        hint="less of what is busier, or more work under way at once",
        source="Nsight Compute, GPU Speed Of Light: between 60% and 80% of a peak",
    )


def latency(evidence: Evidence) -> Finding | None:
    """Nothing is saturated: warps wait, and the counters say for what."""
    if not evidence.profiled or evidence.busiest_unit >= _SATURATED:
        return None
    reason = next(iter(evidence.stalls), "")
    waits = f", warps wait mostly for {_WAITS_FOR.get(reason, reason.replace('_', ' '))}" if reason else ""
    achieved = evidence.metric(counters.ACHIEVED_OCCUPANCY)
    warps = f" with {achieved:.0%} of the warps active" if achieved is not None else ""
    return Finding(
        bottleneck="latency",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} saturates neither memory ({evidence.share(counters.DRAM):.0%}) nor compute "
        f"({evidence.share(counters.SM):.0%}){warps}{waits}",
        hint="more independent work under way hides waiting",
        source="Nsight Compute, Kernel Profiling Guide: warp stall reasons",
    )
