"""Prompts as whole texts, and the rules that they follow."""

import re
from typing import get_args

import pytest
from jinja2 import UndefinedError
from scripted.answers import kernel_source
from scripted.collaborators import ScriptedHarness

from warpsmith.state.brief import Directive, Scored
from warpsmith.state.candidate import make_candidate
from warpsmith.state.evaluation import Status
from warpsmith.state.experience import Change, Experience
from warpsmith.state.feedback import Feedback
from warpsmith.state.lowered import LoweredGraph, Node, Symbol, Value
from warpsmith.sub_agents.llm.briefing import (
    complexity,
    directive_text,
    problem_sections,
    repair_sections,
    verdict_text,
    writer_sections,
)
from warpsmith.sub_agents.llm.conversation import TEMPERATURES
from warpsmith.sub_agents.llm.prompts import FOLDER, render, version

GRAPH = LoweredGraph(
    nodes=(
        Node(name="x", op="input", target="x", output=Value(shape=("s0", 1024), dtype="float32")),
        Node(
            name="cumsum",
            op="aten.cumsum.default",
            args=({"ref": "x"}, 1),
            output=Value(shape=("s0", 1024), dtype="float32"),
        ),
        Node(
            name="mul",
            op="aten.mul.Tensor",
            args=({"ref": "cumsum"}, 0.5),
            output=Value(shape=("s0", 1024), dtype="float32"),
        ),
    ),
    outputs={"ref": "mul"},
    symbols=(Symbol(name="s0", input=0, dim=0, hint=4096),),
)


def scored(problem, tile: int, parent: str | None = None, fate: str = "") -> Scored:
    candidate = make_candidate(kernel_source(tile, fate), "triton", origin="llm", parent=parent)
    return Scored(candidate=candidate, evaluation=ScriptedHarness().evaluate(problem, candidate))


@pytest.fixture
def rich(brief):
    """A brief in the middle of a run."""
    problem = brief.problem
    slow = scored(problem, 16)
    fast = scored(problem, 64, slow.candidate.id)
    return brief.model_copy(
        update={
            "graph": GRAPH,
            "baselines": ScriptedHarness().baseline(problem),
            "pool": (fast, slow),
            "feedback": (
                Feedback(
                    candidate="abc",
                    status="incorrect_numerical",
                    error_digest="incorrect_numerical on workload odd, draw normal: row 3",
                    time="",
                    trend="failed",
                    bottleneck="",
                ),
            ),
            "compile_errors": ("error: no such tile",),
            "experience": Experience(
                changes=(Change(parent=slow.candidate.id, candidate=fast.candidate.id, gain=0.5625, diff="-16\n+64"),),
                failures=("compile_error: no such tile",),
            ),
            "failures": (scored(problem, 8, fate="compile"),),
        }
    )


def without_installed(text: str) -> str:
    """The notes' lists of names depend on the Triton that is installed."""
    return re.sub(r"^- In triton\.language here: .*$", "- In triton.language here: (names)", text, flags=re.M)


def test_the_writers_prompts_are_as_reviewed(rich, snapshot):
    for language in ("triton", "cuda"):
        system = render(
            "writer_system",
            language=language,
            precision="reference",
            tools=["compile_kernel"],
            tool_calls=8,
            evaluations=1,
        )
        request = render("brief", sections=writer_sections(rich, language), directive=directive_text(rich, 0))
        snapshot(f"{language}_writer", without_installed(f"{system}\n=====\n{request}"))


def test_the_cuda_writer_reads_the_triton_seed_as_pseudocode(rich, snapshot):
    seeded = rich.model_copy(update={"seeds": rich.pool[:1], "directive": "rewrite", "language": "cuda"})
    request = render("brief", sections=writer_sections(seeded, "cuda"), directive=directive_text(seeded, 0))
    assert "Triton seed, to be read as pseudocode" in request
    assert request.count('"tile": 64') == 1  # As the seed, not again as a kernel of the pool.
    snapshot("cuda_rewrite", request)


def test_the_repairers_prompt_is_as_reviewed(rich, snapshot):
    (failure,) = rich.failures
    system = render("repairer_system", language="triton", precision="reference")
    sections = repair_sections(rich, failure.candidate.source, verdict_text(failure.evaluation), "triton")
    snapshot("repairer", without_installed(f"{system}\n=====\n{render('repair', sections=sections)}"))


def test_the_planners_prompt_is_as_reviewed(rich, snapshot):
    sections = problem_sections(rich.problem, rich.device, rich.graph, rich.baselines)
    snapshot("planner", f"{render('planner_system')}\n=====\n{render('plan', sections=sections, covered=False)}")


@pytest.mark.parametrize("precision", ["reference", "strict-fp32", "tf32", "bf16"])
def test_every_precision_policy_is_put_into_words(precision):
    text = render("repairer_system", language="cuda", precision=precision)
    assert f"Precision policy `{precision}`: " in text
    assert "{{" not in text


def test_a_prompt_with_a_value_missing_is_an_error():
    with pytest.raises(UndefinedError, match="precision"):
        render("repairer_system", language="cuda")


def test_every_prompt_file_is_part_of_the_version():
    assert re.fullmatch(r"[0-9a-f]{12}", version())
    assert {path.suffix for path in FOLDER.iterdir() if path.is_file()} == {".j2"}


def test_every_section_keeps_to_its_budget(rich):
    long = rich.problem.model_copy(update={"source": "x = 1\n" * 20_000})
    from warpsmith.sub_agents.llm.sections import tokens_of

    for section in writer_sections(rich.model_copy(update={"problem": long}), "triton"):
        assert tokens_of(section.shown) <= section.tokens, section.title


@pytest.mark.parametrize(
    ("statuses", "level"),
    [
        ([], 3),
        ([Status.COMPILE_ERROR] * 2, 3),
        ([Status.COMPILE_ERROR] * 3, 0),
        ([Status.COMPILE_ERROR] * 3 + [Status.PASSED], 1),
        ([Status.COMPILE_ERROR] * 4 + [Status.INCORRECT_NUMERICAL, Status.COMPILE_ERROR, Status.PASSED], 2),
        ([Status.COMPILE_ERROR] * 3 + [Status.PASSED] * 5, 3),
        ([Status.COMPILE_ERROR, Status.PASSED] * 4, 3),
    ],
)
def test_three_compile_failures_running_ask_for_the_simplest_structure_and_then_a_step_at_a_time(statuses, level):
    assert complexity(statuses) == level


def test_the_directive_follows_the_complexity(brief):
    simple = brief.model_copy(update={"history": (Status.COMPILE_ERROR,) * 3})
    assert "simplest correct structure" in directive_text(simple, 0)
    assert "simplest correct structure" not in directive_text(brief, 0)


@pytest.mark.parametrize("directive", get_args(Directive))
def test_every_directive_has_angles_that_differ(brief, directive):
    told = brief.model_copy(update={"directive": directive})
    angles = {directive_text(told, angle) for angle in range(8)}
    assert len(angles) >= 2
    assert directive in TEMPERATURES


def test_a_hidden_failure_is_told_by_its_class_alone(rich):
    (failure,) = (scored(rich.problem, 64, fate="wrong"),)
    hidden = failure.evaluation.checks[0].model_copy(update={"hidden": True, "worst": "row 7", "workload": "rows=4093"})
    text = verdict_text(failure.evaluation.model_copy(update={"checks": (hidden,), "message": "wrong: hidden"}))
    assert "a hidden workload" in text
    assert "4093" not in text
    assert "row 7" not in text
