"""Two bounds for a workload: one that voids claims, one that scores kernels.

`floor_ms` uses data-sheet rates and only what no correct program can avoid: reading every input element that matters
once (writes count beyond L2 only, since the last of them may still be in it when the clock stops), and the FLOPs of a
matrix product where no algebra removes it. float32 products may honestly run as three half-precision ones, so their
ceiling is a third of the bf16 rate. `sol_ms`, the speed of light, uses measured copy bandwidth and matrix rates.
"""

from ..state.base import Record
from ..state.device import DeviceSheet
from ..state.lowered import LoweredGraph
from .work import Work, floor_work

_PRODUCTS_FOR_FP32 = 3


class Bounds(Record):
    """Bounds of one workload on one device, and the work that they come from."""

    floor_ms: float
    sol_ms: float
    read_bytes: int = 0
    write_bytes: int = 0
    matmul_flops: dict[str, float] = {}


def bounds(graph: LoweredGraph, device: DeviceSheet) -> Bounds:
    """Bounds from a lowered reference; zeros where it could not be lowered."""
    if graph.unsupported:
        return Bounds(floor_ms=0.0, sol_ms=0.0)
    work = floor_work(graph)
    return Bounds(
        floor_ms=_floor_ms(work, device),
        sol_ms=_sol_ms(work, device),
        read_bytes=work.read_bytes,
        write_bytes=work.write_bytes,
        matmul_flops=dict(work.matmul_flops),
    )


def _floor_ms(work: Work, device: DeviceSheet) -> float:
    moved = work.read_bytes + max(0, work.write_bytes - device.l2_bytes)
    seconds = moved / device.peak_bytes_per_s
    if work.irreducible:
        for dtype, flops in work.matmul_flops.items():
            seconds = max(seconds, flops / _ceiling(dtype, device.peak_flops))
    return seconds * 1e3


def _sol_ms(work: Work, device: DeviceSheet) -> float:
    seconds = (work.read_bytes + work.write_bytes) / device.copy_bytes_per_s
    product_seconds = sum(flops / _ceiling(d, device.matmul_flops) for d, flops in work.matmul_flops.items())
    return max(seconds, product_seconds) * 1e3


def _ceiling(dtype: str, rates: dict[str, float]) -> float:
    """The fastest honest rate for operands of a dtype."""
    if dtype in ("bfloat16", "float16"):
        return rates["bf16"]
    if dtype == "float32":
        return max(rates["bf16"] / _PRODUCTS_FOR_FP32, rates.get("fp32", 0.0))
    return rates.get("fp64", rates["fp32"])
