"""The whole forward pass as steps: kernels, PyTorch calls and views in an order that works."""

import re
from collections.abc import Iterator
from typing import Any

from ...state.lowered import LoweredGraph, Value, references
from ...state.program import ForwardPlan, LoopProgram, MatmulProgram, Step, TorchStep, ViewStep
from ...state.sizes import Size
from ..kernel_source import UPDATE
from .attention import attended
from .expansion import Expanded, Unplannable, expand
from .folding import folded, reads, renamed_references
from .in_place import stored_in_place
from .index_maps import NotAffine, contiguous_strides
from .layout import Refused
from .regions import CannotPlace, Grower, Region
from .strided import base_of, strided
from .tensors import Call, Tensor

ATTENTION = "aten.scaled_dot_product_attention."


def plan_apart(lowered: LoweredGraph, forward: ForwardPlan) -> ForwardPlan | None:
    """As `forward`, with most convolutions and calls of attention left to PyTorch, and other attention in kernels for
    its parts. None where it has neither, or where no kernel is left.
    """
    products = [step for step in forward.steps if isinstance(step, MatmulProgram)]
    if all(step.b.windows is None and step.scores is None for step in products):
        return None
    left = frozenset(n.name for n in lowered.nodes if n.op.startswith(ATTENTION))
    found = _plan(lowered, left, apart=True)
    return found if any(isinstance(step, (LoopProgram, MatmulProgram)) for step in found.steps) else None


def forward_plan(lowered: LoweredGraph, left_out: frozenset[str] = frozenset()) -> ForwardPlan:
    """Steps for the whole reference; nodes in `left_out` stay in PyTorch.

    Raises Unplannable with one line saying why there are none.
    """
    found = _plan(lowered, left_out, apart=False)
    called = [n.name for n in lowered.nodes if n.op.startswith(ATTENTION) and n.name not in left_out]
    # PyTorch's own attention does not write its scores; kernels that do are no match for it.
    apart = frozenset(name for name in called if _writes_scores(found, name))
    return _plan(lowered, left_out | apart, apart=False) if apart else found


def _writes_scores(plan: ForwardPlan, call: str) -> bool:
    """Whether the softmax of a call is a kernel: its statements are named after it."""
    own = re.compile(rf"{re.escape(call.strip('_'))}_\d+")
    loops = (step for step in plan.steps if isinstance(step, LoopProgram))
    return any(s.op == "reduce_max" and own.fullmatch(s.name) for loop in loops for s in loop.body)


def _plan(lowered: LoweredGraph, left_out: frozenset[str], apart: bool) -> ForwardPlan:
    if lowered.unsupported:
        raise Unplannable(lowered.unsupported)
    left = set(left_out)
    while True:
        try:
            return _Assembly(lowered, expand(lowered, frozenset(left), apart), fuses=not apart).plan()
        except CannotPlace as reason:
            if reason.origin in left:
                raise Unplannable(f"{reason.origin}: {reason}") from reason
            left.add(reason.origin)


