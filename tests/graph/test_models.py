"""Runs with a model: hybrid and alone, resumed, out of budget or quota, and what the report says about it."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from scripted.answers import REFERENCE, kernel_source, said
from scripted.collaborators import ScriptedHarness, ScriptedPlanner, kernel

from warpsmith.graph import Interrupted, optimize, resume
from warpsmith.graph.services import Collaborators
from warpsmith.state.candidate import Language, normalised_hash
from warpsmith.state.errors import InfraError, InvalidInput
from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.llm.prompts import version
from warpsmith.sub_agents.llm.written import WrittenAnswer, WrittenModel
from warpsmith.sub_agents.models.protocol import Answer, Ask, BudgetSpent, QuotaExhausted, Usage

PLAN = WrittenAnswer(
    role="planner", text=json.dumps({"strategies": [{"name": "scan", "expected_speedup": 2, "why": "one pass"}]})
)
FAST = kernel_source(64)


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    file = tmp_path / "running_sum.py"
    file.write_text(REFERENCE)
    return file


@dataclass
class Seeds:
    """An offline writer that knows a few tiles and starts from nobody's kernel."""

    language: Language
    tiles: tuple[int, ...] = ()
    name: str = "seeds"

    def propose(self, brief, n):
        made = [kernel(self.language, tile) for tile in self.tiles]
        return [candidate for candidate in made if candidate.id not in brief.tried][:n]


def given(*answers: WrittenAnswer, **fields: object) -> Collaborators:
    fields.setdefault("harness", ScriptedHarness())
    fields.setdefault("writers", {name: Seeds(name) for name in ("triton", "cuda")})
    fields.setdefault("model", WrittenModel(answers))
    return Collaborators(planner=ScriptedPlanner(), **fields)


def run(problem_file: Path, who: Collaborators, **settings: object):
    settings = {"out": str(problem_file.parent / "runs"), "languages": "triton", "budget": 4, "width": 2, **settings}
    return optimize(problem_file, given=who, **settings)


def test_a_model_writes_what_templates_cannot_and_its_kernel_is_verified(problem_file):
    who = given(PLAN, said(16), said(64))
    result = run(problem_file, who)
    assert result.outcome == "verified"
    assert result.best == normalised_hash(FAST)
    entry = next(entry for entry in result.trajectory if entry.id == result.best)
    assert (entry.origin, entry.prompt) == ("llm", version())
    assert json.loads((Path(result.run_dir) / "plan.json").read_text())["strategies"][0]["name"] == "scan"


def test_the_report_counts_tokens_by_role_and_says_what_they_gained(problem_file):
    result = run(problem_file, given(PLAN, said(16), said(64)))
    models = result.models
    assert set(models.tokens_by_role) == {"planner", "triton_writer"}
    assert models.tokens == sum(models.tokens_by_role.values())
    assert models.model_rank == pytest.approx(2.0)
    assert models.gain_per_1000_tokens == pytest.approx(1000 / models.tokens)
    assert models.rounds[0].paid
    page = (Path(result.run_dir) / "report.html").read_text()
    assert "<h2>Models</h2>" in page
    events = [json.loads(line) for line in (Path(result.run_dir) / "events.jsonl").read_text().splitlines()]
    assert [event["paid"] for event in events if event["event"] == "models_spent"][0] is True


def test_a_round_that_gains_nothing_for_its_tokens_is_named(problem_file):
    result = run(problem_file, given(PLAN, said(64), said(32), said(16), said(8)))
    wasted = [each.round for each in result.models.rounds if not each.paid]
    assert wasted[0] == 2


def test_offline_writers_seed_at_zero_tokens_where_templates_cover_the_problem(problem_file):
    class Covered(ScriptedPlanner):
        def plan(self, problem, graph, device):
            forward = ForwardPlan(inputs=("x",), values={}, steps=(), returns={"ref": "x"})
            return super().plan(problem, graph, device).model_copy(update={"forward": forward})

    writers = {"triton": Seeds("triton", (8, 4, 2))}
    who = Collaborators(
        harness=ScriptedHarness(), planner=Covered(), writers=writers, model=WrittenModel([PLAN, said(64)])
    )
    result = run(problem_file, who)
    origins = [(entry.round, entry.origin) for entry in result.trajectory]
    assert origins[:2] == [(1, "template"), (1, "template")]
    assert (2, "llm") in origins
    assert result.models.offline_rank < result.models.model_rank


def test_a_model_alone_writes_everything(problem_file):
    writers = {"triton": Seeds("triton", (8, 4))}
    result = run(problem_file, given(PLAN, said(16), said(64), writers=writers), writer="llm")
    assert {entry.origin for entry in result.trajectory} == {"llm"}


def test_offline_stays_offline_though_a_model_is_set(problem_file):
    writers = {"triton": Seeds("triton", (8, 4))}
    result = run(problem_file, given(PLAN, said(64), writers=writers), writer="offline")
    assert {entry.origin for entry in result.trajectory} == {"template"}
    assert result.models is None


def test_a_writer_that_needs_a_model_says_so(problem_file):
    with pytest.raises(InvalidInput, match="--writer llm needs a model"):
        run(problem_file, given(model=None), writer="llm")


def test_the_model_sees_the_feedback_on_its_last_kernel_and_repairs_it(problem_file):
    who = given(PLAN, said(64, "wrong"), said(64, role="repairer"))
    result = run(problem_file, who, width=1)
    assert [entry.status.value for entry in result.trajectory] == ["incorrect_numerical", "passed"]
    repaired = result.trajectory[1]
    assert repaired.note == "repaired (1)"
    assert repaired.parent == result.trajectory[0].id
    (repair,) = [ask for ask in who.model.asked if ask.role == "repairer"]
    assert "off by one in row 3" in repair.messages[-1].text


