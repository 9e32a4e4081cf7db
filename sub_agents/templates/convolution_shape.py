"""A convolution's geometry along its last two axes and the one before, and what kernels write of it."""

from math import gcd

from ...state.base import Record
from ...state.dtypes import BYTES
from ...state.program import MatmulProgram, WindowAxis
from ...state.sizes import Size, product
from ..slots import Setting
from .triton_matmul_source import written_out

ALONE = WindowAxis(taps=1, dilation=1, stride=1, padding=0, behind=0, places=1, length=1, walk=0)
"""An axis that windows of fewer dimensions have not."""
MOST_PAIRS = 8


class Shape(Record):
    """A convolution's geometry; axes that it has not are of one place."""

    channels: int
    pack: int
    """Channels in 16 bytes."""
    axes: tuple[WindowAxis, WindowAxis]
    """The last two: rows and columns."""
    deep: WindowAxis = ALONE
    """The one before."""

    @classmethod
    def of(cls, program: MatmulProgram) -> "Shape":
        windows = program.b.windows
        assert windows is not None
        deep, rows, columns = (ALONE, ALONE, *windows.axes)[-3:]
        pack = 16 // BYTES[program.b.dtype]
        return cls(channels=windows.channels, pack=pack, axes=(rows, columns), deep=deep)

    @property
    def outputs(self) -> tuple[Size, Size]:
        return self.axes[0].places, self.axes[1].places

    @property
    def periods(self) -> tuple[int, ...]:
        """Taps this far apart read the same of the planes that a stride cuts the input into."""
        return tuple(axis.stride // gcd(axis.stride, axis.dilation) for axis in self.axes)

    @property
    def reaches(self) -> tuple[int, ...]:
        """Places from the first to the last that a window reads of a plane."""
        return tuple((axis.taps - 1) * axis.dilation // axis.stride for axis in self.axes)

    @property
    def planes(self) -> int:
        first, second = (min(axis.taps, period) for axis, period in zip(self.axes, self.periods, strict=True))
        return first * second

    def words(self) -> tuple[int, ...]:
        """Choices of 16-byte words to hold at a time, always in pairs, the most last."""
        pairs = -(-self.channels // (2 * self.pack))
        shares = {-(-pairs // blocks) for blocks in range(1, pairs + 1)}
        # Blocks that end in little but padding do not pay.
        even = [share for share in shares if share <= MOST_PAIRS and -(-pairs // share) * share <= 1.1 * pairs]
        return tuple(2 * share for share in sorted({*even, 1})[-5:])

    def blocks(self, setting: Setting) -> int:
        return -(-self.channels // (int(setting["words"]) * self.pack))

    @property
    def pairs(self) -> bool:
        """Whether halves can be fetched two at a time where rows begin at even places."""
        last = self.axes[1]
        return self.pack == 8 and (last.walk, last.dilation) == (1, 1) and last.stride <= min(2, last.taps)

    def place_bytes(self, setting: Setting) -> int:
        """Shared memory that a place takes: its words, and where it lies (a pair, and where its halves go)."""
        return self.planes * (16 * int(setting["words"]) + (12 if self.pairs else 4))

    def constants(self) -> dict[str, object]:
        """What kernel texts name of it, a value for each axis."""
        named = {f"{name}s": [getattr(axis, name) for axis in self.axes] for name in ("stride", "dilation", "padding")}
        sizes = {"outputs": self.outputs, "lengths": [axis.length for axis in self.axes]}
        return {
            **named,
            "taps": [axis.taps for axis in self.axes],
            "walks": self.walks,
            "deep": {name: written_out(getattr(self.deep, name)) for name in WindowAxis.model_fields},
            **{name: [written_out(size) for size in each] for name, each in sizes.items()},
        }

    @property
    def walks(self) -> list[str]:
        """Source of the elements of memory from one index to the next."""
        return [written_out(axis.walk) for axis in self.axes]

    @property
    def elements(self) -> Size:
        """Of a channel."""
        return product(axis.length for axis in (self.deep, *self.axes))

    @property
    def taps(self) -> int:
        """Elements of a window."""
        return self.deep.taps * self.axes[0].taps * self.axes[1].taps