class _Assembly:
    def __init__(self, lowered: LoweredGraph, expanded: Expanded, fuses: bool) -> None:
        self.lowered = lowered
        self.fuses = fuses
        """Whether attention becomes one step."""
        self.expanded = expanded
        self.graph = expanded.graph
        self.copies: dict[Tensor, Tensor] = {}
        self.steps: list[Step] = []
        self.values: dict[str, Value] = {}
        self.placed: set[Any] = set()
        self.names: set[str] = set()

    def plan(self) -> ForwardPlan:
        self.final = [*dict.fromkeys([*references(self.lowered.outputs), *self.lowered.updates.values()])]
        outputs = [self.expanded.results[name] for name in self.final]
        live = self._live(outputs)
        self.calls = [call for call in self.graph.calls if live & set(call.made.values())]
        self.seen = {name: self._viewable(t) for name, t in self._results(outputs)}
        order = self._live([*outputs, *self.seen.values(), *(t for c in self.calls for t in self._reads(c))])
        tensors = [t for t in self.graph.tensors if t in order]
        required = {base_of(t) for t in self.seen.values()} | {base_of(t) for c in self.calls for t in self._reads(c)}
        for product_of in [t for t in tensors if t.kind == "matmul"]:
            required |= {base_of(operand) for operand in product_of.operands}
        self.grower = Grower(self._in_order(tensors), required, self.lowered.hints)
        self.grower.grow()
        self.sinks = self._settle([t for t in required if t.kind != "leaf"])
        for name in self.final:
            self._make(self.seen[name])
        returns = self._returns(self.lowered.outputs)
        self._update()
        return self._finished(returns)

    # What must be in memory.

    def _results(self, outputs: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in zip(self.final, outputs, strict=True):
            old = base_of(tensor).name in self.lowered.updates
            # What is an input's old value, returned or moved to another input, must outlive the input's change.
            yield name, self.graph.pointwise("copy", tensor, dtype=tensor.dtype) if old else tensor

    def _reads(self, call: Call) -> list[Tensor]:
        return [self._viewable(t) for t in call.reads.values()]

    def _viewable(self, tensor: Tensor) -> Tensor:
        """The tensor itself if it is a strided view of something in memory, else a copy that is."""
        if tensor in self.copies:
            return self.copies[tensor]
        try:
            strided(tensor)
            self.copies[tensor] = tensor
        except NotAffine:
            self.graph.scope, self.graph.origin = "copy", tensor.origin
            self.copies[tensor] = self.graph.pointwise("copy", tensor, dtype=tensor.dtype)
        return self.copies[tensor]

    def _live(self, roots: list[Tensor]) -> set[Tensor]:
        found: set[Tensor] = set()
        waiting = list(roots)
        while waiting:
            tensor = waiting.pop()
            if tensor in found:
                continue
            found.add(tensor)
            waiting += tensor.operands
            if tensor.call is not None:
                waiting += tensor.call.reads.values()
        return found

    def _in_order(self, tensors: list[Tensor]) -> list[Tensor]:
        """Operands first; a copy made late comes right after what it copies."""
        ordered: dict[Tensor, None] = {}

        def visit(tensor: Tensor) -> None:
            if tensor in ordered:
                return
            reads = tensor.call.reads.values() if tensor.call else ()
            for operand in (*tensor.operands, *reads):
                visit(operand)
            ordered[tensor] = None

        for tensor in tensors:
            visit(tensor)
        return list(ordered)

    def _settle(self, wanted: list[Tensor]) -> dict[Region, list[Tensor]]:
        """Which members each region stores: what others read, until nothing new is needed."""
        sinks: dict[Region, list[Tensor]] = {}
        waiting = sorted(wanted, key=self.grower.order.__getitem__)
        done: set[Tensor] = set()
        while waiting:
            tensor = base_of(waiting.pop(0))
            if tensor in done or tensor.kind == "leaf":
                continue
            done.add(tensor)
            region = self._home_for(tensor, sinks)
            sinks.setdefault(region, []).append(tensor)
            sinks[region].sort(key=self.grower.order.__getitem__)
            try:
                region.reads = self.grower.emission(region, sinks[region]).reads
            except Refused as reason:
                raise CannotPlace(tensor.origin, str(reason)) from reason
            waiting += self.grower.reads(region)
        return sinks

    def _home_for(self, tensor: Tensor, sinks: dict[Region, list[Tensor]]) -> Region:
        region = self.grower.home[tensor]
        try:
            self.grower.emission(region, [*sinks.get(region, []), tensor])
        except Refused:
            region = Region([tensor], solo=True)
            self.grower.home[tensor] = region
        return region

    # Steps.

    def _make(self, tensor: Tensor) -> None:
        """The steps that make a tensor and everything that it needs, each once, in an order that works."""
        waiting: list[tuple[Any, bool]] = [(self._maker(tensor), False)]
        while waiting:
            maker, ready = waiting.pop()
            if maker is None or maker in self.placed:
                continue
            if ready:
                self.placed.add(maker)
                self.steps.append(self._torch_step(maker) if isinstance(maker, Call) else self._kernel(maker))
                continue
            reads = self._reads(maker) if isinstance(maker, Call) else self.grower.reads(maker)
            waiting.append((maker, True))
            waiting += [(self._maker(read), False) for read in reversed(reads)]

    def _maker(self, tensor: Tensor) -> Call | Region | None:
        base = base_of(tensor)
        return base.call or self.grower.home.get(base)

    def _kernel(self, region: Region) -> LoopProgram | MatmulProgram:
        sinks = self.sinks[region]
        for sink in sinks:
            self.values[sink.name] = Value(shape=sink.shape, dtype=sink.dtype)
        return self.grower.program(region, self.grower.fresh(region, sinks), self._name(region))

    def _name(self, region: Region) -> str:
        """The operators in it, by name: `linear_relu`."""
        words: list[str] = []
        for member in region.members:
            word = _operator_word(member.name)
            if word not in words:
                words.append(word)
        if len(words) > 4:
            words = [*words[:2], *words[-2:]]
        return self._unique("_".join(words))

    def _unique(self, name: str) -> str:
        found, number = name, 1
        while found in self.names:
            number += 1
            found = f"{name}_{number}"
        self.names.add(found)
        return found

    def _torch_step(self, call: Call) -> TorchStep:
        node = call.node
        if node.op == "constant":
            (made,) = call.made.values()
            self.values[made.name] = Value(shape=made.shape, dtype=made.dtype)
            args: tuple[Any, ...] = (node.args[0], {"dtype": made.dtype})
            return TorchStep(name=made.name, op="constant", args=args, outputs=(made.name,))
        outputs = []
        for number in range(node.output_count):
            tensor = call.made.get(number)
            outputs.append(tensor.name if tensor else f"{node.name}_{number}")
            if tensor is not None:
                self.values[tensor.name] = Value(shape=tensor.shape, dtype=tensor.dtype)
        names = {ref: self._value(self._viewable(t)) for ref, t in call.reads.items()}
        return TorchStep(
            name=node.name,
            op=node.op,
            args=tuple(renamed_references(a, names) for a in node.args),
            kwargs={key: renamed_references(a, names) for key, a in node.kwargs.items()},
            outputs=tuple(outputs),
        )

    def _value(self, tensor: Tensor) -> str:
        """Name of a value with the tensor's shape: its own, or that of a view step made here."""
        base = base_of(tensor)
        if base is tensor:
            if tensor.kind == "leaf" and tensor.call is None:
                self.values[tensor.name] = Value(shape=tensor.shape, dtype=tensor.dtype)
            return tensor.name
        if tensor.name not in self.placed:
            self.placed.add(tensor.name)
            seen = strided(tensor)
            self._value(base)
            self.steps.append(
                ViewStep(name=tensor.name, base=base.name, shape=tensor.shape, strides=seen.strides, offset=seen.offset)
            )
            self.values[tensor.name] = Value(shape=tensor.shape, dtype=tensor.dtype)
        return tensor.name

    def _update(self) -> None:
        """In-place changes, when nothing reads the old values any more."""
        for target, name in self.lowered.updates.items():
            source = self._value(self.seen[name])
            args = ({"ref": target}, {"ref": source})
            self.steps.append(TorchStep(name=f"update_{target}", op=UPDATE, args=args, outputs=()))

    def _returns(self, structure: Any) -> Any:
        if isinstance(structure, (list, tuple)):
            return [self._returns(part) for part in structure]
        if not isinstance(structure, dict):
            return structure
        ((key, content),) = structure.items()
        if key == "ref":
            return {"ref": self._value(self.seen[content])}
        if key == "tuple":
            return {"tuple": [self._returns(part) for part in content]}
        if key == "dict":
            return {"dict": [[name, self._returns(part)] for name, part in content]}
        return structure

    def _finished(self, returns: Any) -> ForwardPlan:
        self.steps, self.values, returns = folded(self.steps, self.values, returns)
        if self.fuses:
            self.steps = attended(self.steps, self.values, returns, self.lowered.hints)
        leaves = {t.name: t for t in self.graph.tensors if t.kind == "leaf" and t.call is None}
        used = {name for step in self.steps for name in reads(step)} | set(references(returns))
        parameters = {name: target for name, target in self.expanded.parameters.items() if name in used}
        for name in (*self.expanded.inputs, *parameters):
            if name in leaves:
                self.values[name] = Value(shape=leaves[name].shape, dtype=leaves[name].dtype)
        strides = self._strides(leaves, used)
        self.steps = stored_in_place(self.steps, self.values, strides, returns)
        called = {step.op for step in self.steps if isinstance(step, TorchStep)}
        return ForwardPlan(
            inputs=self.expanded.inputs,
            parameters=parameters,
            symbols=self.lowered.symbols,
            values=self.values,
            steps=tuple(self.steps),
            returns=returns,
            strides=strides,
            scalars=self.expanded.scalars,
            uncovered=tuple(sorted(called - {"constant", UPDATE})),
        )

    def _strides(self, leaves: dict[str, Tensor], used: set[str]) -> dict[str, tuple[Size, ...]]:
        return {
            name: leaf.strides
            for name, leaf in leaves.items()
            if name in used and leaf.strides != contiguous_strides(leaf.shape)
        }


def _operator_word(name: str) -> str:
    """`relu` for `relu_1_0`: the operator without numbers."""
    words = [w for w in name.strip("_").split("_") if not w.isdigit()]
    return "_".join(w for w in words if w not in ("native", "default")) or "step"
