"""The Python API for one problem: start a run, or go on with one."""

import logging
import shutil
import signal
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.types import Command

from ..state.channels import Context, EvaluateTask, State
from ..state.errors import InfraError, InvalidInput, InvalidProblem, WarpsmithError
from ..state.trajectory import Result
from .checkpoints import checkpointer
from .controller import Controller, build_graph, recursion_limit
from .decisive import UNDECISIVE
from .nodes.loop import make_row
from .report import read_result, write_report
from .run_directory import RunDirectory, new_run_directory, parsed
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
    except (InvalidProblem, InvalidInput):
        _remove_untried(run)
        raise
    except KeyboardInterrupt as stopped:
        if not run.read_problem:
            _remove_untried(run)
        raise _interrupted(run, stopped) from None


def resume(
    run_dir: str | Path,
    *,
    given: Collaborators | None = None,
    kernels: Sequence[str | Path] = (),
    problem: str | Path | None = None,
    **changes: Any,
) -> Result:
    """Goes on with a run that was interrupted or waits, where its directory lies now.

    A finished one only hands back its result, whatever `changes` there are. `kernels` are files for a run that waits
    for them; `changes` override its settings. Raises InvalidInput for a run of another problem than `problem`, and for
    one that another process goes on with.
    """
    path = Path(run_dir)
    if problem is not None:
        check_problem_file(Path(problem))
    if kernels:
        given = replace(given or Collaborators(), person=with_kernels(kernels))
    if not (path / "checkpoint.sqlite").is_file():
        raise InvalidInput(f"{path}: is not a run directory that can be resumed; give one that a run has named")
    run = RunDirectory(path)
    if problem is not None:
        run.check_problem(Path(problem))
    done = read_result(path)
    if done is not None and done.complete:
        return done
    saved = parsed(path / f"{SETTINGS}.json", Context.model_validate_json)
    if saved is None:
        raise InvalidInput(f"{path / SETTINGS}.json: is missing; start the run again")
    context = make_context({**saved.model_dump(), **changes})
    check_settings(context, given)
    run.rows()  # Broken ones are told before anything is started.
    try:
        return _drive(run, context, given, None)
    except KeyboardInterrupt as stopped:
        raise _interrupted(run, stopped) from None


def ignored_changes(run_dir: Path, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the settings that a finished run would need to be run again for; none where it is not finished."""
    done = read_result(run_dir)
    if done is None or not done.complete:
        return ()
    deciding = {name: value for name, value in changes.items() if name not in UNDECISIVE and name != "library"}
    return tuple(name for name, value in deciding.items() if done.settings.get(name, value) != value)


def _interrupted(run: RunDirectory, stopped: KeyboardInterrupt) -> Interrupted:
    """A Ctrl-C while things are opened or closed, like one in between: with what the run has written."""
    if isinstance(stopped, Interrupted):
        return stopped
    with suppress(WarpsmithError, OSError):
        return Interrupted(run.path, read_result(run.path))
    return Interrupted(run.path, None)


def _remove_untried(run: RunDirectory) -> None:
    """Removes a run directory in which there is nothing to keep."""
    if run.untried:
        shutil.rmtree(run.path, ignore_errors=True)


def _drive(run: RunDirectory, context: Context, given: Collaborators | None, inputs: Any) -> Result:
    config: RunnableConfig = {
        "configurable": {"thread_id": "run"},
        "recursion_limit": recursion_limit(context),
        "max_concurrency": context.max_concurrency,
    }
    with run.alone(), closing(sqlite3.connect(run.checkpoint, check_same_thread=False)) as connection:
        graph = build_graph(checkpointer(connection))
        called = str(run.path) if inputs is not None else _run_dir_of(graph, config, run)
        services = open_services(run.path, context, given)
        provide(services, called)
        try:
            with _stop_on_interrupt(services):
                _invoke(graph, inputs, (config, context), services)
        except (KeyboardInterrupt, Stopped):
            raise Interrupted(run.path, _save_partial(graph, config, services, context)) from None
        except sqlite3.Error as error:
            _save_partial(graph, config, services, context)
            raise InfraError(f"{run.checkpoint}: {error}; once that is mended, go on with --resume") from error
        except Exception:
            _save_partial(graph, config, services, context)
            raise
        finally:
            close_services(called)
    result = read_result(run.path)
    if result is None:
        raise InfraError(f"{run.path}: the run ended without a report")
    return result


def _run_dir_of(graph: Controller, config: RunnableConfig, run: RunDirectory) -> str:
    """What the run's state calls its directory: another path than it has now where it was moved since.

    Raises InvalidInput where there is no step to go on from.
    """
    try:
        snapshot = graph.get_state(config)
    except (sqlite3.Error, zlib.error, ValueError, TypeError) as error:
        raise InvalidInput(f"{run.checkpoint}: cannot be read ({error}); start the run again") from error
    if snapshot.created_at is None:
        raise InvalidInput(f"{run.path}: stopped before its first step; start the run again")
    return str(snapshot.values.get("run_dir") or run.path)


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
        signal.signal(signal.SIGINT, stop_at_once)
        raise KeyboardInterrupt

    def stop_at_once(_signal: int, _frame: FrameType | None) -> None:
        logging.getLogger("concurrent.futures").addFilter(_of_those_left_behind)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _of_those_left_behind(record: logging.LogRecord) -> bool:
    """Drops what a thread that nobody waited for says in the end, as long as a screen: that its run is over."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, RuntimeError) and "cannot schedule new futures" in str(error))


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
