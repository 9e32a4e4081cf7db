"""Judges the outputs of timed calls: a call that was timed is a call that was checked."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...state.evaluation import Status
from . import draws
from .expectation import Expectation, Leaf, check_all, check_leaf, expect_as, pool
from .session import CandidateFailed
from .trial import as_check

if TYPE_CHECKING:
    from .judge import Judge


class Verifier:
    """Against the baseline's output on the same inputs; by the oracle where they disagree, and on a random call."""

    def __init__(self, judge: "Judge", workload: str, expected: Expectation, parts: Sequence[int]) -> None:
        """`parts`: numbers of calls in a row, in each of which one is audited."""
        self.judge = judge
        self.workload = workload
        self.expected = expected
        self.audited = {sum(parts[:place]) + draws.fresh_seed() % calls for place, calls in enumerate(parts)}

    def verify(
        self, number: int, inputs: list[Any], delivered: list[torch.Tensor], baseline_output: list[torch.Tensor]
    ) -> None:
        """Raises CandidateFailed if a timed call's output is wrong."""
        if number not in self.audited and self._as_baseline(delivered, baseline_output):
            return
        if number in self.audited and self._audited(inputs, delivered):
            return
        expected = self.judge.expected_of("timed", inputs)
        findings = check_all(delivered, expected, partial(self._ask_typical, expected))
        for finding, leaf in zip(findings, expected.leaves, strict=True):
            # One draw of few elements may be unlucky; pooled draws were checked before.
            if not pool([finding])[0] and not (leaf.few and finding.maybe_unlucky):
                check = as_check(self.workload, "timed", passed=False, finding=finding)
                text = f"right when checked, wrong in timed call {number}: {finding.worst}"
                raise CandidateFailed(Status.INCORRECT_NUMERICAL, text, check)

    def _as_baseline(self, delivered: list[torch.Tensor], baseline_output: list[torch.Tensor]) -> bool:
        leaves = self.expected.leaves

        def all_close() -> bool:
            return all(close(got, own, leaf) for got, own, leaf in zip(delivered, baseline_output, leaves, strict=True))

        if all_close():
            return True
        if not any(leaf.few for leaf in leaves):
            return False
        self._ask_typical(self.expected)
        return all_close()

    def _ask_typical(self, expected: Expectation) -> None:
        self.judge.expect_typical(expected, self.judge.workload(self.workload), "problem", "timed")

    def _audited(self, inputs: list[Any], delivered: list[torch.Tensor]) -> bool:
        """Whether the oracle's answer on these inputs is met within the bounds that another draw has."""
        try:
            expected = expect_as(self.judge.models["timed"], inputs, self.expected)
        except torch.OutOfMemoryError:
            return False  # The thorough way makes room first.
        if expected is None:
            return False
        return all(pool([check_leaf(got, leaf)])[0] for got, leaf in zip(delivered, expected.leaves, strict=True))


def close(got: torch.Tensor, own: torch.Tensor, leaf: Leaf) -> bool:
    """Whether a timed call's output is where the baseline's is; the oracle decides if not."""
    if got.shape != own.shape or got.dtype != own.dtype:
        return False
    if not got.is_floating_point() or not got.numel():
        return bool(torch.equal(got, own))
    # The difference of close values is exact or nearly so in their own type. NaN anywhere makes both comparisons false,
    # and the oracle looks closer.
    difference = got - own
    square_root = torch.linalg.vector_norm(difference, dtype=torch.promote_types(got.dtype, torch.float32))
    least, most = torch.aminmax(difference)
    norm, low, high = torch.stack([square_root, least.to(square_root.dtype), most.to(square_root.dtype)]).tolist()
    rms = norm / difference.numel() ** 0.5
    return bool(rms <= leaf.lenient_rms and max(high, -low) <= leaf.element_limit)
