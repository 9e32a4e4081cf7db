"""Runs forward plans on CPU tensors by brute force, straight from the definition of the records.

Every load is a gather by explicit element offsets, every statement one torch operation over the whole iteration space.
Slow and memory-hungry on purpose: keep sizes small. This is what the planner and the templates are tested against.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from warpsmith.state.lowered import bound
from warpsmith.state.program import ForwardPlan, LoopProgram, MatmulProgram, Step, TorchStep, ViewStep
from warpsmith.state.sizes import Size, value

Tensors = dict[str, Any]

UNARY = {
    "relu": torch.relu,
    "square": lambda x: x * x,
    "logical_not": torch.logical_not,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
}
BINARY = {
    "div": torch.true_divide,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "floor_div": torch.floor_divide,
}
REDUCTIONS = {
    "reduce_sum": lambda x: x.sum(-1, keepdim=True, dtype=x.dtype),
    "reduce_prod": lambda x: x.prod(-1, keepdim=True, dtype=x.dtype),
    "reduce_max": lambda x: x.amax(-1, keepdim=True),
    "reduce_min": lambda x: x.amin(-1, keepdim=True),
    "reduce_argmax": lambda x: x.argmax(-1, keepdim=True),
    "reduce_argmin": lambda x: x.argmin(-1, keepdim=True),
    "reduce_any": lambda x: x.any(-1, keepdim=True),
    "reduce_all": lambda x: x.all(-1, keepdim=True),
}


SCANS = {
    "scan_sum": lambda x: x.cumsum(-1, dtype=x.dtype),
    "scan_prod": lambda x: x.cumprod(-1, dtype=x.dtype),
    "scan_max": lambda x: x.cummax(-1).values,
    "scan_min": lambda x: x.cummin(-1).values,
}


def torch_dtype(name: str) -> torch.dtype:
    return torch.int64 if name == "index" else getattr(torch, name)


def compute_dtype(name: str) -> torch.dtype:
    """Half types are computed in float32."""
    return torch.float32 if name in ("float16", "bfloat16") else torch_dtype(name)


def run_plan(plan: ForwardPlan, inputs: Sequence[Any], parameters: Mapping[str, torch.Tensor] | None = None) -> Any:
    """What the plan returns. `inputs` by position; `parameters` by qualified name; symbols come from the inputs."""
    tensors: Tensors = dict(zip(plan.inputs, inputs, strict=False))
    for name, qualified in plan.parameters.items():
        tensors[name] = (parameters or {})[qualified].detach()
    symbols = bound(plan.symbols, lambda number, dim: inputs[number].shape[dim])
    for step in plan.steps:
        tensors |= run_step(step, tensors, symbols, plan)
    return _result(plan.returns, tensors, symbols)


def run_step(step: Step, tensors: Tensors, symbols: Mapping[str, int], plan: ForwardPlan) -> Tensors:
    """The values that one step makes."""
    if isinstance(step, LoopProgram):
        return _run_loop(step, tensors, symbols, plan)
    if isinstance(step, MatmulProgram):
        return _run_matmul(step, tensors, symbols, plan)
    if isinstance(step, ViewStep):
        shape, strides = [value(s, symbols) for s in step.shape], [value(s, symbols) for s in step.strides]
        base = tensors[step.base]
        return {step.name: base.as_strided(shape, strides, base.storage_offset() + value(step.offset, symbols))}
    return _run_torch(step, tensors, symbols)


def _run_loop(program: LoopProgram, tensors: Tensors, symbols: Mapping[str, int], plan: ForwardPlan) -> Tensors:
    space = [value(s, symbols) for s in program.space]
    names = {load.name: _gather(tensors, load, space, symbols) for load in program.loads}
    _run_body(program, names, space, symbols, tensors)
    made = _run_stores(program, names, space, symbols, plan)
    over = {store.value: tensors[store.into] for store in program.stores if store.into}
    return {name: over[name].copy_(found) if name in over else found for name, found in made.items()}


def _run_matmul(program: MatmulProgram, tensors: Tensors, symbols: Mapping[str, int], plan: ForwardPlan) -> Tensors:
    batch = [value(s, symbols) for s in program.batch]
    m, n, k = (value(s, symbols) for s in (program.m, program.n, program.k))
    wide = torch.float64 if program.a.dtype == "float64" else torch.float32
    left = _gather if program.a.softmax is None else _softmaxed
    a = left(tensors, program.a, [*batch, m, k], symbols).to(wide)
    factor = _gather if program.b.windows is None else _windowed
    shape = [*batch, k, n] if program.b.windows is None else batch
    b = factor(tensors, program.b, shape, symbols).to(wide)
    space = [*batch, m, n]
    names = {load.name: _gather(tensors, load, space, symbols) for load in program.loads}
    names["acc"] = a @ b
    if program.also is not None:
        names["acc_1"] = a @ _gather(tensors, program.also, [*batch, k, n], symbols).to(wide)
    _run_body(program, names, space, symbols, tensors)
    return _run_stores(program, names, space, symbols, plan)


def _softmaxed(tensors: Tensors, operand: Any, shape: Sequence[int], symbols: Mapping[str, int]) -> torch.Tensor:
    """A factor that is the softmax of another product's rows; what lies too far ahead must be masked already."""
    program = operand.softmax.scores
    *batch, m, n = shape
    k = value(program.k, symbols)
    a, b = _gather(tensors, program.a, [*batch, m, k], symbols), _gather(tensors, program.b, [*batch, k, n], symbols)
    names = {load.name: _gather(tensors, load, shape, symbols) for load in program.loads}
    names["acc"] = _wide(a) @ _wide(b)
    _run_body(program, names, shape, symbols, tensors)
    scores = names[operand.softmax.score].expand(shape)
    if operand.softmax.ahead is not None:
        ahead = torch.ones(m, n, dtype=torch.bool).triu(operand.softmax.ahead + 1)
        assert bool((scores[..., ahead] == -torch.inf).all())
    if operand.softmax.behind is not None:
        behind = torch.ones(m, n, dtype=torch.bool).tril(-operand.softmax.behind - 1)
        assert bool((scores[..., behind] == -torch.inf).all())
    found = torch.softmax(scores, -1)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.where(empty, torch.zeros_like(found), found) if operand.softmax.zero_rows else found


