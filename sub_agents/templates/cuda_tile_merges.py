"""Lines that reduce a thread's tile of registers in two walks: a merged pair's first reduction, then its second."""

from collections.abc import Callable

from .cuda_merges import Merge
from .cuda_passes import Flow, Pass
from .cuda_types import compute_type, literal, lowest


def first_targets(flow: Flow, each: Pass) -> list[str]:
    """What the first walk over a tile needs: everything, but for the sum that a merged pair does second."""
    if each.merge is None:
        return flow.targets(each)
    later = flow.statements[each.merge.second].args[0]
    return [*(t for t in flow.targets(each) if t != later), each.merge.source]


def first_lines(flow: Flow, merge: Merge, tile: str) -> list[str]:
    """Adds one point to the tile's own maximum, or to its sum and count."""
    printer = flow.printer
    field, source = f"{tile}.{printer.name(merge.first)}", printer.operand(merge.source, printer.dtypes[merge.first])
    if merge.kind == "softmax":
        return [f"{field} = maximum({field}, {source});"]
    return [f"{field} += {source};", f"{tile}.count += 1;"]


def between(flow: Flow, merge: Merge, tile: str) -> list[str]:
    """Declarations that the second walk rests on: the tile's maximum or mean under the name of the whole row's."""
    printer = flow.printer
    dtype = printer.dtypes[merge.first]
    kind, name = compute_type(dtype), printer.name(merge.first)
    if merge.kind == "softmax":
        # A tile of -inf alone must add nothing; exp(-inf - -inf) would be NaN.
        return [f"const {kind} {name} = {tile}.{name} == {lowest(dtype)} ? {literal(0, dtype)} : {tile}.{name};"]
    mean = printer.name(merge.mean)
    return [f"const {kind} {mean} = {tile}.count == 0 ? {literal(0, dtype)} : {tile}.{name} / {kind}({tile}.count);"]


def second_lines(flow: Flow, merge: Merge, tile: str, held: Callable[[str], str | None]) -> list[str]:
    """Adds one point to the tile's sum of exponentials or squared deviations."""
    second = flow.statements[merge.second]
    arg = second.args[0]
    lines = flow.declarations([str(arg)], held)
    return [*lines, f"{tile}.{flow.printer.name(merge.second)} += {flow.printer.operand(arg, second.dtype)};"]


def settling(flow: Flow, merge: Merge, tile: str) -> list[str]:
    """What turns a tile's sums into what `merge` takes, after both walks."""
    if merge.kind == "softmax":
        return []
    return [f"{tile}.{flow.printer.name(merge.first)} = {flow.printer.name(merge.mean)};"]
