"""A lowered graph as the planner's own graph; operators without programs become PyTorch calls."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ...state.lowered import LoweredGraph, Node, references
from . import (  # noqa: F401 - they register
    activations,
    attention_calls,
    convolutions,
    moved,
    picked,
    pointwise,
    products,
    reductions,
    resized,
    views,
    windows,
)
from .registry import DTYPES, EXPANSIONS, Operator, literal
from .tensors import Call, Graph, Tensor, Uncovered


@dataclass
class Expanded:
    """The planner's graph of a whole forward pass."""

    graph: Graph
    results: dict[str, Tensor]
    """Tensor of each lowered node; outputs of multi-output operators are under their getitem nodes."""
    inputs: tuple[str, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    """Inputs that are no tensors, with the value that the forward was lowered for."""


CONTIGUOUS_VIEWS = ("aten.view.default", "aten._unsafe_view.default")


def expand(lowered: LoweredGraph, left: frozenset[str] = frozenset(), apart: bool = False) -> Expanded:
    """Expands every node, in order; those named in `left` stay in PyTorch, and for a plan `apart` convolutions."""
    expander = _Expander(lowered, left, apart)
    for node in lowered.nodes:
        expander.visit(node)
    return expander.found()


def _names(lowered: LoweredGraph) -> frozenset[str]:
    """Of nodes and their outputs: what PyTorch makes keeps them."""
    several = (node for node in lowered.nodes if node.output_count > 1)
    outputs = (f"{node.name}_{place}" for node in several for place in range(node.output_count))
    return frozenset([*(node.name for node in lowered.nodes), *outputs])


class _Expander:
    def __init__(self, lowered: LoweredGraph, left: frozenset[str], apart: bool) -> None:
        self.left = left
        self.graph = Graph(_names(lowered), apart)
        self.results: dict[str, Any] = {}
        self.uses = Counter(name for node in lowered.nodes for name in set(references([node.args, node.kwargs])))
        self.uses.update(set(references(lowered.outputs)))
        self.picks = [node for node in lowered.nodes if node.op == "getitem"]
        self.inputs: list[str] = []
        self.parameters: dict[str, str] = {}
        self.scalars: dict[str, Any] = {}

    def found(self) -> Expanded:
        tensors = {name: result for name, result in self.results.items() if isinstance(result, Tensor)}
        return Expanded(
            graph=self.graph,
            results=tensors,
            inputs=tuple(self.inputs),
            parameters=self.parameters,
            scalars=self.scalars,
        )

    def visit(self, node: Node) -> None:
        if node.op in ("input", "parameter", "buffer"):
            self._leaf(node)
        elif node.op == "constant":
            self._constant(node)
        elif node.op == "getitem":
            self._pick(node)
        else:
            self._operator(node)

    def _leaf(self, node: Node) -> None:
        if node.op == "input":
            self.inputs.append(node.name)
        else:
            self.parameters[node.name] = node.target
        if node.output is None:
            self.scalars[node.name] = node.args[0]
            self.results[node.name] = node.args[0]
            return
        self.results[node.name] = self.graph.leaf(node.name, node.output.shape, node.output.dtype, node.strides)

    def _constant(self, node: Node) -> None:
        assert node.output is not None
        content = _plain(node.args[0])
        flat = content
        while isinstance(flat, list) and len(flat) == 1:
            flat = flat[0]
        if isinstance(flat, list):
            call = Call(node=node, reads={}, made={})
            self.graph.calls.append(call)
            self.results[node.name] = self.graph.made(call, 0, node.name, node.output.shape, node.output.dtype)
        else:
            self.results[node.name] = literal(self.graph, flat, node.output.dtype, node.output.shape)

    def _pick(self, node: Node) -> None:
        source, number = node.args
        found = self.results[source["ref"]]
        if isinstance(found, Call):
            if number not in found.made and node.output is not None:
                self.graph.made(found, number, f"{source['ref']}_{number}", node.output.shape, node.output.dtype)
            self.results[node.name] = found.made[number]
        else:
            self.results[node.name] = found[number]

    def _operator(self, node: Node) -> None:
        self.graph.scope, self.graph.origin = node.name.strip("_"), node.name
        try:
            self.results[node.name] = self._expanded(node)
        except Uncovered:
            self.results[node.name] = self._call(node)

    def _expanded(self, node: Node) -> Any:
        name, _, overload = node.op.removeprefix("aten.").rpartition(".")
        expansion = EXPANSIONS.get(f"{name}.{overload}") or EXPANSIONS.get(name)
        if expansion is None or node.name in self.left:
            raise Uncovered("no programs for it")
        record = node.output or next((p.output for p in self._picks_of(node)), None)
        if record is None or record.dtype not in DTYPES:
            raise Uncovered(f"type {record.dtype if record else 'unknown'}")
        operator = Operator(
            name=f"{name}.{overload}",
            graph=self.graph,
            args=[self._argument(a) for a in node.args],
            kwargs={key: self._argument(a) for key, a in node.kwargs.items()},
            shape=record.shape,
            dtype=record.dtype,
        )
        for tensor in (*operator.args, *operator.kwargs.values()):
            if isinstance(tensor, Tensor) and tensor.dtype not in DTYPES:
                raise Uncovered(f"type {tensor.dtype}")
        result = expansion(operator)
        if self.uses[node.name] > 1 and isinstance(result, Tensor):
            self.graph.parts.pop(result, None)
        if isinstance(result, tuple) and any(p.args[1] >= len(result) for p in self._picks_of(node)):
            raise Uncovered("an output without programs")
        self._agrees(result, node)
        return result

    def _picks_of(self, node: Node) -> list[Node]:
        return [pick for pick in self.picks if pick.args[0]["ref"] == node.name]

    def _agrees(self, result: Any, node: Node) -> None:
        """An expansion that gives another shape or type than PyTorch is a gap, not an answer."""
        asked = [(result, node.output)] if isinstance(result, Tensor) else []
        if isinstance(result, tuple):
            asked = [(result[pick.args[1]], pick.output) for pick in self._picks_of(node)]
        for found, wanted in asked:
            if wanted is not None and (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                raise Uncovered(f"gives {found.dtype}{list(found.shape)}")

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return [self._argument(a) for a in argument]
        if not isinstance(argument, dict):
            return argument
        ((key, content),) = argument.items()
        if key == "ref":
            found = self.results[content]
            if isinstance(found, (Call, tuple)):
                raise Uncovered("a list of tensors as an argument")
            return found
        return float(content) if key == "float" else content

    def _call(self, node: Node) -> Any:
        reads: dict[str, Tensor] = {}
        self._collect([*node.args, *node.kwargs.values()], reads)
        if node.op in CONTIGUOUS_VIEWS:
            # Its operand may be laid out otherwise here than it was in the reference.
            node = node.model_copy(update={"op": "aten.reshape.default"})
        call = Call(node=node, reads=reads, made={})
        self.graph.calls.append(call)
        if node.output is None:
            return call
        return self.graph.made(call, 0, node.name, node.output.shape, node.output.dtype)

    def _collect(self, argument: Any, reads: dict[str, Tensor]) -> None:
        if isinstance(argument, (list, tuple)):
            for part in argument:
                self._collect(part, reads)
        elif isinstance(argument, dict) and "ref" in argument:
            found = self.results[argument["ref"]]
            if not isinstance(found, Tensor):
                raise Unplannable(f"{argument['ref']} is a list of tensors")
            reads[argument["ref"]] = found


class Unplannable(Exception):
    """Nothing of the forward can be planned; the text says why in one line."""


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return float(value["float"]) if isinstance(value, dict) else value