def _windowed(tensors: Tensors, operand: Any, batch: Sequence[int], symbols: Mapping[str, int]) -> torch.Tensor:
    """A factor whose rows are channels and taps, whose columns are places."""
    windows, flat = operand.windows, _storage(tensors[operand.value])
    taps = [range(axis.taps) for axis in windows.axes]
    places = [range(value(axis.places, symbols)) for axis in windows.axes]
    rows = list(itertools.product(range(windows.channels), *taps))
    columns = list(itertools.product(*places))
    offsets = torch.zeros(len(rows), len(columns), dtype=torch.int64)
    inside = torch.ones(len(rows), len(columns), dtype=torch.bool)
    offsets += torch.tensor([row[0] for row in rows])[:, None] * value(windows.channel_walk, symbols)
    for number, axis in enumerate(windows.axes):
        tap = torch.tensor([row[1 + number] for row in rows])[:, None] * axis.dilation
        at = torch.tensor([column[number] for column in columns])[None, :] * axis.stride - axis.padding + tap
        inside &= (at >= 0) & (at < value(axis.length, symbols))
        offsets += at * value(axis.walk, symbols)
    base = _offsets(operand.strides[: len(batch)], batch, symbols)[..., None, None] + value(operand.offset, symbols)
    found = flat[0][torch.where(inside, offsets + base + flat[1], flat[1])]
    return torch.where(inside, found, torch.zeros_like(found))


def _gather(tensors: Tensors, load: Any, space: Sequence[int], symbols: Mapping[str, int]) -> torch.Tensor:
    tensor = tensors[load.value]
    assert str(tensor.dtype) == f"torch.{load.dtype}", f"{load.value} is {tensor.dtype}, loaded as {load.dtype}"
    flat, first = _storage(tensor)
    return flat[_offsets(load.strides, space, symbols) + value(load.offset, symbols) + first]


