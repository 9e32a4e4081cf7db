"""How far an output is from what it should be, and how far it may be.

An error is judged against the reference's own: both are taken to a float64 oracle. With e_ref the reference's error,
y the oracle's output and u the unit roundoff, a candidate passes a draw if (rms over all elements, pooled over the
repeats of the draw)

    rms(e) <= max(3 rms(e_ref), 2 u_out rms(y), 2 rms(e_cond))

where e_cond is the oracle's answer to inputs rounded once more at the policy's precision: what any backward stable
algorithm of that precision may lose, however lucky the reference was. No single element may be off by more than 16
times that, plus a few roundings of its own value. There is no absolute tolerance anywhere, so zeros, constants and
doubled outputs fail at any magnitude.
"""

from dataclasses import dataclass, field

import torch

_CHUNK = 1 << 25
REFERENCE_FACTOR = 3.0
OUTPUT_FACTOR = 2.0
CONDITION_FACTOR = 2.0
ELEMENT_FACTOR = 16.0
ELEMENT_ROUNDINGS = 8.0

UNIT_ROUNDOFF = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-9,
}
POLICY_ROUNDOFF = {"reference": 2.0**-24, "strict-fp32": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-9}


@dataclass
class Distance:
    """Sums over one or more tensors; merges over repeats of a draw."""

    squared_error: float = 0.0
    squared_value: float = 0.0
    count: int = 0
    excess: int = 0
    """Elements beyond their own bound."""
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

    def merge(self, other: "Distance") -> None:
        self.squared_error += other.squared_error
        self.squared_value += other.squared_value
        self.count += other.count
        self.excess += other.excess
        self.misplaced += other.misplaced
        if other._worst_error >= self._worst_error:
            self.worst, self._worst_error = other.worst, other._worst_error


def distance(
    actual: torch.Tensor,
    expected: torch.Tensor,
    bound_rms: float = float("inf"),
    excused: torch.Tensor | None = None,
) -> Distance:
    """Distance of a floating output from the oracle's, chunk by chunk in float64.

    `bound_rms` is absolute; elements beyond 16 times it (plus roundings) count as excess. `excused`, the reference's
    output, excuses non-finite values where the reference overflows too.
    """
    total = Distance()
    flat, wanted = actual.reshape(-1), expected.reshape(-1)
    spare = excused.reshape(-1) if excused is not None else None
    top = torch.finfo(actual.dtype).max
    unit = UNIT_ROUNDOFF[actual.dtype]
    for start in range(0, flat.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        pardon = spare[part] if spare is not None else None
        total.merge(_chunk(flat[part], wanted[part], bound_rms, (top, unit, start), pardon))
    if total.worst:
        total.worst = _with_index(total.worst, actual.shape)
    return total


def _chunk(
    flat: torch.Tensor,
    expected: torch.Tensor,
    bound_rms: float,
    facts: tuple[float, float, int],
    pardon: torch.Tensor | None,
) -> Distance:
    top, unit, start = facts
    got, wanted = flat.double(), expected.double()
    finite_wanted = wanted.isfinite() & (wanted.abs() <= top)
    finite_got = got.isfinite()
    both = finite_wanted & finite_got
    same_special = (wanted.isnan() & got.isnan()) | (wanted == got)
    overflowing = wanted.isfinite() & (wanted.abs() > top)
    wrong = ~both & ~same_special & ~(overflowing & (got.isinf() | (got.abs() >= 0.99 * top)))
    if pardon is not None:
        wrong &= pardon.isfinite()
    error = torch.where(both, got - wanted, 0.0).abs_()
    value = torch.where(both, wanted, 0.0)
    over = error - ELEMENT_FACTOR * bound_rms - ELEMENT_ROUNDINGS * unit * value.abs()
    place = int(torch.where(wrong, torch.inf, over).argmax()) if flat.numel() else 0
    sums = torch.stack([error.square().sum(), value.square().sum(), both.sum(), (over > 0).sum(), wrong.sum()]).tolist()
    if not flat.numel():
        return Distance()
    worst_error = float("inf") if bool(wrong[place]) else float(error[place])
    text = f"{start + place}|{float(got[place]):.6g}|{float(wanted[place]):.6g}"
    return Distance(sums[0], sums[1], int(sums[2]), int(sums[3]), int(sums[4]), text, worst_error)


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


def bound(reference: Distance, condition: Distance, unit_out: float) -> float:
    """The absolute rms error that a candidate may have; see the module's docstring."""
    return max(
        REFERENCE_FACTOR * reference.rms_error,
        OUTPUT_FACTOR * unit_out * reference.rms_value,
        CONDITION_FACTOR * condition.rms_error,
    )


def error_class(roundoff: float) -> str:
    """Names a precision by its error as a share of the larger of the output and what its inputs' rounding may move."""
    for name, limit in (("fp64", 2.0**-30), ("fp32", 2.0**-17), ("tf32", 2.0**-9.5), ("bf16", 2.0**-6)):
        if roundoff <= limit:
            return name
    return "worse"
