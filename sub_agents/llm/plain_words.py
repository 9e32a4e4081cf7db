"""A lowered reference in words: what is computed, operator by operator, with shapes and dtypes."""

from collections.abc import Mapping
from typing import Any

from ...state.lowered import LoweredGraph, Node, Value
from ...state.problem import Problem, TensorSpec

PHRASES: Mapping[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "pow": "{0} to the power {1}",
    "maximum": "the larger of {0} and {1}",
    "minimum": "the smaller of {0} and {1}",
    "neg": "minus {0}",
    "abs": "absolute value of {0}",
    "exp": "e to the power {0}",
    "log": "natural logarithm of {0}",
    "sqrt": "square root of {0}",
    "rsqrt": "one over the square root of {0}",
    "reciprocal": "one over {0}",
    "where": "{1} where {0} holds, else {2}",
    "masked_fill": "{0} with {2} where {1} holds",
    "clamp": "{0} limited to [{1}, {2}]",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "eq": "{0} equals {1}",
    "ne": "{0} differs from {1}",
    "sum": "sum of {0} over dimensions {1}",
    "mean": "mean of {0} over dimensions {1}",
    "amax": "maximum of {0} over dimensions {1}",
    "amin": "minimum of {0} over dimensions {1}",
    "argmax": "position of the maximum of {0} along dimension {1}",
    "prod": "product of {0} along dimension {1}",
    "cumsum": "running sum of {0} along dimension {1}",
    "cumprod": "running product of {0} along dimension {1}",
    "topk": "the {1} largest of {0} along dimension {2}, with their positions",
    "sort": "{0} sorted along dimension {1}, with positions",
    "mm": "matrix product of {0} and {1}",
    "bmm": "matrix products of {0} and {1}, one a batch entry",
    "matmul": "matrix product of {0} and {1}",
    "addmm": "{0} plus the matrix product of {1} and {2}",
    "linear": "matrix product of {0} and the transpose of {1}, plus bias {2}",
    "_softmax": "softmax of {0} along dimension {1}",
    "_log_softmax": "logarithm of the softmax of {0} along dimension {1}",
    "scaled_dot_product_attention": "attention with queries {0}, keys {1}, values {2}",
    "embedding": "rows of {0} at the positions {1}",
    "gather": "elements of {0} along dimension {1} at the positions {2}",
    "index": "elements of {0} at the positions {1}",
    "index_add": "{0} with {3} added along dimension {1} at the positions {2}",
    "scatter_add": "{0} with {3} added along dimension {1} at the positions {2}",
    "view": "{0} reshaped",
    "reshape": "{0} reshaped",
    "permute": "{0} with dimensions in the order {1}",
    "transpose": "{0} with dimensions {1} and {2} exchanged",
    "expand": "{0} broadcast",
    "unsqueeze": "{0} with a dimension of size 1 at {1}",
    "squeeze": "{0} without dimension {1}",
    "slice": "part of {0} along dimension {1} from {2} to {3}",
    "select": "entry {2} of {0} along dimension {1}",
    "cat": "{0} joined along dimension {1}",
    "constant_pad_nd": "{0} padded by {1}",
    "_to_copy": "{0} converted",
    "clone": "a copy of {0}",
    "conv1d": "1-D convolution of {0} with weights {1}, bias {2}, stride {3}, padding {4}, dilation {5}, groups {6}",
    "conv2d": "2-D convolution of {0} with weights {1}, bias {2}, stride {3}, padding {4}, dilation {5}, groups {6}",
}
"""By operator name without namespace and overload; numbers are positional arguments."""


def operators_in_words(graph: LoweredGraph) -> str:
    """One line an operator. Free dimensions are named by their symbols, with the size that they have now."""
    if graph.unsupported:
        return f"(not available: {graph.unsupported})"
    where = {s.name: s.formula or f"input {s.input}, dimension {s.dim}" for s in graph.symbols}
    sizes = [f"{s.name} = {s.hint} now, may vary ({where[s.name]})" for s in graph.symbols]
    lines = [_line(node) for node in graph.nodes]
    returned = f"returns {_plain(graph.outputs)}"
    changed = [f"changes in place: {', '.join(graph.mutated)}"] if graph.mutated else []
    return "\n".join([*sizes, *lines, *changed, returned])


def _line(node: Node) -> str:
    shape = f" {_shape(node.output)}" if node.output else ""
    if "." not in node.op:
        if node.op == "getitem":
            return f"{node.name}:{shape} output {_plain(node.args[1])} of {_plain(node.args[0])}"
        strides = f", strides {list(node.strides)}" if node.strides else ""
        return f"{node.name}: {node.op} {node.target}{shape}{strides}".replace("  ", " ")
    return f"{node.name}:{shape} = {_phrase(node)}"


def _phrase(node: Node) -> str:
    name = node.op.split(".")[1]
    arguments = [_plain(argument) for argument in node.args]
    extra = ", ".join(f"{key}={_plain(value)}" for key, value in node.kwargs.items())
    phrase = PHRASES.get(name)
    if phrase is None:
        return f"{name}({', '.join([*arguments, *([extra] if extra else [])])})"
    blanks = [*arguments, *["(default)"] * 8]
    return phrase.format(*blanks) + (f" ({extra})" if extra else "")


def _shape(value: Value) -> str:
    return f"{value.dtype} ({', '.join(map(str, value.shape))})"


def _plain(argument: Any) -> str:
    if isinstance(argument, dict) and len(argument) == 1:
        ((key, content),) = argument.items()
        return f"({_plain(content)[1:-1]})" if key == "tuple" else _plain(content)
    if isinstance(argument, list | tuple):
        return f"[{', '.join(_plain(part) for part in argument)}]"
    return str(argument)


def signature(problem: Problem) -> str:
    """Inputs of the forward pass with shapes, dtypes and layout, a workload a line."""
    lines = []
    for workload in problem.workloads:
        described = "; ".join(_input(each) for each in workload.inputs) or "no inputs"
        sizes = ", ".join(f"{name}={value}" for name, value in workload.arguments.items())
        role = "" if workload.timed else " (checked, not timed)"
        lines.append(f"{workload.name}{f' ({sizes})' if sizes else ''}{role}: {described}")
    lines += [f"{name} may vary from {low} to {high}" for name, (low, high) in problem.ranges.items()]
    lines.append(f"constructor arguments: {_literal(problem.init_arguments) or 'none'}")
    return "\n".join(lines)


def _literal(described: Any) -> str:
    """Described constructor arguments as they would be written; containers without brackets at the outside."""
    if isinstance(described, dict) and "literal" in described:
        return repr(described["literal"])
    if isinstance(described, dict) and len(described) == 1:
        ((kind, content),) = described.items()
        parts = content if isinstance(content, list) else [content]
        inner = ", ".join(_bracketed(part) for part in parts)
        return inner if kind in ("list", "tuple") else f"{kind}({inner})"
    return str(described if described is not None else "")


def _bracketed(described: Any) -> str:
    nested = isinstance(described, dict) and set(described) & {"list", "tuple", "dict"}
    return f"[{_literal(described)}]" if nested else _literal(described)


def _input(described: Any) -> str:
    if not isinstance(described, dict) or "shape" not in described:
        return repr(described)
    spec = TensorSpec.model_validate({name: described[name] for name in ("shape", "dtype", "strides")})
    expected, stride = [], 1
    for size in reversed(spec.shape):
        expected.append(stride)
        stride *= size
    layout = "contiguous" if spec.strides == tuple(reversed(expected)) else f"strides {list(spec.strides)}"
    return f"{spec.dtype} {list(spec.shape)} {layout}"
