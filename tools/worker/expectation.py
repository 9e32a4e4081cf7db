"""What a draw's output should be: the float64 oracle's answer and how far from it a candidate may be."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...state.evaluation import Place, Status
from . import compare, mismatch, oracle, structure
from .session import CandidateFailed

_CHUNK = 1 << 25
FEW = 4096
"""Elements of an output below which several draws are pooled."""
MOST_LENIENT = 8.0
"""Times a draw's own bound that what is typical of its kind may count at most."""
LUCK = 4.0
"""Times the bound up to which an error of few elements on few draws may be bad luck."""
MAGNIFIED = 64
"""By how much inputs are moved further to count integers that are near a tie."""


@dataclass
class Leaf:
    """One tensor of the expected output."""

    oracle: torch.Tensor
    dtype: torch.dtype
    shape: torch.Size
    reference: compare.Distance = field(default_factory=compare.Distance)
    condition: compare.Distance = field(default_factory=compare.Distance)
    excused: torch.Tensor | None = None
    """The reference's own output, kept where it is not finite everywhere."""
    chosen: oracle.Chosen | None = None
    index_slack: torch.Tensor | None = None
    """By how much the value at another index may be worse than at the oracle's (absolute, an entry an element)."""
    mismatch_allowed: float = 0.0
    """For integers computed by rounding: the share of elements that may differ by one step."""
    typical_rms: float = 0.0
    """The bound over several draws of the kind, where somebody asked for it."""

    @property
    def held(self) -> list[torch.Tensor]:
        """Tensors that it keeps alive."""
        chosen = [self.chosen.index, self.chosen.values] if self.chosen is not None else []
        others = (self.excused, self.index_slack)
        return [self.oracle, *chosen, *(each for each in others if each is not None)]

    @property
    def few(self) -> bool:
        """Whether its error is a matter of luck, so that one draw does not tell."""
        return self.oracle.numel() < FEW

    @property
    def element_limit(self) -> float:
        return compare.element_limit(self.lenient_rms, self.reference, self.condition)

    @property
    def lenient_rms(self) -> float:
        """The bound without the luck that reference and rounding may have had on this draw; never many times its own,
        since one draw of large values would else excuse anything on all others."""
        return max(self.bound_rms, min(self.typical_rms, MOST_LENIENT * self.bound_rms))

    @property
    def bound_rms(self) -> float:
        return compare.bound(self.reference, self.condition, self.dtype)


@dataclass
class Expectation:
    """The expected structure and leaves for one draw; leaves of mutated inputs come after those of the output."""

    description: Any
    leaves: list[Leaf]
    mutated: list[int]
    """Numbers of the input tensors that the reference changes in place."""

    @property
    def few(self) -> bool:
        """Whether all of it together is as little: then repeats cost next to nothing."""
        return sum(leaf.oracle.numel() for leaf in self.leaves) < FEW

    @property
    def size_bytes(self) -> int:
        """What keeping it takes."""
        held = [each for leaf in self.leaves for each in leaf.held]
        return sum({id(each): each.nbytes for each in held}.values())

    def expect_typical(self, bounds_rms: list[float]) -> None:
        """Takes what is typical of the draw's kind, a bound a leaf, where errors are a matter of luck."""
        for leaf, bound in zip(self.leaves, bounds_rms, strict=True):
            leaf.typical_rms = bound if leaf.few else 0.0


@dataclass
class Finding:
    """Comparison of one leaf on one repeat of a draw; all errors absolute rms."""

    sound: bool
    """No single element is far off, and NaN and infinity are where they should be."""
    error: float
    bound: float
    value: float = 0.0
    reference: float = 0.0
    condition: float = 0.0
    lenient: float = 0.0
    """The bound without luck; at least `bound`."""
    worst: str = ""
    place: Place = ""
    """Where the wrong elements lie; empty where none are."""

    @property
    def maybe_unlucky(self) -> bool:
        """Of few elements: whether more draws may show that the error is none."""
        return self.sound and self.error <= LUCK * max(self.bound, self.lenient)


def clone_nested(value: Any) -> Any:
    """A copy of nested inputs, layout kept, so that a call may change its arguments."""
    if isinstance(value, torch.Tensor):
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
        return copy.copy_(value) if 0 not in value.stride() else value.clone()
    if isinstance(value, list | tuple):
        return type(value)(clone_nested(item) for item in value)
    if isinstance(value, dict):
        return {key: clone_nested(item) for key, item in value.items()}
    return value


