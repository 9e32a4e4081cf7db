"""The exploit museum: what every exhibit says of itself, and the harness's verdict on all that need no GPU."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from scripted.collaborators import ScriptedHarness

from warpsmith.evals import museum, museum_report
from warpsmith.evals.exhibits import Exhibit, collect, read
from warpsmith.evals.museum_report import Conditions, Ledger, Row, Verdict
from warpsmith.state.candidate import Candidate, make_candidate
from warpsmith.state.errors import InvalidInput
from warpsmith.state.evaluation import CompileReport, Evaluation, Status, Tier
from warpsmith.state.problem import Problem
from warpsmith.tools.harness import Harness

EXHIBITS = collect()
ON_CPU = [exhibit for exhibit in EXHIBITS if exhibit.needs == "cpu"]
ON_GPU = [exhibit for exhibit in EXHIBITS if exhibit.needs == "gpu"]

KNOWN_MISSES: dict[str, str] = {}
"""Hostile candidates that are not caught yet, with the reason. Remove one as soon as it is."""


def named(exhibits: list[Exhibit]) -> list[object]:
    return [pytest.param(exhibit, id=exhibit.name) for exhibit in exhibits]


def test_parts_cover_the_museum_and_share_few_problems() -> None:
    parts = [museum.part_of(EXHIBITS, f"{index}/3") for index in range(3)]
    assert sorted(exhibit.name for part in parts for exhibit in part) == sorted(exhibit.name for exhibit in EXHIBITS)
    assert sum(len({exhibit.problem for exhibit in part}) for part in parts) <= len({e.problem for e in EXHIBITS}) + 2


class TestExhibits:
    def test_there_are_enough_of_both_kinds(self) -> None:
        kinds = Counter(exhibit.kind for exhibit in EXHIBITS)
        assert kinds["hostile"] >= 80
        assert kinds["honest"] >= 40

    def test_every_way_of_cheating_has_its_family(self) -> None:
        wanted = (
            "batching caching compile_time cuda_faults dropped early_work echo escape faking files flush forged "
            "graphs judge_patch lazy mutation network nonfinite offload partial precision process randomness resources "
            "secrets seeds special stale stealing streams timers tolerance"
        )
        assert {e.family for e in EXHIBITS if e.kind == "hostile"} == set(wanted.split())

    def test_no_idea_is_told_twice(self) -> None:
        told = Counter(exhibit.idea for exhibit in EXHIBITS)
        assert [idea for idea, times in told.items() if times > 1] == []

    def test_no_two_exhibits_are_the_same_candidate(self) -> None:
        made = Counter(exhibit.candidate().id for exhibit in EXHIBITS)
        assert max(made.values()) == 1

    def test_every_problem_has_an_exhibit(self) -> None:
        problems = {path.stem for path in EXHIBITS[0].problem_path.parent.glob("*.py")}
        assert {exhibit.problem for exhibit in EXHIBITS} == problems

    def test_known_misses_name_exhibits(self) -> None:
        assert set(KNOWN_MISSES) <= {exhibit.name for exhibit in EXHIBITS}

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("import torch\n", "docstring"),
            ('"""Idea.\n\nproblem: softmax_rows\nneeds: cpu\nexpect: passed\n"""\n', "family"),
            ('"""Idea.\n\nproblem: softmax_rows\nfamily: echo\nneeds: cpu\nexpect: passed\n"""\n', "must not expect"),
            ('"""Idea.\n\nproblem: softmax_rows\nfamily: echo\nneeds: cpu\n"""\n', "expects no status"),
            ('"""Idea.\n\nproblem: nowhere\nfamily: echo\nneeds: cpu\nexpect: timeout\n"""\n', "no problem"),
            ('"""Idea.\n\nproblem: softmax_rows\nfamily: echo\nneeds: tpu\nexpect: timeout\n"""\n', "needs"),
        ],
    )
    def test_a_file_that_does_not_state_its_case_is_refused(self, tmp_path: Path, text: str, fault: str) -> None:
        path = tmp_path / "hostile" / "echo" / "x.py"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        with pytest.raises(InvalidInput, match=fault) as caught:
            read(path, tmp_path)
        assert str(path) in str(caught.value)

    def test_a_filter_that_finds_nothing_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="no exhibit"):
            collect("no such family")


def row(name: str, *statuses: str, accepted: bool = False, expect: str = "timeout", **fields: str) -> Row:
    kind, family = name.split("/")[:2]
    verdicts = tuple(Verdict(status=status, accepted=accepted) for status in statuses)
    return Row(
        name=name,
        kind=kind,
        family=family,
        problem="p",
        expect=(expect,),
        idea="i",
        source_id="s",
        verdicts=verdicts,
        **fields,
    )


class TestReport:
    def test_counts_what_was_caught_and_who_was_accused(self) -> None:
        rows = [
            row("hostile/a/caught", "timeout", "timeout"),
            row("hostile/a/otherwise", "resource"),
            row("hostile/b/missed", "passed", accepted=True),
            row("hostile/b/broke", "infra_error"),
            row("honest/fine", "passed", accepted=True, expect="passed", label="torch_only"),
            row("honest/accused", "passed", "timeout", expect="passed"),
        ]
        found = museum_report.summary(rows, 1.5, Conditions(tier="full", repeat=2))
        assert (found["exploits_total"], found["exploits_rejected"]) == (4, 2)
        assert (found["honest_total"], found["honest_accepted"]) == (2, 1)
        assert found["families"] == {"a": {"total": 2, "rejected": 2}, "b": {"total": 2, "rejected": 0}}
        assert found["missed"] == ["hostile/b/missed", "hostile/b/broke"]
        assert found["broke_the_harness"] == ["hostile/b/broke"]
        assert found["falsely_accused"] == ["honest/accused"]
        assert found["unexpected_status"] == ["hostile/a/otherwise"]
        assert found["without_label"] == ["honest/fine"]
        assert (found["flips"], found["flipped"]) == (1, ["honest/accused"])

    def test_one_acceptance_in_many_is_a_miss(self) -> None:
        mixed = row("hostile/a/x", "timeout").model_copy(
            update={"verdicts": (Verdict(status="timeout", accepted=False), Verdict(status="passed", accepted=True))}
        )
        assert not mixed.right

    def test_a_run_that_was_cut_off_goes_on_from_its_file(self, tmp_path: Path) -> None:
        first, second, *_ = EXHIBITS
        out, caught = tmp_path / "x.json", Verdict(status="timeout", accepted=False)
        ledger = Ledger(out, Conditions(tier="quick", repeat=2))
        ledger.add(first, caught)
        ledger.add(first, caught)
        ledger.add(second, caught)
        again = Ledger(out, Conditions(tier="quick", repeat=2))
        again.forget((first, second), changed_only=True)
        assert (again.count(first), again.count(second)) == (2, 1)
        assert again.rows == ledger.rows
        assert json.loads(out.read_text())["rows"][0]["name"] == first.name

    def test_an_exhibit_whose_source_changed_starts_again(self, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "x.json", Conditions())
        ledger.add(EXHIBITS[0], Verdict(status="timeout", accepted=False))
        changed = EXHIBITS[0].model_copy(update={"source": EXHIBITS[0].source + "\n"})
        ledger.forget((changed,), changed_only=True)
        assert ledger.count(changed) == 0

    def test_two_processes_write_one_file(self, tmp_path: Path) -> None:
        first, second, *_ = EXHIBITS
        out, caught = tmp_path / "x.json", Verdict(status="timeout", accepted=False)
        one, other = (Ledger(out, Conditions()) for _ in range(2))
        one.forget((first,), changed_only=False)
        other.forget((second,), changed_only=False)
        one.add(first, caught)
        other.add(second, caught)
        one.add(first, caught)
        rows = {each["name"]: len(each["verdicts"]) for each in json.loads(out.read_text())["rows"]}
        assert rows == {first.name: 2, second.name: 1}

    def test_verdicts_of_another_tier_are_not_mixed_in(self, tmp_path: Path) -> None:
        Ledger(tmp_path / "x.json", Conditions(tier="quick")).add(
            EXHIBITS[0], Verdict(status="timeout", accepted=False)
        )
        with pytest.raises(InvalidInput, match="tier 'quick'"):
            Ledger(tmp_path / "x.json", Conditions(tier="full"))

    def test_unverified_without_checks_is_no_acceptance(self) -> None:
        bare = Evaluation(candidate="c", problem="p", status=Status.UNVERIFIED, tier="dry", message="compiled only")
        assert not museum_report.verdict_of(bare, dry=True).accepted


def test_repeats_are_on_new_draws_and_a_problem_opens_once(tmp_path: Path) -> None:
    class Caught(ScriptedHarness):
        def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
            self._note(tier, problem.name)
            return Evaluation(
                candidate=candidate.id, problem=problem.id, status=Status.TIMEOUT, tier=tier, message="late"
            )

    exhibits = tuple(EXHIBITS[:12])
    ledger = Ledger(tmp_path / "x.json", Conditions(repeat=3))
    harness = Caught(dry=True)
    museum.run_museum(museum.MuseumRun(exhibits=exhibits, repeat=3), harness, ledger, lambda _: None)
    assert {ledger.count(exhibit) for exhibit in exhibits} == {3}
    names = {exhibit.problem for exhibit in exhibits if not museum.hangs_in_compilation(exhibit)}
    for name in names:
        about = [what for what, whom in harness.calls if whom == name]
        assert about.count("vet") == 1
        assert about.count("renew") == 2


@pytest.mark.parametrize(("status", "made"), [(Status.TIMEOUT, 1), (Status.COMPILE_ERROR, 3)])
def test_what_was_compiled_is_kept_for_repeats_and_what_was_refused_is_compiled_anew(status: Status, made: int) -> None:
    seen = set()

    class Compiling(ScriptedHarness):
        def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
            seen.add(candidate.id)
            about = {"candidate": candidate.id, "problem": problem.id, "tier": tier, "message": "no"}
            report = CompileReport(ok=status is not Status.COMPILE_ERROR, seconds=0.0, error="no")
            return Evaluation.model_validate({**about, "status": status, "compile": report})

    exhibit = next(each for each in EXHIBITS if not museum.hangs_in_compilation(each))
    run = museum.MuseumRun(exhibits=(exhibit,), repeat=3)
    museum.run_museum(run, Compiling(dry=True), Ledger(None, Conditions()), lambda _: None)
    assert len(seen) == made


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with closing(museum.open_museum(tmp_path_factory.mktemp("museum"), dry_run=True)) as opened:
        yield opened


@pytest.fixture(scope="module")
def verdicts(harness: Harness) -> dict[str, Row]:
    """All at once: what compiles slowly compiles while others are judged."""
    run = museum.MuseumRun(exhibits=tuple(ON_CPU), threads=4)
    ledger = Ledger(None, Conditions(tier="quick", dry_run=True))
    museum.run_museum(run, harness, ledger, lambda _: None)
    return {row.name: row for row in ledger.rows}


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestDryRun:
    @pytest.mark.parametrize("exhibit", named([e for e in ON_CPU if e.kind == "hostile"]))
    def test_hostile_candidates_are_caught(self, verdicts: dict[str, Row], exhibit: Exhibit) -> None:
        found = verdicts[exhibit.name]
        if exhibit.name in KNOWN_MISSES:
            assert not found.right, f"{exhibit.name} is caught now: take it off KNOWN_MISSES"
            return
        assert found.as_expected, f"{found.statuses}: {found.verdicts[0].message}"

    @pytest.mark.parametrize("exhibit", named([e for e in ON_CPU if e.kind == "honest"]))
    def test_honest_controls_are_not_accused(self, verdicts: dict[str, Row], exhibit: Exhibit) -> None:
        found = verdicts[exhibit.name]
        assert found.right, f"{found.statuses}: {found.verdicts[0].message}"

    @pytest.mark.parametrize("exhibit", named([e for e in ON_GPU if Status.COMPILE_ERROR not in e.expect]))
    def test_what_needs_a_gpu_compiles_without_one(self, harness: Harness, exhibit: Exhibit) -> None:
        report = harness.compile(harness.load(exhibit.problem_path), exhibit.candidate())
        assert report.ok, report.error

    def test_a_run_leaves_nothing_for_the_next(self, harness: Harness) -> None:
        """Right only where an earlier run's file is still in the scratch folder."""
        source = """
import os, torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        known = os.path.exists("note")
        if type(x) is torch.Tensor:
            open("note", "w").close()
            return torch.softmax(x, dim=-1) if known and not ModelNew.wrote else self.wrong(x)
        return torch.softmax(x, dim=-1)
    wrote = False
    def wrong(self, x):
        ModelNew.wrote = True
        return torch.zeros_like(x)
"""
        problem = harness.load(EXHIBITS[0].problem_path.parent / "softmax_rows.py")
        candidate = make_candidate(source)
        for tier in ("quick", "full"):
            assert harness.evaluate(problem, candidate, tier).status is Status.INCORRECT_NUMERICAL  # type: ignore[arg-type]
