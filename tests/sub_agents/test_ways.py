"""A convolution of one's own or the library's: both are proposed, and each is tuned for itself."""

import functools

import pytest
from programs.references import CASES
from programs.sheets import H200

from warpsmith.state.brief import Brief, Scored
from warpsmith.state.candidate import Candidate
from warpsmith.state.evaluation import CompileReport, Evaluation, Status
from warpsmith.state.lowered import LoweredGraph
from warpsmith.state.plan import Plan
from warpsmith.state.problem import Problem, Workload
from warpsmith.sub_agents.cuda_writer import CudaWriter
from warpsmith.sub_agents.planner import OfflinePlanner
from warpsmith.sub_agents.triton_writer import TritonWriter
from warpsmith.tools.worker.lowering import lower

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.function = None

    def forward(self, x):
        return x
"""
PROBLEM = Problem(name="p", path="p.py", source=SOURCE, workloads=(Workload(name="default"),))


@functools.cache
def lowered(name: str) -> LoweredGraph:
    return lower(*CASES[name]())


def plan(name: str) -> Plan:
    return OfflinePlanner().plan(PROBLEM, lowered(name), H200)


def brief(name: str, **fields: object) -> Brief:
    known = {"problem": PROBLEM, "device": H200, "language": "triton", "directive": "explore", "plan": plan(name)}
    return Brief.model_validate({**known, **fields})


def scored(candidate: Candidate) -> Scored:
    report = CompileReport(ok=False, seconds=0.0)
    evaluation = Evaluation(
        candidate=candidate.id, problem="p", status=Status.COMPILE_ERROR, tier="quick", message="-", compile=report
    )
    return Scored(candidate=candidate, evaluation=evaluation)


def by_library(candidate: Candidate) -> bool:
    return "aten.conv2d" in candidate.source


def test_both_ways_are_explored_the_own_first() -> None:
    made = TritonWriter().propose(brief("convolution"), 4)
    assert [by_library(each) for each in made] == [False, True, False, True]
    assert all("_kernel[" in each.source for each in made)


@pytest.mark.parametrize("library", [False, True])
def test_a_seed_is_tuned_the_way_that_it_was_made(library: bool) -> None:
    seed = next(each for each in TritonWriter().propose(brief("convolution"), 4) if by_library(each) == library)
    tuned = TritonWriter().propose(brief("convolution", directive="tune", seeds=[scored(seed)]), 3)
    assert [by_library(each) for each in tuned] == [library] * 3
    assert {each.parent for each in tuned} == {seed.id}


def test_cuda_takes_up_what_has_kernels_in_it() -> None:
    made = CudaWriter().propose(brief("convolution", language="cuda"), 4)
    assert made
    assert {by_library(each) for each in made} == {False, True}


def test_a_rewriting_tries_both_whatever_the_seeds_were_made_by() -> None:
    """A template of the second language may be what makes a convolution of one's own pay."""
    seed = next(each for each in TritonWriter().propose(brief("convolution"), 4) if by_library(each))
    asked = brief("convolution", language="cuda", directive="rewrite", seeds=[scored(seed)])
    made = CudaWriter().propose(asked, 4)
    assert [by_library(each) for each in made] == [False, True, False, True]
    assert made[0].template.startswith("cuda_convolution")


def test_where_a_device_lacks_the_instructions_triton_keeps_the_convolution() -> None:
    """Warpgroup products are Hopper's: elsewhere what is behind the convolution is still rewritten."""
    ampere = H200.model_copy(update={"arch": "sm_80", "shared_bytes_per_block": 166912})
    made = CudaWriter().propose(brief("convolution", language="cuda", device=ampere), 4)
    own = [each for each in made if not by_library(each)]
    assert own
    assert all("triton_matmul" in each.template and "cuda_" in each.template for each in own)


def test_without_convolutions_there_is_one_way() -> None:
    assert plan("pooling").apart is None
    assert plan("convolution").apart is not None
    assert plan("gated").apart is None
