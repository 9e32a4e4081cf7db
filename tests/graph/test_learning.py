"""What is learnt from an evaluation: what is kept, what is asked next."""

import pytest

from warpsmith.graph.keeping import best_of_each_language, keepable, ranked
from warpsmith.graph.search import PhasedSearch, Standing, next_phase, quota_left, rng_seed
from warpsmith.state.channels import Context, State
from warpsmith.state.evaluation import Status
from warpsmith.state.trajectory import Row


def row(number: int, language: str = "triton", rank: float = 1.0, status: Status = Status.PASSED) -> Row:
    return Row(id=f"k{number}", language=language, phase="explore", round=1, status=status, rank=rank)


def test_only_passed_is_kept_on_a_gpu_and_only_estimates_in_a_dry_run():
    passed, unverified = row(1), row(2, status=Status.UNVERIFIED)
    assert (keepable(passed, dry_run=False), keepable(unverified, dry_run=False)) == (True, False)
    assert (keepable(passed, dry_run=True), keepable(unverified, dry_run=True)) == (False, True)


def test_of_equal_kernels_the_earlier_ranks_first():
    assert [r.id for r in ranked([row(1), row(2, rank=2), row(3), row(4, rank=0)], dry_run=False)] == ["k2", "k1", "k3"]


def test_the_pool_keeps_the_best_of_each_language():
    rows = [row(1, "cuda"), row(2, "cuda"), row(3, "cuda"), row(4, "triton")]
    assert [r.id for r in best_of_each_language(rows, 2)] == ["k1", "k2", "k4"]


@pytest.mark.parametrize("budget", range(1, 64))
@pytest.mark.parametrize("languages", ["both", "triton"])
def test_quotas_add_up_to_the_budget(budget, languages):
    quotas = PhasedSearch().quotas(Context(budget=budget, languages=languages))
    assert sum(quotas.values()) == budget
    assert "explore" in quotas


def test_the_default_budget_goes_mostly_to_exploring():
    assert PhasedSearch().quotas(Context()) == {"explore": 10, "rewrite": 4, "tune": 4}
    assert PhasedSearch().quotas(Context(budget=30)) == {"explore": 14, "rewrite": 8, "tune": 8}


def test_what_a_phase_leaves_goes_to_the_next():
    state = State(problem="p", quotas={"explore": 14, "rewrite": 8, "tune": 8}, phase="rewrite", evaluations=10)
    assert quota_left(state) == 12
    assert next_phase(state) == "tune"
    assert next_phase(state.model_copy(update={"phase": "tune"})) is None


def test_a_round_that_brought_nothing_asks_for_diversity_and_more_of_it():
    state = State(problem="p", quotas={"explore": 14}, phase="explore", rounds_without_gain=2)
    (request,) = PhasedSearch().requests(Standing(state, Context()))
    assert (request.directive, request.temperature, request.n) == ("diversify", 2.0, 4)


def test_tuning_shares_the_width_between_languages_near_the_best():
    pool = (row(1, "cuda", 2.0), row(2, "triton", 1.9), row(3, "triton", 1.0))
    state = State(problem="p", quotas={"explore": 14, "tune": 8}, phase="tune", pool=pool, best_rank=2.0)
    search = PhasedSearch()
    seeds = search.seeds(Standing(state, Context(width=5)), "tune")
    assert seeds == ("k1", "k2")
    requests = search.requests(Standing(state.model_copy(update={"seeds": seeds}), Context(width=5)))
    assert [(request.language, request.n) for request in requests] == [("cuda", 3), ("triton", 2)]


def test_seeds_of_the_generator_are_the_same_everywhere():
    assert rng_seed(0, 1, 0) == 3027814441
    assert len({rng_seed(0, round_, 0) for round_ in range(50)}) == 50
