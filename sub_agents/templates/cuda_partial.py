"""The struct that holds one thread's share of a pass's reductions, and the lines that add to it and read it."""

from collections.abc import Sequence

from ...state.program import Statement
from .cuda_expression import Printer
from .cuda_merges import Merge
from .cuda_types import compute_type, highest, literal, lowest

_SMALL = ("bool", "short", "signed char", "unsigned char")
_ARGUMENT = {"reduce_argmax": "before_maximum", "reduce_argmin": "before_minimum"}


def partial_struct(number: int, reductions: Sequence[Statement], merge: Merge | None, printer: Printer) -> str:
    """`struct Partial<number>` with `identity()` and `merge(other)`; its size is a multiple of 4 bytes."""
    fields: list[tuple[str, str, str]] = []
    merging: list[str] = []
    for reduction in reductions:
        if merge and reduction.name in (merge.first, merge.second):
            continue
        own, lines = _single(reduction, printer)
        fields += own
        merging += lines
    if merge:
        own, lines = _pair(merge, printer)
        fields += own
        merging += lines
    name = f"Partial{number}"
    members = "".join(f"    {kind} {field};\n" for kind, field, _ in fields)
    identity = ", ".join(start for _, _, start in fields)
    body = "".join(f"        {line}\n" for line in merging)
    return (
        f"struct {name} {{\n{members}"
        f"    __device__ __forceinline__ static {name} identity() {{ return {{{identity}}}; }}\n"
        f"    __device__ __forceinline__ void merge(const {name}& other) {{\n{body}    }}\n}};"
    )


def accumulate(reduction: Statement, into: str, index: str, printer: Printer) -> str:
    """A statement that adds one point to the partial result `into`. `index` is the point's flat column."""
    field = f"{into}.{printer.name(reduction.name)}"
    arg = reduction.args[0]
    if reduction.op in _ARGUMENT:
        dtype = printer.dtypes[arg] if isinstance(arg, str) else "float32"
        value = printer.operand(arg, dtype)
        test = f"{_ARGUMENT[reduction.op]}({value}, {index}, {field}_value, {field}_index)"
        return f"if ({test}) {field}_value = {value}, {field}_index = {index};"
    if reduction.op in ("reduce_any", "reduce_all"):
        return f"{field} {'|' if reduction.op == 'reduce_any' else '&'}= {printer.operand(arg, 'bool')};"
    value = printer.operand(arg, reduction.dtype)
    if reduction.op in ("reduce_max", "reduce_min"):
        which = "maximum" if reduction.op == "reduce_max" else "minimum"
        kind = _field_type(reduction.dtype)
        return (
            f"{field} = {which}<{kind}>({field}, {value});"
            if kind != "float"
            else f"{field} = {which}({field}, {value});"
        )
    return f"{field} {'*' if reduction.op == 'reduce_prod' else '+'}= {value};"


def results(reductions: Sequence[Statement], merge: Merge | None, source: str, printer: Printer) -> list[str]:
    """Declarations of the finished reductions, from the merged partial result `source`."""
    lines = []
    for reduction in reductions:
        kind, name = compute_type(reduction.dtype), printer.name(reduction.name)
        text = f"{source}.{name}"
        if reduction.op in _ARGUMENT:
            text += "_index"
        if merge and merge.kind == "moments" and reduction.name == merge.first:
            text = f"{source}.{name} * {kind}({source}.count)"
        if merge and merge.kind == "softmax" and reduction.name == merge.second:
            peak = f"{source}.{printer.name(merge.first)}"
            # An infinite or NaN maximum makes every exponential NaN.
            text = f"{peak} - {peak} == 0 ? {text} : not_a_number<{kind}>()"
        lines.append(f"const {kind} {name} = {text};")
    return lines


def _field_type(dtype: str) -> str:
    kind = compute_type(dtype)
    return "int" if kind in _SMALL else kind


def _single(reduction: Statement, printer: Printer) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Fields (type, name, identity) and merging lines of one reduction."""
    name, dtype, op = printer.name(reduction.name), reduction.dtype, reduction.op
    if op in _ARGUMENT:
        arg = reduction.args[0]
        source = printer.dtypes[arg] if isinstance(arg, str) else "float32"
        start = lowest(source) if op == "reduce_argmax" else highest(source)
        test = f"{_ARGUMENT[op]}(other.{name}_value, other.{name}_index, {name}_value, {name}_index)"
        line = f"if ({test}) {name}_value = other.{name}_value, {name}_index = other.{name}_index;"
        return [(_field_type(source), f"{name}_value", start), ("index_t", f"{name}_index", "0x7fffffff")], [line]
    kind = _field_type(dtype)
    starts = {"reduce_max": lowest(dtype), "reduce_min": highest(dtype), "reduce_prod": literal(1, dtype)}
    starts |= {"reduce_any": "0", "reduce_all": "1"}
    merging = {
        "reduce_max": f"{name} = maximum({name}, other.{name});",
        "reduce_min": f"{name} = minimum({name}, other.{name});",
        "reduce_prod": f"{name} *= other.{name};",
        "reduce_any": f"{name} |= other.{name};",
        "reduce_all": f"{name} &= other.{name};",
    }
    start = starts.get(op, literal(0, dtype))
    return [(kind, name, start)], [merging.get(op, f"{name} += other.{name};")]


def _pair(merge: Merge, printer: Printer) -> tuple[list[tuple[str, str, str]], list[str]]:
    first, second = printer.name(merge.first), printer.name(merge.second)
    dtype = printer.dtypes[merge.first]
    kind, zero = compute_type(dtype), literal(0, dtype)
    if merge.kind == "softmax":
        lines = [
            f"const {kind} highest = maximum({first}, other.{first});",
            f"{second} = {second} * rescale({first}, highest) + other.{second} * rescale(other.{first}, highest);",
            f"{first} = highest;",
        ]
        return [(kind, first, lowest(dtype)), (kind, second, zero)], lines
    # The field of the first sum holds the mean until the end.
    lines = [
        "if (other.count == 0) return;",
        f"const {kind} all = {kind}(count + other.count);",
        f"const {kind} own_share = {kind}(count) / all, other_share = {kind}(other.count) / all;",
        f"const {kind} delta = other.{first} - {first};",
        f"{second} += other.{second} + delta * delta * ({kind}(count) * other_share);",
        f"{first} = {first} * own_share + other.{first} * other_share;",
        "count += other.count;",
    ]
    return [("index_t", "count", "0"), (kind, first, zero), (kind, second, zero)], lines
