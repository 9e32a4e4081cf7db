"""Rules on data on its way: DRAM, caches, access patterns, shared memory banks, spills."""

from ...state.bottleneck import Finding
from . import counters
from .evidence import Evidence

_SATURATED = 0.8
_LEANING = 0.6
_SECTOR_BYTES, _WARP = 32, 32
_EXCESS = 3.0
_EXCESS_UNCACHED = 1.9
_CACHED = 0.3
_SIGNIFICANT_TRAFFIC = 0.1
_CONFLICT_SHARE = 0.3
_SIGNIFICANT_WAVEFRONTS = 0.1
_LOCAL_SHARE = 0.05
_NARROW_BITS = 32
_ENOUGH_OCCUPANCY = 0.5
_SPEED_OF_LIGHT = "Nsight Compute, GPU Speed Of Light: above 80% of a peak a unit is the limit, below 60% latency is"


def memory(evidence: Evidence) -> Finding | None:
    """DRAM is busy nearly all the time."""
    dram = evidence.share(counters.DRAM)
    if dram < _SATURATED or dram < evidence.arithmetic:
        return None
    return Finding(
        bottleneck="memory",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} keeps DRAM {dram:.0%} busy",
        hint="only moving fewer bytes helps",
        source=_SPEED_OF_LIGHT,
    )


def cache(evidence: Evidence) -> Finding | None:
    """L1 or L2 is saturated while DRAM is not: the same data is read again and again."""
    l1, l2 = evidence.share(counters.L1), evidence.share(counters.L2)
    if max(l1, l2) < _SATURATED or evidence.share(counters.DRAM) >= _LEANING:
        return None
    return Finding(
        bottleneck="cache",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} keeps {'L1' if l1 >= l2 else 'L2'} {max(l1, l2):.0%} busy and DRAM "
        f"{evidence.share(counters.DRAM):.0%}",
        hint="more reuse in registers or shared memory takes load off it",
        source="Nsight Compute, Memory Workload Analysis",
    )


def uncoalesced(evidence: Evidence) -> Finding | None:
    """A warp's access touches several times the sectors that its bytes would fill."""
    for kind, name in counters.SECTORS_PER_REQUEST.items():
        touched = evidence.metric(name)
        ideal = _least_sectors(evidence, kind)
        if touched is None or touched <= 0 or not _significant(evidence, kind):
            continue
        cached = kind == "loads" and evidence.share(counters.L1_HIT_RATE) >= _CACHED
        if touched / ideal >= (_EXCESS if cached else _EXCESS_UNCACHED):
            return Finding(
                bottleneck="uncoalesced",
                kernel=evidence.kernel,
                evidence=f"global {kind} of {evidence.kernel} touch {touched:.1f} sectors a request where {ideal:.0f} "
                "would do",
                hint="neighbouring threads at neighbouring addresses need fewer",
                source="CUDA C++ Best Practices Guide, Coalesced Access to Global Memory",
            )
    return None


def _least_sectors(evidence: Evidence, kind: str) -> float:
    """Sectors of a warp that reads side by side, at the widest access that the code has; 32 bits where unknown."""
    sass = evidence.resources.sass if evidence.resources else None
    widths = (sass.global_load_bits if kind == "loads" else sass.global_store_bits) if sass else {}
    return max(1.0, max(widths, default=32) / 8 * _WARP / _SECTOR_BYTES)


def _significant(evidence: Evidence, kind: str) -> bool:
    """Whether these accesses move enough to matter: a bias that is read once a block does not."""
    sectors = evidence.metric(counters.SECTORS[kind])
    if sectors is None or evidence.duration_ms is None:
        return True
    seconds = evidence.duration_ms / 1e3
    return sectors * _SECTOR_BYTES >= _SIGNIFICANT_TRAFFIC * seconds * evidence.call.device.copy_bytes_per_s


def bank_conflicts(evidence: Evidence) -> Finding | None:
    """Shared memory serves a good part of its accesses again, because threads of a warp meet in a bank."""
    conflicts, wavefronts = evidence.metric(counters.CONFLICTS), evidence.metric(counters.SHARED_WAVEFRONTS)
    if not conflicts or not wavefronts or conflicts < _CONFLICT_SHARE * wavefronts:
        return None
    clock_hz = evidence.metric(counters.CLOCK_HZ)
    if clock_hz and evidence.duration_ms:
        cycles = clock_hz * evidence.duration_ms / 1e3 * evidence.call.device.sm_count
        if wavefronts < _SIGNIFICANT_WAVEFRONTS * cycles:
            return None
    return Finding(
        bottleneck="bank_conflicts",
        kernel=evidence.kernel,
        evidence=f"{min(1.0, conflicts / wavefronts):.0%} of the shared memory wavefronts of {evidence.kernel} are "
        "repeats for bank conflicts",
        hint="a padded or swizzled layout spreads a warp over the banks",
        source="CUDA C++ Best Practices Guide, Shared Memory and Memory Banks",
    )


def spills(evidence: Evidence) -> Finding | None:
    """Local memory is used: registers that did not fit, or arrays that are indexed at run time."""
    stack_bytes = evidence.resources.spill_bytes if evidence.resources else None
    executed = [evidence.metric(name) for name in counters.LOCAL]
    total = evidence.metric(counters.INSTRUCTIONS)
    if total and None not in executed:
        part = sum(count or 0.0 for count in executed) / total
        if part < _LOCAL_SHARE:
            return None
        seen = f"{part:.0%} of the instructions of {evidence.kernel} read or write local memory"
    elif stack_bytes:
        seen = f"{evidence.kernel} keeps {stack_bytes} bytes a thread in local memory"
    else:
        return None
    return Finding(
        bottleneck="spills",
        kernel=evidence.kernel,
        evidence=seen,
        hint="less held a thread (smaller tiles, more warps) fits in registers",
        source="CUDA C++ Best Practices Guide, Local Memory and Register Pressure",
    )


def scalar_loads(evidence: Evidence) -> Finding | None:
    """Threads read a word or less at a time, so that too few bytes are under way to keep DRAM busy."""
    bits = evidence.widest_load_bits
    tma = evidence.resources is not None and evidence.resources.sass is not None and evidence.resources.sass.bulk_copies
    if bits is None or bits > _NARROW_BITS or tma:
        return None
    if evidence.share(counters.DRAM) >= _SATURATED or evidence.arithmetic >= _LEANING:
        return None
    if evidence.profiled:
        waits_for_memory = next(iter(evidence.stalls), "long_scoreboard") in ("long_scoreboard", "lg_throttle")
        if evidence.share(counters.ACHIEVED_OCCUPANCY) < _ENOUGH_OCCUPANCY or not waits_for_memory:
            return None
    elif evidence.call.sol_fraction is None or evidence.call.sol_fraction >= _LEANING or bits == _NARROW_BITS:
        return None
    return Finding(
        bottleneck="scalar_loads",
        kernel=evidence.kernel,
        evidence=f"{evidence.kernel} reads at most {bits} bits a thread at once",
        hint="vector accesses of up to 128 bits keep more bytes under way",
        source="NVIDIA technical blog, Increase Performance with Vectorized Memory Access",
    )
