"""How far an output is from what it should be, and how far it may be.

An error is judged against the reference's own: both are taken to a float64 oracle. With e_ref the reference's error,
y the oracle's output and u the unit roundoff, a candidate passes a draw if (rms over all elements, pooled over the
repeats of the draw)

    rms(e) <= max(3 rms(e_ref), c_out u_out rms(y), 2 rms(e_cond))

where e_cond is the oracle's answer to inputs rounded once more at the policy's precision: what any backward stable
algorithm of that precision may lose, however lucky the reference was. c_out is 2 where the output's own rounding is
what a narrow type costs, and 32 for float32 and float64: another order of additions (atomics over thousands of
blocks) or another formula (the exponential of a logarithm) costs some units in the last place, TF32 thousands.

Where few elements carry the error (exponentials of large inputs), its rms is itself a matter of luck, and the first
and third bound are widened accordingly. No single element may be off by more than 16 times the bound or 8 times the
largest error of reference and rounding, plus a few roundings of its own value. There is no absolute tolerance
anywhere, so zeros, constants and doubled outputs fail at any magnitude.
"""

from dataclasses import dataclass, field
from math import isfinite

import torch

from ...state.problem import Precision

_CHUNK = 1 << 25
REFERENCE_FACTOR = 3.0
OUTPUT_FACTOR = {torch.float16: 2.0, torch.bfloat16: 2.0, torch.float32: 32.0, torch.float64: 32.0}
CONDITION_FACTOR = 2.0
ELEMENT_FACTOR = 16.0
LARGEST_FACTOR = 8.0
TAIL_FACTOR = 8.0
ELEMENT_ROUNDINGS = {torch.float16: 8.0, torch.bfloat16: 8.0, torch.float32: 64.0, torch.float64: 64.0}

UNIT_ROUNDOFF = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-9,
}
POLICY_ROUNDOFF: dict[Precision, float] = {
    "reference": 2.0**-24,
    "strict-fp32": 2.0**-24,
    "tf32": 2.0**-11,
    "bf16": 2.0**-9,
}


@dataclass
class Distance:
    """Sums over one or more tensors; merges over repeats of a draw."""

    squared_error: float = 0.0
    squared_value: float = 0.0
    count: int = 0
    excess: int = 0
    """Elements beyond their own bound."""
    fourth_power: float = 0.0
    """Sum of fourth powers of errors: says how many elements carry the error."""
    largest: float = 0.0
    misplaced: int = 0
    """Elements where NaN or infinity should be and is not, or is and should not be."""
    worst: str = ""
    _worst_error: float = field(default=0.0, repr=False)

    @property
    def rms_error(self) -> float:
        return (self.squared_error / self.count) ** 0.5 if self.count else 0.0

    @property
    def rms_value(self) -> float:
        return (self.squared_value / self.count) ** 0.5 if self.count else 0.0

    @property
    def tail_factor(self) -> float:
        """How much more the rms of another honest error may be, by chance, where few elements carry it.

        With n carriers (participation ratio) the rms of independent errors scatters by about 1/sqrt(n).
        """
        if not 0 < self.fourth_power < float("inf"):
            return 1.0
        carriers = self.squared_error * self.squared_error / self.fourth_power
        return 1.0 + TAIL_FACTOR / max(1.0, carriers) ** 0.5

    def merge(self, other: "Distance") -> None:
        self.squared_error += other.squared_error
        self.squared_value += other.squared_value
        self.count += other.count
        self.excess += other.excess
        self.misplaced += other.misplaced
        self.fourth_power += other.fourth_power
        self.largest = max(self.largest, other.largest)
        if other._worst_error >= self._worst_error:
            self.worst, self._worst_error = other.worst, other._worst_error


