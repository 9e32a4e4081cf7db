"""A dry run's ranking: what a candidate would take, from compiled resources and the bytes that its launches touch.

No clock is behind any of it. A launch costs its tensors' bytes at copy bandwidth, slowed where too few warps are
resident to cover latency or too few blocks to fill the device, plus a fixed cost a launch. So does a call of PyTorch's,
which fills any device.
"""

from typing import TYPE_CHECKING

from ..state.device import DeviceSheet
from ..state.evaluation import Estimate
from ..state.wording import counted
from .occupancy import theoretical

if TYPE_CHECKING:
    from .compile_pool import Compiled

_LAUNCH_MS = 0.003
_FULL_BANDWIDTH_OCCUPANCY = 0.4
"""Share of resident warps from which streaming kernels reach copy bandwidth."""
_SPILL_PENALTY = 1.5
_REGISTERS_FOR_UNKNOWN = 32
_UNKNOWN = 1e-9
"""Share of the speed of light of what could not be traced whole: behind everything that was, yet better than nothing.

Whose fault that is stays open: a candidate can end or deceive its compile worker.
"""


def estimate(compiled: "Compiled", bounds: dict[str, float], device: DeviceSheet) -> Estimate:
    """Estimated time of one call, and what share of it the speed of light would take."""
    sol_ms = max(bounds["sol_ms"], 1e-6)
    launches, library = compiled.launches, compiled.library
    if not launches or compiled.report.warnings:
        why = "not every launch could be traced" if launches else "no launch could be traced"
        return Estimate(ms=sol_ms / _UNKNOWN, sol_fraction=_UNKNOWN, basis=f"{why}: ranked last")
    total = sum(_LAUNCH_MS + call.tensor_bytes / device.copy_bytes_per_s * 1e3 for call in library)
    for launch in launches:
        moved_ms = launch.tensor_bytes / device.copy_bytes_per_s * 1e3
        registers = launch.registers or _REGISTERS_FOR_UNKNOWN
        occupancy = theoretical(registers, launch.shared_bytes, max(1, launch.num_warps), device).fraction
        fill = min(1.0, launch.blocks * launch.num_warps / (device.sm_count * 8))
        speed = min(1.0, occupancy / _FULL_BANDWIDTH_OCCUPANCY) * max(fill, 0.01)
        total += _LAUNCH_MS + moved_ms / max(speed, 0.01) * (_SPILL_PENALTY if launch.spill_bytes else 1.0)
    total = max(total, sol_ms)
    left = f" and {counted(len(library), 'call')} of PyTorch" if library else ""
    basis = f"{counted(len(launches), 'launch', 'launches')}{left}, speed of light {sol_ms:.4f} ms"
    return Estimate(ms=total, sol_fraction=sol_ms / total, basis=basis)
