"""Turns a template's kernel text and launch lines into a `KernelSource`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...state.dtypes import BYTES
from ...state.program import LoopProgram
from ...state.sizes import Size
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .cuda_names import identifier, pointer_of
from .cuda_prelude import prelude
from .cuda_space import INT_LIMIT, Access, Space, narrow, reads_of, spans, symbols_of
from .cuda_types import STORAGE

Values = dict[str, tuple[tuple[int | str, ...], str]]


@dataclass(frozen=True)
class Kernel:
    """One kernel of a module; `setup` are Python lines after it was fetched."""

    name: str
    setup: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"{self.name}_kernel"


@dataclass(frozen=True)
class Host:
    """What the host function does besides allocating outputs."""

    macros: tuple[str, ...]
    """Compile-time constants that the host chooses, in lower case."""
    kernels: tuple[Kernel, ...]
    body: tuple[str, ...]
    """Python lines that end in the launches; outputs are allocated, and none of them is empty."""
    summary: str
    skip_if_empty: str = ""
    """Python condition under which there is nothing to launch."""
    workspace: tuple[str, ...] = field(default=())


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,
    )


def kernel_text(template: str, context: Mapping[str, Any]) -> str:
    """The CUDA source from a `.cu.j2` file, with the prelude blocks that it uses in front."""
    text = _environment().get_template(template).render(context)
    lines = [line.rstrip() for line in text.splitlines()]
    body = "\n".join(line for i, line in enumerate(lines) if line or (i and lines[i - 1]))
    return "\n\n".join(part for part in (prelude(body), body) if part)


def indented(lines: Sequence[str], spaces: int) -> str:
    """Lines for a place in a `.cu.j2` file that is indented by `spaces` already."""
    return ("\n" + " " * spaces).join(lines)


def specialise_slots(program: LoopProgram) -> tuple[Slot, ...]:
    """The choice to compile for the sizes of a call; none where all sizes are fixed anyway."""
    if not symbols_of(program):
        return ()
    about = "sizes as constants: cheaper index arithmetic, a compilation for each new shape"
    return (Slot(name="specialise", role="compute", choices=(True, False), default=True, about=about),)


def constants(program: LoopProgram, setting: Setting) -> tuple[str, ...]:
    """The symbols that are compile-time constants."""
    return symbols_of(program) if setting.get("specialise") else ()


def index_type(program: LoopProgram, setting: Setting) -> str:
    """The declaration of `index_t`, by the macro WIDE where it depends on run-time sizes, and of constant sizes."""
    fits = narrow(program)
    text = f"using index_t = {'int' if fits else 'long long'};"
    if fits is None:
        text = "#if WIDE\nusing index_t = long long;\n#else\nusing index_t = int;\n#endif"
    sizes = [f"constexpr index_t {identifier(s)} = {s.upper()};" for s in constants(program, setting)]
    return "\n".join([text, *sizes])


def parameters(program: LoopProgram, space: Space, setting: Setting, more: Sequence[str] = ()) -> str:
    """The kernel's parameter list: input and output pointers, then what `more` says, then symbols."""
    symbols = [s for s in symbols_of(program) if s not in constants(program, setting)]
    texts: dict[str, str] = {}
    # What is overwritten has two names: neither may promise to be the only one.
    shared = {name for store in program.stores if store.into for name in (store.value, store.into)}
    for load in space.loads:
        alone = "" if load.value in shared else "__restrict__ "
        texts.setdefault(load.pointer, f"const {STORAGE[load.dtype]}* {alone}{load.pointer}")
    for statement in program.body:
        if statement.table:
            alone = "" if statement.table in shared else "__restrict__ "
            pointer = pointer_of(statement.table)
            texts.setdefault(pointer, f"const {STORAGE[statement.dtype]}* {alone}{pointer}")
    for store in space.stores:
        alone = "" if store.value in shared else "__restrict__ "
        texts.setdefault(store.pointer, f"{STORAGE[store.dtype]}* {alone}{store.pointer}")
    return ", ".join([*texts.values(), *more, *(f"index_t {identifier(s)}" for s in symbols)])


