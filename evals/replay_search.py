"""Searches on a recorded grid: ours by their strategy and the real writer, random search, and Optuna's TPE.

Each answers with the share of the grid's best that it has reached after each evaluation. A setting that failed counts
as an evaluation for all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from math import log
from random import Random
from typing import Any

from ..graph.rounds import after_round
from ..graph.search import SearchStrategy, Standing, next_phase, patience_of, quota_left, strategy_named
from ..graph.structure import structure_of
from ..state.base import digest
from ..state.brief import Brief, Scored
from ..state.candidate import Candidate
from ..state.channels import Context, State, WriterRequest
from ..state.evaluation import CompileReport, Evaluation, Status
from ..state.trajectory import Row
from .replay_grid import Entry, Grid, GridWriter, setting_of

Curve = list[float]
"""Share of the grid's best after each evaluation, 0 before anything passed."""
MOST_ASKS = 20
"""Suggestions of TPE in a row that are illegal or known already, before it is given a random new one."""


class StrategySearch:
    """One of our strategies with the offline writer, on one grid. The writer's own order of trial is part of it."""

    def __init__(self, grid: Grid, strategy: SearchStrategy, writer: GridWriter | None = None) -> None:
        self.grid = grid
        self.strategy = strategy
        self.writer = writer or GridWriter(grid)

    def curve(self, budget: int, seed: int) -> Curve:
        context = Context(budget=budget, seed=seed, languages="triton")
        quotas = self.strategy.quotas(context)
        state = State(problem=self.grid.problem.name, quotas=quotas, phase=next(iter(quotas)))  # type: ignore[arg-type]
        patience = patience_of(context, self.strategy.round_size(context))
        rows: list[Row] = []
        known: dict[str, Scored] = {}
        while len(rows) < budget:
            seeds = self.strategy.seeds(Standing(state, context, tuple(rows)), state.phase)
            state = state.model_copy(update={"round": state.round + 1, "seeds": seeds})
            results = self._round(Standing(state, context, tuple(rows)), known)
            rows += results
            state = after_round(state, results)
            stale = state.rounds_without_gain >= patience
            later = next_phase(state)
            if later is None and not results:
                break
            if later is not None and (not results or stale or quota_left(state) < 1):
                state = state.model_copy(update={"phase": later, "rounds_without_gain": 0})
        return curve_of([self.grid.best_ms / row.ms if row.ms else 0.0 for row in rows], budget)

    def _round(self, standing: Standing, known: dict[str, Scored]) -> list[Row]:
        results: list[Row] = []
        for request in self.strategy.requests(standing):
            brief = self._brief(standing, request, known)
            for candidate in self.writer.propose(brief, request.n):
                if candidate.id not in known and len(results) < standing.room:
                    asked = f"{request.directive} {request.tag}".strip()
                    known[candidate.id] = Scored(candidate=candidate, evaluation=_unread(candidate))
                    results.append(self._row(candidate, standing.state, asked))
        return results

    def _brief(self, standing: Standing, request: WriterRequest, known: dict[str, Scored]) -> Brief:
        state = standing.state
        return Brief(
            problem=self.grid.problem,
            device=self.grid.device,
            plan=self.grid.plan,
            language=request.language,
            directive=request.directive,
            pool=tuple(known[row.id] for row in state.pool),
            seeds=tuple(known[id] for id in request.seeds or state.seeds),
            tried=frozenset(state.tried),
            temperature=request.temperature,
            rng_seed=request.rng_seed,
            vary=request.vary,
            spread=request.spread,
        )

    def _row(self, candidate: Candidate, state: State, asked: str) -> Row:
        ms = self.grid.ms(*setting_of(self.grid, candidate))
        return Row(
            id=candidate.id,
            language=candidate.language,
            template=candidate.template or "",
            parent=candidate.parent or "",
            phase=state.phase,
            round=state.round,
            status=Status.PASSED if ms else Status.COMPILE_ERROR,
            rank=self.grid.best_ms / ms if ms else 0.0,
            ms=ms,
            structure=digest(structure_of(candidate))[:6],
            asked=asked,
        )


