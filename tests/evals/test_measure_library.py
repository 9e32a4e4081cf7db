"""Without and with the library: problems at other sizes, what a row says, the file, and what is never invented."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest
from programs import examples
from scripted.collaborators import ScriptedHarness, ScriptedWriter, kernel, sample, timing

from warpsmith.evals import measure_library
from warpsmith.evals.derived_problems import derived_source, other_size
from warpsmith.evals.library_rows import LibraryResults, LibraryRow, add_row, load, noise_of, row_of, summarised
from warpsmith.evals.measure_library import PROBLEMS, main, measured
from warpsmith.evals.suite import SUITE, select
from warpsmith.graph import optimize
from warpsmith.graph.library import structure_key
from warpsmith.graph.services import Collaborators
from warpsmith.state.errors import InfraError, InvalidInput, InvalidProblem
from warpsmith.state.plan import Plan
from warpsmith.state.trajectory import Result, TrajectoryEntry

ABOUT = LibraryResults(budget=6, seed_budget=18, gpu="made up")
(PROBLEM,) = select("bias_gelu_tanh")


class Planned:
    """A planner of one structure, whose sizes differ between a problem and its resized form."""

    def plan(self, problem, graph, device):
        rows = 4096 if problem.name.endswith("_resized") else 512
        return Plan(summary="", strategies=(), forward=examples.softmax(rows, 1024))


class Reproducing(ScriptedWriter):
    """A scripted writer that can write a kernel of its slots for another problem."""

    def reproduce(self, brief, slots):
        return kernel(self.language, int(slots["tile"]), int(slots["stages"]))


class Runs:
    """Optimises in a scripted world, and keeps what it was asked for."""

    def __init__(self, tmp_path: Path, writer: type[ScriptedWriter] = Reproducing, **harness) -> None:
        self.out, self.writer, self.harness = tmp_path / "runs", writer, ScriptedHarness(**harness)
        self.asked: list[tuple[str, int, bool]] = []

    def __call__(self, path: Path, budget: int, library: Path | None) -> Result:
        self.asked.append((path.stem, budget, library is not None))
        given = Collaborators(harness=self.harness, planner=Planned(), writers={"triton": self.writer("triton")})
        settings = {"languages": "triton", "budget": budget, "library": str(library) if library else None}
        return optimize(path, given=given, out=str(self.out), **settings)


def test_a_kernel_of_other_sizes_is_offered_and_found_sooner(tmp_path):
    runs = Runs(tmp_path)
    row = measured(PROBLEM, runs, 18, 3)
    resized = "bias_gelu_tanh_resized"
    assert runs.asked == [("bias_gelu_tanh", 18, True), (resized, 3, False), (resized, 3, True)]
    assert (row.status, row.offered, row.offered_passed, row.best_from_library) == ("better", 1, 1, True)
    assert row.speedup_with > row.speedup_without > 1
    assert (row.best_at_with, row.level_at_with) == (1, 1)
    assert row.best_at_without > 1
    assert row.noise >= 0.01


def test_a_library_that_offers_nothing_leaves_both_runs_level(tmp_path):
    row = measured(PROBLEM, Runs(tmp_path, writer=ScriptedWriter), 18, 3)
    assert (row.status, row.offered, row.speedup_with) == ("level", 0, row.speedup_without)


def test_a_dry_run_compares_nothing_and_says_why(tmp_path):
    runs = Runs(tmp_path, dry=True)
    row = measured(PROBLEM, runs, 4, 3)
    assert [asked for *_, asked in runs.asked] == [True, False]
    assert (row.status, row.speedup_with, row.speedup_without, row.best_at_without) == ("empty", None, None, None)
    assert "a dry run times nothing" in row.message


@pytest.mark.parametrize(
    ("error", "status"), [(InvalidProblem("p.py: degenerate"), "refused"), (InfraError("no GPU"), "failed")]
)
def test_a_resized_problem_that_cannot_be_run_is_a_row(tmp_path, error, status):
    runs = Runs(tmp_path)

    def optimise(path: Path, budget: int, library: Path | None) -> Result:
        if path.stem.endswith("_resized"):
            raise error
        return runs(path, budget, library)

    row = measured(PROBLEM, optimise, 2, 2)
    assert (row.status, row.message) == (status, str(error))
    assert row.speedup_of_first is not None


def result(make_result, best: str, speedup: float, half_width: float = 0.001, **fields) -> Result:
    ms = 1 / speedup
    timed = timing("default", speedup).model_copy(
        update={
            "candidate": sample(ms).model_copy(
                update={"low_ms": ms * (1 - half_width), "high_ms": ms * (1 + half_width)}
            ),
            "baseline": sample(1.0).model_copy(update={"low_ms": 0.9999, "high_ms": 1.0001}),
        }
    )
    return make_result(Path("p.py"), best=best, speedup=speedup, timings=(timed,), **fields)


@pytest.mark.parametrize(
    ("with_library", "half_width", "status"),
    [(1.05, 0.001, "better"), (0.95, 0.001, "worse"), (1.005, 0.001, "level"), (1.05, 0.06, "level")],
)
def test_only_what_is_beyond_noise_is_better_or_worse(make_result, with_library, half_width, status):
    row = LibraryRow(problem="p", status="empty")
    pair = (result(make_result, "a", 1.0), result(make_result, "b", with_library, half_width))
    assert row_of(row, *pair).status == status


def test_the_same_kernel_is_level_whatever_its_times(make_result):
    row = LibraryRow(problem="p", status="empty")
    assert row_of(row, result(make_result, "a", 1.0), result(make_result, "a", 1.2)).status == "level"


def test_noise_is_the_samples_intervals_taken_together(make_result):
    found = noise_of(result(make_result, "a", 1.0, 0.03), result(make_result, "b", 1.0, 0.04))
    assert found == pytest.approx(0.05, rel=1e-2)


def test_a_run_without_a_kernel_is_worse_and_two_of_them_are_nothing(make_result):
    row, none = LibraryRow(problem="p", status="empty"), {"speedup": None, "speedup_over": {}, "outcome": "nothing"}
    with_kernel, without_kernel = result(make_result, "a", 1.0), make_result(Path("p.py"), **none)
    assert row_of(row, without_kernel, with_kernel).status == "better"
    assert row_of(row, with_kernel, without_kernel).status == "worse"
    assert row_of(row, without_kernel, without_kernel).status == "nothing"


def test_when_the_best_was_reached_is_read_from_the_trajectory(make_result):
    def entries(*ranks: float, offered: int = 0) -> tuple[TrajectoryEntry, ...]:
        common = {"language": "triton", "phase": "explore", "round": 1, "status": "passed"}
        return tuple(
            TrajectoryEntry(id=f"k{rank}", rank=rank, asked="library" if n < offered else "explore", **common)
            for n, rank in enumerate(ranks)
        )

    without = result(make_result, "k1.5", 1.5, trajectory=entries(1.0, 0.0, 1.5))
    with_library = result(make_result, "k1.6", 1.6, trajectory=entries(1.2, 1.495, 1.6, offered=2))
    row = row_of(LibraryRow(problem="p", status="empty"), without, with_library)
    assert (row.best_at_without, row.best_at_with, row.level_at_with, row.offered) == (3, 3, 2, 2)
    assert not row.best_from_library


def test_the_file_keeps_the_newest_row_and_refuses_other_settings(tmp_path):
    out = tmp_path / "library.json"
    timed = {"status": "better", "speedup_without": 1.0, "best_at_without": 4, "best_at_with": 1, "level_at_with": 1}
    for name, speedup in (("q", 2.0), ("p", 1.0), ("p", 8.0)):
        add_row(out, LibraryRow(problem=name, speedup_with=speedup, offered=1, **timed), ABOUT)
    found = load(out, ABOUT)
    assert [(row.problem, row.speedup_with) for row in found.rows] == [("p", 8.0), ("q", 2.0)]
    assert found.summary == summarised(found.rows)
    assert (found.summary.geometric_mean_speedup_with, found.summary.geometric_mean_speedup_without) == (4.0, 1.0)
    assert (found.summary.statuses, found.summary.level_at_first_evaluation) == ({"better": 2}, 2)
    with pytest.raises(InvalidInput, match="made with --budget 6 --seed-budget 18"):
        load(out, ABOUT.model_copy(update={"budget": 7}))
    with pytest.raises(InvalidInput, match="use that, or another --out"):
        load(out, ABOUT.model_copy(update={"dry_run": True}))
    out.write_text(json.dumps([1]))
    with pytest.raises(InvalidInput, match="not a file of this command"):
        load(out, ABOUT)


def test_rows_without_speedups_have_no_mean():
    found = summarised([LibraryRow(problem="p", status="empty")])
    assert (found.timed, found.geometric_mean_speedup_with, found.mean_best_at_with) == (0, None, None)


class ScriptedBench:
    """A bench in the scripted world, for the command itself."""

    def __init__(self, **_settings) -> None:
        self.harness = ScriptedHarness()

    def read_ahead(self, _path: Path | None) -> None:
        pass

    def close(self) -> None:
        self.harness.close()


def test_the_command_writes_rows_and_skips_those_that_are_there(tmp_path, monkeypatch, capsys):
    runs = Runs(tmp_path)
    monkeypatch.setattr(measure_library, "Bench", ScriptedBench)
    monkeypatch.setattr(measure_library, "optimiser", lambda bench, settings: runs)
    out = tmp_path / "library.json"
    arguments = ["--problems", "bias_gelu_tanh,swiglu_packed", "--budget", "3", "--out", str(out), "--commit", "abc"]
    assert main([*arguments, "--shard", "0/2"]) == 0
    assert main(arguments) == 0
    assert len(runs.asked) == 6  # The second time only the problem of the other shard.
    content = json.loads(out.read_text())
    assert [(row["problem"], row["status"], row["commit"]) for row in content["rows"]] == [
        ("bias_gelu_tanh", "better", "abc"),
        ("swiglu_packed", "better", "abc"),
    ]
    assert content["summary"]["with_offers"] == 2
    assert content["command"].startswith("python -m warpsmith.evals.measure_library --problems")
    assert "bias_gelu_tanh             better" in capsys.readouterr().err
    assert main([*arguments[:3], "4", *arguments[4:]]) == 2
    assert "was made with --budget 3" in capsys.readouterr().err


def test_bad_input_is_one_line_and_status_two(capsys):
    assert main(["--dry-run", "--require-gpu"]) == 2
    assert main(["--problems", "no_such"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize(
    ("size", "factor", "ends", "found"),
    [
        (16384, 0.625, (1, 65536), 10240),
        (50257, 1.5, (2, 262144), 75387),
        (4, 0.625, (1, 64), 3),
        (64, 1.5, (1, 64), 63),
        (1, 0.625, (1, 9), 2),
        (5, 1.5, (5, 5), 5),
    ],
)
def test_sizes_change_within_their_ends_and_keep_alignment_and_oddness(size, factor, ends, found):
    assert other_size(size, factor, ends) == found


@pytest.mark.parametrize("problem", SUITE, ids=lambda each: each.name)
def test_every_suite_problem_has_other_sizes_and_the_same_reference(problem):
    old = ast.parse(problem.path.read_text())
    new = ast.parse(derived_source(problem.path.read_text(), problem.path))
    changed = [(a, b) for a, b in zip(old.body, new.body, strict=True) if ast.dump(a) != ast.dump(b)]
    assert {ast.unparse(a).split("(")[0].split(" =")[0] for a, _ in changed} == {"workloads", "def get_inputs"}


def test_a_problem_without_free_sizes_is_refused():
    source = "class Model: ...\ndef get_inputs(rows: int = 8):\n    return []\n"
    with pytest.raises(InvalidProblem, match=r"p\.py: no size of get_inputs may vary"):
        derived_source(source, Path("p.py"))


def test_the_default_problems_are_six_of_every_family():
    families = [problem.family for problem in select(PROBLEMS)]
    assert {family: families.count(family) for family in families} == {"pointwise": 6, "reduction": 6, "matmul": 6}


def planned(path: Path) -> Plan:
    import torch

    from warpsmith.sub_agents.planner.forward import forward_plan
    from warpsmith.tools.worker.lowering import lower

    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.device("meta"):
        lowered = lower(module.Model(*module.get_init_inputs()), module.get_inputs(), deadline_s=30.0)
    return Plan(summary="", strategies=(), forward=forward_plan(lowered))


@pytest.mark.slow
@pytest.mark.parametrize("problem", SUITE, ids=lambda each: each.name)
def test_other_sizes_are_the_same_structure_to_the_library(problem, tmp_path):
    resized = tmp_path / "resized.py"
    resized.write_text(derived_source(problem.path.read_text(), problem.path))
    assert structure_key(planned(resized)) == structure_key(planned(problem.path)) != ""
