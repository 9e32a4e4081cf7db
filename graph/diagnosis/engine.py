"""Asks the rules in order. The first that speaks names the suspected bottleneck; what others see is kept behind it."""

from collections.abc import Callable

from ...state.bottleneck import Diagnosed, Finding
from ...state.device import DeviceSheet
from ...state.evaluation import Evaluation
from ...state.profile import Profile
from . import call_rules, memory_rules, unit_rules
from .evidence import Evidence, gather

Rule = Callable[[Evidence], Finding | None]
NEAR_SOL: tuple[Rule, ...] = (memory_rules.memory, unit_rules.compute, call_rules.speed_of_light)
"""Near the speed of light only the roof that it has reached is of interest."""
RULES: tuple[Rule, ...] = (
    # Whatever the kernels are like, this is where the time goes.
    call_rules.launch,
    call_rules.outside,
    # Faults that saturate a unit with useless work come before the unit that they saturate.
    unit_rules.tensor_cores_unused,
    memory_rules.bank_conflicts,
    memory_rules.uncoalesced,
    memory_rules.spills,
    call_rules.partial_wave,
    # Honest limits, then reasons for reaching none.
    memory_rules.memory,
    unit_rules.compute,
    memory_rules.cache,
    call_rules.tail,
    unit_rules.occupancy,
    memory_rules.scalar_loads,
    unit_rules.leaning,
    unit_rules.latency,
)


def diagnose(
    evaluation: Evaluation, profile: Profile | None, device: DeviceSheet, product_flops: float = 0.0
) -> Diagnosed:
    """All findings on a candidate that ran or was estimated; none for one that failed.

    `product_flops`: FLOPs of the problem's matrix products on the primary workload (`evidence.product_flops`).
    """
    if not evaluation.timings and evaluation.estimate is None:
        return Diagnosed(candidate=evaluation.candidate)
    kernels = gather(evaluation, profile, device, product_flops)
    fraction = kernels[0].call.sol_fraction
    measured = bool(evaluation.timings) and "launch_bound" not in evaluation.labels
    rules = NEAR_SOL if measured and call_rules.speed_of_light(kernels[0]) is not None else RULES
    findings = [finding for rule in rules for kernel in kernels if (finding := rule(kernel)) is not None]
    return Diagnosed(
        candidate=evaluation.candidate,
        findings=_one_a_class(findings),
        sol_fraction=fraction,
        estimated=not evaluation.timings,
        profiled=kernels[0].profiled,
    )


def bottleneck(evaluation: Evaluation, profile: Profile | None, device: DeviceSheet, product_flops: float = 0.0) -> str:
    """The suspected class and why, in one line that begins with the class; empty where the kernel failed."""
    return diagnose(evaluation, profile, device, product_flops).text


def _one_a_class(findings: list[Finding]) -> tuple[Finding, ...]:
    first = {finding.bottleneck: finding for finding in reversed(findings)}
    return tuple(dict.fromkeys(first[finding.bottleneck] for finding in findings))
