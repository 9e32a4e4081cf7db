"""Every CUDA loop template on the CPU emulation, against the brute-force interpreter."""

from collections.abc import Sequence

import pytest
import torch
from cuda_emulation.holding import H200, check, default, draw, emulated
from cuda_emulation.loop_cases import CASES
from cuda_emulation.loop_plans import program_of
from programs.cover import Legal, every_choice, single_changes

from warpsmith.sub_agents.kernel_source import Template
from warpsmith.sub_agents.slots import Setting, Slot
from warpsmith.sub_agents.templates.cuda_column import CudaColumn
from warpsmith.sub_agents.templates.cuda_pointwise import CudaPointwise
from warpsmith.sub_agents.templates.cuda_row_block import CudaRowBlock
from warpsmith.sub_agents.templates.cuda_row_looped import CudaRowLooped
from warpsmith.sub_agents.templates.cuda_row_shared import CudaRowCluster, CudaRowShared
from warpsmith.sub_agents.templates.cuda_split_reduction import CudaSplitReduction
from warpsmith.sub_agents.templates.cuda_transpose import CudaTranspose

TEMPLATES: dict[str, Template] = {
    each.name: each
    for each in (
        CudaPointwise(),
        CudaRowBlock(),
        CudaRowLooped(),
        CudaRowShared(),
        CudaRowCluster(),
        CudaSplitReduction(),
        CudaColumn(),
        CudaTranspose(),
    )
}
FITTING = [
    (template, case)
    for template in TEMPLATES
    for case, plan in CASES.items()
    if TEMPLATES[template].fits(program_of(plan), plan.hints)
]


def room(template: Template, case: str) -> tuple[Sequence[Slot], Legal]:
    """The slots for a case, and which settings are legal."""
    plan = CASES[case]
    program = program_of(plan)
    return template.slots(program, plan.hints, H200), lambda s: template.legal(program, s, plan.hints, H200)


def settings(template: Template, case: str) -> list[Setting]:
    """Every choice of every slot, together with other ones for each case."""
    return list(every_choice(*room(template, case), turn=list(CASES).index(case)))


@pytest.mark.parametrize(("template", "case"), FITTING)
def test_a_kernel_gives_what_the_interpreter_gives(template: str, case: str) -> None:
    chosen, plan = TEMPLATES[template], CASES[case]
    check(chosen, plan, default(chosen, plan), draw(plan))


