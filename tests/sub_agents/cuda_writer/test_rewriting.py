"""The CUDA writer starts from Triton seeds: their structure and tile sizes in CUDA's terms."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from cuda_emulation.holding import H200
from cuda_emulation.loop_plans import plan_of, program_of
from programs.examples import layer_norm, relu_add, softmax

from warpsmith.state.brief import Brief
from warpsmith.state.plan import Plan, Strategy
from warpsmith.state.problem import Problem, Workload
from warpsmith.state.program import ForwardPlan
from warpsmith.sub_agents.cuda_writer import CudaWriter
from warpsmith.sub_agents.cuda_writer.rewriting import HINTS, PREFERENCE, rewritten
from warpsmith.sub_agents.offline_writer import Choice, StepSpace
from warpsmith.sub_agents.templates.registry import templates

SOURCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, bias):
        return torch.relu(x + bias)


def get_inputs():
    return [torch.randn(4096, 8192), torch.randn(8192)]


def get_init_inputs():
    return []
"""


def space(plan: ForwardPlan) -> StepSpace:
    program = program_of(plan)
    return StepSpace(program, tuple(t for t in templates("cuda") if t.fits(program, plan.hints)), plan.hints, H200)


def first(plan: ForwardPlan, **seed: Any) -> Choice:
    return rewritten(space(plan), seed)[0]


def early(plan: ForwardPlan, seed: dict[str, Any]) -> list[Choice]:
    """The first four choices: as many as a run evaluates."""
    return rewritten(space(plan), seed)[:4]


def test_a_pointwise_tile_becomes_threads_and_vectors_in_flight() -> None:
    seed = {"template": "triton_pointwise", "block_size": 2048, "num_warps": 4, "programs": 0, "store_cache": "cs"}
    found = [c.values for c in early(relu_add(4096, 8192), seed)]
    translated = [c for c in found if (c["block_size"], c["store"]) == (128, "streaming")]
    assert any(c["block_size"] * c["vector"] * c["unroll"] == 2048 for c in translated)


def test_a_two_sided_tile_becomes_one_turned_in_shared_memory() -> None:
    plan = plan_of(
        (512, 512), (False, False), [("t", "neg", "float32", 0, "in_x")], {"y": ("t", "float32")}, loads={"x": (1, 512)}
    )
    seed = {"template": "triton_pointwise", "block_size": 1024, "num_warps": 8, "tile": "two_sided", "columns": 64}
    assert first(plan, **seed).template.name == "cuda_transpose"
    assert 64 in [choice.values.get("tile") for choice in early(plan, seed)]


def test_rows_in_registers_stay_in_registers_with_as_many_warps_and_rows() -> None:
    seed = {"num_warps": 8, "rows_per_program": 4}
    choices = early(layer_norm(8192, 1024), {"template": "triton_row_persistent", **seed})
    assert choices[0].template.name == "cuda_row_block"
    assert any(seed.items() <= choice.values.items() for choice in choices)


def test_a_long_row_that_triton_loops_over_goes_to_a_cluster() -> None:
    seed = {"template": "triton_row_looped", "num_warps": 16, "block_size": 4096, "passes": "online"}
    choice = first(softmax(4096, 393216), **seed)
    assert choice.template.name == "cuda_row_cluster"
    assert choice.values["cluster"] == 16


def test_a_split_is_kept() -> None:
    seed = {"template": "triton_split_reduction", "num_warps": 4, "block_size": 2048, "split": 128}
    assert 128 in [choice.values.get("split") for choice in early(layer_norm(16, 4194304), seed)]


def test_a_strided_reduction_goes_to_lanes_along_the_contiguous_axis() -> None:
    plan = plan_of(
        (8, 64, 4096), (False, True, False), [("t", "reduce_sum", "float32", 0, "in_x")], {"y": ("t", "float32")}
    )
    choice = first(plan, template="triton_row_looped", num_warps=8, block_size=16, rows_per_program=128)
    assert choice.template.name == "cuda_column"
    assert choice.values["lanes"] == 32


@pytest.mark.parametrize("plan", [softmax(8192, 4096), layer_norm(32768, 1024)])
def test_early_choices_span_structures_and_differ_in_more_than_hints(plan: ForwardPlan) -> None:
    choices = early(plan, {"template": "triton_row_persistent", "num_warps": 8, "rows_per_program": 1})
    assert len({choice.template.name for choice in choices}) > 1
    shapes = [(c.template.name, *(pair for pair in c.setting if pair[0] not in HINTS)) for c in choices]
    assert len(set(shapes)) == len(choices)


@pytest.mark.parametrize("template", PREFERENCE)
def test_whatever_the_seed_says_the_choices_are_legal_and_the_defaults_follow(template: str) -> None:
    for plan in (relu_add(4096, 8192), softmax(64, 4096), layer_norm(16, 4194304)):
        here = space(plan)
        seed = {"template": template, "num_warps": 32, "block_size": 8192, "rows_per_program": 128, "split": 256}
        choices = rewritten(here, seed)
        assert len(set(choices)) == len(choices)
        assert all(here.legal(choice.template)(choice.values) for choice in choices)
        assert set(here.promising()) <= set(choices)


def brief() -> Brief:
    workload = Workload(name="default")
    return Brief(
        problem=Problem(name="relu_add", path="relu_add.py", source=SOURCE, workloads=(workload,)),
        device=H200,
        plan=Plan(
            summary="one kernel",
            strategies=(Strategy(name="fuse", expected_speedup=2, why="one pass"),),
            forward=relu_add(4096, 8192),
        ),
        language="cuda",
        directive="explore",
    )


def test_the_writer_proposes_different_cuda_files_without_a_seed_or_a_key() -> None:
    found = CudaWriter().propose(brief(), 3)
    assert len({candidate.id for candidate in found}) == 3
    assert all(candidate.language == "cuda" and "RawModule" in candidate.source for candidate in found)
    assert [c.id for c in CudaWriter().propose(brief(), 3)] == [c.id for c in found]


def test_a_whole_candidate_file_runs_on_the_emulation(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from cuda_emulation.emulation import fake_cupy

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: SimpleNamespace(cuda_stream=0))
    small = brief().model_copy(update={"plan": brief().plan.model_copy(update={"forward": relu_add(33, 64)})})
    (candidate,) = CudaWriter().propose(small, 1)
    names: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(candidate.source, "candidate.py", "exec"), names)
    x, bias = torch.randn(33, 64), torch.randn(64)
    assert torch.equal(names["ModelNew"]()(x, bias), torch.relu(x + bias))
