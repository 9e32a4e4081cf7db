"""Grids on made-up times: fully enumerated, closed to everything else, and searched by the real writer."""

from random import Random

import pytest
from programs import examples
from programs.sheets import H200

from warpsmith.evals.compare_strategies import against, report_of, search_problem, spread_of, steps_to
from warpsmith.evals.replay_grid import Grid, load_grids, open_grid, save_grid
from warpsmith.evals.replay_search import StrategySearch, curve_of, random_curve, tpe_curve
from warpsmith.evals.search_plot import plot_svg
from warpsmith.graph.search import STRATEGIES, strategy_named
from warpsmith.state.errors import InvalidInput
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload


@pytest.fixture(scope="module")
def grid() -> Grid:
    """A softmax whose time is a product of one factor a choice, with one setting in twenty failing."""
    problem = Problem(name="softmax", path="softmax.py", source="", workloads=(Workload(name="default"),))
    plan = Plan(summary="", strategies=(), forward=examples.softmax(4096, 4096))
    opened = open_grid(problem, plan, H200, 150)
    rng, factors = Random(3), dict[object, float]()
    entries = []
    for entry in opened.entries:
        ms = factors.setdefault(entry.template, rng.uniform(0.8, 1.2))
        for choice in entry.setting.items():
            ms *= factors.setdefault((entry.template, choice), rng.uniform(0.8, 1.2))
        entries.append(entry.model_copy(update={"ms": None if rng.random() < 0.05 else ms}))
    return opened.model_copy(update={"entries": tuple(entries)})


def test_a_grid_is_enumerated_fully_and_has_every_setting_once(grid):
    assert 120 <= len(grid.entries) <= 150
    assert len(grid.times) == len(grid.entries)
    assert len({entry.template for entry in grid.entries}) > 1


def test_a_setting_that_is_not_there_is_an_error_and_never_a_time(grid):
    first = grid.entries[0]
    with pytest.raises(InvalidInput, match="record it again"):
        grid.ms(first.template, {**first.setting, "num_warps": 3})


def test_grids_survive_the_disk(grid, tmp_path):
    file = save_grid(grid, tmp_path)
    assert load_grids(tmp_path) == [grid]
    before = file.read_bytes()
    save_grid(grid, tmp_path)
    assert file.read_bytes() == before
    file.write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match="not a recorded grid"):
        load_grids(tmp_path)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_searches_a_grid_within_its_budget_and_repeatably(grid, name):
    search = StrategySearch(grid, strategy_named(name))
    curves = [search.curve(30, seed) for seed in (1, 1, 2)]
    assert curves[0] == curves[1]
    assert len(curves[0]) == 30
    assert curves[0] == sorted(curves[0])
    assert curves[0][-1] > 0.8


def test_random_search_sees_the_whole_grid_in_the_end(grid):
    assert random_curve(grid, len(grid.entries), 0)[-1] == 1.0
    assert random_curve(grid, 5, 0) != random_curve(grid, 5, 1)


def test_tpe_learns_from_what_it_was_told(grid):
    pytest.importorskip("optuna")
    curve = tpe_curve(grid, 40, 1)
    assert curve == tpe_curve(grid, 40, 1)
    assert curve[-1] > 0.9


def test_a_curve_is_the_best_so_far_and_goes_on_level():
    assert curve_of([0.5, 0.0, 0.7], 5) == [0.5, 0.5, 0.7, 0.7, 0.7]
    assert curve_of([], 2) == [0.0, 0.0]
    assert curve_of([0.1, 0.9], 1) == [0.1]


def test_spreads_are_medians_and_quartiles():
    assert spread_of([0.1, 0.2, 0.3, 0.4, 0.5]).model_dump() == {"median": 0.3, "low": 0.2, "high": 0.4}


def test_steps_to_a_share_are_a_median_and_none_where_most_never_get_there():
    curves = [[0.5, 0.99, 1.0], [0.99, 0.99, 0.99], [0.1, 0.1, 0.1]]
    assert steps_to(0.99, curves) == 2
    assert steps_to(1.0, curves) is None


def test_a_report_counts_where_the_default_is_better_and_the_plot_shows_every_search(grid):
    names = ("phased", "chain", "random")
    found = search_problem(grid, names, (5, 10), seeds=3)
    report = report_of([grid], [found], (5, 10), 3)
    assert set(report.mean_of_medians) == set(names)
    counted = against([found], "phased", "random", 10)
    assert counted.better + counted.equal + counted.worse == 1
    drawn = plot_svg({"a<b": found.curves}, "phased")
    assert drawn.count("<polyline") == 3
    assert "a&lt;b" in drawn
