"""A model's plan on top of the offline one."""

import json

from scripted.collaborators import GPU, ScriptedPlanner

from warpsmith.state.lowered import LoweredGraph
from warpsmith.sub_agents.llm.planner import LlmPlanner, PlanAnswer
from warpsmith.sub_agents.llm.written import WrittenAnswer, WrittenModel

STRATEGY = {"name": "one pass", "expected_speedup": 2.5, "why": "reads once"}
EMPTY = LoweredGraph(nodes=(), outputs=None, unsupported="no graph here")


def plan(problem, *answers):
    model = WrittenModel(answers)
    planner = LlmPlanner(model, ScriptedPlanner(), lambda _: None)
    return planner.plan(problem, EMPTY, GPU), model


def spoken(text: str, **fields: object) -> WrittenAnswer:
    return WrittenAnswer(role="planner", text=text, **fields)


def test_the_models_strategies_come_first_and_the_offline_plan_stays(brief):
    made, model = plan(brief.problem, spoken(json.dumps({"strategies": [STRATEGY]})))
    assert [s.name for s in made.strategies] == ["one pass", "tile"]
    assert made.strategies[0].expected_speedup == 2.5
    assert made.summary == "one scripted kernel"
    assert model.asked[0].answer_schema is PlanAnswer
    assert model.asked[0].phase == "plan"


def test_an_answer_that_is_no_plan_is_asked_for_once_more(brief):
    made, model = plan(brief.problem, spoken("Fuse it."), spoken(json.dumps({"strategies": [STRATEGY]})))
    assert made.strategies[0].name == "one pass"
    assert "could not be used" in model.asked[1].messages[-1].text


def test_a_plan_with_impossible_numbers_is_refused(brief):
    bad = {**STRATEGY, "expected_speedup": -1}
    made, _ = plan(brief.problem, *[spoken(json.dumps({"strategies": [bad]}))] * 2)
    assert [s.name for s in made.strategies] == ["tile"]


def test_a_cut_plan_is_not_used_even_if_it_parses(brief):
    cut = spoken(json.dumps({"strategies": [STRATEGY]}), finish="truncated", parsed={"strategies": [STRATEGY]})
    made, model = plan(brief.problem, cut, cut)
    assert [s.name for s in made.strategies] == ["tile"]
    assert model.asked[1].max_output_tokens > model.asked[0].max_output_tokens


def test_without_an_answer_the_offline_plan_is_the_plan(brief):
    made, _ = plan(brief.problem)
    assert [s.name for s in made.strategies] == ["tile"]
