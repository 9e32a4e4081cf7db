"""Renders the `.py.j2` kernel files, and what all Triton host functions share."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...state.program import LoopProgram
from ...state.sizes import Size
from ..slots import Setting, Slot
from .triton_loop import INT32_LIMIT, Group, accesses, reduced_axes, size_text, span, symbols

ANY_DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
"""Where a kernel that reads nothing writes; Triton's interpreter has no GPU."""
Values = Mapping[str, tuple[tuple[Size, ...], str]]


@cache
def _environment() -> Environment:
    return Environment(  # noqa: S701 - it renders Python, not HTML
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(file: str, context: Mapping[str, Any]) -> str:
    """The text of a template file. Raises jinja2.UndefinedError for a name that the context lacks."""
    return _environment().get_template(file).render(context)


def parameters(program: LoopProgram, values: Values, specialised: bool) -> str:
    """The kernel's parameters: inputs, outputs, and symbols, constant where the kernel is compiled for each size."""
    stores = dict.fromkeys(store.value for store in program.stores)
    names = [f"{name}_ptr" for name in (*program.reads, *stores)]
    kind = ": tl.constexpr" if specialised else ""
    return ", ".join([*names, *(f"{name}{kind}" for name in symbols(program, values))])


def arguments(program: LoopProgram, values: Values) -> str:
    """What the host passes for `parameters`."""
    stores = dict.fromkeys(store.value for store in program.stores)
    return ", ".join([*program.reads, *stores, *symbols(program, values)])


def allocations(program: LoopProgram, values: Values) -> list[str]:
    """A host line for each output: a tensor of its own, or the input that it overwrites."""
    return [
        f"{store.value} = {store.into}" if store.into else allocation(program, store.value, *values[store.value])
        for store in {store.value: store for store in program.stores}.values()
    ]


def allocation(program: LoopProgram, name: str, shape: tuple[Size, ...], dtype: str) -> str:
    """A host line that makes an empty tensor where the kernel's inputs are."""
    device = f"{program.reads[0]}.device" if program.reads else ANY_DEVICE
    sizes = ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "")
    return f"{name} = torch.empty(({sizes}), dtype=torch.{dtype}, device={device})"


def returned(program: LoopProgram) -> str:
    """The host function's result, in the order of the stores."""
    return ", ".join(dict.fromkeys(store.value for store in program.stores))


def specialise_slots(program: LoopProgram) -> tuple[Slot, ...]:
    """Whether free sizes are constants of the kernel (compiled anew for each) or its arguments."""
    if not symbols(program, {store.value: ((), "") for store in program.stores}):
        return ()
    about = "free sizes are constants of the kernel: compiled anew for each, but division and masks cost less"
    return (Slot(name="specialise", role="compute", choices=(True, False), default=True, about=about),)


def host_context(program: LoopProgram, values: Values, setting: Setting) -> dict[str, Any]:
    """The names that every kernel file uses."""
    taken = symbols(program, values)
    return {
        "name": program.name,
        "kernel": f"{program.name}_kernel",
        "function": f"run_{program.name}",
        "parameters": parameters(program, values, bool(setting.get("specialise", False))),
        "arguments": arguments(program, values),
        "signature": ", ".join((*program.reads, *taken)),
        "allocations": allocations(program, values),
        "returned": returned(program),
        "num_stages": None,
    }


def cast_if_wide(program: LoopProgram, groups: Iterable[Group], values: Values) -> str:
    """`.to(tl.int64)`, nothing, or a choice that the host makes, by whether offsets along the groups pass 2^31.

    With symbols the decision is the host's: it passes the constexpr `WIDE`.
    """
    if symbols(program, values):
        return ".to(tl.int64 if WIDE else tl.int32)"
    axes = [axis for each in groups for axis in each.axes]
    furthest = max((span(a, program, axes, {}) for a in accesses(program)), default=0)
    furthest = max(
        [furthest, *(int(each.extent) for each in groups), *(int(t.extent) for t in program.tables.values())]
    )
    # A tile may reach past the end before its mask applies.
    return ".to(tl.int64)" if furthest + 2**20 >= INT32_LIMIT else ""


def wide_on_host(program: LoopProgram, values: Values) -> str | None:
    """The host's expression for `WIDE`, None where the sizes are numbers."""
    if not symbols(program, values):
        return None
    terms = []
    for access in accesses(program):
        parts = [
            f"{size_text(stride)} * {size_text(size)}"
            for stride, size in zip(access.strides, program.space, strict=True)
            if stride != 0
        ]
        if parts:
            terms.append(" + ".join(parts))
    terms += [size_text(size) for size in (*program.space, *(table.extent for table in program.tables.values()))]
    distinct = list(dict.fromkeys(terms))
    furthest = distinct[0] if len(distinct) == 1 else f"max({', '.join(distinct)})"
    return f"{furthest} >= 2**31 - 2**20"


def is_reduction(program: LoopProgram) -> bool:
    return bool(reduced_axes(program))
