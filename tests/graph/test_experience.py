"""The experience pool: what enters, what is thrown out again."""

import pytest
from scripted.collaborators import ScriptedHarness, ScriptedWriter, kernel

from warpsmith.graph import optimize
from warpsmith.graph.experience import confirms, experience, needs_confirming
from warpsmith.graph.run_directory import RunDirectory
from warpsmith.state.evaluation import Status
from warpsmith.state.trajectory import Row


def row(id: str, rank: float, parent: str = "", status: Status = Status.PASSED) -> Row:
    return Row(id=id, language="triton", phase="explore", round=1, status=status, rank=rank, parent=parent)


def source(id: str) -> str:
    return f"tile = 1\nname = '{id}'\n"


def learnt(rows, confirmed, contradicted=()):
    agreed = {**dict.fromkeys(confirmed, True), **dict.fromkeys(contradicted, False)}
    return experience([each.model_copy(update={"agreed": agreed.get(each.id)}) for each in rows], source)


def test_only_what_was_measured_twice_is_in_the_pool():
    rows = [row("a", 1.0), row("lucky", 9.0), row("b", 1.5)]
    assert learnt(rows, ["a", "b"]).top == ("b", "a")


def test_the_top_holds_three():
    rows = [row(f"k{n}", 1.0 + n) for n in range(5)]
    assert learnt(rows, [each.id for each in rows]).top == ("k4", "k3", "k2")


@pytest.mark.parametrize(("gain", "kept"), [(1.04, False), (1.06, True)])
def test_a_change_is_kept_from_five_percent_on_as_a_diff(gain, kept):
    changes = learnt([row("a", 1.0), row("b", gain, "a")], ["a", "b"]).changes
    assert bool(changes) is kept
    if kept:
        assert changes[0].gain == pytest.approx(0.06)
        assert "-name = 'a'\n+name = 'b'" in changes[0].diff


def test_the_newest_five_changes_are_kept():
    rows = [row("k0", 1.0), *(row(f"k{n}", 1.1**n, f"k{n - 1}") for n in range(1, 9))]
    found = learnt(rows, [each.id for each in rows]).changes
    assert [change.candidate for change in found] == ["k4", "k5", "k6", "k7", "k8"]


def test_a_contradiction_takes_entry_change_and_the_credit_of_descendants():
    rows = [row("a", 1.0), row("b", 1.5, "a"), row("c", 1.8, "b"), row("d", 2.2, "c"), row("e", 1.2, "a")]
    everything = [each.id for each in rows]
    assert [change.candidate for change in learnt(rows, everything).changes] == ["b", "c", "d", "e"]
    after = learnt(rows, everything, ["b"])
    assert [change.candidate for change in after.changes] == ["e"]
    assert after.top == ("d", "c", "e")  # They were measured twice themselves; only the credit of the change is gone.


def test_the_last_five_failures_are_told_in_a_line_each():
    rows = [row(f"f{n}", 0.0, status=Status.COMPILE_ERROR) for n in range(7)] + [row("a", 1.0)]
    found = experience(rows, source, lambda id: f"no tile in {id}")
    assert found.failures == tuple(f"compile_error: no tile in f{n}" for n in range(2, 7))


def test_long_diffs_are_cut_and_say_so():
    def wordy(id):
        return "\n".join(f"{id}{line}" for line in range(200))

    twice = [each.model_copy(update={"agreed": True}) for each in (row("a", 1.0), row("b", 2.0, "a"))]
    (change,) = experience(twice, wordy).changes
    assert change.diff.splitlines()[-1].endswith("more lines")
    assert len(change.diff.splitlines()) == 61


def test_only_notable_claims_are_measured_again_and_only_beyond_noise_is_agreement():
    assert needs_confirming(row("a", 1.06), 1.0)
    assert not needs_confirming(row("a", 1.04), 1.0)
    assert not needs_confirming(None, 0.0)
    assert confirms(1.3, 1.02, best_rank_before=1.0)
    assert not confirms(1.3, 1.004, best_rank_before=1.0)
    assert confirms(1.3, 1.25, best_rank_before=0.0)
    assert not confirms(6.4, 1.28, best_rank_before=0.0)
    assert not confirms(1.3, 0.0, best_rank_before=0.0)


class LuckyOnce(ScriptedHarness):
    """Tile 256 reads five times as fast the first time it is timed."""

    def evaluate(self, problem, candidate, tier="quick"):
        lucky = candidate.slots["tile"] == 256 and tier == "quick"
        return ScriptedHarness(speed=5.0 if lucky else 1.0, calls=self.calls).evaluate(problem, candidate, tier)


def test_a_lucky_measurement_does_not_win_and_teaches_nothing(problem_file, tmp_path, given):
    writer = ScriptedWriter("triton")
    result = optimize(
        problem_file,
        given=given(harness=LuckyOnce(), writers={"triton": writer}),
        out=str(tmp_path),
        languages="triton",
    )
    lucky = kernel("triton", 256).id
    assert RunDirectory(tmp_path / result.run_dir).candidate(result.best).slots["tile"] == 64
    assert next(entry for entry in result.trajectory if entry.id == lucky).rank == pytest.approx(1.28)
    assert all(lucky not in brief.experience.top for brief in writer.briefs)


def test_without_the_setting_nothing_is_measured_twice_before_the_end(problem_file, tmp_path, given):
    harness = ScriptedHarness()
    optimize(problem_file, given=given(harness=harness), out=str(tmp_path), confirm=False)
    assert [what for what, _ in harness.calls].count("full") == 1


def test_writers_get_the_confirmed_best(problem_file, tmp_path, given):
    writer = ScriptedWriter("triton")
    optimize(problem_file, given=given(writers={"triton": writer}), out=str(tmp_path), languages="triton")
    assert writer.briefs[0].experience.top == ()
    assert writer.briefs[-1].experience.top[0] == kernel("triton", 64, stages=4).id
