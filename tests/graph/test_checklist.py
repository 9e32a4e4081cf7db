"""The final checklist and what a source shows without running it."""

import pytest
from scripted.collaborators import SOURCE, ScriptedHarness, ScriptedWriter, kernel, timing

from warpsmith.graph import optimize
from warpsmith.graph.checklist import checklist, fast_at_one_size_only
from warpsmith.graph.source_facts import special_cases, unnamed_numbers
from warpsmith.state.problem import Problem, Workload

PROBLEM = Problem(
    name="p",
    path="p.py",
    source="scale = 0.044715\n",
    workloads=(Workload(name="default", inputs=({"shape": [24, 100], "dtype": "float32", "strides": [100, 1]},)),),
)
KERNEL = """
@triton.jit
def k(x_ptr, N: tl.constexpr):
    {body}
"""
MODEL = """
class ModelNew:
    def forward(self, x):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return x_ptr + 7 * N", []),
        ("return tl.load(x_ptr + 4096, other=0.0) * 0.5", []),
        ("return x_ptr * 0.044715", []),  # In the reference.
        ("return x_ptr + 2400", []),  # A size of the problem.
        ("LOG2E = 1.4426950408889634\n    return x_ptr * LOG2E", []),
        ("return tl.sum(x_ptr, axis=77)", []),  # The keyword says what it is.
        ("return x_ptr * 1.7159", ["1.7159 in line 4"]),
        ("return x_ptr + 777", ["777 in line 4"]),
    ],
)
def test_numbers_that_nothing_explains_are_found(body, found):
    assert unnamed_numbers(KERNEL.format(body=body), PROBLEM) == found


def test_numbers_outside_kernels_are_nobodys_business():
    assert unnamed_numbers("def f():\n    return 777\n", PROBLEM) == []
    assert unnamed_numbers("def f(:", PROBLEM) == []


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return x + 1", 0),
        ("return x if x.shape[0] == 0 else x + 1", 0),
        ("return x if x.numel() >= 2**31 else x + 1", 0),  # An index type, not a case.
        ("if x.shape[0] == 4096:\n            return self.known\n        return x", 1),
        ("return self.known if x.shape in ((24, 100),) else x", 2),
        ("return self.known if x.sum().item() > 0 else x", 1),
        ("return self.known if torch.equal(x, self.seen) else x", 1),
    ],
)
def test_branches_on_particular_inputs_are_found(body, count):
    assert len(special_cases(MODEL.format(body=body))) == count


@pytest.mark.parametrize(
    ("speedups", "lopsided"), [((1.5, 0.6), True), ((1.5, 0.95), False), ((1.02, 0.6), False), ((1.5,), False)]
)
def test_fast_at_one_size_only_is_a_gain_here_and_a_loss_there(speedups, lopsided):
    assert fast_at_one_size_only([timing(f"w{n}", speedup) for n, speedup in enumerate(speedups)]) is lopsided


def test_every_line_has_its_evidence(problem_file, tmp_path, given):
    result = optimize(problem_file, given=given(), out=str(tmp_path))
    lines = {line.name: line for line in result.checklist}
    assert all(line.evidence for line in result.checklist)
    assert lines["timed on every workload"].passed
    assert lines["timed on every workload"].evidence.startswith("2 of 2; worst 2.55x (default)")
    assert lines["most thorough verdict"].evidence == "tier record: passed, 1 of 1 comparison passed"
    assert lines["measured more than once"].passed
    assert lines["right at sizes it has not seen"].passed is None
    html = (tmp_path / result.run_dir / "report.html").read_text()
    assert "Checklist" in html


def test_a_result_that_came_out_slower_in_the_end_says_so():
    problem = PROBLEM.model_copy(update={"source": SOURCE})
    fast, slow = (ScriptedHarness(speed=speed).evaluate(problem, kernel("triton", 64), "full") for speed in (1.0, 0.8))
    lines = {line.name: line for line in checklist(problem, "", slow, [fast], dry_run=False)}
    assert lines["measured more than once"].passed is False
    assert lines["measured more than once"].evidence == "2x, 1.6x, the last one counts"


def test_a_dry_run_claims_no_measurement_and_blames_no_size():
    ranged = PROBLEM.model_copy(update={"source": SOURCE, "ranges": {"rows": (1, 64)}})
    untimed = ScriptedHarness().evaluate(ranged, kernel("triton", 64), "full").model_copy(update={"timings": ()})
    lines = {line.name: line.evidence for line in checklist(ranged, "", untimed, [], dry_run=True)}
    assert lines["measured more than once"] == "nothing was timed"
    assert lines["right at sizes it has not seen"] == "a dry run checks the smallest workload only"
    measured = {line.name: line.evidence for line in checklist(ranged, "", untimed, [], dry_run=False)}
    assert measured["right at sizes it has not seen"] != "no size is free"


class OneSize(ScriptedHarness):
    """Tile 64 is fast on the default workload and slow on the odd one; its neighbours are even."""

    def evaluate(self, problem, candidate, tier="quick"):
        found = super().evaluate(problem, candidate, tier)
        if candidate.slots["tile"] != 64 or tier == "quick" or not found.timings:
            return found
        return found.model_copy(update={"timings": (timing("default", 4.0), timing("odd", 0.8))})


def test_a_kernel_fast_at_one_size_only_gives_way_to_an_even_one(problem_file, tmp_path, given):
    writers = {"triton": ScriptedWriter("triton", stages=1)}
    result = optimize(
        problem_file, given=given(harness=OneSize(), writers=writers), out=str(tmp_path), languages="triton"
    )
    best = next(entry for entry in result.trajectory if entry.id == result.best)
    assert best.slots["tile"] != 64
    assert next(line for line in result.checklist if line.name == "not fast at one size only").passed
    assert result.outcome == "verified"


class Behind(ScriptedHarness):
    """Tile 64 has the best mean and loses on the main workload; its neighbours win a little on both."""

    tiers: tuple[str, ...] = ("quick", "full", "record")

    def evaluate(self, problem, candidate, tier="quick"):
        found = super().evaluate(problem, candidate, tier)
        if not found.timings or tier not in self.tiers:
            return found
        lost = (timing("default", 0.95), timing("odd", 6.0))
        won = (timing("default", 1.1), timing("odd", 1.1 + candidate.slots["tile"] / 1000))
        return found.model_copy(update={"timings": lost if candidate.slots["tile"] == 64 else won})


@pytest.mark.parametrize("tiers", [("quick", "full", "record"), ("full", "record")])
def test_a_kernel_behind_on_the_main_workload_gives_way_to_one_that_is_not(problem_file, tmp_path, given, tiers):
    """Also where the first verdict did not show it."""
    harness = Behind()
    harness.tiers = tiers
    writers = {"triton": ScriptedWriter("triton", stages=1)}
    result = optimize(
        problem_file, given=given(harness=harness, writers=writers), out=str(tmp_path), languages="triton"
    )
    best = next(entry for entry in result.trajectory if entry.id == result.best)
    assert best.slots["tile"] != 64
    assert result.verdict == "win"


def test_where_all_are_behind_the_best_mean_is_kept(problem_file, tmp_path, given):
    class AllBehind(ScriptedHarness):
        def evaluate(self, problem, candidate, tier="quick"):
            found = super().evaluate(problem, candidate, tier)
            lost = (timing("default", 0.95), timing("odd", 2.0 if candidate.slots["tile"] == 64 else 1.0))
            return found.model_copy(update={"timings": lost}) if found.timings else found

    writers = {"triton": ScriptedWriter("triton", stages=1)}
    result = optimize(
        problem_file, given=given(harness=AllBehind(), writers=writers), out=str(tmp_path), languages="triton"
    )
    assert result.verdict == "loss"
    assert next(entry for entry in result.trajectory if entry.id == result.best).slots["tile"] == 64
