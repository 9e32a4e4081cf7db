"""The display on a terminal."""

import io

from rich.console import Console
from scripted.collaborators import ScriptedHarness

from warpsmith.graph import optimize
from warpsmith.graph.live import LiveProgress
from warpsmith.graph.services import Collaborators


def watch(problem_file, tmp_path, given: Collaborators, **settings):
    lines = []
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with LiveProgress(console) as live:

        def hear(event):
            live.hear(event)
            lines.append(live.line().plain)

        listening = Collaborators(
            harness=given.harness, planner=given.planner, writers=given.writers, listeners=(hear,)
        )
        live.finished(optimize(problem_file, given=listening, out=str(tmp_path), **settings))
    return lines, console.file.getvalue()


def test_the_line_tells_phase_tried_failed_best_and_budget_left(problem_file, tmp_path, given):
    lines, printed = watch(problem_file, tmp_path, given(fates={32: "compile"}))
    assert any("explore  tried 4/18  1 failed" in line and "s left" in line for line in lines)
    assert any("tune" in line and "best 2.55x (cuda, 0.3927 ms)" in line for line in lines)
    assert "final check" in lines[-1]
    assert "scripted_problem: cuda kernel, 2.55x over the best baseline" in printed
    assert "report.html" in printed


def test_a_dry_run_says_so_from_the_start(problem_file, tmp_path, given):
    _, printed = watch(problem_file, tmp_path, given(harness=ScriptedHarness(dry=True)), budget=4)
    assert "dry run: estimated, untimed" in printed
    assert "an estimated 185% of the speed of light (dry run: untimed)" in printed
    assert ("CUDA C++ does not run without a GPU" in printed) == ("cuda kernel" in printed)
