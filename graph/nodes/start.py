"""Nodes before the loop: from a problem file to a plan."""

from pathlib import Path

from langgraph.runtime import Runtime

from ...state.channels import Context, RunInput, State, Update
from ...state.trajectory import PHASES
from ..run_directory import new_run_directory
from ..services import Services, services_for
from ..stages import staged


def context_of(runtime: Runtime[Context]) -> Context:
    """The run's settings, as its stage has them: LangGraph passes None where the caller gave none."""
    return staged(runtime.context or Context())


def services_of(run_dir: str, runtime: Runtime[Context]) -> Services:
    return services_for(run_dir, context_of(runtime))


def tell(services: Services, runtime: Runtime[Context], event: str, **fields: object) -> None:
    """Reports an event to the log and to whoever streams the graph in `custom` mode."""
    services.events.emit(event, **fields)
    runtime.stream_writer({"event": event, **fields})


def load_problem(state: RunInput, runtime: Runtime[Context]) -> Update:
    """Reads the problem in a worker and makes the run directory. Raises InvalidProblem."""
    context = context_of(runtime)
    path = Path(state.problem)
    run_dir = state.run_dir or str(new_run_directory(Path(context.out), path))
    services = services_for(run_dir, context)
    device = services.harness.device()
    problem = services.harness.load(path)
    services.run.write_record("device", device)
    services.run.write_record("problem", problem)
    about = {"problem": problem.name, "id": problem.id, "device": device.name, "dry_run": device.simulated}
    tell(services, runtime, "problem_loaded", **about)
    return {
        "run_dir": run_dir,
        "problem_name": problem.name,
        "problem_id": problem.id,
        "dry_run": device.simulated,
    }


def vet_problem(state: State, runtime: Runtime[Context]) -> Update:
    """Refuses a reference that cannot be judged. Raises InvalidProblem."""
    services = services_of(state.run_dir, runtime)
    notes = services.harness.vet(services.problem)
    tell(services, runtime, "problem_vetted", notes=notes)
    return {"notes": notes}


def measure_baseline(state: State, runtime: Runtime[Context]) -> Update:
    """Times eager, torch.compile and the problem's own baselines, from the cache where it has them."""
    services = services_of(state.run_dir, runtime)
    baselines = services.harness.baseline(services.problem)
    services.run.write_record("baselines", baselines)
    primary = services.problem.primary.name
    times = {e.name: e.ms for e in baselines.entries if e.workload == primary and e.ms is not None}
    tell(services, runtime, "baseline_measured", baseline_ms=times)
    return {"baseline_ms": times}


def plan(state: State, runtime: Runtime[Context]) -> Update:
    """Lowers the reference and has the planner name strategies; sets each phase's share of the budget."""
    services, context = services_of(state.run_dir, runtime), context_of(runtime)
    graph = services.harness.lower(services.problem)
    made = services.planner.plan(services.problem, graph, services.device)
    services.run.write_record("lowered", graph)
    services.run.write_record("plan", made)
    strategies = tuple(strategy.name for strategy in made.strategies)
    quotas = services.strategy.quotas(context)
    tell(services, runtime, "planned", summary=made.summary, strategies=strategies, quotas=quotas)
    return {
        "plan_summary": made.summary,
        "strategies": strategies,
        "quotas": quotas,
        "phase": next(phase for phase in PHASES if phase in quotas),
        "seconds_used": state.seconds_used + services.lap(),
    }