@pytest.mark.parametrize("template", TEMPLATES)
def test_other_choices_give_the_same(template: str) -> None:
    cases = [case for each, case in FITTING if each == template]
    for case in cases[:: max(1, len(cases) // 3)]:
        for setting in settings(TEMPLATES[template], case)[:2]:
            check(TEMPLATES[template], CASES[case], setting, draw(CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize(("template", "case"), FITTING)
def test_every_choice_of_every_slot_gives_the_same(template: str, case: str) -> None:
    for setting in settings(TEMPLATES[template], case):
        check(TEMPLATES[template], CASES[case], setting, draw(CASES[case]))


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_single_change_of_the_default_gives_the_same(template: str) -> None:
    """On one program each: what a choice does is not hidden by another."""
    case = next(case for each, case in FITTING if each == template)
    for setting in single_changes(*room(TEMPLATES[template], case)):
        check(TEMPLATES[template], CASES[case], setting, draw(CASES[case]))


@pytest.mark.parametrize(
    ("template", "case"),
    [(t, c) for t, c in FITTING if c in ("softmax_fp16_aligned", "flat_with_tail", "variance_and_mean")],
)
def test_a_misaligned_operand_falls_back_to_narrower_loads(template: str, case: str) -> None:
    plan = CASES[case]
    check(TEMPLATES[template], plan, default(TEMPLATES[template], plan), draw(plan, misaligned=True))


@pytest.mark.parametrize("template", [t for t, c in FITTING if c == "extremes"])
def test_nan_wins_extremes_and_ties_go_to_the_first(template: str) -> None:
    plan = CASES["extremes"]
    (x,) = draw(plan)
    x[0, 17] = x[0, 30] = float("nan")
    x[1] = 1.5
    x[2] = -3.0 - torch.rand(50)
    x[3, 5:] = float("-inf")
    check(TEMPLATES[template], plan, default(TEMPLATES[template], plan), [x])


@pytest.mark.parametrize("template", [t for t, c in FITTING if c == "symbolic_columns"])
@pytest.mark.parametrize("shape", [(0, 512), (1, 1), (2, 513), (300, 3), (3, 2048)])
def test_symbols_take_other_sizes_than_their_hints(template: str, shape: tuple[int, int]) -> None:
    plan = CASES["symbolic_columns"]
    check(TEMPLATES[template], plan, default(TEMPLATES[template], plan), [torch.randn(shape) - 40])


@pytest.mark.parametrize("cluster", [2, 4, 8, 16])
def test_clusters_of_every_size_share_a_row(cluster: int) -> None:
    plan, template = CASES["softmax_long"], TEMPLATES["cuda_row_cluster"]
    check(template, plan, {**default(template, plan), "cluster": cluster, "num_warps": 4}, draw(plan))


@pytest.mark.parametrize("passes", ["online", "separate"])
def test_what_shared_memory_does_not_hold_is_read_again(passes: str) -> None:
    plan, template = CASES["softmax_past_shared_memory"], TEMPLATES["cuda_row_shared"]
    check(template, plan, {**default(template, plan), "held_kib": 48, "passes": passes}, draw(plan))


@pytest.mark.parametrize("split", [2, 7, 16])
def test_splits_merge_in_the_workspace(split: int) -> None:
    for name, template in (("one_row_long", "cuda_split_reduction"), ("column_sum_long", "cuda_column")):
        plan = CASES[name]
        setting = {**default(TEMPLATES[template], plan), "split": split}
        check(TEMPLATES[template], plan, setting, draw(plan))


@pytest.mark.parametrize("template", [t for t, c in FITTING if c == "sum_all_symbolic"])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_nothing_or_little_to_reduce(template: str, count: int) -> None:
    plan, x = CASES["sum_all_symbolic"], torch.randn(count)
    (mean,) = emulated(TEMPLATES[template], plan, default(TEMPLATES[template], plan), [x])
    torch.testing.assert_close(mean, x.square().mean(), equal_nan=True)


@pytest.mark.parametrize("rows_at_once", [1, 2])
def test_kernels_may_alternate_between_a_few_rows(rows_at_once: int) -> None:
    plan, template = CASES["mean_of_few_long_rows"], TEMPLATES["cuda_split_reduction"]
    check(template, plan, {**default(template, plan), "rows_at_once": rows_at_once}, draw(plan))


@pytest.mark.parametrize("template", [t for t, c in FITTING if c == "softmax"])
def test_masked_and_infinite_rows_of_a_softmax_are_as_in_torch(template: str) -> None:
    plan = CASES["softmax"]
    (x,) = draw(plan)
    x[0, :40] = float("-inf")
    x[1] = float("-inf")
    x[2, 3] = float("inf")
    x[3, 4] = float("nan")
    x[4] = -1e30
    check(TEMPLATES[template], plan, default(TEMPLATES[template], plan), [x])


@pytest.mark.parametrize("template", [t for t, c in FITTING if c == "variance_and_mean"])
def test_variance_survives_a_mean_far_above_the_deviations(template: str) -> None:
    plan = CASES["variance_and_mean"]
    x = 1000 + torch.randn(7, 192)
    x[3, 0] = -1e4
    variance = emulated(TEMPLATES[template], plan, default(TEMPLATES[template], plan), [x])[2]
    torch.testing.assert_close(variance.double(), x.double().var(1, correction=0), rtol=1e-4, atol=0)
