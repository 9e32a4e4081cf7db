"""Search strategies: on made-up rows, and each through a whole scripted run."""

import pytest
from scripted.collaborators import ScriptedHarness, ScriptedWriter

from warpsmith.graph import optimize
from warpsmith.graph.keeping import pool_of, ranked
from warpsmith.graph.search import STRATEGIES, Standing, pacing, strategy_named
from warpsmith.graph.search.archive import elites, least_tried_elite
from warpsmith.graph.search.greedy import PRIORS, expected_gains
from warpsmith.graph.search.islands import island_members, islands_of
from warpsmith.graph.search.tree import ROOT, Tree
from warpsmith.state.channels import Context, State
from warpsmith.state.errors import InvalidInput
from warpsmith.state.evaluation import Status
from warpsmith.state.trajectory import Row


def row(id: str, rank: float, round_: int = 1, **fields: object) -> Row:
    status = Status.PASSED if rank > 0 else Status.COMPILE_ERROR
    given = {"language": "triton", "phase": "explore", "structure": "a", **fields}
    return Row(id=id, round=round_, status=status, rank=rank, **given)


def standing(rows: list[Row], round_: int = 2, without_gain: int = 0, **settings: object) -> Standing:
    context = Context(**{"languages": "triton", "budget": 40, **settings})
    kept = ranked(rows, False)
    state = State(
        problem="p",
        quotas={"explore": context.budget},
        round=round_,
        rounds_without_gain=without_gain,
        evaluations=len(rows),
        pool=pool_of(kept),
        best_rank=kept[0].rank if kept else 0.0,
        tried=tuple(each.id for each in rows),
    )
    return Standing(state, context, tuple(rows))


def trace(ranks: list[float]) -> list[Row]:
    """One row a round."""
    return [row(f"k{number}", rank, number) for number, rank in enumerate(ranks, 1)]


