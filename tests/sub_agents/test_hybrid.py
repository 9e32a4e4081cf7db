"""Who is asked for how many, and what happens when one of them has nothing."""

import pytest
from scripted.answers import REFERENCE
from scripted.collaborators import GPU, kernel

from warpsmith.state.brief import Brief
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.hybrid import HybridWriter, model_share

COVERED = ForwardPlan(inputs=("x",), values={}, steps=(), returns={"ref": "x"})
PARTLY = COVERED.model_copy(update={"uncovered": ("aten.cumsum.default",)})


class Tiles:
    """Proposes kernels of the tiles that it has."""

    def __init__(self, name: str, *tiles: int) -> None:
        self.name = name
        self.tiles = tiles
        self.asked: list[int] = []

    def propose(self, brief, n):
        self.asked.append(n)
        made = [kernel("triton", tile) for tile in self.tiles]
        return [candidate for candidate in made if candidate.id not in brief.tried][:n]


def brief(forward: ForwardPlan | None, tried: int = 0) -> Brief:
    problem = Problem(name="p", path="p.py", source=REFERENCE, workloads=(Workload(name="default"),))
    return Brief(
        problem=problem,
        device=GPU,
        plan=Plan(summary="", strategies=(), forward=forward),
        language="triton",
        directive="explore",
        tried=frozenset(map(str, range(tried))),
    )


@pytest.mark.parametrize(
    ("forward", "tried", "n", "share"),
    [
        (None, 0, 4, 4),
        (None, 9, 4, 4),
        (COVERED, 0, 4, 0),
        (COVERED, 4, 4, 2),
        (COVERED, 4, 1, 1),
        (PARTLY, 0, 4, 3),
        (PARTLY, 0, 1, 1),
        (PARTLY, 8, 4, 3),
        (PARTLY, 8, 8, 6),
    ],
)
def test_the_models_share_follows_what_templates_cover(forward, tried, n, share):
    assert model_share(brief(forward, tried), n) == share


def test_offline_seeds_come_first_and_the_model_is_not_asked_for_them():
    offline, model = Tiles("offline", 8, 4, 2, 1), Tiles("model", 64)
    found = HybridWriter(offline, model).propose(brief(COVERED), 4)
    assert len(found) == 4
    assert model.asked == []


def test_the_model_fills_what_the_offline_writer_cannot():
    offline, model = Tiles("offline", 8), Tiles("model", 64, 32, 16)
    found = HybridWriter(offline, model).propose(brief(COVERED), 4)
    assert [candidate.slots["tile"] for candidate in found] == [8, 64, 32, 16]
    assert model.asked == [3]


def test_offline_candidates_fill_what_the_model_does_not_give():
    offline, model = Tiles("offline", 8, 4, 2, 1), Tiles("model")
    found = HybridWriter(offline, model).propose(brief(COVERED, tried=4), 4)
    assert len(found) == 4
    assert model.asked == [2]


def test_the_same_kernel_from_both_is_proposed_once():
    found = HybridWriter(Tiles("offline", 8), Tiles("model", 8, 64)).propose(brief(COVERED, tried=4), 4)
    assert [candidate.slots["tile"] for candidate in found] == [8, 64]