def expect(model: torch.nn.Module, inputs: list[Any], unit_in: float) -> Expectation:
    """Runs reference and oracle on one draw. `unit_in` is the roundoff that the precision policy permits.

    Raises oracle.NoAnswer.
    """
    used = clone_nested(inputs)
    versions = [(each, _version(each)) for each in structure.flatten(used)[1]]
    result = model(*used)
    description, outputs = structure.flatten(result)
    given, before = structure.flatten(inputs)
    left, after = structure.flatten(used)
    if not structure.same(given, left):
        raise oracle.NoAnswer("forward adds to a list or dict of its inputs; only tensors in them may change")
    # By its version an input is written to on every draw, also where that changes no value, as a clamp may.
    written = [each is old and _version(each) != version for each, (old, version) in zip(after, versions, strict=True)]
    pairs = enumerate(zip(before, after, strict=True))
    mutated = [i for i, (old, new) in pairs if written[i] or not same_values(old, new)]
    del versions
    # Inputs are let go but for those that change: of large workloads few copies fit beside each other.
    after = [after[i] for i in mutated]
    del used, result
    wide, chosen, wide_inputs = oracle.run(model, inputs)
    _, exact = structure.flatten(wide)
    exact_inputs = [structure.flatten(wide_inputs)[1][i] for i in mutated]
    del wide_inputs
    nudged, _, nudged_inputs = oracle.run(model, _nudge(inputs, unit_in))
    _, moved = structure.flatten(nudged)
    moved_inputs = [structure.flatten(nudged_inputs)[1][i] for i in mutated]
    del nudged_inputs
    for others in (exact, moved):
        oracle.hold_shapes(outputs, others)
    leaves = [_leaf(*group) for group in zip(outputs, exact, moved, strict=True)]
    leaves += [_leaf(*group) for group in zip(after, exact_inputs, moved_inputs, strict=True)]
    if any(not output.is_floating_point() for output in outputs):
        far, _, _ = oracle.run(model, _nudge(inputs, MAGNIFIED * unit_in))
        coarsest = _coarsest([*before, *model.parameters(), *model.buffers()])
        shifted = structure.flatten(far)[1]
        oracle.hold_shapes(outputs, shifted)
        for leaf, *others in zip(leaves, outputs, moved, shifted, strict=False):
            _allow_integers(leaf, others, chosen, coarsest)
    return Expectation(description, leaves, mutated)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def expect_as(model: torch.nn.Module, inputs: list[Any], known: Expectation) -> Expectation | None:
    """The oracle's answer on another draw of the same kind, under the bounds of the known one: a fifth of the cost.

    None where bounds belong to their own draw: integers, outputs that are not finite everywhere, a reference that does
    not run on it in float64. What fails here has to be looked at with its own bounds.
    """
    if any(leaf.excused is not None or not leaf.dtype.is_floating_point for leaf in known.leaves):
        return None
    try:
        wide, _, wide_inputs = oracle.run(model, inputs)
    except oracle.NoAnswer:
        return None
    _, exact = structure.flatten(wide)
    after = structure.flatten(wide_inputs)[1]
    answers = [*exact, *(after[i] for i in known.mutated)]
    leaves = [replace(leaf, oracle=answer) for leaf, answer in zip(known.leaves, answers, strict=True)]
    return Expectation(known.description, leaves, known.mutated)


def _leaf(output: torch.Tensor, exact: torch.Tensor, moved: torch.Tensor) -> Leaf:
    leaf = Leaf(exact, output.dtype, output.shape)
    if output.is_floating_point():
        leaf.reference = compare.distance(output, exact)
        leaf.condition = compare.distance(moved, exact)
        if not bool(output.isfinite().all()):
            leaf.excused = output
    return leaf