def _storage(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((elements,), (1,), 0), tensor.storage_offset()


def _offsets(strides: Sequence[Size], space: Sequence[int], symbols: Mapping[str, int]) -> torch.Tensor:
    offsets = torch.zeros([], dtype=torch.int64)
    for axis, stride in enumerate(strides):
        steps = torch.arange(space[axis]) * value(stride, symbols)
        offsets = offsets + steps.reshape([-1 if i == axis else 1 for i in range(len(space))])
    return offsets.expand(list(space)).contiguous()


def _run_body(program: Any, names: Tensors, space: Sequence[int], symbols: Mapping[str, int], tensors: Tensors) -> None:
    levels: dict[str, int] = {}
    for statement in program.body:
        assert statement.name not in names, f"{statement.name} is defined twice"
        for arg in statement.args:
            if isinstance(arg, str) and arg in names:
                assert levels.get(arg, 0) <= statement.level, f"{statement.name} reads {arg} of a later level"
        args = [_argument(arg, names, symbols) for arg in statement.args]
        dtype = compute_dtype(statement.dtype)
        if statement.op.startswith("reduce_"):
            names[statement.name] = _reduced(statement.op, args[0], program.reduced).to(dtype)
            levels[statement.name] = statement.level + 1
            continue
        levels[statement.name] = statement.level
        if statement.op.startswith("scan_"):
            names[statement.name] = _scanned(statement, args[0].to(dtype), program.reduced)
            continue
        if statement.op == "gather":
            assert value(statement.extent, symbols) <= _storage(tensors[statement.table])[0].numel()
            names[statement.name] = _picked(tensors[statement.table], statement, args, space).to(dtype)
            continue
        names[statement.name] = _pointwise(statement, args, space, dtype)


def _picked(table: torch.Tensor, statement: Any, args: list[Any], space: Sequence[int]) -> torch.Tensor:
    """Elements of a table where the guard holds; an index out of bounds there is an error."""
    assert str(table.dtype) == f"torch.{statement.dtype}"
    flat, first = _storage(table)
    index, guard = (torch.as_tensor(a).expand(list(space)) for a in args)
    assert not index.dtype.is_floating_point
    assert guard.dtype == torch.bool
    found = flat[torch.where(guard, index.long() + first, first)] if flat.numel() else flat.new_zeros(list(space))
    return torch.where(guard, found, torch.zeros_like(found))


def _argument(arg: Any, names: Tensors, symbols: Mapping[str, int]) -> Any:
    if not isinstance(arg, str):
        return arg
    return _wide(names[arg]) if arg in names else value(arg, symbols)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _pointwise(statement: Any, args: list[Any], space: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    if statement.op == "iota":
        axis = args[0]
        index = torch.arange(space[axis]).reshape([-1 if i == axis else 1 for i in range(len(space))])
        return index.expand(list(space)).to(dtype)
    if statement.op == "cast":
        return torch.as_tensor(args[0]).to(torch_dtype(statement.dtype)).expand(list(space)).to(dtype)
    tensors = [torch.as_tensor(a).expand(list(space)) if not isinstance(a, torch.Tensor) else a for a in args]
    kinds = {t.dtype.is_floating_point for t, a in zip(tensors, args, strict=True) if isinstance(a, torch.Tensor)}
    if statement.op != "where":
        assert len(kinds) <= 1, f"{statement.op} mixes integers and floats: a cast is missing"
    if statement.op == "where":
        return torch.where(tensors[0], *(_literal(a, dtype) for a in args[1:])).to(dtype)
    if statement.op == "clamp":
        return torch.clamp(tensors[0], *(_literal(a, tensors[0].dtype) for a in args[1:])).to(dtype)
    known = {**UNARY, **BINARY}
    operation = known.get(statement.op) or getattr(torch, statement.op)
    like = next((a.dtype for a in args if isinstance(a, torch.Tensor)), dtype)
    return operation(*(_literal(a, like) for a in args)).to(dtype)


def _literal(arg: Any, dtype: torch.dtype) -> torch.Tensor:
    if isinstance(arg, torch.Tensor):
        return arg
    if isinstance(arg, float) and not dtype.is_floating_point:
        assert arg.is_integer(), f"literal {arg} meets integers: a cast is missing"
    return torch.as_tensor(arg).to(dtype)


def _reduced(op: str, x: torch.Tensor, reduced: Sequence[bool]) -> torch.Tensor:
    kept = [axis for axis, flag in enumerate(reduced) if not flag]
    gone = [axis for axis, flag in enumerate(reduced) if flag]
    order = kept + gone
    moved = x.permute(order)
    flat = moved.reshape(*moved.shape[: len(kept)], math.prod(moved.shape[len(kept) :]))
    result = REDUCTIONS[op](flat)
    back = result.reshape(*moved.shape[: len(kept)], *[1] * len(gone)).expand(moved.shape)
    return back.permute([order.index(axis) for axis in range(len(order))])


def _scanned(statement: Any, x: torch.Tensor, reduced: Sequence[bool]) -> torch.Tensor:
    kept = [axis for axis, flag in enumerate(reduced) if not flag]
    order = kept + [axis for axis, flag in enumerate(reduced) if flag]
    moved = x.permute(order)
    flat = moved.reshape(*moved.shape[: len(kept)], -1) if x.numel() else moved.reshape(*moved.shape[: len(kept)], 0)
    backwards = statement.args[1]
    flat = flat.flip(-1) if backwards else flat
    found = SCANS[statement.op](flat)
    found = (found.flip(-1) if backwards else found).reshape(moved.shape)
    return found.permute([order.index(axis) for axis in range(len(order))])


def _run_stores(
    program: Any, names: Tensors, space: Sequence[int], symbols: Mapping[str, int], plan: ForwardPlan
) -> Tensors:
    made: Tensors = {}
    for store in program.stores:
        record = plan.values[store.value]
        assert record.dtype == store.dtype
        shape = [value(s, symbols) for s in record.shape]
        out = torch.zeros(math.prod(shape), dtype=torch_dtype(store.dtype))
        written = torch.zeros(math.prod(shape), dtype=torch.int64)
        offsets = _offsets(store.strides, space, symbols)
        element = names[store.name].to(out.dtype).expand(list(space))
        for axis, flag in enumerate(getattr(program, "reduced", ())):
            if flag and store.strides[axis] == 0 and space[axis] > 0:
                offsets, element = offsets.narrow(axis, 0, 1), element.narrow(axis, 0, 1)
        out[offsets.reshape(-1)] = element.reshape(-1)
        written.index_add_(0, offsets.reshape(-1), torch.ones_like(offsets.reshape(-1)))
        if all(space):
            assert (written == 1).all(), f"{store.value} is not written exactly once everywhere"
        made[store.value] = out.reshape(shape)
    return made


def _run_torch(step: TorchStep, tensors: Tensors, symbols: Mapping[str, int]) -> Tensors:
    args = [_torch_argument(a, tensors, symbols) for a in step.args]
    kwargs = {key: _torch_argument(a, tensors, symbols) for key, a in step.kwargs.items()}
    if step.op == "constant":
        return {step.outputs[0]: torch.tensor(args[0], dtype=args[1])}
    _, name, overload = step.op.split(".")
    result = getattr(getattr(torch.ops.aten, name), overload)(*args, **kwargs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    pairs = zip(step.outputs, results if step.outputs else (), strict=True)
    return {name: r.contiguous() if isinstance(r, torch.Tensor) else r for name, r in pairs}


def _torch_argument(arg: Any, tensors: Tensors, symbols: Mapping[str, int]) -> Any:
    if isinstance(arg, (list, tuple)):
        return [_torch_argument(a, tensors, symbols) for a in arg]
    if not isinstance(arg, dict):
        return arg
    ((key, content),) = arg.items()
    if key == "ref":
        return tensors[content]
    if key == "size":
        return value(content, symbols)
    if key == "float":
        return float(content)
    return torch.device("cpu") if key == "device" else getattr(torch, content)


def _result(structure: Any, tensors: Tensors, symbols: Mapping[str, int]) -> Any:
    if isinstance(structure, (list, tuple)):
        return [_result(part, tensors, symbols) for part in structure]
    if not isinstance(structure, dict):
        return structure
    ((key, content),) = structure.items()
    if key == "ref":
        return tensors[content]
    if key == "size":
        return value(content, symbols)
    if key == "tuple":
        return tuple(_result(part, tensors, symbols) for part in content)
    return {name: _result(part, tensors, symbols) for name, part in content}
