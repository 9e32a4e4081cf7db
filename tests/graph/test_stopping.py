"""Stop rules on made-up standings."""

from typing import get_args

import pytest

from warpsmith.graph.stopping import RULES, Progress, little_left_patience, stop_reason, stop_rules
from warpsmith.state.channels import Context, State
from warpsmith.state.evaluation import Status
from warpsmith.state.problem import Target
from warpsmith.state.trajectory import Row, StopReason, TargetGap


def progress(sol: float | None = 0.5, rank: float = 1.0, wins: bool = False, **fields: object) -> Progress:
    about = {
        name: fields.pop(name) for name in ("patience", "last_phase", "nothing_proposed", "target") if name in fields
    }
    settings = {name: fields.pop(name) for name in ("tokens", "money", "budget", "seconds") if name in fields}
    best = Row(
        id="k",
        language="triton",
        phase="explore",
        round=1,
        status=Status.PASSED,
        rank=rank,
        sol_fraction=sol,
    )
    return Progress(state=State(problem="p", **fields), context=Context(**settings), best=best, wins=wins, **about)


def test_every_rule_is_named_as_a_reason_and_says_what_it_compares():
    rules = stop_rules(progress())
    assert {rule.name for rule in rules} | {"", "interrupted"} == set(get_args(StopReason))
    assert len({rule.name for rule in rules}) == len(RULES)
    assert all(rule.about for rule in rules)


def test_a_search_that_gains_goes_on():
    assert stop_reason(progress(evaluations=4, evaluations_at_gain=4)) == ""


@pytest.mark.parametrize(
    ("sol", "rank", "wins", "reason"),
    [
        (0.96, 1.00, False, ""),  # A tie: the last 3% may be the win.
        (0.96, 1.01, True, ""),  # Won, but not clearly.
        (0.96, 1.05, False, ""),  # Faster on the whole, but one workload does not win.
        (0.96, 1.05, True, "won_near_speed_of_light"),
        (0.94, 1.50, True, ""),
        (0.98, 0.99, False, "speed_of_light"),
        (None, 5.00, True, ""),
    ],
)
def test_near_the_speed_of_light_only_a_clear_win_ends_the_search(sol, rank, wins, reason):
    assert stop_reason(progress(sol, rank, wins, evaluations=4, evaluations_at_gain=4)) == reason


@pytest.mark.parametrize(("sol", "evaluations", "fired"), [(0.92, 10, True), (0.92, 9, False), (0.89, 17, False)])
def test_near_the_roof_a_third_of_the_budget_without_gain_ends_the_search(sol, evaluations, fired):
    assert little_left_patience(Context()) == 6
    found = stop_reason(progress(sol, evaluations=evaluations, evaluations_at_gain=4))
    assert (found == "little_left") is fired


def test_little_left_scales_with_the_budget():
    assert [little_left_patience(Context(budget=budget)) for budget in (1, 12, 18, 60)] == [4, 4, 6, 20]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"evaluations": 18}, "budget_evaluations"),
        ({"seconds_used": 601.0}, "budget_seconds"),
        ({"tokens_used": 100, "tokens": 100}, "budget_tokens"),
        ({"tokens_used": 99, "tokens": 100}, ""),
        ({"money_used": 2.0, "money": 1.5}, "budget_money"),
        ({"tokens_used": 10**9, "money_used": 1e9}, ""),  # No budget set for them.
    ],
)
def test_budgets_end_a_search(fields, reason):
    assert stop_reason(progress(**fields)) == reason


def test_rounds_without_gain_end_the_search_in_the_last_phase_only():
    assert stop_reason(progress(rounds_without_gain=3, patience=3)) == ""
    assert stop_reason(progress(rounds_without_gain=3, patience=3, last_phase=True, nothing_proposed=True)) == "no_gain"
    assert stop_reason(progress(rounds_without_gain=2, patience=3, last_phase=True)) == ""
    assert stop_reason(progress(last_phase=True, nothing_proposed=True)) == "nothing_left"
    assert stop_reason(progress(last_phase=False, nothing_proposed=True)) == ""


def test_a_beaten_target_ends_the_search_and_shows_both_times():
    target = Target(ms=2.0, gpu="H200", workload="default", source="a table")
    beaten = progress(target=TargetGap(target=target, comparable=True, gap=-0.25, beaten=True))
    assert stop_reason(beaten) == "target_beaten"
    rule = next(rule for rule in stop_rules(beaten) if rule.name == "target_beaten")
    assert (rule.threshold, rule.value) == (2.0, 1.5)
    assert stop_reason(progress(target=TargetGap(target=target, comparable=False, gap=-0.25))) == ""


def test_without_any_kernel_only_budgets_and_emptiness_end_the_search():
    nothing = Progress(state=State(problem="p", evaluations=6), context=Context())
    assert stop_reason(nothing) == ""
    assert all(rule.value is None for rule in stop_rules(nothing) if "light" in rule.name or rule.name == "little_left")
