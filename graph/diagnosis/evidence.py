"""What rules may look at: one kernel of a candidate, with its counters where it was profiled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...state.device import DeviceSheet
from ...state.evaluation import Evaluation, KernelResources
from ...state.plan import Plan
from ...state.profile import KernelProfile, Profile
from ...state.program import MatmulProgram
from ...tools.kernel_names import base_name
from . import counters

_MAJOR_SHARE = 0.3
"""Kernels with less of a call's time are not looked at: nothing that is done for them shows."""
_MOST_KERNELS = 16
_TENSOR_SHARE = 0.01
_MULTIPLYING = 64
"""Multiply-adds in the code of a kernel that may be a matrix product: elementwise ones have fewer."""


@dataclass(frozen=True)
class Call:
    """What is known of a candidate's call as a whole."""

    device: DeviceSheet
    sol_fraction: float | None = None
    sol_ms: float | None = None
    median_ms: float | None = None
    labels: tuple[str, ...] = ()
    custom_share: float | None = None
    launches: int = 0
    """Kernels of one call; 0 where nobody counted them."""
    product_flops: float = 0.0
    """Two for each multiply-add of the matrix products of the problem, on its primary workload."""
    uses_tensor_cores: bool | None = None
    """Whether any kernel of the call does; None where nothing tells."""


@dataclass(frozen=True)
class Evidence:
    """One kernel. Rules ask for numbers by name and get None for what is not known."""

    call: Call
    kernel: str = ""
    duration_ms: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    resources: KernelResources | None = None

    @property
    def profiled(self) -> bool:
        return bool(self.metrics)

    def metric(self, name: str) -> float | None:
        return self.metrics.get(name)

    def share(self, name: str) -> float:
        """A counter that is a fraction of some peak; 0 where it is not known."""
        return self.metrics.get(name, 0.0)

    @property
    def arithmetic(self) -> float:
        """How busy the SMs are: their busiest unit, or the tensor cores, which versions count apart."""
        return max(self.share(counters.SM), self.share(counters.PIPES["tensor"]))

    @property
    def busiest_unit(self) -> float:
        """The largest share of a peak among DRAM, caches and SMs."""
        return max(self.arithmetic, *(self.share(name) for name in (counters.DRAM, counters.L2, counters.L1)))

    @property
    def theoretical_occupancy(self) -> float | None:
        known = self.metric(counters.THEORETICAL_OCCUPANCY)
        return known if known is not None or self.resources is None else self.resources.theoretical_occupancy

    @property
    def limiter(self) -> str:
        """What keeps more warps from a multiprocessor; of equals the last, since the others are not to blame alone."""
        limits = {
            name: self.metrics[metric] for name, metric in counters.OCCUPANCY_LIMITS.items() if metric in self.metrics
        }
        if limits:
            return [name for name, blocks in limits.items() if blocks == min(limits.values())][-1]
        return self.resources.limiter if self.resources else ""

    @property
    def waves(self) -> float | None:
        """Blocks over those that fit on the GPU at once. Worked out where it can be: the tool rounds to hundredths."""
        limits = [self.metrics[metric] for metric in counters.OCCUPANCY_LIMITS.values() if metric in self.metrics]
        grid = self.metric(counters.GRID)
        if grid is None or len(limits) < len(counters.OCCUPANCY_LIMITS) or min(limits) < 1:
            return self.metric(counters.WAVES)
        return grid / (min(limits) * self.call.device.sm_count)

    @property
    def blocks(self) -> int | None:
        grid = self.metric(counters.GRID)
        return int(grid) if grid is not None else self.resources.blocks if self.resources else None

    @property
    def widest_load_bits(self) -> int | None:
        return self.resources.sass.widest_load_bits if self.resources and self.resources.sass else None

    @property
    def stalls(self) -> dict[str, float]:
        """Warps that wait for a reason, per instruction issued; the most common reason first."""
        found = {
            name.removeprefix(counters.STALL_PREFIX).removesuffix(counters.STALL_SUFFIX): stalled
            for name, stalled in self.metrics.items()
            if name.startswith(counters.STALL_PREFIX)
        }
        waiting = {reason: stalled for reason, stalled in found.items() if reason not in counters.NO_STALLS}
        return dict(sorted(waiting.items(), key=lambda pair: -pair[1]))


def gather(
    evaluation: Evaluation, profile: Profile | None, device: DeviceSheet, product_flops: float = 0.0
) -> list[Evidence]:
    """Evidence on each kernel that matters, the one with the most time first; at least one, if only on the call."""
    timing, estimate = evaluation.primary, evaluation.estimate
    kernels = profile.kernels if profile else ()
    compiled = evaluation.compile.kernels[:_MOST_KERNELS] if evaluation.compile else ()
    call = Call(
        device=device,
        sol_fraction=timing.sol_fraction if timing else min(1.0, estimate.sol_fraction) if estimate else None,
        sol_ms=timing.sol_ms if timing else estimate.ms * estimate.sol_fraction if estimate else None,
        median_ms=timing.candidate.median_ms if timing else None,
        labels=evaluation.labels,
        custom_share=evaluation.custom_share,
        launches=len(kernels),
        product_flops=product_flops,
        uses_tensor_cores=_uses_tensor_cores(kernels, compiled),
    )
    if kernels:
        return [
            Evidence(
                call, base_name(kernel.name), kernel.duration_ms, kernel.metrics, _resources_of(kernel.name, compiled)
            )
            for kernel in _major_kernels(kernels)
        ]
    return [Evidence(call, kernel.name, resources=kernel) for kernel in compiled] or [Evidence(call)]


def product_flops(plan: Plan | None) -> float:
    """FLOPs of the matrix products that the plan's kernels compute, at the primary workload's sizes."""
    forward = plan.forward if plan else None
    if forward is None:
        return 0.0
    return sum(step.flops(forward.hints) for step in forward.steps if isinstance(step, MatmulProgram))


def _uses_tensor_cores(kernels: Sequence[KernelProfile], compiled: Sequence[KernelResources]) -> bool | None:
    """By what was executed; without counters by the code, where some of it multiplies at all."""
    busy = [kernel.metrics[counters.TENSOR] for kernel in kernels if counters.TENSOR in kernel.metrics]
    code = [kernel.sass for kernel in compiled if kernel.sass is not None]
    if any(share >= _TENSOR_SHARE for share in busy) or any(sass.tensor for sass in code):
        return True
    return False if busy or any(sass.fma >= _MULTIPLYING for sass in code) else None


def _major_kernels(kernels: Sequence[KernelProfile]) -> Iterator[KernelProfile]:
    """One launch for each name that takes a good part of the call, all its launches together: the longest one."""
    by_name: dict[str, list[KernelProfile]] = {}
    for kernel in kernels:
        by_name.setdefault(kernel.name, []).append(kernel)
    groups = sorted(by_name.values(), key=lambda group: -sum(kernel.share for kernel in group))
    for number, group in enumerate(groups):
        if number == 0 or sum(kernel.share for kernel in group) >= _MAJOR_SHARE:
            yield max(group, key=lambda kernel: kernel.duration_ms)


def _resources_of(name: str, compiled: Sequence[KernelResources]) -> KernelResources | None:
    short = base_name(name)
    found = [kernel for kernel in compiled if base_name(kernel.name) == short]
    return found[0] if found else compiled[0] if len(compiled) == 1 else None