class Neighbours(ScriptedWriter):
    """Tunes by moving the tile or the stages of a seed by one place."""

    def propose(self, brief, n):
        if brief.directive != "tune":
            return super().propose(brief, n)
        self.briefs.append(brief)
        moved = []
        for seed in (scored.candidate for scored in brief.seeds if scored.candidate.language == self.language):
            tile, stages = int(seed.slots["tile"]), int(seed.slots["stages"])
            places = [(tile * 2, stages), (max(2, tile // 2), stages), (tile, min(4, stages + 1))]
            moved += [self._kernel(*place, seed.id) for place in places]
        return [candidate for candidate in moved if candidate.id not in brief.tried][:n] or super().propose(brief, n)


LEARNING = [name for name in STRATEGIES if name != "sample"]


@pytest.mark.parametrize("name", LEARNING)
def test_every_strategy_finds_the_best_of_a_scripted_space(problem_file, tmp_path, given, name):
    """A tile of 64 is best whatever else: a line may end before the last 5% of a stage in the other language."""
    writers = {language: Neighbours(language) for language in ("triton", "cuda")}
    result = optimize(problem_file, given=given(writers=writers), out=str(tmp_path), strategy=name, budget=40)
    assert result.outcome == "verified"
    best = next(entry for entry in result.trajectory if entry.id == result.best)
    assert best.slots["tile"] == 64
    assert best.rank > 2.3
    assert result.settings["strategy"] == name


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_same_run_seed_gives_the_same_trajectory(problem_file, tmp_path, given, name):
    runs = [
        optimize(problem_file, given=given(), out=str(tmp_path / str(turn)), strategy=name, seed=7, languages="triton")
        for turn in range(2)
    ]
    assert [entry.id for entry in runs[0].trajectory] == [entry.id for entry in runs[1].trajectory]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("rows", [[], trace([1.0, 1.2, 1.1]), trace([0.0, 0.0])], ids=["nothing", "some", "failures"])
def test_no_strategy_asks_for_more_than_a_round(name, rows):
    for budget in (len(rows) + 1, len(rows) + 3, 40):
        for round_ in range(1, 6):
            asked = strategy_named(name).requests(standing(rows, round_, budget=budget))
            assert 1 <= sum(request.n for request in asked) <= min(4, budget - len(rows))
            assert len({request.rng_seed for request in asked}) == len(asked)


def test_an_unknown_strategy_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match=r"no 'best'; known: phased, chain"):
        strategy_named("best")


def test_the_chain_changes_the_best_one_candidate_at_a_time():
    (request,) = strategy_named("chain").requests(standing(trace([1.0, 2.0, 1.5]), round_=4))
    assert (request.n, request.directive, request.seeds) == (1, "tune", ("k2",))


def test_the_beam_goes_on_from_its_best_three():
    asked = strategy_named("beam").requests(standing(trace([1.0, 2.0, 1.5, 1.9]), round_=4))
    assert [(request.seeds, request.n) for request in asked] == [(("k2",), 2), (("k4",), 1), (("k3",), 1)]


def test_ranked_greedy_learns_which_hypothesis_pays():
    rows = [row("a", 1.0, 1, asked="explore"), row("b", 1.0, 1, asked="explore")]
    rows += [row(f"t{n}", 1.5 * 1.1**n, 2 + n, asked="tune") for n in range(3)]
    gains = expected_gains(standing(rows, 6))
    assert gains["tune"] > PRIORS["tune"]
    assert gains["explore"] == pytest.approx(
        PRIORS["explore"]
    )  # Nothing came before the first round, so it teaches nothing.
    first = strategy_named("ranked").requests(standing(rows, 6))[0]
    assert (first.directive, first.seeds) == ("tune", ("t2",))


def test_hypotheses_that_bring_nothing_sink():
    rows = [row("a", 2.0, 1, asked="explore")] + [row(f"t{n}", 1.0, 2 + n, asked="tune") for n in range(6)]
    assert expected_gains(standing(rows, 9))["tune"] == pytest.approx(PRIORS["tune"] * 3 / 9)


def test_elites_are_the_best_of_each_bottleneck_and_structure():
    rows = [
        row("a", 2.0, bottleneck="memory bandwidth"),
        row("b", 1.9, bottleneck="memory bandwidth"),
        row("c", 1.2, bottleneck="latency"),
        row("d", 1.8, structure="b", bottleneck="latency"),
    ]
    assert [each.id for each in elites(ranked(rows, False)).values()] == ["a", "d", "c"]
    children = [row("e", 1.0, parent="a"), row("f", 1.0, parent="d", structure="b")]
    assert least_tried_elite(ranked(rows, False), [*rows, *children]).id == "c"


def test_an_elite_far_below_the_best_is_not_started_from():
    rows = [row("a", 2.0), row("b", 0.9, structure="b"), row("c", 1.0, parent="a")]
    assert least_tried_elite(ranked(rows[:2], False), rows).id == "a"


def test_islands_keep_their_own_lines_and_take_in_a_neighbour_when_migration_is_due():
    rows = trace([1.0, 1.1, 1.2, 1.3, 1.4, 1.5])
    rows += [row("own", 1.45, 7, asked="tune island-0")]
    here = standing(rows, round_=5)
    assert islands_of(here.context) == 3
    home = island_members(here, 3)
    assert (home["k1"], home["k5"], home["own"]) == (0, 1, 0)
    seeds = {request.tag: request.seeds for request in strategy_named("islands").requests(here)}
    assert seeds["island-0"] == ("own",)
    assert seeds["island-1"] == ("k5",)
    interval = pacing.diversity_interval(here.rounds_of_budget(4))
    migrating = standing(rows, round_=interval + interval // 2)
    moved = {request.tag: request.seeds for request in strategy_named("islands").requests(migrating)}
    assert moved["island-0"] == ("k6",)  # The best of island 2.


def test_rewards_are_backed_up_to_every_ancestor():
    tree = Tree([row("a", 1.0), row("b", 2.0, parent="a"), row("c", 0.0, parent="b")])
    assert (tree.visits[ROOT], tree.visits["a"], tree.visits["b"], tree.visits["c"]) == (3, 3, 2, 1)
    assert (tree.rewards["a"], tree.rewards["b"], tree.rewards["c"]) == (1.5, 1.0, 0.0)


def test_the_tree_goes_on_where_rewards_are_high_and_visits_few():
    rows = [row("good", 2.0), row("bad", 0.5), row("mean", 1.0)] + [row(f"x{n}", 0.4, parent="bad") for n in range(3)]
    assert Tree(rows).select() == "good"
    assert Tree([]).select() == ROOT
    assert Tree([row("dead", 0.0)]).select() == ROOT


def test_a_round_of_the_tree_does_not_put_all_on_one_node():
    rows = [row("a", 2.0), row("b", 1.9), row("c", 1.8), row("d", 1.7)]
    asked = strategy_named("mcts").requests(standing(rows, 2))
    assert len({request.seeds for request in asked}) > 1


def test_pacing_scales_with_the_budget():
    assert [pacing.diversity_interval(rounds) for rounds in (5, 20, 40, 400)] == [3, 3, 5, 5]
    assert [pacing.cooling_window(rounds) for rounds in (5, 20, 40, 400)] == [2, 5, 10, 10]
    assert [pacing.patience_of(Context(budget=budget), 4) for budget in (18, 60, 160)] == [3, 4, 10]
    assert pacing.patience_of(Context(budget=18), 1) == 5
    assert pacing.patience_of(Context(patience=2), 1) == 2


def test_the_search_cools_down_once_ten_rounds_gained_less_than_one_percent():
    still_gaining = trace([1.0] * 5 + [1.005 * 1.01**n for n in range(11)])
    level = trace([1.0, 2.0] + [2.0 + 0.001 * n for n in range(11)])
    assert pacing.temperature(standing(still_gaining, 17), 1) == pacing.HOT
    assert pacing.temperature(standing(level, 14), 1) == pacing.COOL
    assert pacing.temperature(standing(level[:8], 9), 1) == pacing.HOT


@pytest.mark.parametrize("name", LEARNING)
def test_every_fifth_round_of_a_long_search_asks_for_another_structure(name):
    strategy = strategy_named(name)
    rows = trace([1.0, 1.1])
    forced = [
        round_
        for round_ in range(1, 16)
        if any(r.tag == "forced" for r in strategy.requests(standing(rows, round_, budget=160)))
    ]
    assert forced == [5, 10, 15]


def test_a_slower_candidate_of_another_structure_stays_in_the_pool():
    rows = [row(f"k{n}", 2.0 - 0.01 * n) for n in range(8)] + [row("other", 0.5, structure="b")]
    assert "other" in {each.id for each in pool_of(ranked(rows, False))}
    assert len(pool_of(ranked(rows, False))) == 7


def test_a_candidate_that_is_not_behind_stays_in_the_pool_however_many_gain_elsewhere():
    """Eight are fast at the odd size and lose at the main one: what the user asked about is the main one."""
    losers = [row(f"k{n}", 2.0 - 0.01 * n).model_copy(update={"behind": True}) for n in range(8)]
    kept = {each.id for each in pool_of(ranked([*losers, row("even", 1.1)], False))}
    assert "even" in kept
    assert len(kept) == 7


def test_a_stuck_search_moves_one_slot_at_a_time_the_next_one_each_round():
    rows = trace([1.0, 1.0])
    found = [pacing.varied_slot(standing(rows, 9, without_gain, budget=160), 4) for without_gain in range(9)]
    assert found == [None] * 5 + [0, 1, 2, 3]


def test_requests_reach_the_writer_with_their_own_seeds(problem_file, tmp_path, given):
    writers = {"triton": ScriptedWriter("triton")}
    optimize(
        problem_file,
        given=given(harness=ScriptedHarness(), writers=writers),
        out=str(tmp_path),
        strategy="beam",
        languages="triton",
    )
    tuned = [brief for brief in writers["triton"].briefs if brief.directive == "tune"]
    assert all(len(brief.seeds) == 1 for brief in tuned)
    assert len({brief.seeds[0].candidate.id for brief in tuned}) > 1
