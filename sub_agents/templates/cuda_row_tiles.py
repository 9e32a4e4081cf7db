"""The passes of kernels that walk a row tile by tile, as context for `cuda_row_tiles.cu.j2`."""

from collections.abc import Callable

from .cuda_access import LOADS, vector_of
from .cuda_choices import text
from .cuda_expression import read
from .cuda_passes import Pass
from .cuda_row import ROWS, RowText
from .cuda_space import Access
from .cuda_types import compute_type, literal, lowest

Fetch = Callable[[Access, Pass], str]
Hold = Callable[[Access, Pass], list[str]]


def tile_pass(row: RowText, each: Pass, fetch: Fetch, hold: Hold | None = None) -> dict[str, object]:
    """One pass. `fetch` gives the text that loads a vector at `col`; `hold` the lines that keep it for later passes."""
    flow = row.flow
    merge = each.merge
    first_targets = _first_targets(row, each)
    loads = [flow.loads[name] for name in loads_of(row, each)]

    def held(name: str) -> str | None:
        if name in flow.loads:
            return read(flow.loads[name].dtype, f"{flow.printer.name(name)}_at[u].at[j]")
        return row.position(name)

    into = "here" if merge else f"part{each.number}"
    declarations, filling, stores = row.outputs(each)
    body = flow.declarations(first_targets, held) + row.accumulation(each, into)
    return {
        "number": each.number,
        "reductions": bool(each.reductions),
        "reversed": False,
        "column_lines": row.columns.lines,
        "loads": [{"name": flow.printer.name(a.name), "vector": vector_of(a), "fetch": fetch(a, each)} for a in loads],
        "holding": [line for a in loads for line in (hold(a, each) if hold else [])],
        "outputs": declarations,
        "body": body + (_first(row, each) if merge else []) + filling,
        "stores": stores,
        "merge": {"between": between(row, each), "body": second_lines(row, each, held)} if merge else None,
        "results": row.results(each, f"part{each.number}"),
    }


def _first_targets(row: RowText, each: Pass) -> list[str]:
    """What the first walk over a tile needs: everything, but for the sum that a merged pair does second."""
    if each.merge is None:
        return row.flow.targets(each)
    later = row.flow.statements[each.merge.second].args[0]
    return [*(t for t in row.flow.targets(each) if t != later), each.merge.source]


def loads_of(row: RowText, each: Pass) -> list[str]:
    """Loads that a pass reads at every column."""
    return [name for name in row.flow.needed(row.flow.targets(each)) if name in row.flow.loads]


def _first(row: RowText, each: Pass) -> list[str]:
    """Adds element `j` to the tile's own maximum, or to its sum and count."""
    merge = each.merge
    assert merge is not None
    printer = row.flow.printer
    field, source = f"here.{printer.name(merge.first)}", printer.operand(merge.source, printer.dtypes[merge.first])
    if merge.kind == "softmax":
        return [f"{field} = maximum({field}, {source});"]
    return [f"{field} += {source};", "here.count += 1;"]


def between(row: RowText, each: Pass) -> list[str]:
    """What the second walk over a tile's registers rests on."""
    merge = each.merge
    assert merge is not None
    printer = row.flow.printer
    dtype = printer.dtypes[merge.first]
    kind, name = compute_type(dtype), printer.name(merge.first)
    if merge.kind == "softmax":
        # A tile of -inf alone must add nothing; exp(-inf - -inf) would be NaN.
        return [f"const {kind} {name} = here.{name} == {lowest(dtype)} ? {literal(0, dtype)} : here.{name};"]
    mean = printer.name(merge.mean)
    return [
        f"const {kind} {mean} = here.count == 0 ? {literal(0, dtype)} : here.{name} / {kind}(here.count);",
        f"here.{name} = {mean};",
    ]


def second_lines(row: RowText, each: Pass, held: Callable[[str], str | None]) -> list[str]:
    """Adds element `j` to the tile's sum of exponentials or squared deviations."""
    merge = each.merge
    assert merge is not None
    printer, second = row.flow.printer, row.flow.statements[merge.second]
    arg = second.args[0]
    lines = row.flow.declarations([str(arg)], held)
    return [*lines, f"here.{printer.name(merge.second)} += {printer.operand(arg, second.dtype)};"]


def global_fetch(row: RowText) -> Fetch:
    """Loads from memory: earlier passes leave the data in the caches, the last one streams it."""
    last = row.flow.passes[-1].number

    def fetch(load: Access, each: Pass) -> str:
        streamed = row.fetch(load)
        if load.constant(ROWS) or each.number == last:
            return streamed
        return streamed.replace(LOADS[text(row.setting, "load")], LOADS["cached"])

    return fetch
