"""Ideas worth trying on a forward plan, with the gain that bytes and FLOPs promise."""

from collections.abc import Iterator

from ...state.device import DeviceSheet
from ...state.plan import Strategy
from ...state.program import REDUCTIONS, ForwardPlan, Load, LoopProgram, MatmulProgram, Store
from ...state.sizes import product, value
from ...state.wording import counted
from .registry import BITS

MOST = 6
ROW_IN_REGISTERS_BYTES = 128 * 1024
"""The longest row that one thread block can hold."""


def strategies(plan: ForwardPlan, device: DeviceSheet, operators: int) -> tuple[Strategy, ...]:
    """Two to six, the most promising first. `operators` is how many PyTorch calls the reference makes."""
    found = [*_fusion(plan, operators)]
    for step in plan.steps:
        if isinstance(step, MatmulProgram):
            found += _matmul(step, plan, device)
        elif isinstance(step, LoopProgram):
            found += _loop(step, plan, device)
    best: dict[str, Strategy] = {}
    for strategy in found:
        known = best.get(strategy.name)
        if known is None or known.expected_speedup < strategy.expected_speedup:
            best[strategy.name] = strategy
    ranked = sorted(best.values(), key=lambda s: -s.expected_speedup)[:MOST]
    if len(ranked) < 2:
        ranked.append(Strategy(name="tune", expected_speedup=1.05, why="tile sizes and warps for this GPU and shape"))
    return tuple(ranked)


def traffic_bytes(step: LoopProgram | MatmulProgram, plan: ForwardPlan) -> int:
    """Bytes of the distinct elements that a kernel reads and writes."""
    hints, total = plan.hints, 0
    accesses: tuple[Load | Store, ...] = (*step.loads, *step.stores)
    for access in accesses:
        walked = [s for s, stride in zip(step.space, access.strides, strict=True) if stride != 0]
        total += value(product(walked), hints) * BITS.get(access.dtype, 32) // 8
    if isinstance(step, LoopProgram):
        points = value(product(step.space), hints)
        for table in step.tables.values():
            total += min(value(table.extent, hints), points) * BITS.get(table.dtype, 32) // 8
    if isinstance(step, MatmulProgram):
        factors = ((step.a, (step.m, step.k)), (step.b, (step.k, step.n)), (step.also, (step.k, step.n)))
        for operand, rows in factors:
            if operand is None:
                continue
            if operand.softmax is not None:
                total += traffic_bytes(operand.softmax.scores, plan)
                continue
            sizes = (*step.batch, *rows)
            walked = [s for s, stride in zip(sizes, operand.strides, strict=True) if stride != 0]
            walked += [operand.windows.elements] if operand.windows is not None else []
            total += value(product(walked), hints) * BITS.get(operand.dtype, 32) // 8
    return total


def _fusion(plan: ForwardPlan, operators: int) -> Iterator[Strategy]:
    kernels = [s for s in plan.steps if isinstance(s, (LoopProgram, MatmulProgram))]
    if not kernels:
        return
    fused = sum(traffic_bytes(s, plan) for s in kernels)
    apart = sum(_unfused_bytes(s, plan) for s in kernels)
    if operators > len(plan.steps) and apart > fused:
        steps = counted(len(plan.steps), "step")
        why = f"{operators} operators in {steps} move {_mb(fused)} instead of {_mb(apart)}"
        yield Strategy(name="fuse", expected_speedup=min(apart / max(fused, 1), 20.0), why=why)


