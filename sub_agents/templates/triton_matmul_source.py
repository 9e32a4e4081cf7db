"""Pieces of source that all Triton matrix-product kernels are put together from."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...state.base import Record
from ...state.program import Load, MatmulProgram, Operand, Store
from ...state.sizes import Size, factors, product
from .matmul_program import symbols
from .triton_expression import HALVES, TYPES, Printer, Term, computed, literal

Values = Mapping[str, tuple[tuple[Size, ...], str]]
"""Shape and dtype of every value of a plan."""


@functools.cache
def environment() -> Environment:
    """Jinja with `block`: lines at an indentation, each with an ending."""

    def block(lines: Iterable[str], width: int, ending: str = "") -> str:
        return "\n".join(" " * width + line + ending if line.strip() else "" for line in lines)

    loader = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["block"] = block
    return made


def rendered(template: str, context: Mapping[str, object]) -> str:
    """The template's text without trailing blanks and without runs of blank lines."""
    lines = [line.rstrip() for line in environment().get_template(template).render(context).splitlines()]
    kept = [line for i, line in enumerate(lines) if line or lines[i - 2 : i] != ["", ""]]
    return "\n".join(kept).strip() + "\n"


class Pieces(Record):
    """Source lines and names that depend on the program alone, not on the setting."""

    parameters: tuple[str, ...]
    """Of the host function: the values it reads, then symbols."""
    symbols: tuple[str, ...]
    pointer_of: dict[str, str]
    """Kernel pointer argument by value name, for what the epilogue or the main loop reads and writes."""
    argument_of: dict[str, str]
    """Host expression for each pointer argument."""
    batch_lines: tuple[str, ...]
    batch_count: str
    epilogue_lines: tuple[str, ...]
    load_lines: tuple[str, ...]
    """The first of the epilogue's lines."""
    epilogue_pointers: tuple[str, ...]
    prelude: tuple[str, ...]
    """Device functions that the epilogue calls."""
    imports: tuple[str, ...]
    output_lines: tuple[str, ...]
    returned: str
    index: str
    """Host expression for the type of element offsets."""

    def context(
        self, operands: Iterable[str], made: Mapping[str, str] | None = None, split: bool = False
    ) -> dict[str, object]:
        """What every template takes from here, and the pointers of its kernels: the main loop's operands come first.

        Args:
            operands: names of pointers, or of what the host makes for the kernel, each by its expression in `made`.
            split: sums of parts of k go to `parts_ptr`, and a second kernel adds them and runs the epilogue.
        """
        argument_of = {**self.argument_of, "parts_ptr": "parts", **(made or {})}
        kernel_pointers = tuple(dict.fromkeys([*operands, *(("parts_ptr",) if split else self.epilogue_pointers)]))
        sum_pointers = tuple(dict.fromkeys(["parts_ptr", *self.epilogue_pointers]))
        return {
            "batch_lines": self.batch_lines,
            "batch_count": self.batch_count,
            "epilogue_lines": self.epilogue_lines,
            "output_lines": self.output_lines,
            "returned": self.returned,
            "index": self.index,
            "parameters": self.parameters,
            "symbols": self.symbols,
            "kernel_pointers": kernel_pointers,
            "sum_pointers": sum_pointers,
            "arguments": [argument_of[each] for each in kernel_pointers] + list(self.symbols),
            "sum_arguments": [argument_of[each] for each in sum_pointers] + list(self.symbols),
        }


def pieces(program: MatmulProgram, values: Values) -> Pieces:
    """Everything around the main loop. `program` is folded; kernels bind `rest`, `rows`, `columns` and `acc`."""
    read, made = program.reads, [store.value for store in program.stores]
    parameters = {value: f"arg_{i}" for i, value in enumerate(read)}
    outputs = {value: f"out_{i}" for i, value in enumerate(made)}
    pointer_of = {value: f"{name}_ptr" for value, name in (parameters | outputs).items()}
    epilogue_values = dict.fromkeys([load.value for load in program.loads] + made)
    # What is rounded to a half type in the end may use the hardware's approximations.
    printer = Printer(unit="[1, 1]", exact=not all(store.dtype in HALVES for store in program.stores))
    lines = epilogue_lines(program, pointer_of, printer)
    return Pieces(
        parameters=(*parameters.values(), *symbols(program)),
        symbols=symbols(program),
        pointer_of=pointer_of,
        argument_of={pointer_of[value]: name for value, name in (parameters | outputs).items()},
        batch_lines=batch_lines(program),
        batch_count=written_out(product(program.batch)),
        epilogue_lines=lines,
        load_lines=lines[: len(program.loads)],
        epilogue_pointers=tuple(pointer_of[value] for value in epilogue_values),
        prelude=tuple(printer.prelude()),
        imports=("import torch", *printer.imports()),
        output_lines=tuple(output_line(outputs[v], values[v], parameters[read[0]]) for v in made),
        returned=", ".join(outputs.values()),
        index=index_type(program),
    )