def launch_arguments(program: LoopProgram, setting: Setting, more: Sequence[str] = ()) -> str:
    """The tuple that matches `parameters`."""
    pointers = dict.fromkeys([*reads_of(program), *(s.value for s in program.stores)])
    scalar = {True: "cupy.int32", False: "cupy.int64", None: "index"}[narrow(program)]
    texts = [f"{identifier(v)}.data_ptr()" for v in pointers] + [*more]
    texts += [f"{scalar}({s})" for s in symbols_of(program) if s not in constants(program, setting)]
    return f"({', '.join(texts)},)"


def width_lines(accesses: Sequence[Access], group: str, limit: int, others: Sequence[str]) -> list[str]:
    """Python that sets `vec`: the widest vector that every contiguous access allows and that divides `others`."""
    if limit == 1 or not any(a.last(group) == 1 for a in accesses):
        return ["vec = 1"]
    terms: dict[str, None] = dict.fromkeys(others)
    for access in accesses:
        if access.last(group) != 1:
            continue
        terms[f"{identifier(access.value)}.data_ptr() // {BYTES[access.dtype]}"] = None
        sizes: list[Size] = [
            s for g, strides in access.strides.items() for s in (strides if g != group else strides[:-1])
        ]
        terms |= dict.fromkeys(str(s) for s in [*sizes, access.offset] if s not in (0,))
    constants = [int(t) for t in terms if t.isdigit()]
    combined = 0
    for constant in constants:
        combined |= constant
    texts = [t for t in terms if not t.isdigit()] + ([str(combined & -combined)] if combined else [])
    joined = " | ".join(f"({t})" if " " in t else t for t in texts)
    return [f"aligned = {joined}", f"vec = min({limit}, aligned & -aligned) or 1"]


def render_source(program: LoopProgram, cuda: str, host: Host, values: Values, setting: Setting) -> KernelSource:
    """The module-level code of one step."""
    name = identifier(program.name)
    reads = [identifier(value) for value in reads_of(program)]
    device = f"{reads[0]}.device" if reads else '"cuda"'
    outputs = {store.value: store.into for store in program.stores}
    body = []
    for output, into in outputs.items():
        if into:
            body.append(f"{identifier(output)} = {identifier(into)}")
            continue
        shape, dtype = values[output]
        body.append(f"{identifier(output)} = torch.empty({_tuple(shape)}, dtype=torch.{dtype}, device={device})")
    returned = ", ".join(identifier(output) for output in outputs)
    if host.skip_if_empty:
        body += [f"if {host.skip_if_empty}:", f"    return {returned}"]
    macros = host.macros
    if narrow(program) is None:
        body.append(f"wide = int({_wide(program)})")
        if any("index(" in line for line in host.body):
            body.append("index = cupy.int64 if wide else cupy.int32")
        macros = (*macros, "wide", *constants(program, setting))
    body += host.body
    context = {
        "constant": f"{name.upper()}_CUDA",
        "cuda": cuda,
        "name": name,
        "macros": macros,
        "kernels": host.kernels,
        "arguments": [*reads, *symbols_of(program)],
        "summary": host.summary,
        "body": body,
        "returns": returned,
    }
    return KernelSource(
        imports=("import functools", "import cupy", "import torch"),
        code=_environment().get_template("cuda_host.py.j2").render(context),
        function=f"run_{name}",
        reads=reads_of(program),
        symbols=symbols_of(program),
    )


def stream_text(program: LoopProgram) -> str:
    """Python for torch's current stream as cupy launches on it."""
    return f"stream_of_{identifier(program.name)}(torch.cuda.current_stream().cuda_stream)"


def wide_argument(program: LoopProgram, setting: Setting) -> str:
    """The further arguments of `compile_...` where index type and constants depend on run-time sizes."""
    return "".join(f", {each}" for each in ("wide", *constants(program, setting))) if narrow(program) is None else ""


def _tuple(shape: Sequence[Size]) -> str:
    return "(" + ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"


def _wide(program: LoopProgram) -> str:
    sums = [" + ".join(str(size) for size in terms) for terms in spans(program)]
    largest = sums[0] if len(sums) == 1 else f"max({', '.join(sums)})"
    return f"{largest} >= {INT_LIMIT}"
