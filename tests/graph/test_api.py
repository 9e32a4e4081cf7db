"""Starting, interrupting and resuming runs from Python."""

import os
import signal
import threading
from pathlib import Path

import pytest
from scripted.collaborators import ScriptedHarness

from warpsmith.graph import Interrupted, optimize, resume
from warpsmith.graph.settings import make_context
from warpsmith.state.errors import InfraError, InvalidInput, InvalidProblem
from warpsmith.state.evaluation import Evaluation, Status
from warpsmith.state.trajectory import Result


class StopsAt(ScriptedHarness):
    """Sends Ctrl-C to this process when it has judged so many candidates."""

    limit = 10**9

    def evaluate(self, problem, candidate, tier="quick"):
        evaluation = super().evaluate(problem, candidate, tier)
        if sum(what == "quick" for what, _ in self.calls) == self.limit:
            os.kill(os.getpid(), signal.SIGINT)
        return evaluation


def test_ctrl_c_leaves_the_best_so_far_and_resuming_reaches_the_same_winner(problem_file, tmp_path, given):
    whole = optimize(problem_file, given=given(), out=str(tmp_path / "whole"))
    harness = StopsAt()
    harness.limit = 6
    with pytest.raises(Interrupted) as stopped:
        optimize(problem_file, given=given(harness=harness), out=str(tmp_path / "cut"), max_concurrency=1)
    partial = stopped.value.result
    assert partial.complete is False
    assert partial.stop_reason == "interrupted"
    assert Path(partial.best_path).is_file()
    judged = {id for what, id in harness.calls if what == "quick"}
    assert 6 <= len(judged) < 10

    second = ScriptedHarness()
    finished = resume(stopped.value.run_dir, given=given(harness=second))
    assert finished.complete is True
    assert [entry.id for entry in finished.trajectory] == [entry.id for entry in whole.trajectory]
    assert finished.best == whole.best
    again = {id for what, id in second.calls if what == "quick"} & judged
    assert again == set()  # What was judged before the interruption is not judged again.


def test_the_handler_of_ctrl_c_is_put_back(problem_file, tmp_path, given):
    before = signal.getsignal(signal.SIGINT)
    optimize(problem_file, given=given(), out=str(tmp_path), budget=1)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_in_another_thread_works_without_handling_signals(problem_file, tmp_path, given):
    results: list[Result] = []
    thread = threading.Thread(
        target=lambda: results.append(optimize(problem_file, given=given(), out=str(tmp_path), budget=2))
    )
    thread.start()
    thread.join(30)
    assert results[0].outcome == "verified"


def test_resuming_a_finished_run_hands_back_its_result_without_judging(problem_file, tmp_path, given):
    result = optimize(problem_file, given=given(), out=str(tmp_path), budget=2)
    harness = ScriptedHarness()
    assert resume(result.run_dir, given=given(harness=harness)).best == result.best
    assert harness.calls == []


def test_resuming_what_is_no_run_says_so(tmp_path):
    with pytest.raises(InvalidInput, match="not a run directory that can be resumed"):
        resume(tmp_path)


def test_a_broken_harness_stops_the_run_and_what_was_found_is_written(problem_file, tmp_path, given):
    class Breaks(ScriptedHarness):
        def evaluate(self, problem, candidate, tier="quick"):
            if sum(what == "quick" for what, _ in self.calls) >= 6:
                raise InfraError("the GPU fell off the bus; reset it")
            return super().evaluate(problem, candidate, tier)

    with pytest.raises(InfraError, match="fell off the bus"):
        optimize(problem_file, given=given(harness=Breaks()), out=str(tmp_path), max_concurrency=1)
    (run_dir,) = (tmp_path / problem_file.stem).iterdir()
    assert (run_dir / "best.py").is_file()
    assert resume(run_dir, given=given()).outcome == "verified"


def test_a_harness_that_only_fails_stops_the_run(problem_file, tmp_path, given):
    class Dead(ScriptedHarness):
        def evaluate(self, problem, candidate, tier="quick"):
            self._note(tier, candidate.id)
            message = "the judge does not answer"
            return Evaluation(
                candidate=candidate.id, problem=problem.id, status=Status.INFRA_ERROR, tier=tier, message=message
            )

    harness = Dead()
    with pytest.raises(InfraError, match="4 evaluations in a row failed: the judge does not answer"):
        optimize(problem_file, given=given(harness=harness), out=str(tmp_path))
    assert len([call for call in harness.calls if call[0] == "quick"]) == 4


def test_a_full_disk_surfaces_as_the_error_it_is(problem_file, tmp_path, given):
    class FillsUp(ScriptedHarness):
        def evaluate(self, problem, candidate, tier="quick"):
            raise OSError(28, "No space left on device", str(tmp_path))

    with pytest.raises(OSError, match="No space left"):
        optimize(problem_file, given=given(harness=FillsUp()), out=str(tmp_path))


def test_an_invalid_problem_leaves_no_run_directory(tmp_path, given):
    bad = tmp_path / "bad.py"
    bad.write_text("x = 1\n")
    with pytest.raises(InvalidProblem, match="bad.py"):
        optimize(bad, given=given(), out=str(tmp_path / "runs"))
    assert list((tmp_path / "runs").rglob("*.py")) == []
    assert list((tmp_path / "runs" / "bad").iterdir()) == []


def test_a_missing_problem_file_is_named(tmp_path):
    with pytest.raises(InvalidProblem, match="nowhere.py: no such file"):
        optimize(tmp_path / "nowhere.py")


def test_a_harness_that_was_brought_along_stays_open(problem_file, tmp_path, given):
    harness = ScriptedHarness()
    optimize(problem_file, given=given(harness=harness), out=str(tmp_path), budget=1)
    assert harness.closed is False


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"budget": 0}, "budget"),
        ({"languages": "opencl"}, "languages"),
        ({"arch": "90"}, "arch"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(settings, named):
    with pytest.raises(InvalidInput, match=rf"setting {named}: .*got {list(settings.values())[0]!r}"):
        make_context(settings)


def test_an_output_folder_that_is_a_file_is_refused(problem_file, tmp_path, given):
    (tmp_path / "runs").write_text("")
    with pytest.raises(InvalidInput, match="runs"):
        optimize(problem_file, given=given(), out=str(tmp_path / "runs"))
