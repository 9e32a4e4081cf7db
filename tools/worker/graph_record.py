"""An exported program as a `LoweredGraph`: plain data in place of torch's nodes, sizes and types."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv

from ...state.lowered import LoweredGraph, Node, Symbol, Value
from ...state.sizes import Size, computed, written
from .buffers import dtype_name

LARGEST_LITERAL = 64
"""Elements of a constant tensor that is written into the graph as a literal."""

WINDOWED = ("aten.conv", "aten.max_pool", "aten.avg_pool", "aten.constant_pad_nd")
"""Operators that read windows, or pad: how many places there are then is no product of sizes, but has a formula."""

# Checks and bookkeeping that compute nothing.
IGNORED = ("_assert", "sym_constrain_range", "_guards_fn", "sym_size", "sym_numel", "lazy_load_decompositions")


class Unsupported(Exception):
    """The program cannot be written down; the text says why in one line."""


class Unwritable(Exception):
    """A size is no integer arithmetic on symbols; `dimensions` are the (input, dim) pairs that cause it."""

    def __init__(self, expression: str, dimensions: frozenset[tuple[int, int]]) -> None:
        super().__init__(f"the size {expression} is not computed from sizes alone")
        self.dimensions = dimensions


class _Sizes:
    """Turns torch's sizes into `Size`, naming symbols s0, s1... in order of the inputs' dimensions, then others."""

    def __init__(self, inputs: Sequence[Any], taken: frozenset[str]) -> None:
        self._taken = taken
        self.symbols: dict[Any, Symbol] = {}
        self.named = False
        """Whether a size that is no product is given a name: planners know nothing of it but that."""
        self._sources: dict[Any, set[tuple[int, int]]] = {}
        for i, value in enumerate(inputs):
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                self._see(i, dim, size)

    def _see(self, i: int, dim: int, size: Any) -> None:
        if isinstance(size, int):
            return
        expression = size.node.expr
        for symbol in expression.free_symbols:
            self._sources.setdefault(symbol, set()).add((i, dim))
        if expression.is_Symbol and expression not in self.symbols:
            self.symbols[expression] = Symbol(name=self._fresh(), input=i, dim=dim, hint=int(size.node.hint))

    def _fresh(self) -> str:
        return next(n for n in (f"{s}{len(self.symbols)}" for s in ("s", "size", "size_")) if n not in self._taken)

    def size(self, size: Any) -> Size:
        if isinstance(size, int):
            return size
        return self._written(size.node.expr)

    def _written(self, expression: Any) -> Size:
        if expression.is_Integer:
            return int(expression)
        coefficient, parts = (expression if expression.is_Mul else expression.factor()).as_coeff_mul()
        if not coefficient.is_Integer or coefficient < 0:
            raise self.unwritable(expression)
        names: list[str] = []
        for part in parts:
            base, power = part.as_base_exp()
            if not power.is_Integer or power < 1:
                raise self.unwritable(expression)
            names += [self._symbol(base).name] * int(power)
        return written(int(coefficient), names)

    def _symbol(self, base: Any) -> Symbol:
        """The symbol of a factor; one that is a sum or a quotient gets a symbol with a formula."""
        if base not in self.symbols:
            if not self.named:
                raise self.unwritable(base)
            formula = self._formula(base)
            hints = {symbol.name: symbol.hint for symbol in self.symbols.values()}
            self.symbols[base] = Symbol(name=self._fresh(), hint=computed(formula, hints), formula=formula)
        return self.symbols[base]

    def _formula(self, expression: Any) -> str:
        """Integer arithmetic as source. Raises Unwritable for what is none, and Unsupported."""
        if expression.is_Integer:
            return str(int(expression)) if expression >= 0 else f"({int(expression)})"
        if expression in self.symbols and not self.symbols[expression].formula:
            return self.symbols[expression].name
        if expression.is_Add or expression.is_Mul:
            joined = " + " if expression.is_Add else " * "
            return "(" + joined.join(self._formula(part) for part in expression.args) + ")"
        if isinstance(expression, FloorDiv):
            return "(" + " // ".join(self._formula(part) for part in expression.args) + ")"
        if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            return "(" + " * ".join([self._formula(expression.base)] * int(expression.exp)) + ")"
        raise self.unwritable(expression)

    def depends(self, expression: Any) -> bool:
        """Whether free sizes of inputs are all that it is computed from."""
        return bool(expression.free_symbols) and expression.free_symbols <= set(self._sources)

    def unwritable(self, expression: Any) -> Exception:
        dimensions: set[tuple[int, int]] = set()
        for symbol in expression.free_symbols:
            if symbol not in self._sources:
                return Unsupported("a number read from data: a size or factor that only a tensor's values tell")
            dimensions |= self._sources[symbol]
        return Unwritable(str(expression), frozenset(dimensions))

    def value(self, tensor: torch.Tensor) -> Value:
        return Value(shape=tuple(self.size(s) for s in tensor.shape), dtype=dtype_name(tensor.dtype))

    def strides(self, tensor: torch.Tensor) -> tuple[Size, ...] | None:
        """None for a contiguous tensor. A stride that no dimension gives makes the tensor's dimensions fixed."""
        if tensor.is_contiguous():
            return None
        try:
            return tuple(self.size(s) for s in tensor.stride())
        except Unsupported as reason:
            own = {s.node.expr for s in tensor.shape if isinstance(s, torch.SymInt)}
            sources = [source for symbol in own for source in self._sources.get(symbol, ())]
            raise Unwritable(str(reason), frozenset(sources)) from reason