def written_out(size: Size) -> str:
    """A size as an operand of any arithmetic: products in brackets."""
    return f"({size})" if isinstance(size, str) and "*" in size else str(size)


def shape_source(shape: Iterable[Size]) -> str:
    """A tuple of sizes as Python source."""
    return "(" + "".join(f"{size}, " for size in shape).rstrip() + ")"


def output_line(name: str, value: tuple[tuple[Size, ...], str], like: str) -> str:
    shape, dtype = value
    return f"{name} = torch.empty({shape_source(shape)}, dtype=torch.{dtype}, device={like}.device)"


def batch_lines(program: MatmulProgram) -> tuple[str, ...]:
    """One 64-bit index a batch axis from `rest`, the number of the matrix; `rest` stays.

    Axes along which some tensor stays in place come last: programs that run together then share it in L2.
    """
    tensors: tuple[Operand | Load, ...] = (*program.operands, *program.side_loads)
    moving = [t.strides[: len(program.batch)] for t in tensors]
    moving = [strides for strides in moving if any(stride != 0 for stride in strides)]
    shared = {axis for strides in moving for axis, stride in enumerate(strides) if stride == 0}
    order = sorted(range(len(program.batch)), key=lambda axis: (axis in shared, axis))
    lines = []
    for place, axis in enumerate(order):
        inner = written_out(product(program.batch[each] for each in order[place + 1 :]))
        index = "rest" if inner == "1" else f"rest // {inner}"
        if place > 0:
            index = f"{index} % {written_out(program.batch[axis])}"
        lines.append(f"batch_{axis} = {index if index == 'rest' else f'({index})'}.to(tl.int64)")
    return tuple(lines)


def terms(strides: Iterable[Size], indices: Iterable[str], offset: Size = 0) -> str:
    """`index * stride + ...` without what is zero; empty if all is."""
    parts = [str(offset)] if offset != 0 else []
    for stride, index in zip(strides, indices, strict=True):
        if stride == 1:
            parts.append(index)
        elif stride != 0:
            parts.append(f"{index} * {written_out(stride)}")
    return " + ".join(parts)


def tile_terms(strides: Sequence[Size], indices: Sequence[str], offset: Size = 0) -> str:
    """As `terms`, in the shape of the whole tile even where the last two strides are 0."""
    found = terms(strides, indices, offset)
    still = [f"{index} * 0" for stride, index in zip(strides[-2:], indices[-2:], strict=True) if stride == 0]
    return " + ".join(filter(None, [found, *still]))


def plus(base: str, offsets: str) -> str:
    """A pointer with its offsets added."""
    return f"{base} + {offsets}" if offsets else base


def operand_pointers(program: MatmulProgram, operand: Operand, parts: Pieces, places: Sequence[str]) -> str:
    """Where a factor's tile lies, with its rows and columns at these places."""
    offsets = tile_terms(operand.strides, [*batch_indices(program), *places], operand.offset)
    return plus(parts.pointer_of[operand.value], offsets)


def batch_indices(program: MatmulProgram) -> list[str]:
    return [f"batch_{axis}" for axis in range(len(program.batch))]


def tile_indices(program: MatmulProgram) -> list[str]:
    """Index expressions of the epilogue's space."""
    return [*batch_indices(program), "rows[:, None]", "columns[None, :]"]


def edge_mask(program: MatmulProgram, strides: tuple[Size, ...]) -> str:
    """What keeps an epilogue access inside, along the axes that it moves on; empty for a scalar."""
    parts = []
    if strides[-2] != 0:
        parts.append(f"(rows[:, None] < {program.m})")
    if strides[-1] != 0:
        parts.append(f"(columns[None, :] < {program.n})")
    return " & ".join(parts)


