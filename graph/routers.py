"""Where the graph goes next. Every router reads state alone, so that a replay takes the same way."""

from typing import Literal

from langgraph.types import Send

from ..state.channels import EvaluateTask, ProposeTask, State
from ..state.trajectory import Phase


def first_phase(state: State) -> Phase:
    """From the plan, or from chosen seeds, to the round opener of the phase."""
    return state.phase


def ask_writers(state: State) -> list[Send] | Literal["record"]:
    """One branch a request; straight to the books where nothing is asked."""
    tasks = [
        ProposeTask(
            run_dir=state.run_dir,
            request=request,
            round=state.round,
            seeds=request.seeds or state.seeds,
            pool=tuple(row.id for row in state.pool),
            known=len(state.tried),
            feedback=state.feedback,
            repairs=request.language not in (earlier.language for earlier in state.requests[:index]),
        )
        for index, request in enumerate(state.requests)
    ]
    return [Send("propose", task) for task in tasks] or "record"


def send_to_evaluation(state: State) -> list[Send] | Literal["record"]:
    """One branch a candidate; straight to the books where there is none."""
    return [
        Send("evaluate", EvaluateTask(run_dir=state.run_dir, candidate=id, phase=state.phase, round=state.round))
        for id in state.queue
    ] or "record"


def profile_or_not(state: State) -> Literal["profile", "diagnose"]:
    """Counters cost seconds: only once the search is past its first ideas, or stuck."""
    return "profile" if state.phase != "explore" or state.rounds_without_gain else "diagnose"


def again_or_on(state: State) -> Literal[Phase, "select_seeds", "fit_sizes"]:
    """Another round of this phase, the next phase, or the end of the search."""
    if state.stop_reason:
        return "fit_sizes"
    return "select_seeds" if state.phase_over else state.phase


def check_or_report(state: State) -> Literal["final_check", "report"]:
    return "final_check" if state.finalists else "report"


def done_or_next_best(state: State) -> Literal["report", "final_check", "cross_validate"]:
    """A finalist that did not pass again gives way to the next best, as long as there is one."""
    if state.winner:
        return "report"
    if state.finalists:
        return "final_check"
    return "cross_validate" if {row.id for row in state.pool} - set(state.rejected) else "report"
