"""How many warps of a kernel fit on a multiprocessor, and what keeps more from fitting.

Sizes in which registers and shared memory are given out: CUDA C++ Programming Guide, technical specifications by
compute capability; Nsight Compute's occupancy calculator.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..state.device import DeviceSheet
from ..state.evaluation import KernelResources

if TYPE_CHECKING:
    from .compile_pool import Launch

Limiter = Literal["registers", "shared memory", "blocks", "warps"]
_REGISTERS_A_UNIT = 256
"""Registers are given to a warp in units of this many."""
_WARPS_A_UNIT = 4
"""One of the four partitions of a multiprocessor holds every fourth warp."""
_SHARED_UNIT_BYTES = 128
_SYSTEM_SHARED_BYTES = 1024
"""What the system takes of a block's shared memory."""
_MOST_BLOCKS = {"sm_86": 16, "sm_89": 24}
_MOST_BLOCKS_ELSEWHERE = 32


class Occupancy(NamedTuple):
    """Theoretical occupancy of a kernel."""

    fraction: float
    """Resident warps over the most that a multiprocessor holds; 0 where not one block fits."""
    limiter: Limiter
    """What fits the fewest blocks; of equals the one named last, so that only what could be relaxed is blamed."""


def theoretical(registers: int, shared_bytes: int, num_warps: int, device: DeviceSheet) -> Occupancy:
    """Occupancy of a kernel of `num_warps` warps a block with `registers` a thread and `shared_bytes` a block."""
    most_warps = device.max_threads_per_sm // 32
    fits: dict[Limiter, int] = {
        "registers": _by_registers(registers, num_warps, device),
        "shared memory": device.shared_bytes_per_sm // _rounded_up(max(0, shared_bytes) + _SYSTEM_SHARED_BYTES),
        "blocks": _MOST_BLOCKS.get(device.arch, _MOST_BLOCKS_ELSEWHERE),
        "warps": most_warps // num_warps,
    }
    blocks = min(fits.values())
    limiter = [name for name, count in fits.items() if count == blocks][-1]
    return Occupancy(min(1.0, blocks * num_warps / most_warps), limiter)


def _by_registers(registers: int, num_warps: int, device: DeviceSheet) -> int:
    a_warp = -(-max(registers, 1) * 32 // _REGISTERS_A_UNIT) * _REGISTERS_A_UNIT
    warps = device.registers_per_sm // a_warp // _WARPS_A_UNIT * _WARPS_A_UNIT
    return warps // num_warps


def _rounded_up(size_bytes: int) -> int:
    return -(-size_bytes // _SHARED_UNIT_BYTES) * _SHARED_UNIT_BYTES


def with_launches(
    kernels: Sequence[KernelResources], launches: Sequence["Launch"], device: DeviceSheet
) -> tuple[KernelResources, ...]:
    """Compiled kernels completed by how they were launched, and by the occupancy that follows from both."""
    largest: dict[str, Launch] = {}
    for launch in launches:
        if launch.kernel not in largest or launch.blocks > largest[launch.kernel].blocks:
            largest[launch.kernel] = launch
    return tuple(_completed(kernel, largest.get(kernel.name), device) for kernel in kernels)


def _completed(kernel: KernelResources, launch: "Launch | None", device: DeviceSheet) -> KernelResources:
    update: dict[str, object] = {}
    num_warps, shared_bytes = kernel.num_warps, kernel.shared_bytes
    if launch is not None:
        num_warps, shared_bytes = launch.num_warps, max(launch.shared_bytes, kernel.shared_bytes or 0)
        update = {"num_warps": num_warps, "shared_bytes": shared_bytes, "blocks": launch.blocks}
    if num_warps and num_warps > 0 and kernel.registers is not None:
        found = theoretical(kernel.registers, shared_bytes or 0, num_warps, device)
        update |= {"theoretical_occupancy": found.fraction, "limiter": found.limiter}
    return kernel.model_copy(update=update)