def _unread(candidate: Candidate) -> Evaluation:
    """An evaluation that stands in a brief where the offline writer reads the candidate only."""
    failed = CompileReport(ok=False, seconds=0.0)
    return Evaluation(
        candidate=candidate.id,
        problem="",
        status=Status.COMPILE_ERROR,
        tier="quick",
        message="replayed",
        compile=failed,
    )


def random_curve(grid: Grid, budget: int, seed: int) -> Curve:
    """Every setting equally likely, none twice."""
    entries = Random(seed).sample(grid.entries, min(budget, len(grid.entries)))
    return curve_of([grid.best_ms / entry.ms if entry.ms else 0.0 for entry in entries], budget)


def tpe_curve(grid: Grid, budget: int, seed: int) -> Curve:
    """Optuna's TPE over the template and its slots. Illegal and repeated suggestions cost it nothing."""
    import optuna  # A dependency of comparisons only.

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    space = _Space(grid)
    rng, seen = Random(seed), set[int]()
    shares: list[float] = []
    while len(shares) < min(budget, len(grid.entries)):
        for attempt in range(MOST_ASKS + 1):
            if attempt == MOST_ASKS:
                study.enqueue_trial(
                    space.parameters(rng.choice([n for n in range(len(grid.entries)) if n not in seen]))
                )
            trial = study.ask()
            found = space.suggested(trial)
            if found is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            ms = grid.entries[found].ms
            study.tell(trial, log(ms) if ms else 10.0)
            if found not in seen:
                seen.add(found)
                shares.append(grid.best_ms / ms if ms else 0.0)
                break
    return curve_of(shares, budget)


class _Space:
    """A grid as a conditional space: the template, then its slots."""

    def __init__(self, grid: Grid) -> None:
        self._entries = grid.entries
        self._numbers = {self._key(entry): number for number, entry in enumerate(grid.entries)}
        self._templates = list(dict.fromkeys(entry.template for entry in grid.entries))
        self._choices = {
            template: {
                slot: list(dict.fromkeys(e.setting[slot] for e in grid.entries if e.template == template))
                for slot in next(e.setting for e in grid.entries if e.template == template)
            }
            for template in self._templates
        }

    def suggested(self, trial: Any) -> int | None:
        """Number of the entry that a trial suggests, None for an illegal setting."""
        template = trial.suggest_categorical("template", self._templates)
        setting = {
            slot: trial.suggest_categorical(f"{template}.{slot}", choices)
            for slot, choices in self._choices[template].items()
        }
        return self._numbers.get((template, tuple(setting.values())))

    def parameters(self, number: int) -> dict[str, Any]:
        entry = self._entries[number]
        return {"template": entry.template, **{f"{entry.template}.{slot}": v for slot, v in entry.setting.items()}}

    def _key(self, entry: Entry) -> tuple[str, tuple[Any, ...]]:
        return entry.template, tuple(entry.setting.values())


def curve_of(shares: Sequence[float], budget: int) -> Curve:
    """The best so far after each evaluation; what is left of the budget brings nothing."""
    best, curve = 0.0, []
    for share in shares:
        best = max(best, share)
        curve.append(best)
    return (curve + [best] * budget)[:budget]


def searches(grid: Grid, names: Sequence[str]) -> Iterator[tuple[str, Callable[[int, int], Curve]]]:
    """Searches by name: a strategy's, `random` or `tpe`; each takes budget and seed."""
    writer = GridWriter(grid)
    for name in names:
        if name == "random":
            yield name, lambda budget, seed: random_curve(grid, budget, seed)
        elif name == "tpe":
            yield name, lambda budget, seed: tpe_curve(grid, budget, seed)
        else:
            yield name, StrategySearch(grid, strategy_named(name), writer).curve
