"""Two kernels in one file at the end of a search: judged like any other, and handed out only if nothing is faster."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime
from scripted.by_size import BySize, Writer, kernel

from warpsmith.graph import optimize
from warpsmith.graph.nodes.combining import combine
from warpsmith.graph.run_directory import RunDirectory
from warpsmith.graph.services import close_services, open_services, provide
from warpsmith.state.channels import Context, State
from warpsmith.state.trajectory import Result


def run(problem_file: Path, tmp_path: Path, given: Any, harness: BySize, tiles: tuple[int, ...], **more: Any) -> Result:
    collaborators = given(harness=harness, writers={"triton": Writer(tiles=tiles)})
    return optimize(problem_file, given=collaborators, out=str(tmp_path), languages="triton", budget=6, **more)


def test_two_kernels_by_size_are_handed_out_where_they_are_the_fastest(problem_file, tmp_path, given) -> None:
    result = run(problem_file, tmp_path, given, BySize(), (64, 1024, 16))
    assert result.speedup == pytest.approx((3.0 * 2.5) ** 0.5)
    assert [each.speedup for each in result.timings] == [3.0, 2.5]
    source = Path(str(result.best_path)).read_text()
    assert "return x * 1024" in source
    assert "return x * 16" in source
    assert "if x.numel() >= LARGE_ELEMENTS:" in source
    (entry,) = [entry for entry in result.trajectory if entry.id == result.best]
    assert (entry.template, entry.parent, entry.asked) == ("two_in_one", kernel(1024).id, "combine")
    lines = {line.name: line.passed for line in result.checklist}
    assert lines["not fast at one size only"] is True
    assert lines["no special-casing of inputs"] is True


def test_they_are_one_candidate_more_and_no_part_of_the_budget(problem_file, tmp_path, given) -> None:
    harness = BySize()
    assert run(problem_file, tmp_path, given, harness, (64, 1024, 16)).tried == 4
    assert [what for what, _ in harness.calls].count("quick") == 4


def test_where_they_turn_out_slower_the_best_single_kernel_wins(problem_file, tmp_path, given) -> None:
    result = run(problem_file, tmp_path, given, BySize(merged=0.5), (64, 1024, 16))
    assert result.best == kernel(64).id
    assert result.tried == 4


@pytest.mark.parametrize(
    ("tiles", "more", "dry"),
    [((64,), {}, False), ((64, 1024, 16), {"stage": "search"}, False), ((64, 1024, 16), {}, True)],
)
def test_nothing_is_combined_without_need(problem_file, tmp_path, given, tiles, more, dry) -> None:
    result = run(problem_file, tmp_path, given, BySize(dry=dry), tiles, **more)
    assert all(entry.template != "two_in_one" for entry in result.trajectory)


def test_a_run_that_was_cut_off_while_it_combined_comes_to_the_same(problem_file, tmp_path, given) -> None:
    """The merged kernel lies in the run's directory by then, and must not be merged once more."""
    better = BySize(merged=1.1)  # than its halves alone: then it would be both halves of the best pair
    whole = run(problem_file, tmp_path, given, better, (64, 1024, 16))
    folder = Path(whole.run_dir)
    context = Context(out=str(tmp_path), languages="triton", budget=6)
    provide(open_services(folder, context, given(harness=better, writers={"triton": Writer()})))
    rows = RunDirectory(folder).rows()
    assert rows[-1].template == "two_in_one"
    state = State(
        problem=str(problem_file),
        run_dir=whole.run_dir,
        tried=tuple(row.id for row in rows[:-1]),
        pool=rows[:-1],
        best_rank=max(row.rank for row in rows[:-1]),
        stop_reason="nothing_left",
    )
    update = combine(state, Runtime(context=context))
    assert update["tried"] == (*state.tried, rows[-1].id)
    close_services(whole.run_dir)


def test_the_same_run_combines_the_same_two(problem_file, tmp_path, given) -> None:
    results = [run(problem_file, tmp_path / name, given, BySize(), (64, 1024, 16)) for name in ("a", "b")]
    assert results[0].best == results[1].best
