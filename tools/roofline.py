"""Two bounds for a workload: one that voids claims, one that scores kernels.

`floor_ms` uses data-sheet rates and only what no correct program can avoid: reading every input element that matters
once (writes count beyond L2 only, since the last of them may still be in it when the clock stops), and the FLOPs of a
matrix product where no algebra removes it. float32 products may honestly run as three half-precision ones, so their
ceiling is a third of the bf16 rate. `sol_ms`, the speed of light, uses measured copy bandwidth and matrix rates.
"""

from typing import Any

from ..state.base import Record
from ..state.device import DeviceSheet
from ..state.lowered import LoweredGraph, Node
from ..state.sizes import product, value
from .work import FREE, MATMULS, Work, floor_work

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
        floor_ms=_floor_ms(work, device, plain_product(graph)),
        sol_ms=_sol_ms(work, device),
        read_bytes=work.read_bytes,
        write_bytes=work.write_bytes,
        matmul_flops=dict(work.matmul_flops),
    )


def plain_product(graph: LoweredGraph) -> bool:
    """Whether the FLOPs are there to stay: one product of stored tensors, every element of which is delivered."""
    nodes = {node.name: node for node in graph.nodes}
    products = [n for n in graph.nodes if _operator(n.op) in MATMULS]
    if len(products) != 1 or products[0].output is None:
        return False
    hints = graph.hints

    def elements(node: Node) -> int:
        return value(product(node.output.shape), hints) if node.output is not None else 0

    def stored(name: str) -> bool:
        node = nodes[name]
        if _operator(node.op) in FREE and node.args and isinstance(node.args[0], dict):
            return stored(node.args[0]["ref"])
        return node.op in ("input", "parameter", "buffer")

    operands = [a["ref"] for a in products[0].args if isinstance(a, dict) and "ref" in a]
    delivered = _references(graph.outputs)
    least = elements(products[0])
    return all(stored(name) for name in operands) and all(elements(nodes[name]) >= least for name in delivered)


def _operator(op: str) -> str:
    return op.split(".")[1] if op.startswith("aten.") else ""


def _references(outputs: Any) -> list[str]:
    if isinstance(outputs, dict):
        return [outputs["ref"]] if "ref" in outputs else [n for v in outputs.values() for n in _references(v)]
    return [n for v in outputs for n in _references(v)] if isinstance(outputs, list | tuple) else []


def _floor_ms(work: Work, device: DeviceSheet, irreducible: bool) -> float:
    moved = work.read_bytes + max(0, work.write_bytes - device.l2_bytes)
    seconds = moved / device.peak_bytes_per_s
    if irreducible:
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
