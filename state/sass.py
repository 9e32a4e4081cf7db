"""What a kernel's machine code says of itself: how wide it reads, which units multiply, what it keeps off the chip."""

from pydantic import Field

from .base import Record


class SassFacts(Record):
    """Counts of instructions in the code, not of times that they ran; a loop's body counts once."""

    instructions: int = 0
    global_load_bits: dict[int, int] = Field(default_factory=dict)
    """Loads from global memory: instructions by bits that a thread reads with one."""
    global_store_bits: dict[int, int] = Field(default_factory=dict)
    async_copy_bits: dict[int, int] = Field(default_factory=dict)
    """Copies from global to shared memory past the registers (LDGSTS), by bits a thread."""
    bulk_copies: int = 0
    """Copies of whole tiles by the TMA unit (UTMALDG, UBLKCP)."""
    tensor: dict[str, int] = Field(default_factory=dict)
    """Tensor core instructions by name: HGMMA, HMMA, IMMA, DMMA, QGMMA, UTCHMMA..."""
    fma: int = 0
    """float32 multiply-adds on the ordinary cores (FFMA)."""
    local_accesses: int = 0
    """Loads and stores of local memory: spilled registers, arrays that are indexed at run time."""

    @property
    def widest_load_bits(self) -> int | None:
        """The most bits that a thread reads from global memory at once; None where it reads none that is known."""
        return max((*self.global_load_bits, *self.async_copy_bits), default=None)