def test_a_failure_is_repaired_once_though_a_round_asks_several_times(problem_file):
    repair = said(128, role="repairer")
    who = given(PLAN, said(64, "wrong"), said(32, "wrong"), repair, repair, said(16), said(8))
    run(problem_file, who, width=4, budget=12, conversations=1)
    mended = {ask.tag for ask in who.model.asked if "-mend-" in ask.tag}
    assert len(mended) == len({tag.rpartition("-")[2] for tag in mended}) == 2


class Refusing:
    """Answers so often, then raises."""

    def __init__(self, error: Exception, answers: list[WrittenAnswer]) -> None:
        self._error = error
        self._model = WrittenModel(answers)
        self.refused = 0

    def ask(self, ask: Ask) -> Answer:
        if self._model.left():
            return self._model.ask(ask)
        self.refused += 1
        raise self._error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (QuotaExhausted("no credit"), "quota_exhausted"),
        (BudgetSpent("all spent"), "budget_tokens"),
        (BudgetSpent("all spent", "money"), "budget_money"),
    ],
)
def test_without_quota_or_budget_the_search_ends_at_once_and_keeps_the_best(problem_file, error, reason):
    model = Refusing(error, [PLAN, said(64)])
    result = run(problem_file, given(model=model), tokens=10_000_000, conversations=1, width=1)
    assert result.stop_reason == reason
    assert result.best == normalised_hash(FAST)
    assert result.outcome == "verified"
    assert model.refused == 1
    assert str(error) in result.models.stopped


def test_tokens_used_in_state_are_those_of_the_record(problem_file):
    result = run(problem_file, given(PLAN, said(16), said(64)), tokens=10**9)
    rule = next(rule for rule in result.stop_rules if rule.name == "budget_tokens")
    assert rule.value == result.models.tokens


class Counting:
    """Counts asks by key, and may break down in the middle of one."""

    def __init__(self, answers: list[WrittenAnswer], break_at: int = 10**9) -> None:
        self._answers = {}
        self._model = WrittenModel(answers)
        self._break_at = break_at
        self.keys: list[str] = []
        self._lock = threading.Lock()

    def ask(self, ask: Ask) -> Answer:
        with self._lock:
            self.keys.append(ask.key)
            if len(self.keys) == self._break_at:
                raise KeyboardInterrupt
            return self._model.ask(ask)


ANSWERS = [PLAN, said(16), said(32), said(128), said(64)]


@pytest.mark.parametrize("break_at", [2, 3, 4])
def test_a_run_killed_in_a_model_call_resumes_to_the_same_result_and_asks_nothing_twice(problem_file, break_at):
    whole = run(problem_file, given(model=Counting(ANSWERS)), width=1, out=str(problem_file.parent / "whole"))
    cut = Counting(ANSWERS, break_at)
    with pytest.raises(Interrupted) as stopped:
        run(problem_file, given(model=cut), width=1)
    rest = Counting(ANSWERS[break_at - 1 :])
    finished = resume(stopped.value.run_dir, given=given(model=rest))
    assert [entry.id for entry in finished.trajectory] == [entry.id for entry in whole.trajectory]
    assert finished.best == whole.best
    assert set(rest.keys) & set(cut.keys) <= {cut.keys[-1]}  # Only what was in flight may be asked again.
    assert finished.models.in_flight == 1


def test_a_run_killed_in_an_evaluation_resumes_without_asking_again(problem_file):
    class Breaks(ScriptedHarness):
        def evaluate(self, problem, candidate, tier="quick"):
            if len(self.calls) > 3:
                raise InfraError("the GPU fell off the bus")
            return super().evaluate(problem, candidate, tier)

    cut = Counting(ANSWERS)
    with pytest.raises(InfraError):
        run(problem_file, given(model=cut, harness=Breaks()), width=1)
    (run_dir,) = (problem_file.parent / "runs" / "running_sum").iterdir()
    rest = Counting(ANSWERS[len(cut.keys) :])
    finished = resume(run_dir, given=given(model=rest))
    assert finished.outcome == "verified"
    assert not set(rest.keys) & set(cut.keys)
    assert finished.models.in_flight == 0


def test_usage_of_a_model_that_counts_for_itself_is_taken_as_it_says(problem_file):
    class Counted(WrittenModel):
        def ask(self, ask):
            usage = Usage(prompt_tokens=1000, completion_tokens=234, requests=1, cost=0.5)
            return super().ask(ask).model_copy(update={"usage": usage})

    result = run(problem_file, given(model=Counted([PLAN, said(64)])), width=1, budget=1)
    assert result.models.tokens == 2 * 1234
    assert result.models.cost == pytest.approx(1.0)


def test_an_answer_of_unknown_cost_does_not_hide_what_the_others_cost(problem_file):
    class Counted(WrittenModel):
        def ask(self, ask):
            cost = None if ask.role == "planner" else 0.5
            usage = Usage(prompt_tokens=1000, completion_tokens=234, requests=1, cost=cost)
            return super().ask(ask).model_copy(update={"usage": usage})

    prices = {"m": {"prompt": 1.0, "completion": 1.0}}
    given_prices = {"model": "m", "prices": prices, "money": 100.0}
    result = run(problem_file, given(model=Counted([PLAN, said(64)])), width=1, budget=1, **given_prices)
    assert next(rule for rule in result.stop_rules if rule.name == "budget_money").value == pytest.approx(0.5)
    assert result.models.cost is None
