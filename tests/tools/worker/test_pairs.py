"""Pairs and bursts on the CPU, with candidates in this process in place of a boxed one."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from warpsmith.state.evaluation import Status
from warpsmith.tools.worker import buffers, pairs, structure
from warpsmith.tools.worker.bench import Bench, BenchPlan
from warpsmith.tools.worker.clock import Stopwatch
from warpsmith.tools.worker.expectation import expect
from warpsmith.tools.worker.own_calls import OwnCalls
from warpsmith.tools.worker.session import CandidateFailed
from warpsmith.tools.worker.stages import Stages
from warpsmith.tools.worker.verifier import close

CPU = torch.device("cpu")
Forward = Callable[[torch.Tensor], torch.Tensor]


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


class Changes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        return x.sum(-1)


class Answers:
    """Stands for a candidate's process: computes at `ask`, from the shared inputs to the shared outputs."""

    def __init__(self, bench: Bench, forward: Forward) -> None:
        self.bench, self.forward = bench, forward
        self.asked: list[tuple[str, int]] = []

    def ask(self, op: str, _deadline_s: float, **fields: Any) -> dict[str, Any]:
        for index in range(self.bench.sets) if op == "burst" else [fields["index"]]:
            self.asked.append((op, index))
            result = self.answer(index)
        description, (tensor,) = structure.flatten(result)
        spec = {**buffers.spec_of(tensor).model_dump(mode="json"), "type": "Tensor", "device": "cpu"}
        return {"ms": 1.0, "host_ms": 0.5, "total_ms": 7.0, "late": False, "structure": description, "specs": [spec]}

    def answer(self, index: int) -> torch.Tensor:
        result = self.forward(self.bench.input_tensors(index)[0])
        self.bench.output_tensors(index)[0].copy_(result)
        return result


def duel_of(forward: Forward, model: torch.nn.Module | None = None, sets: int = 3) -> pairs.Duel:
    reference = model or Doubles()

    def draw(number: int) -> list[Any]:
        return [torch.randn(16, 8, generator=torch.Generator().manual_seed(number + 100))]

    def verify(number: int, _inputs: Any, delivered: list[torch.Tensor], own: list[torch.Tensor]) -> None:
        if not all(close(got, want, leaf) for got, want, leaf in zip(delivered, own, expected.leaves, strict=True)):
            raise CandidateFailed(Status.INCORRECT_NUMERICAL, f"wrong in call {number}")

    expected = expect(reference, draw(0), 2.0**-24)
    outputs = expected.leaves[: len(expected.leaves) - len(expected.mutated)]
    bench = Bench(draw(0), [torch.empty(leaf.shape) for leaf in outputs], CPU, BenchPlan(sets=sets))
    session: Any = Answers(bench, forward)
    own = OwnCalls(reference, Stopwatch(CPU), lambda: None)
    return pairs.Duel("w", session, bench, own, expected, draw, verify, lambda: None, Stages())  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [Doubles(), Changes()])
def test_both_sides_of_a_pair_read_the_same_values_and_leave_them_alone(model):
    """A baseline that changes its arguments must not change what the candidate is judged by."""
    duel = duel_of(lambda x: model(x), model)
    seen = []
    verify = duel.verify

    def noting(number: int, inputs: list[Any], delivered: list[torch.Tensor], own: list[torch.Tensor]) -> None:
        seen.append(torch.equal(inputs[0], duel.draw(number)[0]))
        verify(number, inputs, delivered, own)

    duel.verify = noting
    pairs.run_pairs(duel, pairs.Plan(pairs=4, warm_ups=2))
    assert seen == [True] * 4


def test_every_timed_call_of_a_baseline_follows_the_flush_and_a_switch_of_contexts():
    """As every call of a candidate does: its process gets the GPU once the judge has emptied the cache."""
    duel, seen = duel_of(lambda x: x + x), []
    call = duel.own.call
    duel.flush = lambda: seen.append("flush")  # type: ignore[assignment]
    duel.own.switch = lambda: seen.append("switch")
    duel.own.call = lambda x: (seen.append("call"), call(x))[1]
    pairs.run_pairs(duel, pairs.Plan(pairs=2, warm_ups=1))
    before = [seen[place - 2 : place] for place, what in enumerate(seen) if what == "call"]
    assert len(before) >= 2
    assert all(each == ["flush", "switch"] for each in before)


def test_a_burst_calls_on_every_set_and_takes_wall_time():
    duel = duel_of(lambda x: (time.sleep(0.01), x + x)[1])
    assert pairs.burst_ms(duel, pairs.Plan(), 5) >= 30
    assert duel.session.asked == [("burst", 0), ("burst", 1), ("burst", 2)]


@pytest.mark.parametrize("left_out", [0, 2])
def test_a_call_left_out_of_a_burst_shows(left_out):
    duel = duel_of(lambda x: x + x)
    answer = duel.session.answer
    duel.session.answer = lambda i: torch.empty(16, 8) if i == left_out else answer(i)
    with pytest.raises(CandidateFailed, match=f"wrong in call {5 + left_out}"):
        pairs.burst_ms(duel, pairs.Plan(), 5)


