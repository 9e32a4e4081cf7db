"""Requests for several kernels at once: conversations side by side, and repairs of what failed."""

from scripted.answers import called, kernel_source, said
from scripted.collaborators import ScriptedHarness

from warpsmith.state.brief import Brief, Scored
from warpsmith.state.candidate import make_candidate
from warpsmith.state.evaluation import Status
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload
from warpsmith.sub_agents.llm.desk import Desk
from warpsmith.sub_agents.llm.prompts import version
from warpsmith.sub_agents.llm.writer import LlmWriter, requests, triton_writer
from warpsmith.sub_agents.llm.written import WrittenAnswer, WrittenModel

PROBLEM = Problem(name="p", path="p.py", source="", workloads=(Workload(name="default"),))
"""Any will do: the scripted harness judges by slots alone."""


def writer(*answers: WrittenAnswer, parallel: int = 2) -> tuple[LlmWriter, WrittenModel, ScriptedHarness]:
    model, harness = WrittenModel(answers), ScriptedHarness()

    def open_desk(brief, language):
        return Desk(model=model, harness=harness, brief=brief, language=language)

    return LlmWriter("triton", open_desk, parallel), model, harness


def failed(tile: int, note: str = "", language: str = "triton", fate: str = "wrong") -> Scored:
    candidate = make_candidate(kernel_source(tile, fate), language, origin="llm", note=note)
    return Scored(candidate=candidate, evaluation=ScriptedHarness().evaluate(PROBLEM, candidate))


def test_candidates_say_where_they_come_from(brief):
    own, model, _ = writer(said(64, idea="Scan by blocks."), parallel=1)
    (candidate,) = own.propose(brief, 1)
    assert (candidate.origin, candidate.language, candidate.note) == ("llm", "triton", "Scan by blocks.")
    assert candidate.prompt == version()
    assert candidate.template is None
    assert model.left() == 0


def test_conversations_side_by_side_take_different_angles(brief):
    own, model, _ = writer(said(64), said(128))
    assert len(own.propose(brief, 2)) == 2
    first, second = (ask.messages[-1].text for ask in model.asked)
    assert first.partition("## What to write now")[0] == second.partition("## What to write now")[0]
    assert first != second


def test_no_more_candidates_than_asked_for_and_none_judged_beyond_them(brief):
    own, _, harness = writer(called("time_kernel", 8), called("time_kernel", 16), said(64), parallel=1)
    found = own.propose(brief, 2)
    assert len(found) == 2
    judged = {id for call, id in harness.calls if call == "quick"}
    assert judged <= {candidate.id for candidate in found}


def test_twins_are_proposed_once(brief):
    own, _, _ = writer(said(64), said(64))
    assert len(own.propose(brief, 2)) == 1


def test_a_model_that_fails_gives_fewer_candidates_not_an_exception(brief):
    own, _, _ = writer(said(64))
    assert len(own.propose(brief, 2)) == 1


def test_a_failed_candidate_is_repaired_first_and_its_repair_names_it(brief):
    wrong = failed(64)
    own, model, _ = writer(said(64, role="repairer"), said(128))
    told = brief.model_copy(update={"failures": (wrong,)})
    found = {candidate.note: candidate for candidate in own.propose(told, 2)}
    assert found["repaired (1)"].parent == wrong.candidate.id
    repair = next(ask for ask in model.asked if ask.role == "repairer")
    assert "off by one in row 3" in repair.messages[-1].text


def test_repairs_of_repairs_end():
    plan = Plan(summary="", strategies=())
    base = {"problem": PROBLEM, "device": ScriptedHarness().device(), "language": "triton", "directive": "explore"}
    for note, count in (("", 1), ("repaired (1)", 1), ("repaired (2)", 0)):
        brief = Brief(**base, plan=plan, failures=(failed(64, note),))
        _, repairs = requests(brief, "triton", 4, 2)
        assert len(repairs) == count, note


def test_failures_of_others_and_of_the_other_language_are_left_alone(brief):
    template = failed(64).candidate.model_copy(update={"origin": "template"})
    others = (
        Scored(candidate=template, evaluation=failed(64).evaluation),
        failed(32, language="cuda"),
    )
    _, repairs = requests(brief.model_copy(update={"failures": others}), "triton", 4, 2)
    assert repairs == []


def test_a_timeout_is_not_worth_repairing(brief):
    slow = failed(64)
    evaluation = slow.evaluation.model_copy(update={"status": Status.TIMEOUT})
    told = brief.model_copy(update={"failures": (Scored(candidate=slow.candidate, evaluation=evaluation),)})
    assert requests(told, "triton", 4, 2)[1] == []


def test_evaluations_are_shared_without_a_rest(brief):
    for n in range(1, 9):
        for parallel in (1, 2, 3):
            writes, _ = requests(brief, "triton", n, parallel)
            assert sum(1 + task.evaluations for task in writes) == n


def test_the_graph_shows_conversations_and_their_nodes():
    nodes = set(triton_writer.get_graph(xray=True).nodes)
    assert {"assign", "repair", "write:ask_writer", "write:use_tools", "write:compile_draft", "write:hand_in"} <= nodes