def record(exported: ExportedProgram, model: nn.Module) -> LoweredGraph:
    """The program as a record. Raises Unwritable or Unsupported."""
    specs = {spec.arg.name: spec for spec in exported.graph_signature.input_specs}
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    user = [node for node in placeholders if specs[node.name].kind is InputKind.USER_INPUT]
    taken = frozenset(node.name for node in exported.graph.nodes)
    sizes = _Sizes([node.meta.get("val") for node in user], taken)
    _check_assumptions(placeholders, sizes)
    nodes: list[Node] = []
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            nodes.append(_placeholder(node, specs[node.name], sizes, exported, model))
        elif node.op == "call_function":
            nodes.extend(_call(node, sizes))
        elif node.op != "output":
            raise Unsupported(f"control flow ({node.op} {node.target})")
    updates = _updates(exported)
    return LoweredGraph(
        nodes=tuple(nodes),
        outputs=_outputs(exported, sizes),
        symbols=tuple(sizes.symbols.values()),
        mutated=tuple(updates),
        updates=updates,
    )


def _check_assumptions(placeholders: Sequence[fx.Node], sizes: _Sizes) -> None:
    """A number that export took a size's arithmetic for holds at one size: `int(0.5 * height)` is no longer free in it.

    Export only notes that as a guard, and leaves the dimension free. Raises Unwritable.
    """
    values = [node.meta.get("val") for node in placeholders]
    modes = [value.fake_mode for value in values if isinstance(value, FakeTensor)]
    guards = [guard.expr for mode in modes[:1] if mode.shape_env is not None for guard in mode.shape_env.guards]
    for guard in guards:
        if guard.func.__name__ != "Equality":
            continue
        computed_size, taken = sorted(guard.args, key=lambda side: bool(side.is_Integer))
        if taken.is_Integer and taken != 0 and sizes.depends(computed_size):
            raise sizes.unwritable(computed_size)


def _updates(exported: ExportedProgram) -> dict[str, str]:
    """What in-place changes leave in inputs and buffers: placeholder name to node name."""
    buffers = {spec.target: spec.arg.name for spec in exported.graph_signature.input_specs}
    found: dict[str, str] = {}
    for spec in exported.graph_signature.output_specs:
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            found[spec.target or ""] = spec.arg.name
        elif spec.kind is OutputKind.BUFFER_MUTATION:
            found[buffers[spec.target]] = spec.arg.name
    return found


