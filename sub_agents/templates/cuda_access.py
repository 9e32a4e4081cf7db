"""Loads and stores of vectors as text."""

from collections.abc import Sequence

from .cuda_expression import Printer
from .cuda_names import identifier
from .cuda_space import Access, Walk
from .cuda_types import STORAGE, size_text

LOADS = {"cached": "load_cached", "streaming": "load_streaming", "past_l1": "load_past_l1"}
STORES = {"cached": "store_cached", "streaming": "store_streaming"}


def fetch_text(access: Access, group: str, address: str, load: str = "load_cached", partly: bool = False) -> str:
    """A vector of neighbours along a group. With `partly`, only `valid` elements exist, maybe fewer than a vector."""
    stride = access.last(group)
    if stride == 1:
        whole = f"{load}<vector>({address})"
        return f"valid >= vector ? {whole} : load_partly<vector>({address}, valid)" if partly else whole
    return f"load_strided<vector>({address}, {size_text(stride)}, {'valid' if partly else 'vector'})"


def put_text(access: Access, group: str, address: str, values: str, store: str, partly: bool = False) -> list[str]:
    """Statements that store a vector of neighbours along a group."""
    stride = access.last(group)
    if stride != 1:
        return [f"store_strided<vector>({address}, {values}, {size_text(stride)}, {'valid' if partly else 'vector'});"]
    if not partly:
        return [f"{store}<vector>({address}, {values});"]
    return [
        f"if (valid >= vector) {store}<vector>({address}, {values});",
        f"else store_partly<vector>({address}, {values}, valid);",
    ]


def address(access: Access, walks: Sequence[Walk], base: str = "") -> str:
    """Pointer plus offset. `base` is a pointer that has the offsets of other groups and the access's own already."""
    terms = [walk.offset(access) for walk in walks]
    if not base and access.offset != 0:
        terms.insert(0, size_text(access.offset))
    return " + ".join([base or access.pointer, *(term for term in terms if term != "0")])


def vector_of(access: Access) -> str:
    return f"Vector<{STORAGE[access.dtype]}, vector>"


def output_lines(stores: Sequence[Access], printer: Printer) -> tuple[list[str], list[str]]:
    """Declarations of the output vectors, and the lines that fill element `j` of them."""
    declarations = [f"{vector_of(store)} {identifier(store.value)}_out;" for store in stores]
    filling = [f"{identifier(s.value)}_out.at[j] = {printer.stored(s.name, s.dtype)};" for s in stores]
    return declarations, filling
