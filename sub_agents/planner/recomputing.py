"""What is computed again where it is used, rather than stored and loaded."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...state.sizes import product, value
from .addresses import INDEX
from .index_maps import contiguous_strides
from .registry import BITS
from .strided import base_of
from .tensors import Tensor

MOST_STEPS = 16
"""Statements that may be computed again in another kernel to save writing and reading their result."""
MOST_CHAINED = 64
"""Statements behind a tensor beyond which it is never computed again: looking farther would only take time."""
MOST_READ = 3
"""Bytes read to compute an element that a gather reads, in its own bytes: storing and loading it again is as much."""
MOST_REPEATED = 2
"""How often gathers may read an element on average, and it still be computed anew each time, however it is."""
MOST_WORK = 40
"""Instructions, roughly, that computing an element again and again may take in all, where it is read more often."""
MOST_WRITTEN = 100
"""Statements that it may take in a kernel's text, at all places that read it."""
_COSTLY = {"erf": 12, "pow": 12, "tanh": 10, "sin": 10, "cos": 10, "sigmoid": 8, "expm1": 8, "log1p": 8, "fmod": 8}
_COSTLY |= {"remainder": 8, "floor_div": 8, "exp": 5, "exp2": 5, "log": 5, "log2": 5, "div": 5, "reciprocal": 5}
_COSTLY |= {"sqrt": 4, "rsqrt": 4}


@dataclass(frozen=True)
class Chain:
    """A pointwise tensor with all that is computed for it from tensors in memory."""

    steps: int
    work: int
    leaves: frozenset[Tensor]
    inside: frozenset[Tensor]

    @classmethod
    def below(cls, tensor: Tensor) -> "Chain | None":
        """None where more than pointwise operators and views stands behind it, or where a lot of them do."""
        seen, waiting = set[Tensor](), [tensor]
        steps = 0
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if current.is_scan or current.kind not in ("leaf", "pointwise") and not current.is_view:
                return None
            steps += current.kind == "pointwise" and current.op not in ("literal", "iota")
            if steps > MOST_CHAINED:
                return None
            waiting += current.operands
        return cls(
            steps=steps,
            work=sum(_COSTLY.get(each.op, 1) for each in _of_data(seen)),
            leaves=frozenset(each for each in seen if each.kind == "leaf"),
            inside=frozenset(each for each in seen if each.kind == "pointwise"),
        )


def _of_data(tensors: Collection[Tensor]) -> list[Tensor]:
    """The pointwise ones that are computed from memory. Others are made of indices: places that share them, share them
    when they are computed again."""
    loaded: dict[Tensor, bool] = {}

    def loads(tensor: Tensor) -> bool:
        if tensor not in loaded:
            loaded[tensor] = tensor.kind == "leaf" or any(loads(each) for each in tensor.operands)
        return loaded[tensor]

    return [each for each in tensors if each.kind == "pointwise" and loads(each)]


def widens(tensor: Tensor) -> bool:
    """Whether it is another tensor in a wider type and no more: the narrow one takes less memory and says as much."""
    if tensor.op != "cast":
        return False
    (narrow,) = tensor.operands
    return BITS.get(narrow.dtype, 64) < BITS.get(tensor.dtype, 64)


@dataclass
class _Uses:
    """How what gathers read would be computed again for them."""

    times: float = 0.0
    """How often an element of it, on average."""
    places: int = 0
    """At how many places in a kernel's text."""
    gathered: bool = False

    def add(self, user: "_Uses", ratio: float, gathered: bool) -> None:
        """A user's own, with `ratio` elements for each of these; gathers add up, as each reads elsewhere."""
        if gathered:
            self.times += max(1.0, user.times) * ratio
            self.places += max(1, user.places)
            self.gathered = True
        else:
            self.times = max(self.times, user.times * ratio)
            self.places = max(self.places, user.places)


def _is_table(leaf: Tensor) -> bool:
    """Whether kernels can read it at computed places."""
    laid = (*leaf.shape, *leaf.strides)
    return leaf.strides == contiguous_strides(leaf.shape) or all(isinstance(each, int) for each in laid)


class Recomputing:
    """Decides by what would be read and computed, at the hinted sizes.

    `order` has all tensors that are computed, each behind what it is computed from.
    """

    def __init__(self, order: Sequence[Tensor], hints: Mapping[str, int]) -> None:
        self.hints = hints
        self._order = order
        self._chains: dict[Tensor, Chain | None] = {}

    def chain(self, tensor: Tensor) -> Chain | None:
        """As `Chain.below`, found once."""
        if tensor not in self._chains:
            self._chains[tensor] = Chain.below(tensor)
        return self._chains[tensor]

    def cheap(self, tensor: Tensor) -> bool:
        """Whether computing it again reads no more memory than loading it would."""
        chain = self.chain(tensor) if tensor.kind == "pointwise" else None
        return chain is not None and chain.steps <= MOST_STEPS and self._read(chain) <= self.bytes(tensor)

    def from_nothing(self, tensor: Tensor) -> bool:
        """Whether it is made of indices and literals alone."""
        chain = self.chain(tensor) if tensor.kind == "pointwise" else None
        return tensor.dtype == INDEX or (chain is not None and not chain.leaves and chain.steps <= MOST_STEPS)

    def moves(self, tensor: Tensor) -> bool:
        """Whether computing it reads at computed places."""
        chain = self.chain(tensor) if tensor.kind == "pointwise" else None
        return chain is not None and any(each.op == "gather" for each in chain.inside)

    @cached_property
    def carried(self) -> frozenset[Tensor]:
        """What gathers read and had better compute where they read it, all gathers of it taken together."""
        found: set[Tensor] = set()
        uses: defaultdict[Tensor, _Uses] = defaultdict(_Uses)
        for tensor in reversed(self._order):
            own = uses[tensor]
            if own.gathered:
                chain = self.chain(tensor)
                if chain is not None and self._worth_computing(tensor, chain, own):
                    found |= chain.inside
                else:
                    # It is stored, also where a user's chain has it: what it is made of is computed once for it.
                    found.discard(tensor)
                    own = uses[tensor] = _Uses()
            for number, operand in enumerate(tensor.operands):
                base = base_of(operand)
                ratio = self._elements(tensor) / self._elements(base)
                uses[base].add(own, ratio, gathered=tensor.op == "gather" and number == 0)
        return frozenset(found)

    def _worth_computing(self, source: Tensor, chain: Chain, uses: _Uses) -> bool:
        if self._read(chain) > MOST_READ * self.bytes(source) or not all(map(_is_table, chain.leaves)):
            return False
        if uses.places * chain.steps > MOST_WRITTEN:
            return False
        return (uses.times <= MOST_REPEATED and chain.steps <= MOST_STEPS) or uses.times * chain.work <= MOST_WORK

    def _read(self, chain: Chain) -> int:
        return sum(self.bytes(leaf) for leaf in chain.leaves)

    def _elements(self, tensor: Tensor) -> int:
        return max(1, value(product(tensor.shape), self.hints))

    def bytes(self, tensor: Tensor) -> int:
        """Bytes of all its elements."""
        return value(product(tensor.shape), self.hints) * BITS.get(tensor.dtype, 64) // 8
