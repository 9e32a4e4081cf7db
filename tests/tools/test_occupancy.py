"""Theoretical occupancy against values worked out by hand for an H200 (64 warps, 65536 registers, 228 KiB an SM)."""

import pytest

from warpsmith.state.evaluation import KernelResources
from warpsmith.tools.compile_pool import Launch
from warpsmith.tools.device_sheets import target_sheet
from warpsmith.tools.occupancy import theoretical, with_launches

H200 = target_sheet("sm_90", {})


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "num_warps", "fraction", "limiter"),
    [
        (32, 0, 8, 1.0, "warps"),
        (64, 0, 4, 0.5, "registers"),
        (255, 0, 8, 0.125, "registers"),
        (168, 0, 4, 0.1875, "registers"),  # 12 warps by register file: 3 blocks of 4
        (32, 100 << 10, 4, 0.125, "shared memory"),  # 101 KiB twice
        (32, 227 << 10, 8, 0.125, "shared memory"),
        (16, 0, 1, 0.5, "blocks"),  # 32 blocks of one warp
        (16, 0, 32, 1.0, "warps"),
        (255, 0, 32, 0.0, "registers"),  # not even one block
    ],
)
def test_occupancy_and_what_limits_it(
    registers: int, shared_bytes: int, num_warps: int, fraction: float, limiter: str
) -> None:
    found = theoretical(registers, shared_bytes, num_warps, H200)
    assert (found.fraction, found.limiter) == (fraction, limiter)


def test_a_launch_completes_what_the_code_leaves_open() -> None:
    kernel = KernelResources(name="k", registers=32, shared_bytes=1024, spill_bytes=0)
    launches = [
        Launch(kernel="k", blocks=blocks, num_warps=4, registers=32, shared_bytes=101 << 10) for blocks in (10, 70, 3)
    ]
    (completed,) = with_launches([kernel], launches, H200)
    assert (completed.blocks, completed.num_warps, completed.shared_bytes) == (70, 4, 101 << 10)
    assert (completed.theoretical_occupancy, completed.limiter) == (0.125, "shared memory")


def test_a_kernel_never_launched_has_the_occupancy_of_its_own_warps_or_none() -> None:
    triton = KernelResources(name="t", registers=64, shared_bytes=0, num_warps=4)
    cuda = KernelResources(name="c", registers=64, shared_bytes=0)
    found = with_launches([triton, cuda], [], H200)
    assert [kernel.theoretical_occupancy for kernel in found] == [0.5, None]
    assert [kernel.blocks for kernel in found] == [None, None]


def test_what_a_worker_claims_never_breaks_the_sum() -> None:
    silly = KernelResources(name="k", registers=-5, shared_bytes=-(1 << 40), num_warps=10**12)
    launch = Launch(kernel="k", blocks=-1, num_warps=-3, shared_bytes=-(1 << 50))
    assert with_launches([silly], [], H200)[0].theoretical_occupancy == 0.0
    assert with_launches([silly], [launch], H200)[0].theoretical_occupancy is None
