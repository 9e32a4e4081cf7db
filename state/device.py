"""The machine that kernels run on, as the harness measured or looked it up."""

from pydantic import Field

from .base import Record


class DeviceSheet(Record):
    """Hardware limits and rates. Rates are data-sheet values where a name says `peak`, measured ones elsewhere."""

    name: str
    arch: str
    """As compilers write it: `sm_90`."""
    simulated: bool = False
    """True where there is no GPU: the sheet describes the target of a dry run."""
    sm_count: int
    l2_bytes: int
    shared_bytes_per_block: int
    """The most one thread block can ask for."""
    shared_bytes_per_sm: int
    registers_per_sm: int = 65536
    max_threads_per_sm: int = 2048
    memory_bytes: int
    peak_bytes_per_s: float
    """Data-sheet DRAM bandwidth: nothing real is faster."""
    copy_bytes_per_s: float
    """What a large copy reaches, reads and writes counted."""
    peak_flops: dict[str, float] = Field(default_factory=dict)
    """FLOP/s by operand type: `bf16`, `fp16`, `tf32`, `fp32`, `fp64` (dense; tensor cores where they exist)."""
    matmul_flops: dict[str, float] = Field(default_factory=dict)
    """What a large library matrix product reaches, by operand type."""
    driver: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions of python, torch, triton, cupy, cuda."""
    sandbox: dict[str, str] = Field(default_factory=dict)
    """Which isolation layers are in force, and for those that are not, why."""
