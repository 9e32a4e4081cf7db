"""The offline writer: what it proposes for each directive, and that it never repeats itself."""

from programs import examples
from programs.sheets import H200

from warpsmith.state.brief import Brief, Scored
from warpsmith.state.candidate import Candidate
from warpsmith.state.evaluation import CompileReport, Evaluation, Status
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.choice_lists import small_grid
from warpsmith.sub_agents.kernel_source import Template
from warpsmith.sub_agents.offline_writer import OfflineWriter
from warpsmith.sub_agents.templates.registry import templates
from warpsmith.sub_agents.triton_writer import TritonWriter

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
"""


def brief(forward: ForwardPlan | None, **fields: object) -> Brief:
    problem = Problem(name="p", path="p.py", source=SOURCE, workloads=(Workload(name="default"),))
    known = {"problem": problem, "device": H200, "language": "triton", "directive": "explore"}
    return Brief.model_validate({**known, "plan": Plan(summary="", strategies=(), forward=forward), **fields})


def scored(candidate: Candidate) -> Scored:
    failed = CompileReport(ok=False, seconds=0.0)
    evaluation = Evaluation(
        candidate=candidate.id, problem="p", status=Status.COMPILE_ERROR, tier="quick", message="-", compile=failed
    )
    return Scored(candidate=candidate, evaluation=evaluation)


def softmax() -> ForwardPlan:
    return examples.softmax(4096, 4096)


def test_the_same_brief_gives_the_same_candidates_and_another_seed_others() -> None:
    first, again = (TritonWriter().propose(brief(softmax()), 40) for _ in range(2))
    other = TritonWriter().propose(brief(softmax(), rng_seed=1), 40)
    assert first == again
    assert [c.id for c in first[:3]] == [c.id for c in other[:3]]
    assert {c.id for c in first[3:]} != {c.id for c in other[3:]}


def test_exploring_starts_with_the_cheapest_structure() -> None:
    assert TritonWriter().propose(brief(softmax()), 1)[0].template == "triton_row_persistent"
    huge = TritonWriter().propose(brief(examples.sum_all(2**28)), 3)
    assert {c.template for c in huge} == {"triton_split_reduction"}


def test_exploring_leaves_hopeless_structures_to_the_end() -> None:
    early = TritonWriter().propose(brief(examples.softmax(2**17, 600)), 6)
    assert {c.template for c in early} == {"triton_row_persistent"}
    later = TritonWriter().propose(brief(examples.softmax(2**17, 600)), 120)
    assert len({c.template for c in later}) > 1


def test_exploring_gives_neighbours_of_the_best_structure_in_warps_and_block_size() -> None:
    proposed = TritonWriter().propose(brief(examples.relu_add(8192, 8192)), 8)
    blocks = [c.slots["relu_add.block_size"] for c in proposed]
    assert len(set(blocks)) >= 3
    assert max(blocks) <= 4 * blocks[0]
    assert len({c.slots["relu_add.num_warps"] for c in proposed}) >= 3


def test_exploring_goes_on_around_what_was_measured_as_best() -> None:
    first = TritonWriter().propose(brief(softmax()), 8)
    best = first[5]
    more = TritonWriter().propose(brief(softmax(), pool=(scored(best),), tried=frozenset(c.id for c in first)), 4)
    for candidate in more[:3]:
        assert len({name for name in best.slots if best.slots[name] != candidate.slots.get(name)}) == 1


def test_nothing_tried_is_proposed_again_and_candidates_are_distinct() -> None:
    first = TritonWriter().propose(brief(softmax()), 10)
    second = TritonWriter().propose(brief(softmax(), tried=frozenset(c.id for c in first)), 10)
    ids = [c.id for c in (*first, *second)]
    assert len(ids) == 20
    assert len(set(ids)) == 20


def test_slots_are_named_by_step_and_the_template_is_one_of_them() -> None:
    (candidate,) = TritonWriter().propose(brief(softmax()), 1)
    assert candidate.slots["softmax.template"] == candidate.template == "triton_row_persistent"
    assert {name.split(".")[0] for name in candidate.slots} == {"softmax"}
    assert "class ModelNew" in candidate.source


def test_tuning_moves_one_slot_of_the_seed_to_a_neighbour() -> None:
    (seed,) = TritonWriter().propose(brief(softmax()), 1)
    tuned = TritonWriter().propose(
        brief(softmax(), directive="tune", seeds=(scored(seed),), tried=frozenset((seed.id,)), temperature=0.2), 5
    )
    assert len(tuned) == 5
    for candidate in tuned:
        changed = {name for name in seed.slots if seed.slots[name] != candidate.slots[name]}
        assert len(changed) == 1
        assert candidate.parent == seed.id


def test_diversifying_gives_a_structure_that_the_pool_lacks() -> None:
    (seed,) = TritonWriter().propose(brief(softmax()), 1)
    others = TritonWriter().propose(brief(softmax(), directive="diversify", pool=(scored(seed),)), 2)
    structures = {(c.template, c.slots.get("softmax.passes"), c.slots.get("softmax.reverse_last")) for c in others}
    assert len(structures) == 2
    assert all(c.template != seed.template for c in others)


def test_rewriting_carries_the_seeds_values_into_slots_of_the_same_name() -> None:
    looped = [t for t in templates("triton") if t.name == "triton_row_looped"]
    split = [t for t in templates("triton") if t.name == "triton_split_reduction"]
    (seed,) = OfflineWriter("triton", tuple(looped)).propose(brief(softmax()), 1)
    (rewritten,) = OfflineWriter("triton", tuple(split)).propose(
        brief(softmax(), directive="rewrite", seeds=(scored(seed),)), 1
    )
    assert rewritten.slots["softmax.block_size"] == seed.slots["softmax.block_size"]
    assert rewritten.parent == seed.id


def test_a_step_without_an_own_template_takes_the_fallback_and_without_any_there_is_no_candidate() -> None:
    pointwise = tuple(t for t in templates("triton") if t.name == "triton_pointwise")
    rows = tuple(t for t in templates("triton") if t.name == "triton_row_looped")
    two_steps = softmax()
    after = examples.relu_add(4096, 4096)
    both = two_steps.model_copy(
        update={"steps": (*two_steps.steps, *after.steps), "values": {**after.values, **two_steps.values}}
    )
    both = both.model_copy(update={"inputs": ("x", "bias")})
    (mixed,) = OfflineWriter("triton", pointwise, fallback=rows).propose(brief(both), 1)
    assert mixed.template == "triton_row_looped+triton_pointwise"
    assert OfflineWriter("triton", pointwise).propose(brief(both), 1) == []
    assert OfflineWriter("triton", (), fallback=rows).propose(brief(softmax()), 1) == []


def test_a_plan_without_programs_gives_nothing() -> None:
    assert TritonWriter().propose(brief(None), 3) == []


def test_a_template_runs_dry_rather_than_repeating() -> None:
    pointwise = tuple(t for t in templates("triton") if t.name == "triton_pointwise")
    plan = examples.relu_add(3, 5)
    seen: set[str] = set()
    for _ in range(40):
        more = OfflineWriter("triton", pointwise).propose(brief(plan, tried=frozenset(seen)), 100)
        assert not seen & {c.id for c in more}
        if not more:
            break
        seen |= {c.id for c in more}
    assert 10 < len(seen) < 4000


def test_spread_asks_for_every_kind_beside_the_most_promising() -> None:
    plain = TritonWriter().propose(brief(softmax()), 16)
    spread = TritonWriter().propose(brief(softmax(), spread=True), 16)
    assert spread[0] == plain[0]
    assert {c.id for c in plain[:6]} <= {c.id for c in spread}
    words = [{value for c in made for value in c.slots.values() if isinstance(value, str)} for made in (plain, spread)]
    assert words[0] <= words[1]
    sizes = {value for c in spread for name, value in c.slots.items() if name.endswith("block_size")}
    assert sizes


def test_one_slot_is_moved_through_all_its_choices_where_that_is_asked() -> None:
    seed = TritonWriter().propose(brief(softmax()), 1)[0]
    for ordinal in range(3):
        moved = TritonWriter().propose(brief(softmax(), directive="tune", seeds=[scored(seed)], vary=ordinal), 2)
        changed = [{n for n in seed.slots if c.slots.get(n) != seed.slots[n]} for c in moved]
        assert all(len(names) == 1 for names in changed)
        assert len(set.union(*changed)) == 1


class Narrow:
    """A library template whose slots all have one choice, but for two."""

    def __init__(self, base: Template) -> None:
        self.name, self.base = base.name, base

    def __getattr__(self, name: str) -> object:
        return getattr(self.base, name)

    def slots(self, program, hints, device):  # type: ignore[no-untyped-def]
        found = self.base.slots(program, hints, device)
        opened = ("num_warps", "load_eviction")
        return tuple(s if s.name in opened else s.model_copy(update={"choices": (s.default,)}) for s in found)


def test_a_small_space_is_tuned_as_a_grid() -> None:
    writer = OfflineWriter("triton", (Narrow(next(t for t in templates("triton") if t.name == "triton_row_looped")),))
    seed = writer.propose(brief(softmax()), 1)[0]
    made = writer.propose(brief(softmax(), directive="tune", seeds=[scored(seed)], tried={seed.id}), 40)
    settings = {(c.slots["softmax.num_warps"], c.slots["softmax.load_eviction"]) for c in (seed, *made)}
    warps, evictions = map(set, zip(*settings, strict=True))
    assert len(settings) == len(made) + 1 == len(warps) * len(evictions) >= 6  # All of them, once.
    assert "softmax by grid" in {c.note for c in made}


def test_a_large_space_is_never_enumerated() -> None:
    (space,) = TritonWriter()._spaces(brief(softmax()).plan.forward, H200).values()
    assert small_grid(space, space.promising()[0]) == []
