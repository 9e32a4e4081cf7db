"""Rules on how a call's time is spent: launches, other people's kernels, waves of blocks, the speed of light."""

import math

from ...state.bottleneck import Finding
from ...state.wording import counted
from . import counters
from .evidence import Evidence

_SHORT_KERNEL_MS = 0.005
"""About what a launch costs the host: kernels shorter than that cannot be queued as fast as they run."""
_MANY_LAUNCHES = 4
_OUTSIDE_SHARE = 0.5
_NEAR_SOL = 0.9
_FILLED_SHARE = 0.85
_TAIL_LOSS = 0.2
_FEW_WAVES = 8
"""With more waves than this, blocks of a wave have long drifted apart, and the last one is a small part."""
_SATURATED = 0.8


def launch(evidence: Evidence) -> Finding | None:
    """Launching takes longer than running: the host was seen to fall behind, or kernels are shorter than a launch."""
    call = evidence.call
    mean_ms = call.median_ms / call.launches if call.median_ms and call.launches else None
    if call.launches >= _MANY_LAUNCHES and mean_ms is not None and mean_ms < 2 * _SHORT_KERNEL_MS:
        seen = f"{call.launches} kernels a call, {1e3 * mean_ms:.3g} us each with the gaps between them"
    elif "launch_bound" in call.labels:
        seen = "the host needs longer to launch the call than the GPU to run it"
    elif call.median_ms is not None and call.median_ms < _SHORT_KERNEL_MS:
        seen = f"the whole call takes {1e3 * call.median_ms:.3g} us"
    else:
        return None
    return Finding(
        bottleneck="launch",
        evidence=seen,
        hint="fewer and larger kernels pay",
        source="CUDA C++ Programming Guide, CUDA Graphs: launch overhead dominates short kernels",
    )


def outside(evidence: Evidence) -> Finding | None:
    """Most of the time goes to kernels that are not the candidate's own."""
    own = evidence.call.custom_share
    if own is None or own >= _OUTSIDE_SHARE:
        return None
    return Finding(
        bottleneck="outside",
        evidence=f"{1 - own:.0%} of GPU time is spent in other libraries' kernels",
        hint="what they do may be fused or replaced",
        source="Amdahl's law: what takes no time cannot save any",
    )


def speed_of_light(evidence: Evidence) -> Finding | None:
    """Nothing is left to gain by the roofline, and no counters say which roof it is."""
    fraction = evidence.call.sol_fraction
    if fraction is None or fraction < _NEAR_SOL:
        return None
    return Finding(
        bottleneck="speed_of_light",
        evidence=f"{fraction:.0%} of what bandwidth and matrix rates allow",
        hint="only doing less would be faster",
        source="Williams, Waterman, Patterson: Roofline (2009)",
    )


def partial_wave(evidence: Evidence) -> Finding | None:
    """Fewer blocks than multiprocessors: some of them have nothing to do."""
    blocks, sms = evidence.blocks, evidence.call.device.sm_count
    if blocks is None or blocks < 1 or blocks > _FILLED_SHARE * sms or evidence.share(counters.DRAM) >= _SATURATED:
        return None
    return Finding(
        bottleneck="partial_wave",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} has {counted(blocks, 'block')} for {sms} multiprocessors",
        hint="work that is split further fills the GPU",
        source="CUDA C++ Best Practices Guide, Thread and Block Heuristics: more blocks than multiprocessors",
    )


def tail(evidence: Evidence) -> Finding | None:
    """The last wave of blocks leaves most of the GPU idle while it lasts as long as a full one."""
    waves = evidence.waves
    if waves is None or not 1 < waves <= _FEW_WAVES:
        return None
    loss = 1 - waves / math.ceil(waves)
    if loss < _TAIL_LOSS:
        return None
    return Finding(
        bottleneck="tail",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} runs {waves:.4g} waves of blocks, so {loss:.0%} of the last one's room is empty",
        hint="other block counts, or blocks that take the next piece of work, even it out",
        source="Nsight Compute, Launch Statistics: tail effect of partial waves",
    )
