"""The Python API for one problem: start a run, or go on with one."""

import shutil
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from pydantic import ValidationError

from ..state.channels import Context, EvaluateTask, State
from ..state.errors import InfraError, InvalidInput, InvalidProblem, WarpsmithError
from ..state.trajectory import Result
from .checkpoints import checkpointer
from .controller import Controller, build_graph, recursion_limit
from .nodes.loop import make_row
from .report import read_result, write_report
from .run_directory import RunDirectory, new_run_directory
from .services import Collaborators, Services, Stopped, close_services, open_services, provide
from .settings import check_problem_file, check_settings, make_context
from .waiting import Waiting, answered, open_questions, with_kernels

SETTINGS = "settings"


class Interrupted(KeyboardInterrupt):
    """The run was stopped by a person. `result` is what there was; `resume(run_dir)` goes on."""

    def __init__(self, run_dir: Path, result: Result | None) -> None:
        super().__init__(f"{run_dir}: interrupted")
        self.run_dir = run_dir
        self.result = result


def optimize(problem: str | Path, *, given: Collaborators | None = None, **settings: Any) -> Result:
    """Finds the fastest correct kernel for a problem file and writes it with its report to a new run directory.

    Settings are the fields of `Context`. Raises InvalidProblem, InvalidInput or InfraError with one line for a person;
    Interrupted on Ctrl-C. What was found before an error is written all the same.
    """
    path = Path(problem)
    check_problem_file(path)
    context = make_context(settings)
    check_settings(context, given)
    run_dir = new_run_directory(Path(context.out), path)
    run = RunDirectory(run_dir)
    run.write_text(f"{SETTINGS}.json", context.model_dump_json())
    try:
        return _drive(run, context, given, {"problem": str(path), "run_dir": str(run_dir)})
    except InvalidProblem:
        shutil.rmtree(run_dir, ignore_errors=True)  # Nothing was tried: there is nothing to keep.
        raise


def resume(
    run_dir: str | Path,
    *,
    given: Collaborators | None = None,
    kernels: Sequence[str | Path] = (),
    **changes: Any,
) -> Result:
    """Goes on with a run that was interrupted or waits; a finished one only hands back its result.

    `kernels` are files for a run that waits for them; `changes` override its settings.
    """
    path = Path(run_dir)
    if kernels:
        given = replace(given or Collaborators(), person=with_kernels(kernels))
    if not (path / "checkpoint.sqlite").is_file():
        raise InvalidInput(f"{path}: is not a run directory that can be resumed; give one that a run has named")
    done = read_result(path)
    if done is not None and done.complete:
        return done
    try:
        saved = Context.model_validate_json((path / f"{SETTINGS}.json").read_text(encoding="utf-8"))
    except (OSError, ValidationError) as error:
        raise InvalidInput(f"{path / SETTINGS}.json: cannot be read; start the run again") from error
    context = make_context({**saved.model_dump(), **changes})
    check_settings(context, given)
    return _drive(RunDirectory(path), context, given, None)


def _drive(run: RunDirectory, context: Context, given: Collaborators | None, inputs: Any) -> Result:
    services = open_services(run.path, context, given)
    provide(services)
    config: RunnableConfig = {
        "configurable": {"thread_id": "run"},
        "recursion_limit": recursion_limit(context),
        "max_concurrency": context.max_concurrency,
    }
    with closing(sqlite3.connect(run.checkpoint, check_same_thread=False)) as connection:
        graph = build_graph(checkpointer(connection))
        if inputs is None and graph.get_state(config).created_at is None:
            raise InvalidInput(f"{run.path}: stopped before its first step; start the run again")
        try:
            with _stop_on_interrupt(services):
                _invoke(graph, inputs, (config, context), services)
        except (KeyboardInterrupt, Stopped):
            raise Interrupted(run.path, _save_partial(graph, config, services, context)) from None
        except Exception:
            _save_partial(graph, config, services, context)
            raise
        finally:
            close_services(str(run.path))
    result = read_result(run.path)
    if result is None:
        raise InfraError(f"{run.path}: the run ended without a report")
    return result


def _invoke(graph: Controller, inputs: Any, run: tuple[RunnableConfig, Context], services: Services) -> None:
    """Runs to the end, with a person's answers where the graph asks for them. Raises Waiting where nobody answers."""
    config, context = run
    if inputs is not None or not open_questions(graph, config):
        graph.invoke(inputs, config, context=context, durability="sync")
    while questions := open_questions(graph, config):
        answers = answered(questions, services.person) if services.person else {}
        if not answers:
            raise Waiting(services.run.path, questions)
        services.lap()  # A person's time is not the run's.
        graph.invoke(Command(resume=answers), config, context=context, durability="sync")


@contextmanager
def _stop_on_interrupt(services: Services) -> Iterator[None]:
    """The first Ctrl-C lets running evaluations finish, the rest is left to a resumed run; a second does not wait.

    Only the main thread may handle signals; elsewhere the caller's own handling stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        services.stopping.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _save_partial(graph: Controller, config: RunnableConfig, services: Services, context: Context) -> Result | None:
    """Writes the best so far; None where the run had not come to any. Trouble here never hides the first trouble."""
    with suppress(WarpsmithError, OSError, sqlite3.Error):
        state = State.model_validate(graph.get_state(config).values)
        if not state.quotas:
            return None
        rows = []
        for id in state.queue:
            evaluation = services.run.evaluation(id)
            if evaluation is not None:
                task = EvaluateTask(run_dir=state.run_dir, candidate=id, phase=state.phase, round=state.round)
                rows.append(make_row(services.run.candidate(id), evaluation, task))
        services.run.add_rows(rows)
        state = state.model_copy(update={"seconds_used": state.seconds_used + services.lap()})
        return write_report(state, services, context, complete=False)
    return None
