"""Two bounds for a workload: one that voids claims, one that scores kernels.

`floor_ms` uses data-sheet rates and only what no correct program can avoid: reading every input element that matters
whatever the data, once (writes count beyond L2 only, since the last of them may still be in it when the clock stops),
and the FLOPs of a matrix product where no algebra removes it. float32 products may honestly run as three half-precision
ones, so their ceiling is a third of the bf16 rate. `sol_ms`, the speed of light, uses measured copy bandwidth and
matrix rates.
"""

from collections.abc import Mapping

from ..state.base import Record
from ..state.device import DeviceSheet
from ..state.lowered import LoweredGraph, Node, references
from ..state.sizes import product, value
from .needed import SPLITS, VIEWS, maker, needed_elements
from .work import ATTENTION, CONVOLUTIONS, MATMULS, Work, floor_work

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
    """Whether the FLOPs are there to stay: one product of different stored tensors, every element of it delivered."""
    nodes = {node.name: node for node in graph.nodes}
    products = [n for n in graph.nodes if n.operator in (*MATMULS, *CONVOLUTIONS, ATTENTION)]
    if len(products) != 1 or products[0].operator not in MATMULS or products[0].output is None:
        return False
    if products[0].operator == "einsum" and not _sums_products(products[0].args[0]):
        return False
    operands = [_stored(graph, nodes, name) for name in references(products[0].args)]
    tensors = {maker(nodes, name).name for name in references(products[0].args)}
    # Parts of one tensor are different elements only where they are parts of one split.
    if "" in (name for name, _ in operands) or len(set(operands)) < len(operands):
        return False
    if len(tensors) < len({name for name, _ in operands}):
        return False
    least = _elements(graph, products[0])
    whole = needed_elements(graph, graph.hints)[products[0].name] == least
    return whole and all(_elements(graph, nodes[name]) >= least for name in references(graph.outputs))


def _stored(graph: LoweredGraph, nodes: Mapping[str, Node], name: str) -> tuple[str, int]:
    """The stored tensor whose elements these are, each once at most, or a split of one and the part's number.

    No name where they are computed or repeated.
    """
    node = nodes[name]
    if node.is_memory:
        return ("" if 0 in (node.strides or ()) else name), -1
    viewed = nodes[references(node.args)[0]] if references(node.args) else node
    if node.operator == "getitem" and viewed.operator in SPLITS:
        return viewed.name if _stored(graph, nodes, references(viewed.args)[0])[0] else "", node.args[1]
    if node.operator not in VIEWS | {"clone"} or _elements(graph, node) > _elements(graph, viewed):
        return "", -1
    return _stored(graph, nodes, viewed.name)


def _elements(graph: LoweredGraph, node: Node) -> int:
    return value(product(node.output.shape), graph.hints) if node.output is not None else 0


def _sums_products(equation: str) -> bool:
    """Whether an einsum is a product of two matrices or batches of them: what it sums over is in both operands."""
    sources, _, result = equation.replace(" ", "").partition("->")
    operands = sources.split(",")
    if len(operands) != 2 or any(len(set(labels)) < len(labels) for labels in operands):
        return False
    return all(label in result or all(label in labels for labels in operands) for label in {*sources} - {","})


def _floor_ms(work: Work, device: DeviceSheet, irreducible: bool) -> float:
    moved = work.must_read_bytes + max(0, work.must_write_bytes - device.l2_bytes)
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
