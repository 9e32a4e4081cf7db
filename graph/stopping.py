"""When a search ends. Each rule has a name and a threshold, and the report shows all of them with where the run stood.

Why the speed of light alone is not enough below 0.98: on an H200 many memory-bound problems tie with the compiler's
best at 0.95, where the last 3% are the whole difference between a tie and a win. So at 0.95 a search ends only with a
win on every workload; without one it goes on until 0.98, or until nothing has gained for a while.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from ..state.channels import Context, State
from ..state.trajectory import Row, StopReason, StopRule, TargetGap

CLEAR_WIN = 1.02
"""Speedup from which a win counts as clear: twice what two measurements of one kernel differ by at most."""
NEAR_LIGHT = 0.90
"""Fraction of the speed of light from which little is left, and patience is shorter."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What the rules look at: the state as after the round, the best row, and what the strategy says of its phases."""

    state: State
    context: Context
    best: Row | None = None
    wins: bool = False
    """Every timed workload of the best is a win by the paired gate."""
    target: TargetGap | None = None
    patience: int = 3
    """Rounds without gain that end a phase."""
    last_phase: bool = False
    models_stop: StopReason = ""
    """Why no model can be asked any more."""
    nothing_proposed: bool = False

    @property
    def evaluations_without_gain(self) -> int:
        return self.state.evaluations - self.state.evaluations_at_gain

    @property
    def stale(self) -> bool:
        return self.state.rounds_without_gain >= self.patience


Rule = Callable[[Progress], StopRule]


def target_beaten(progress: Progress) -> StopRule:
    gap = progress.target
    return StopRule(
        name="target_beaten",
        threshold=gap.target.ms if gap else None,
        value=gap.target.ms * (1 + gap.gap) if gap and gap.gap is not None else None,
        fired=gap is not None and gap.beaten,
        about="ms on the target's workload and GPU",
    )


def speed_of_light(progress: Progress) -> StopRule:
    found, most = _sol(progress), progress.context.stop_at_sol_alone
    return StopRule(
        name="speed_of_light",
        threshold=most,
        value=found,
        fired=found is not None and found >= most,
        about="least fraction over the workloads, whatever the baseline",
    )


def won_near_speed_of_light(progress: Progress) -> StopRule:
    found, most, best = _sol(progress), progress.context.stop_at_sol, progress.best
    won = progress.wins and best is not None and best.rank >= CLEAR_WIN
    return StopRule(
        name="won_near_speed_of_light",
        threshold=most,
        value=found,
        fired=won and found is not None and found >= most,
        about=f"as before, with a win on every workload and a speedup of {CLEAR_WIN:g} or more",
    )


def little_left(progress: Progress) -> StopRule:
    found, allowed = _sol(progress), little_left_patience(progress.context)
    near = found is not None and found >= NEAR_LIGHT
    return StopRule(
        name="little_left",
        threshold=allowed,
        value=progress.evaluations_without_gain if near else None,
        fired=near and progress.evaluations_without_gain >= allowed,
        about=f"evaluations without gain once {NEAR_LIGHT:.0%} of the speed of light are reached",
    )


def budget_evaluations(progress: Progress) -> StopRule:
    return _budget("budget_evaluations", progress.state.evaluations, progress.context.budget, "candidates evaluated")


def budget_seconds(progress: Progress) -> StopRule:
    return _budget("budget_seconds", progress.state.seconds_used, progress.context.seconds, "seconds of wall time")


def budget_tokens(progress: Progress) -> StopRule:
    return _models_budget(progress, "budget_tokens", progress.state.tokens_used, progress.context.tokens)


def budget_money(progress: Progress) -> StopRule:
    return _models_budget(progress, "budget_money", progress.state.money_used, progress.context.money)


def quota_exhausted(progress: Progress) -> StopRule:
    over = progress.models_stop == "quota_exhausted"
    return StopRule(name="quota_exhausted", fired=over, about="the account behind the endpoint has no credit left")


def no_gain(progress: Progress) -> StopRule:
    return StopRule(
        name="no_gain",
        threshold=progress.patience,
        value=progress.state.rounds_without_gain,
        fired=progress.last_phase and progress.stale,
        about="rounds without gain in the last phase; in an earlier one they end the phase",
    )


def nothing_left(progress: Progress) -> StopRule:
    over = progress.last_phase and not progress.stale and progress.nothing_proposed
    return StopRule(name="nothing_left", fired=over, about="the writers have nothing new, or the phases are over")


RULES: tuple[Rule, ...] = (
    target_beaten,
    speed_of_light,
    won_near_speed_of_light,
    budget_evaluations,
    budget_seconds,
    budget_tokens,
    budget_money,
    quota_exhausted,
    little_left,
    no_gain,
    nothing_left,
)
"""In this order: the first that fires names the reason."""


def stop_rules(progress: Progress) -> tuple[StopRule, ...]:
    """Every rule with its threshold and value."""
    return tuple(rule(progress) for rule in RULES)


def stop_reason(progress: Progress) -> StopReason:
    """The name of the first rule that fires, empty to go on."""
    return next((rule.name for rule in stop_rules(progress) if rule.fired), "")


def little_left_patience(context: Context) -> int:
    """A third of the budget, at least 4 evaluations: near the roof the next gain comes soon or not at all."""
    return max(4, ceil(context.budget / 3))


def _sol(progress: Progress) -> float | None:
    return progress.best.sol_fraction if progress.best else None


def _budget(name: StopReason, used: float, most: float | None, about: str) -> StopRule:
    return StopRule(name=name, threshold=most, value=used, fired=most is not None and used >= most, about=about)


def _models_budget(progress: Progress, name: StopReason, used: float, most: float | None) -> StopRule:
    """Fires already when what is left does not cover another answer."""
    rule = _budget(name, used, most, f"{name.removeprefix('budget_')} spent on models")
    return rule.model_copy(update={"fired": rule.fired or progress.models_stop == name})
