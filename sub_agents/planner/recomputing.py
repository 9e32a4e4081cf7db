"""What is computed again where it is used, rather than stored and loaded."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...state.sizes import product, value
from .addresses import INDEX
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
        elsewhere: defaultdict[Tensor, float] = defaultdict(float)
        read: set[Tensor] = set()
        for tensor in reversed(self._order):
            if tensor in read:
                chain = self.chain(tensor)
                if chain is not None and self._worth_computing(tensor, chain, elsewhere[tensor]):
                    found |= chain.inside
                else:
                    elsewhere[tensor] = 0.0  # It is stored: what it is made of is computed once for it.
            for number, operand in enumerate(tensor.operands):
                base = base_of(operand)
                ratio = self._elements(tensor) / self._elements(base)
                if tensor.op == "gather" and number == 0:
                    elsewhere[base] += max(1.0, elsewhere[tensor]) * ratio
                    read.add(base)
                else:
                    elsewhere[base] = max(elsewhere[base], elsewhere[tensor] * ratio)
        return frozenset(found)

    def _worth_computing(self, source: Tensor, chain: Chain, times: float) -> bool:
        if self._read(chain) > MOST_READ * self.bytes(source):
            return False
        return (times <= MOST_REPEATED and chain.steps <= MOST_STEPS) or times * chain.work <= MOST_WORK

    def _read(self, chain: Chain) -> int:
        return sum(self.bytes(leaf) for leaf in chain.leaves)

    def _elements(self, tensor: Tensor) -> int:
        return max(1, value(product(tensor.shape), self.hints))

    def bytes(self, tensor: Tensor) -> int:
        """Bytes of all its elements."""
        return value(product(tensor.shape), self.hints) * BITS.get(tensor.dtype, 64) // 8
