"""What a template renders to: module-level code and the function that the forward pass calls."""

from typing import Protocol

from ..state.base import Record
from ..state.device import DeviceSheet
from ..state.program import LoopProgram, MatmulProgram
from .slots import Setting, Slot

UPDATE = "aten.copy_.default"
"""The step that gives an input changed in place its new value."""


class KernelSource(Record):
    """Source of one step. `code` defines `function`, called as `function(*reads, *symbols)`.

    It gets the tensors named in `reads` (values in order of first use) and the named symbols as ints, allocates its
    outputs with `torch.empty` on the inputs' device (a store `into` an input overwrites that one), launches on torch's
    current stream, and returns one tensor, or a tuple in the order of the program's stores where there are several.
    """

    imports: tuple[str, ...]
    """Whole import lines; duplicates across steps are merged."""
    code: str
    function: str
    reads: tuple[str, ...]
    symbols: tuple[str, ...] = ()
    """The plan's symbols that the function takes after the reads, in this order (those that the program uses)."""


class Template(Protocol):
    """A family of kernels over one kind of program, in one language."""

    name: str

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Whether it can express the program."""
        ...

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """The choices for this program at these sizes, defaults chosen well."""
        ...

    def legal(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> bool:
        """Whether a combination of choices can compile and run."""
        ...

    def render(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        values: dict[str, tuple[tuple[int | str, ...], str]],
    ) -> KernelSource:
        """Source for one setting. `values` gives shape and dtype of every value, for the outputs."""
        ...
