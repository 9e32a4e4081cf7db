"""Pieces of source that all CUDA matrix-product kernels are put together from."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...state.base import Record
from ...state.dtypes import BYTES
from ...state.program import Load, MatmulProgram, Operand, Store
from ...state.sizes import Size, product
from ..kernel_source import KernelSource
from .cuda_expression import Printer, read
from .cuda_render import Host, Kernel, kernel_text
from .cuda_types import STORAGE
from .matmul_program import symbols
from .triton_expression import HALVES
from .triton_matmul_source import environment, output_line, shape_source, terms, written_out

Values = Mapping[str, tuple[tuple[Size, ...], str]]

__all__ = ["Epilogue", "Host", "Kernel", "cuda_source", "epilogue", "rendered", "shape_source", "vector_line", "wide"]


class Epilogue(Record):
    """What surrounds the main loop of a kernel, as context for `cuda_matmul_epilogue.cu.j2`."""

    loads: tuple[dict[str, str], ...]
    stores: tuple[dict[str, str], ...]
    body: tuple[str, ...]
    batch_lines: tuple[str, ...]
    batch_count: str
    pointers: dict[str, str]
    """C++ declaration of each pointer parameter, by its name."""
    pointer_of: dict[str, str]
    """Name of a value's pointer parameter; host and kernel use the same names."""
    operands: tuple[str, ...]
    """Pointers that the main loop reads."""
    later: tuple[str, ...]
    """Pointers that the epilogue reads and writes."""
    vector_line: str
    """Host line that sets `out_vec`."""

    def indexed(self) -> dict[str, Any]:
        """The template's context in a kernel whose offsets are `index_t`, and whose sums are not split."""
        lines = [line.replace("long long", "index_t") for line in self.batch_lines]
        return {"loads": self.loads, "stores": self.stores, "body": self.body, "batch_lines": lines, "split_k": 1}


def wide(size: Size) -> str:
    """A size as a C++ operand in 64 bits; symbols are kernel arguments of that type."""
    return written_out(size) if isinstance(size, str) else f"{size}LL"


def epilogue(program: MatmulProgram, row_length: Size = 0) -> Epilogue:
    """`program` is folded. Names of the program get a prefix to stay clear of the kernel's.

    A vector of the result stays within a row of `row_length` columns, where that is given.
    """
    made = [store.value for store in program.stores]
    pointer_of = {value: f"arg_{i}" for i, value in enumerate(program.reads)}
    pointer_of |= {value: f"out_{i}" for i, value in enumerate(made)}
    factors = [each for each in (program.a, program.b, program.also) if each is not None]
    printer = _printer(program)
    body = [f"const auto v_{load.name} = {read(load.dtype, _element(load))};" for load in program.loads]
    body += [printer.declaration(statement) for statement in program.body]
    return Epilogue(
        loads=tuple(_load(program, load, pointer_of[load.value]) for load in program.loads),
        stores=tuple(_store(program, store, pointer_of[store.value], printer) for store in program.stores),
        body=tuple(body),
        batch_lines=_batch_lines(program),
        batch_count=written_out(product(program.batch)),
        pointers=_declarations(program, factors, pointer_of),
        pointer_of=pointer_of,
        operands=tuple(dict.fromkeys(pointer_of[each.value] for each in factors)),
        later=tuple(dict.fromkeys(pointer_of[v] for v in [*(load.value for load in program.loads), *made])),
        vector_line=vector_line("out_vec", 4, _vector_accesses(program, pointer_of, row_length)),
    )


def _printer(program: MatmulProgram) -> Printer:
    """Of the epilogue's statements."""
    sums = {"acc": "float32", "acc_1": "float32"}
    own = {load.name: load.dtype for load in program.loads}
    own |= {statement.name: statement.dtype for statement in program.body}
    # What is rounded to a half type in the end may use the hardware's approximations.
    fast_math = all(store.dtype in HALVES for store in program.stores)
    return Printer(dtypes=sums | own, names={name: f"v_{name}" for name in own}, fast_math=fast_math)


def _declarations(program: MatmulProgram, factors: Iterable[Operand], pointer_of: Mapping[str, str]) -> dict[str, str]:
    """`Epilogue.pointers`."""
    dtypes = {factor.value: factor.dtype for factor in factors}
    dtypes |= {load.value: load.dtype for load in program.loads}
    found = {pointer_of[v]: f"const {STORAGE[dtypes[v]]}* __restrict__ {pointer_of[v]}" for v in program.reads}
    for store in program.stores:
        name = pointer_of[store.value]
        found[name] = f"{STORAGE[store.dtype]}* __restrict__ {name}"
    return found


def _load(program: MatmulProgram, load: Load, pointer: str) -> dict[str, str]:
    step = load.strides[-1]
    return {
        "name": f"t_{load.name}",
        "type": STORAGE[load.dtype],
        "kind": "scalar" if step == 0 else "vector" if step == 1 else "strided",
        "place": _place(program, pointer, load.strides, load.offset),
        "stride": str(step),
    }


