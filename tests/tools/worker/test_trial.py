"""What a trial holds of its candidate."""

from types import SimpleNamespace
from typing import Any

from warpsmith.tools.worker import tracing
from warpsmith.tools.worker.trial import Trial

BODY = {"candidate": "c", "path": "/shown/candidate.py", "source": "", "tier": "quick", "give_up_ms": 1.0}


def trial(**body: Any) -> Trial:
    return Trial(SimpleNamespace(), SimpleNamespace(), {**BODY, **body})  # type: ignore[arg-type]


def test_a_candidate_far_behind_the_best_is_given_up_at_the_quick_tier_only() -> None:
    assert trial().give_up_ms == 1.0
    assert trial(tier="full").give_up_ms is None


def test_the_reference_is_never_given_up() -> None:
    """A second run on one harness calibrates its clocks on a reference that the first run's best is far ahead of."""
    assert trial(identity=True).give_up_ms is None


def test_the_judge_needs_no_file_that_lies_where_the_candidate_writes() -> None:
    """Where boxes have a view of their own, the path from inside is nothing to the judge."""

    class Traced:
        source = "@triton.jit\ndef scale(x): pass\n"
        path = "/shown/candidate.py"
        judge = SimpleNamespace(expectation=lambda *_: None, inputs=lambda *_: [])
        session = SimpleNamespace(ask=lambda *_, **__: {"kernels": {"scale": 3.0, "elementwise_kernel": 1.0}})

        def map(self, *_: Any) -> Any:
            return SimpleNamespace(write=lambda *_: None)

    found = tracing.trace(Traced(), None)  # type: ignore[arg-type]
    assert found["custom_share"] == 0.75