def _unfused_bytes(step: LoopProgram | MatmulProgram, plan: ForwardPlan) -> int:
    """Each statement that is not of one row reads and writes its operands in memory."""
    space = value(product(step.space), plan.hints)
    inside = sum(1 for s in step.body if s.op not in ("iota", "cast", *REDUCTIONS) and s.level == 0)
    later = sum(1 for s in step.body if s.level > 0 and s.op not in REDUCTIONS)
    return traffic_bytes(step, plan) + 8 * space * max(inside + later // 2 - 1, 0) // 2


def _matmul(step: MatmulProgram, plan: ForwardPlan, device: DeviceSheet) -> Iterator[Strategy]:
    hints = plan.hints
    m, n = value(step.m, hints), value(step.n, hints)
    flops = step.flops(hints)
    if step.body:
        epilogue = 2 * value(product(step.space), hints) * BITS.get(step.stores[0].dtype, 32) // 8
        ratio = 1 + epilogue * 1e3 / device.copy_bytes_per_s / max(_matmul_ms(step, flops, device), 1e-6)
        yield Strategy(
            name="fuse epilogue",
            expected_speedup=min(ratio, 5.0),
            why=f"the product is finished in registers: {_mb(epilogue)} less to write and read again",
        )
    if step.scores is not None:
        scores = 4 * value(product(step.scores.space), hints) * BITS.get(step.a.dtype, 32) // 8
        why = f"scores and weights stay in registers: {_mb(scores)} less to write and read again"
        yield Strategy(name="attention in one kernel", expected_speedup=2.0, why=why)
        return
    if min(m, n) <= 16:
        why = f"{m} x {n} results of a long sum: bound by reading the larger factor once"
        yield Strategy(name="matvec", expected_speedup=1.5, why=why)
    elif step.a.dtype == "float32":
        why = "three tf32 products keep fp32 accuracy at tensor-core rate; plain fp32 does not use tensor cores"
        yield Strategy(name="tf32x3 for fp32 product", expected_speedup=1.6, why=why)
        why = "six bfloat16 products of split factors keep fp32 accuracy at twice the tf32 rate"
        yield Strategy(name="bf16x6 for fp32 product", expected_speedup=1.8, why=why)
    tiles = value(product(step.batch), hints) * -(-m // 128) * -(-n // 128)
    if tiles < device.sm_count and value(step.k, hints) >= 1024:
        why = f"only {counted(tiles, 'tile')} for {device.sm_count} SMs: cut the sum over k"
        yield Strategy(name="split k", expected_speedup=min(device.sm_count / tiles, 4.0), why=why)


def _matmul_ms(step: MatmulProgram, flops: float, device: DeviceSheet) -> float:
    name = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}.get(step.a.dtype, "fp32")
    rate = device.matmul_flops.get(name) or device.peak_flops.get(name) or 5e13
    return 1e3 * flops / rate


def _loop(step: LoopProgram, plan: ForwardPlan, device: DeviceSheet) -> Iterator[Strategy]:
    hints = plan.hints
    if not any(step.reduced):
        why = f"{_mb(traffic_bytes(step, plan))} in one pass of wide loads and stores"
        yield Strategy(name="stream at memory bandwidth", expected_speedup=1.1, why=why)
        if _transposes(step):
            why = "an operand is walked across its rows: tiles keep both sides of it coalesced"
            yield Strategy(name="tile the transposition", expected_speedup=1.5, why=why)
        return
    extent = value(product(s for s, r in zip(step.space, step.reduced, strict=True) if r), hints)
    outer = value(product(s for s, r in zip(step.space, step.reduced, strict=True) if not r), hints)
    row_bytes = extent * max((BITS.get(x.dtype, 32) // 8 for x in step.loads), default=4)
    passes = step.levels + any(s.level >= step.levels and _full(step, s.name) for s in step.body)
    if passes > 1 and row_bytes <= ROW_IN_REGISTERS_BYTES:
        why = f"rows of {row_bytes} bytes stay in registers: one pass instead of {passes}"
        yield Strategy(name="one pass over the row", expected_speedup=(passes + 1) / 2, why=why)
    elif passes > 1:
        why = (
            f"rows of {row_bytes} bytes are too long for registers: merge {passes} passes into fewer, last one from L2"
        )
        yield Strategy(name="online reduction", expected_speedup=1 + passes / 6, why=why)
    if outer < 2 * device.sm_count and extent >= 4096:
        why = f"split the reduction: only {counted(outer, 'row')} for {device.sm_count} SMs"
        gain = min(2 * device.sm_count / max(outer, 1), 8.0)
        yield Strategy(name="split reduction", expected_speedup=gain, why=why)
    if not step.reduced[-1]:
        why = "the reduced axis is not the contiguous one: tiles of columns keep loads coalesced"
        yield Strategy(name="tile along the contiguous axis", expected_speedup=1.5, why=why)


def _full(step: LoopProgram, name: str) -> bool:
    """Whether a stored element has a value of its own for each reduced element."""
    stored = [store for store in step.stores if store.name == name]
    reduced = [i for i, flag in enumerate(step.reduced) if flag]
    return any(store.strides[i] != 0 for store in stored for i in reduced)


def _transposes(step: LoopProgram) -> bool:
    return any(x.strides[-1] not in (0, 1) and any(x.strides) for x in step.loads)


def _mb(amount: int) -> str:
    return f"{amount / 1e6:.1f} MB"