def distance(
    actual: torch.Tensor,
    expected: torch.Tensor,
    limit: float = float("inf"),
    excused: torch.Tensor | None = None,
) -> Distance:
    """Distance of a floating output from the oracle's, chunk by chunk in float64.

    Elements that are off by more than `limit` (absolute), plus roundings of their own value, count as excess.
    `excused`, the reference's output, excuses non-finite values where the reference overflows and the oracle does not.
    """
    total = Distance()
    flat, wanted = actual.reshape(-1), expected.reshape(-1)
    spare = excused.reshape(-1) if excused is not None else None
    top = torch.finfo(actual.dtype).max
    rounding = ELEMENT_ROUNDINGS[actual.dtype] * UNIT_ROUNDOFF[actual.dtype]
    for start in range(0, flat.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        pardon = spare[part] if spare is not None else None
        total.merge(_chunk(flat[part], wanted[part], (limit, top, rounding, start), pardon))
    if total.worst:
        total.worst = _with_index(total.worst, actual.shape)
    return total


def _chunk(
    flat: torch.Tensor, expected: torch.Tensor, facts: tuple[float, float, float, int], pardon: torch.Tensor | None
) -> Distance:
    got, wanted = flat.double(), expected.double()
    return _ordinary(got, wanted, facts) or _with_special_values(got, wanted, facts, pardon)


def _ordinary(got: torch.Tensor, wanted: torch.Tensor, facts: tuple[float, float, float, int]) -> Distance | None:
    """Where everything is finite, as nearly always: fewer than half the passes and one wait. None where it is not."""
    limit, top, rounding, start = facts
    if not got.numel():
        return Distance()
    norm = torch.linalg.vector_norm
    error, size = (got - wanted).abs_(), wanted.abs()
    over = torch.sub(error, size, alpha=rounding)
    place = over.argmax()
    found = (
        norm(error),
        norm(size),
        norm(error.square()),
        error.max(),
        size.max(),
        (over > limit).sum().double(),
        place.double(),
        *(each[place] for each in (error, got, wanted)),
    )
    error_norm, value_norm, square_norm, largest, widest, excess, at, worst_error, has, should = torch.stack(
        found
    ).tolist()
    if not isfinite(error_norm) or widest > top:
        return None
    return Distance(
        squared_error=error_norm * error_norm,
        squared_value=value_norm * value_norm,
        count=got.numel(),
        excess=int(excess),
        fourth_power=square_norm * square_norm,
        largest=largest,
        worst=f"{start + int(at)}|{has:.6g}|{should:.6g}",
        _worst_error=worst_error,
    )


def _with_special_values(
    got: torch.Tensor, wanted: torch.Tensor, facts: tuple[float, float, float, int], pardon: torch.Tensor | None
) -> Distance:
    limit, top, rounding, start = facts
    finite_wanted = wanted.isfinite() & (wanted.abs() <= top)
    finite_got = got.isfinite()
    both = finite_wanted & finite_got
    same_special = (wanted.isnan() & got.isnan()) | (wanted == got)
    overflowing = wanted.isfinite() & (wanted.abs() > top)
    overflowed = overflowing & (got.sign() == wanted.sign()) & (got.abs() >= 0.99 * top)
    wrong = ~both & ~same_special & ~overflowed
    if pardon is not None:
        # Only where the reference's arithmetic overflows and mathematics does not is anything forgiven; what is NaN or
        # infinite by mathematics must be so, as the oracle has it or as the reference has it.
        as_reference = (pardon.isnan() & got.isnan()) | (pardon == got)
        wrong &= pardon.isfinite() | ~(finite_wanted | as_reference)
    error = torch.where(both, got - wanted, 0.0).abs_()
    value = torch.where(both, wanted, 0.0)
    over = error - limit - rounding * value.abs()
    place = int(torch.where(wrong, torch.inf, over).argmax())
    square = error.square()
    counts = (
        square.sum(),
        value.square().sum(),
        square.square().sum(),
        error.max(),
        both.sum(),
        (over > 0).sum(),
        wrong.sum(),
    )
    squared, squared_value, fourth, largest, count, excess, misplaced = torch.stack(
        [c.double() for c in counts]
    ).tolist()
    worst_error = float("inf") if misplaced else float(error[place])
    text = f"{start + place}|{float(got[place]):.6g}|{float(wanted[place]):.6g}"
    return Distance(
        squared_error=squared,
        squared_value=squared_value,
        count=int(count),
        excess=int(excess),
        misplaced=int(misplaced),
        fourth_power=fourth,
        largest=largest,
        worst=text,
        _worst_error=worst_error,
    )


def _with_index(text: str, shape: torch.Size) -> str:
    if "|" not in text:
        return text
    position, got, wanted = text.split("|")
    index, rest = [], int(position)
    for size in reversed(shape):
        index.append(rest % size)
        rest //= size
    place = ", ".join(str(i) for i in reversed(index))
    return f"at [{place}] of {list(shape)}: {got} instead of {wanted}"


def bound(reference: Distance, condition: Distance, dtype: torch.dtype) -> float:
    """The absolute rms error that a candidate may have; see the module's docstring."""
    return max(
        REFERENCE_FACTOR * reference.rms_error * reference.tail_factor,
        OUTPUT_FACTOR.get(dtype, 0.0) * UNIT_ROUNDOFF.get(dtype, 0.0) * reference.rms_value,
        CONDITION_FACTOR * condition.rms_error * condition.tail_factor,
    )


def element_limit(bound_rms: float, reference: Distance, condition: Distance) -> float:
    """The absolute error that one element may have, roundings of its own value apart."""
    return max(ELEMENT_FACTOR * bound_rms, LARGEST_FACTOR * max(reference.largest, condition.largest))


def error_class(roundoff: float) -> str:
    """Names a precision by its error as a share of the larger of the output and what its inputs' rounding may move."""
    for name, limit in (("fp64", 2.0**-30), ("fp32", 2.0**-17), ("tf32", 2.0**-9.5), ("bf16", 2.0**-6)):
        if roundoff <= limit:
            return name
    return "worse"