def epilogue_lines(program: MatmulProgram, pointer_of: Mapping[str, str], printer: Printer) -> tuple[str, ...]:
    """Loads, statements and stores of the epilogue. Names of the program get a prefix to stay clear of the kernel's."""
    known = {"acc": Term("acc", "float32"), "acc_1": Term("acc_1", "float32")}
    lines = []
    for load in program.loads:
        lines.append(f"v_{load.name} = {load_source(program, load, pointer_of[load.value])}")
        known[load.name] = Term(f"v_{load.name}", computed(load.dtype))
    for statement in program.body:
        if statement.op == "iota":
            axis = int(statement.args[0])
            index = tile_indices(program)[axis]
            of_batch = axis < len(program.batch)
            text = f"tl.full([1, 1], {index}, tl.int64)" if of_batch else f"({index}).to(tl.int64)"
        else:
            text = printer.expression(statement.op, statement.dtype, tuple(term(arg, known) for arg in statement.args))
        lines.append(f"v_{statement.name} = {text}")
        known[statement.name] = Term(f"v_{statement.name}", computed(statement.dtype))
    for store in program.stores:
        lines.append(store_source(program, store, pointer_of[store.value], known[store.name]))
    return tuple(lines)


def term(arg: str | bool | int | float, known: Mapping[str, Term]) -> Term:
    """An argument of a statement: an earlier name, a literal or a symbolic size."""
    if not isinstance(arg, str):
        return literal(arg)
    return known[arg] if arg in known else Term(f"tl.full([1, 1], {arg}, tl.int64)", "int64")


def load_source(program: MatmulProgram, load: Load, pointer: str) -> str:
    where = plus(pointer, terms(load.strides, tile_indices(program), load.offset))
    mask = edge_mask(program, load.strides)
    loaded = f"tl.load({where}, mask={mask}, other=0)" if mask else f"tl.load({where})"
    return f"{loaded}.to(tl.float32)" if load.dtype in HALVES else loaded


def store_source(program: MatmulProgram, store: Store, pointer: str, value: Term) -> str:
    where = plus(pointer, tile_terms(store.strides, tile_indices(program)))
    mask = edge_mask(program, (1, 1))  # Also along an axis of one element, where all of a tile would be stored.
    # A boolean tensor is stored as bytes.
    dtype = "tl.int8" if store.dtype == "bool" else TYPES[store.dtype]
    return f"tl.store({where}, {value.text}.to({dtype}), mask={mask})"


def span(strides: Iterable[Size], sizes: Iterable[Size], offset: Size) -> str | int:
    """A bound on the element offsets of a tensor: a number, or Python source where symbols are in it."""
    reached = [offset, *(product(pair) for pair in zip(strides, sizes, strict=True))]
    fixed = sum(size for size in reached if isinstance(size, int))
    free = [str(size) for size in reached if isinstance(size, str)]
    return " + ".join([*free, str(fixed)]) if free else fixed


def index_type(program: MatmulProgram) -> str:
    """32-bit offsets unless a tensor reaches past 2^31 elements: decided at each call where sizes are symbolic."""
    wide = wide_when(program)
    return {"True": "tl.int64", "False": "tl.int32"}.get(wide, f"tl.int64 if {wide} else tl.int32")


def wide_when(program: MatmulProgram) -> str:
    """Python for whether a tensor reaches past 2^31 elements."""
    spans = _spans(program) + ([] if program.scores is None else _spans(program.scores))
    if any(isinstance(each, int) and each >= 2**31 for each in spans):
        return "True"
    free = [each for each in spans if isinstance(each, str)]
    return f"max({', '.join(dict.fromkeys(free))}, 0) >= 2**31" if free else "False"


def _spans(program: MatmulProgram) -> list[str | int]:
    """How far each tensor reaches."""
    right = (*program.batch, program.k, program.n)
    spans = [span(program.a.strides, (*program.batch, program.m, program.k), program.a.offset)]
    spans += [span(t.strides, right, t.offset) for t in (program.b, program.also) if t is not None]
    if (windows := program.b.windows) is not None:
        walks = (*program.b.strides[:-2], windows.channel_walk, *(axis.walk for axis in windows.axes))
        sizes = (*program.batch, windows.channels, *(axis.length for axis in windows.axes))
        spans.append(span(walks, sizes, program.b.offset))
    tensors: tuple[Load | Store, ...] = (*program.loads, *program.stores)
    for tensor in tensors:
        spans.append(span(tensor.strides, program.space, tensor.offset if isinstance(tensor, Load) else 0))
    # Parts of split sums, or scores: those are never stored.
    return [*spans, span((program.n, 1), (program.m, program.n), 0)] if program.stores else spans


def multiple_of(size: Size, divisor: int) -> bool:
    """Whether the size is a multiple of the divisor for every value of its symbols."""
    return factors(size)[0] % divisor == 0


def contiguous_axis(operand: Operand) -> int | None:
    """-1 or -2, the matrix axis with stride 1; None without one."""
    if operand.strides[-1] == 1:
        return -1
    return -2 if operand.strides[-2] == 1 else None