def _allow_integers(leaf: Leaf, others: list[torch.Tensor], chosen: dict[int, oracle.Chosen], coarsest: float) -> None:
    """What an integer output may differ by. `others`: the reference's, the nudged oracle's, the far nudged oracle's."""
    output, moved, far = others
    exact = leaf.oracle
    if output.is_floating_point() or not output.numel():
        return
    leaf.chosen = chosen.get(exact.untyped_storage().data_ptr())
    if leaf.chosen is not None:
        wanted = leaf.chosen.at(exact)
        gaps = [(leaf.chosen.at(i.long()) - wanted).abs().nan_to_num(0.0, 0.0, 0.0).max() for i in (output, moved)]
        leaf.index_slack = (4 * coarsest * wanted.abs()).clamp(min=compare.REFERENCE_FACTOR * float(max(gaps)))
        return
    different, shifted = (int((other != exact).sum()) for other in (output, far))
    # A handful of elements near a tie is a matter of luck: their number is known from a nudge that magnifies it.
    likely = compare.CONDITION_FACTOR * shifted / MAGNIFIED
    allowed = math.ceil(likely + 4 * math.sqrt(likely))
    leaf.mismatch_allowed = max(compare.REFERENCE_FACTOR * different, allowed) / output.numel()


def _coarsest(tensors: list[torch.Tensor]) -> float:
    """The largest unit roundoff among them, at least float32's."""
    return max([compare.UNIT_ROUNDOFF.get(tensor.dtype, 0.0) for tensor in tensors] + [2.0**-24])


def _nudge(inputs: Any, unit: float) -> Any:
    """Inputs moved by one rounding of the given precision (its rms), up or down at random, in float64."""
    if isinstance(inputs, torch.Tensor):
        if not inputs.is_floating_point():
            return inputs
        generator = torch.Generator(device=inputs.device).manual_seed(20)
        # Of one size everywhere: were the one input that matters moved by almost nothing, that would say nothing.
        signs = 2 * torch.randint(0, 2, inputs.shape, dtype=torch.int8, device=inputs.device, generator=generator) - 1
        moved = inputs.to(torch.float64, copy=True)
        # In parts of a flat view where there is one: temporaries of float64 are eight times as large as the signs.
        flat = moved.view(-1) if moved.is_contiguous() else moved
        signs = signs.view(-1) if moved.is_contiguous() else signs
        for start in range(0, len(flat) if flat.dim() else 0, _CHUNK):
            part = slice(start, start + _CHUNK)
            flat[part].mul_(1 + unit / math.sqrt(3) * signs[part].double())
        return moved
    if isinstance(inputs, list | tuple):
        return type(inputs)(_nudge(item, unit) for item in inputs)
    if isinstance(inputs, dict):
        return {key: _nudge(item, unit) for key, item in inputs.items()}
    return inputs