def test_an_answer_before_the_work_is_wrong():
    """The outputs that count are those at the end of the clock, not those when somebody looks."""
    duel = duel_of(lambda x: x + x)
    answer, verify = duel.session.answer, duel.verify
    late = threading.Event()

    def work_later(index: int) -> torch.Tensor:
        threading.Thread(target=lambda: (late.wait(5), answer(index), done.release())).start()
        return torch.empty(16, 8)

    done = threading.Semaphore(0)
    own_call = duel.own.call

    def baseline(x: torch.Tensor) -> Any:
        if not late.is_set():
            late.set()
            for _ in range(3):
                done.acquire(timeout=5)
        return own_call(x)

    duel.session.answer, duel.own.call = work_later, baseline
    with pytest.raises(CandidateFailed, match="wrong in call 5"):
        pairs.burst_ms(duel, pairs.Plan(), 5)
    assert torch.equal(duel.bench.output_tensors(2)[0], 2 * duel.draw(7)[0]), "all was there when it was looked at"
    assert verify is duel.verify


@pytest.mark.parametrize("timed", ["burst", "pairs"])
def test_inputs_are_wrong_until_the_call(timed):
    duel = duel_of(lambda x: x + x)
    shown: list[torch.Tensor] = []
    duel.flush = lambda: shown.extend(duel.bench.input_tensors()[0].clone() for _ in [0])  # type: ignore[assignment]
    if timed == "burst":
        pairs.burst_ms(duel, pairs.Plan(), 5)
        assert not torch.equal(shown[0], duel.draw(7)[0])
    else:
        pairs.run_pairs(duel, pairs.Plan(pairs=1, warm_ups=1))
        # First the cache is emptied for the baseline, then for the candidate.
        assert not torch.equal(shown[1], duel.draw(0)[0])
        assert float((shown[1] != duel.draw(0)[0]).sum()) <= 4


def test_a_reference_in_place_is_compared_in_place():
    def right(x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        return x.sum(-1)

    assert pairs.burst_ms(duel_of(right, Changes()), pairs.Plan(), 5) > 0
    pairs.run_pairs(duel_of(right, Changes()), pairs.Plan(pairs=4, warm_ups=4))
    with pytest.raises(CandidateFailed, match="wrong"):
        pairs.burst_ms(duel_of(lambda x: (3 * x).sum(-1), Changes()), pairs.Plan(), 5)


def test_every_set_is_warm_before_anything_is_timed():
    duel = duel_of(lambda x: x + x)
    found = pairs.run_pairs(duel, pairs.Plan(pairs=2, warm_ups=5))
    assert [index for _, index in duel.session.asked[:5]] == [0, 1, 2, 0, 1]
    assert found.first_call_ms == 7.0
    assert len(found.candidate_ms) == len(found.baseline_ms) == 2


def test_slow_calls_are_fewer():
    duel = duel_of(lambda x: x + x)
    found = pairs.run_pairs(duel, pairs.Plan(pairs=50, warm_ups=10, most_s=0.0))
    assert len(found.candidate_ms) == 10
    assert len(duel.session.asked) == 12


@pytest.mark.parametrize(("scatter", "taken"), [(0.0, 30), (0.2, 50)])
def test_no_more_pairs_than_enough_are_taken_where_the_ratio_is_known(scatter, taken):
    duel = duel_of(lambda x: x + x)
    duel.own.time = lambda x: (duel.own.call(*x), 1.0 + scatter * torch.rand(()).item())  # type: ignore[method-assign]
    assert len(pairs.run_pairs(duel, pairs.Plan(pairs=50, warm_ups=3, enough=30)).candidate_ms) == taken


def test_pairs_that_may_follow_are_a_part_of_their_own():
    assert pairs.Plan(pairs=50, enough=30).parts == (10, 40)
    assert pairs.Plan(pairs=20).parts == (10, 10)
    assert pairs.Plan(pairs=4).parts == (4,)


def test_a_candidate_far_behind_is_given_up():
    with pytest.raises(CandidateFailed, match="far behind the best") as caught:
        pairs.run_pairs(duel_of(lambda x: x + x), pairs.Plan(pairs=50, give_up_ms=0.5))
    assert caught.value.status is Status.UNVERIFIED


def test_a_changed_input_is_found_in_a_timed_call():
    duel = duel_of(lambda x: x.mul_(2))
    with pytest.raises(CandidateFailed, match="changes its input 0"):
        pairs.run_pairs(duel, pairs.Plan(pairs=2, warm_ups=2))


def test_what_disturbed_a_pair_has_it_taken_again():
    duel = duel_of(lambda x: x + x)
    ask = duel.session.ask
    late = SimpleNamespace(times=0)

    def disturbed(op: str, deadline_s: float, **fields: Any) -> dict[str, Any]:
        late.times += 1
        return {**ask(op, deadline_s, **fields), "late": late.times == 3}

    duel.session.ask = disturbed
    found = pairs.run_pairs(duel, pairs.Plan(pairs=2, warm_ups=2))
    assert len(found.candidate_ms) == 2
    assert late.times == 5
