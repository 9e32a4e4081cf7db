"""What compiling tells of each kernel, as lines for a person."""

from collections.abc import Iterator

from ..state.evaluation import CompileReport, KernelResources
from ..state.sass import SassFacts
from ..state.wording import counted

_MOST_KERNELS = 8


def kernel_lines(report: CompileReport | None) -> Iterator[str]:
    """A line a kernel: `softmax: 31 registers, 100% of the warps fit, loads of 128 bits`; the first few of many."""
    kernels = report.kernels if report is not None else ()
    for kernel in kernels[:_MOST_KERNELS]:
        yield f"{kernel.name}: {', '.join(_facts(kernel))}"
    if len(kernels) > _MOST_KERNELS:
        yield counted(len(kernels) - _MOST_KERNELS, "more kernel")


def _facts(kernel: KernelResources) -> Iterator[str]:
    yield f"{kernel.registers} registers" if kernel.registers is not None else "registers unknown"
    if kernel.spill_bytes:
        yield f"{kernel.spill_bytes} bytes a thread in local memory"
    if kernel.shared_bytes:
        yield f"{kernel.shared_bytes / 1024:.3g} KiB of shared memory a block"
    if kernel.theoretical_occupancy is not None:
        limit = "" if kernel.theoretical_occupancy >= 1 else f", limited by {kernel.limiter}"
        yield f"{kernel.theoretical_occupancy:.0%} of the warps fit{limit}"
    if kernel.sass is not None:
        yield from _instructions(kernel.sass)


def _instructions(sass: SassFacts) -> Iterator[str]:
    if sass.bulk_copies:
        yield "loads of whole tiles"
    elif sass.widest_load_bits is not None:
        yield f"loads of {sass.widest_load_bits} bits"
    if sass.tensor:
        yield f"tensor cores by {' and '.join(sass.tensor)}"
