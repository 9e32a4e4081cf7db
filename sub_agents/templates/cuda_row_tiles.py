"""The passes of kernels that walk a row tile by tile, as context for `cuda_row_tiles.cu.j2`."""

from collections.abc import Callable

from .cuda_access import LOADS, vector_of
from .cuda_choices import text
from .cuda_expression import read
from .cuda_passes import Pass
from .cuda_row import RowText, shared
from .cuda_space import Access
from .cuda_tile_merges import between, first_lines, first_targets, second_lines, settling

Fetch = Callable[[Access, Pass], str]
Hold = Callable[[Access, Pass], list[str]]


def tile_pass(row: RowText, each: Pass, fetch: Fetch, hold: Hold | None = None) -> dict[str, object]:
    """One pass. `fetch` gives the text that loads a vector at `col`; `hold` the lines that keep it for later passes."""
    flow = row.flow
    merge = each.merge
    targets = first_targets(flow, each)
    loads = [flow.loads[name] for name in loads_of(row, each)]

    def held(name: str) -> str | None:
        if name in flow.loads:
            return read(flow.loads[name].dtype, f"{flow.printer.name(name)}_at[u].at[j]")
        return row.position(name)

    into = "here" if merge else f"part{each.number}"
    declarations, filling, stores = row.outputs(each)
    body = flow.declarations(targets, held) + row.accumulation(each, into)
    return {
        "number": each.number,
        "reductions": bool(each.reductions),
        "reversed": False,
        "column_lines": row.columns.lines,
        "may_shift": bool(row.leads),
        "loads": [{"name": flow.printer.name(a.name), "vector": vector_of(a), "fetch": fetch(a, each)} for a in loads],
        "holding": [line for a in loads for line in (hold(a, each) if hold else [])],
        "outputs": declarations,
        "body": row.body(body + row.inside(first_lines(flow, merge, "here") if merge else []) + filling),
        "stores": stores,
        "merge": None
        if merge is None
        else {
            "between": between(flow, merge, "here"),
            "body": row.body(_guarded(row, second_lines(flow, merge, "here", held))),
            "settling": settling(flow, merge, "here"),
        },
        "results": row.results(each, f"part{each.number}"),
    }


def _guarded(row: RowText, lines: list[str]) -> list[str]:
    """Declarations, then the one line that adds to the partial result."""
    return [*lines[:-1], *row.inside(lines[-1:])]


def loads_of(row: RowText, each: Pass) -> list[str]:
    """Loads that a pass reads at every column."""
    return [name for name in row.flow.needed(row.flow.targets(each)) if name in row.flow.loads]


def global_fetch(row: RowText) -> Fetch:
    """Loads from memory: earlier passes leave the data in the caches, the last one streams it."""
    last = row.flow.passes[-1].number

    def fetch(load: Access, each: Pass) -> str:
        text_of_load = row.fetch(load)
        if shared(load) or each.number == last:
            return text_of_load
        return text_of_load.replace(LOADS[text(row.setting, "load")], LOADS["cached"])

    return fetch