def same_values(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bitwise equality of values, NaN equal to NaN."""
    if left.is_floating_point():
        width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
        return torch.equal(left.contiguous().view(width), right.contiguous().view(width))
    return torch.equal(left, right)


def check_leaf(actual: torch.Tensor, leaf: Leaf) -> Finding:
    """Compares one output with what is expected."""
    return _check_floating(actual, leaf) if actual.is_floating_point() else _check_integer(actual, leaf)


def check_all(delivered: list[torch.Tensor], expected: Expectation, ask_typical: Callable[[], None]) -> list[Finding]:
    """A finding a leaf. `ask_typical` tells the expectation what is typical, where an error of few elements is too
    large."""
    found = [check_leaf(actual, leaf) for actual, leaf in zip(delivered, expected.leaves, strict=True)]
    if any(leaf.few and not pool([each])[0] for each, leaf in zip(found, expected.leaves, strict=True)):
        ask_typical()
        found = [check_leaf(actual, leaf) for actual, leaf in zip(delivered, expected.leaves, strict=True)]
    return found


def _check_floating(actual: torch.Tensor, leaf: Leaf) -> Finding:
    bound, limit = leaf.bound_rms, leaf.element_limit
    found = compare.distance(actual, leaf.oracle, limit, leaf.excused)
    sound = found.excess == 0 and found.misplaced == 0
    wrong = not sound or found.rms_error > bound
    return Finding(
        sound=sound,
        place=mismatch.place(mismatch.beyond(actual, leaf.oracle, limit)) if wrong else "",
        error=found.rms_error,
        bound=bound,
        value=found.rms_value,
        reference=leaf.reference.rms_error,
        condition=leaf.condition.rms_error,
        lenient=leaf.lenient_rms,
        worst=_why(found),
    )


def pool(findings: list[Finding]) -> tuple[bool, Finding]:
    """One verdict over the repeats of a draw: a scalar's error is luck, its rms over repeats is not."""
    worst = max(findings, key=lambda f: (not f.sound, f.error / f.bound if f.bound else f.error))
    pooled = Finding(
        sound=all(f.sound for f in findings),
        error=rms([f.error for f in findings]),
        bound=rms([f.bound for f in findings]),
        value=rms([f.value for f in findings]),
        reference=rms([f.reference for f in findings]),
        condition=rms([f.condition for f in findings]),
        lenient=rms([f.lenient for f in findings]),
        worst=worst.worst,
        place=worst.place,
    )
    return pooled.sound and pooled.error <= pooled.bound, pooled


def rms(values: list[float]) -> float:
    """Root of the mean square."""
    return (sum(v * v for v in values) / len(values)) ** 0.5


def _why(found: compare.Distance) -> str:
    if found.misplaced:
        return f"{found.misplaced} elements are NaN or infinite where they should not be, or the reverse; {found.worst}"
    if found.excess:
        return f"{found.excess} elements are far off; worst {found.worst}"
    return f"the error is spread over the output; worst {found.worst}"


def _check_integer(actual: torch.Tensor, leaf: Leaf) -> Finding:
    """Error and bound are shares of differing elements. An index is judged by the value that it points at."""
    expected = leaf.oracle.to(actual.dtype)
    share = float((actual != expected).double().mean()) if actual.numel() else 0.0
    worst = f"{share:.2%} of the elements differ"
    if share and leaf.chosen is not None and leaf.index_slack is not None:
        got, wanted = leaf.chosen.at(actual.long()), leaf.chosen.at(expected.long())
        near = (got - wanted).abs() <= leaf.index_slack
        wrong = ~(near | (got == wanted) | (got.isnan() & wanted.isnan()))
        sound = not bool(wrong.any())
        return Finding(sound, 0.0, 0.0, worst=worst, place="" if sound else mismatch.place(wrong))
    one_step = actual.dtype == torch.bool or not share or int((actual.long() - expected.long()).abs().max()) <= 1
    failed = not one_step or share > leaf.mismatch_allowed
    place = mismatch.place(actual != expected) if failed else ""
    return Finding(one_step, share, leaf.mismatch_allowed, worst=worst, place=place)


def check_layout(reply: dict[str, Any], expected: Expectation) -> None:
    """Holds what the child says of its output against the expected structure. Raises CandidateFailed."""
    specs: Any = reply.get("specs")
    leaves = expected.leaves[: len(expected.leaves) - len(expected.mutated)]
    described = isinstance(specs, list) and len(specs) == len(leaves)
    if not structure.same(reply.get("structure"), expected.description) or not described:
        raise CandidateFailed(
            Status.INCORRECT_STRUCTURE,
            f"returns {_outline(reply.get('structure'))}, not {_outline(expected.description)}",
        )
    if not all(_readable(spec) for spec in specs):
        raise CandidateFailed(Status.INCORRECT_STRUCTURE, "describes its output unreadably")
    for number, (spec, leaf) in enumerate(zip(specs, leaves, strict=True)):
        if spec.get("device") != leaf.oracle.device.type:
            text = f"output {number} is on {spec.get('device')}, not on {leaf.oracle.device.type}"
            raise CandidateFailed(Status.CONTRACT_ERROR, text)
        if spec.get("type") not in ("Tensor", "Parameter"):
            raise CandidateFailed(Status.REWARD_HACK, f"output {number} is a {spec.get('type')}, not a plain tensor")
        if list(spec["shape"]) != list(leaf.shape):
            raise CandidateFailed(
                Status.INCORRECT_SHAPE, f"output {number} has shape {list(spec['shape'])}, not {list(leaf.shape)}"
            )
        if spec["dtype"] != str(leaf.dtype).removeprefix("torch."):
            raise CandidateFailed(
                Status.INCORRECT_DTYPE,
                f"output {number} is {spec['dtype']}, not {str(leaf.dtype).removeprefix('torch.')}",
            )


def _readable(spec: Any) -> bool:
    return isinstance(spec, dict) and isinstance(spec.get("shape"), list) and isinstance(spec.get("dtype"), str)


def _outline(description: Any) -> str:
    """A short text for a structure, for messages."""
    if not isinstance(description, dict):
        return "nothing readable"
    if "tensor" in description:
        return "a tensor"
    if "literal" in description:
        return repr(description["literal"])[:80]
    kind = next((kind for kind in ("dict", "list", "tuple") if isinstance(description.get(kind), list)), None)
    return f"a {kind} of {len(description[kind])}" if kind else "nothing readable"