def _store(program: MatmulProgram, store: Store, pointer: str, printer: Printer) -> dict[str, str]:
    return {
        "name": f"t_{pointer}",
        "type": STORAGE[store.dtype],
        "place": _place(program, pointer, store.strides, 0),
        "stride": str(store.strides[-1]),
        "value": printer.stored(store.name, store.dtype),
    }


def _place(program: MatmulProgram, pointer: str, strides: tuple[Size, ...], offset: Size) -> str:
    """Where a row and a column of a matrix lie, in C++."""
    indices = [*(f"batch_{axis}" for axis in range(len(program.batch))), "row", "column"]
    offsets = terms(strides, indices, offset)
    return f"{pointer} + {offsets}" if offsets else pointer


def _vector_accesses(
    program: MatmulProgram, pointer_of: Mapping[str, str], row_length: Size
) -> Iterator[tuple[str, str, Sequence[Size]]]:
    """Those of the epilogue that are contiguous along a row, for `vector_line`."""
    for load in program.loads:
        if load.strides[-1] == 1:
            yield pointer_of[load.value], load.dtype, (*load.strides[:-1], load.offset, row_length)
    for store in program.stores:
        if store.strides[-1] == 1:
            yield pointer_of[store.value], store.dtype, (*store.strides[:-1], row_length)


def _element(load: Load) -> str:
    return f"t_{load.name}" if load.strides[-1] == 0 else f"t_{load.name}.at[e]"


def _batch_lines(program: MatmulProgram) -> tuple[str, ...]:
    """Splits `rest` into one index a batch axis, `batch_0` outermost."""
    lines = []
    for axis in reversed(range(1, len(program.batch))):
        size = written_out(program.batch[axis])
        lines += [f"const long long batch_{axis} = rest % {size};", f"rest /= {size};"]
    return (*lines, "const long long batch_0 = rest;") if program.batch else ()


def vector_line(name: str, limit: int, accesses: Iterable[tuple[str, str, Sequence[Size]]]) -> str:
    """Python that sets `name` to the widest vector, up to `limit` elements, that pointers and steps allow.

    An access is a tensor argument, its dtype, and the steps other than 1 that lead to a vector's first element.
    """
    bits: dict[str, None] = {}
    constant = limit
    for tensor, dtype, steps in accesses:
        bits[f"{tensor}.data_ptr() // {BYTES[dtype]}"] = None
        for step in steps:
            if isinstance(step, int):
                constant |= step
            else:
                bits[f"({step})"] = None
    constant &= -constant
    combined = " | ".join([*bits, str(constant)])
    return f"{name} = ({combined}) & -({combined})" if bits else f"{name} = {constant}"


def operand_steps(operand: Operand, inner_axis: int) -> list[Size]:
    """Strides of an operand other than the one along its contiguous axis, and its offset."""
    at = len(operand.strides) + inner_axis
    return [*(stride for i, stride in enumerate(operand.strides) if i != at), operand.offset]


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """The kernel's text, with the device functions that it calls in front."""
    body = kernel_text(template, {**context, "device": ""})
    return kernel_text(template, {**context, "device": device_blocks(body)})


def device_blocks(body: str) -> str:
    """The blocks of `cuda_matmul_device.cu.j2` that the text names, and those that these name, in the file's order."""
    text = (Path(__file__).parent / "cuda_matmul_device.cu.j2").read_text()
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", text)]
    wanted = set(re.findall(r"\w+", body))
    kept: set[int] = set()
    for _ in blocks:
        for i, block in enumerate(blocks):
            defined = re.findall(r"(?:__forceinline__ [\w ]+?|struct )(\w+)(?: \{|\()", block)
            if i not in kept and wanted & set(defined):
                kept.add(i)
                wanted |= set(re.findall(r"\w+", block))
    return "\n\n".join(blocks[i] for i in sorted(kept))


def cuda_source(
    program: MatmulProgram, cuda: str, host: Host, values: Values, around: Epilogue, *, arch: str = ""
) -> KernelSource:
    """The module-level code of one step: CUDA text, its lazy compilation, and the host function.

    `arch` is for instructions that exist on one architecture alone (`sm_90a`); else the device's own is taken.
    """
    read, free = program.reads, symbols(program)
    arguments = [around.pointer_of[value] for value in read]
    made = [around.pointer_of[store.value] for store in program.stores]
    lines = [output_line(around.pointer_of[s.value], values[s.value], arguments[0]) for s in program.stores]
    lines += [f"if {host.skip_if_empty}:", f"    return {', '.join(made)}"]
    context = {
        "constant": f"{program.name.upper()}_CUDA",
        "cuda": cuda,
        "name": program.name,
        "macros": host.macros,
        "kernels": host.kernels,
        "arguments": [*arguments, *free],
        "summary": host.summary,
        "body": [*lines, *host.body],
        "returns": ", ".join(made),
    }
    code = environment().get_template("cuda_host.py.j2").render(context) + "\n"
    if arch:
        code = code.replace('"-std=c++17",', f'"-std=c++17",\n        "-arch={arch}",', 1)
    return KernelSource(
        imports=("import functools", "import cupy", "import torch"),
        code=code,
        function=f"run_{program.name}",
        reads=read,
        symbols=free,
    )