def _placeholder(node: fx.Node, spec: InputSpec, sizes: _Sizes, exported: ExportedProgram, model: nn.Module) -> Node:
    value = node.meta.get("val")
    if spec.kind is InputKind.USER_INPUT and not isinstance(value, torch.Tensor):
        literal = value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
        return Node(name=node.name, op="input", args=(literal,), target=node.name)
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return _constant(node, spec, sizes, exported, model)
    kinds = {InputKind.USER_INPUT: "input", InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer"}
    if spec.kind not in kinds or not isinstance(value, torch.Tensor):
        raise Unsupported(f"an input of kind {spec.kind.name}")
    return Node(
        name=node.name,
        op=kinds[spec.kind],
        output=sizes.value(value),
        target=spec.target or node.name,
        strides=sizes.strides(value),
    )


def _constant(node: fx.Node, spec: InputSpec, sizes: _Sizes, exported: ExportedProgram, model: nn.Module) -> Node:
    target = spec.target or ""
    tensor = exported.constants[target]
    shape = sizes.value(tensor)
    readable = tensor.device.type != "meta" and type(tensor) is torch.Tensor
    if readable and tensor.numel() <= LARGEST_LITERAL:
        return Node(name=node.name, op="constant", args=(_floats_written(tensor.tolist()),), output=shape)
    if isinstance(_attribute(model, target), torch.Tensor):
        return Node(name=node.name, op="buffer", output=shape, target=target, strides=sizes.strides(tensor))
    raise Unsupported(f"a constant tensor of shape {list(tensor.shape)} made in forward")


def _attribute(model: nn.Module, target: str) -> Any:
    found: Any = model
    for part in target.split("."):
        found = getattr(found, part, None)
    return found


def _call(node: fx.Node, sizes: _Sizes) -> list[Node]:
    name = _operator_name(node)
    value = node.meta.get("val")
    if any(part in name for part in IGNORED) or isinstance(value, (int, float, bool, torch.SymInt, torch.SymBool)):
        if isinstance(value, (int, float, bool, torch.SymInt)) and not isinstance(value, torch.SymInt):
            raise Unsupported(f"a Python scalar computed from data by {name}")
        return []
    if isinstance(value, torch.SymFloat):  # A number that depends on sizes: they are fixed.
        raise sizes.unwritable(value.node.expr)
    _check_groups(node, sizes)
    sizes.named = name.startswith(WINDOWED) and not _ceils(node)
    for made in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(made, torch.Tensor):
            sizes.value(made)
    sizes.named = False
    return [
        Node(
            name=node.name,
            op=name,
            args=tuple(_argument(a, sizes) for a in node.args),
            kwargs={key: _argument(a, sizes) for key, a in node.kwargs.items()},
            output=sizes.value(value) if isinstance(value, torch.Tensor) else None,
            output_count=len(value) if isinstance(value, (list, tuple)) else 1,
        )
    ]


def _check_groups(node: fx.Node, sizes: _Sizes) -> None:
    """How many heads share keys is a number of the model, not a size: heads are fixed where they do not say it."""
    if not node.kwargs.get("enable_gqa"):
        return
    query, key = (argument.meta["val"] for argument in node.args[:2])
    heads, groups = (x.shape[-3] for x in (query, key))
    if isinstance(heads, int) and isinstance(groups, int):
        return
    ratio = _expression(heads) / _expression(groups)
    if not ratio.is_Integer:
        raise sizes.unwritable(ratio)


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def _ceils(node: fx.Node) -> bool:
    """Whether a last window may reach past the padding: how it is read depends on the size."""
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    return bool({**dict(zip(names, node.args, strict=False)), **node.kwargs}.get("ceil_mode", False))


def _operator_name(node: fx.Node) -> str:
    if node.target is operator.getitem:
        return "getitem"
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        raise Unsupported(f"control flow ({node.target})")
    return getattr(node.target, "__name__", str(node.target))


def _argument(argument: Any, sizes: _Sizes) -> Any:
    if isinstance(argument, fx.Node):
        value = argument.meta.get("val")
        return {"size": sizes.size(value)} if isinstance(value, (int, torch.SymInt)) else {"ref": argument.name}
    if isinstance(argument, (list, tuple)):
        return [_argument(a, sizes) for a in argument]
    if isinstance(argument, torch.SymInt):
        return {"size": sizes.size(argument)}
    named = {torch.dtype: "dtype", torch.device: "device", torch.layout: "layout", torch.memory_format: "memory_format"}
    for kind, key in named.items():
        if isinstance(argument, kind):
            return {key: str(argument).removeprefix("torch.")}
    if argument is None or isinstance(argument, (bool, int, str)):
        return argument
    if isinstance(argument, float):
        return _floats_written(argument)
    raise Unsupported(f"an argument of type {type(argument).__name__}")


def _floats_written(value: Any) -> Any:
    """JSON has no infinity and no NaN: they are written as `{"float": "inf"}`."""
    if isinstance(value, list):
        return [_floats_written(v) for v in value]
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _outputs(exported: ExportedProgram, sizes: _Sizes) -> Any:
    """The result's structure as `LoweredGraph.outputs` has it."""
    (results,) = next(node for node in exported.graph.nodes if node.op == "output").args
    specs = exported.graph_signature.output_specs
    leaves = [result for spec, result in zip(specs, results, strict=True) if spec.kind is OutputKind.USER_OUTPUT]
    spec = exported.call_spec.out_spec
    if spec is None:
        raise Unsupported("the result's structure is not known")
    return _written(pytree.tree_unflatten([_Leaf(_argument(leaf, sizes)) for leaf in leaves], spec))


class _Leaf:
    def __init__(self, written_form: Any) -> None:
        self.written_form = written_form


def _written(structure: Any) -> Any:
    if isinstance(structure, _Leaf):
        return structure.written_form
    if isinstance(structure, tuple):  # named ones too, torch's own and the file's
        return {"tuple": [_written(part) for part in structure]}
    if type(structure) is list:
        return [_written(part) for part in structure]
    if isinstance(structure, dict):
        return {"dict": [[key, _written(part)] for key, part in structure.items()]}
    if structure is None:
        return None
    raise Unsupported(f"a result of type {type(structure).__name__}")
