"""One problem for most verdicts, a softmax with a weight, and candidates for it: right ones to be spoiled by a test."""

from textwrap import dedent

from warpsmith.state.candidate import make_candidate
from warpsmith.state.evaluation import Evaluation
from warpsmith.state.problem import Problem
from warpsmith.tools.local import LocalHarness

HEAD = "import torch\nfrom torch import nn\n"
SCALED_SOFTMAX = """
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(n))
    def forward(self, x):
        return torch.softmax(x * self.scale, -1)
def get_inputs(rows=16, columns=48):
    return [torch.randn(rows, columns)]
def get_init_inputs():
    return [48]
ranges = {"rows": (1, 64)}
"""
CLASS = """
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(n))
    def forward(self, x):
        {forward}
"""
RIGHT = "return torch.softmax(x * self.scale, -1)"

TRITON = """
import triton
import triton.language as tl
@triton.jit
def rows(x, scale, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n
    value = tl.load(x + row * n + column, mask=inside, other=0.0) * tl.load(scale + column, mask=inside, other=0.0)
    value = tl.where(inside, value, float("-inf"))
    e = tl.exp(value - tl.max(value, 0))
    tl.store(out + row * n + column, e / tl.sum(e, 0), mask=inside)
""" + CLASS.format(
    forward="out = torch.empty_like(x); rows[(x.shape[0],)](x, self.scale, out, x.shape[1], BLOCK=64); return out"
)

CUDA = """
import cupy, numpy
module = cupy.RawModule(code=r'''extern "C" __global__ void fill(float* out, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1.0f;
}''', options=("-std=c++17",))
""" + CLASS.format(
    forward="out = torch.empty_like(x); stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream); "
    "module.get_function('fill')((6,), (128,), (out.data_ptr(), numpy.int64(out.numel())), stream=stream); return out"
)

FORWARD = """
class Model(nn.Module):
    def forward(self, x):
        {forward}
def get_inputs():
    return [{inputs}]
"""
"""Another problem: one line of forward, and its inputs."""


def verdict(harness: LocalHarness, problem: Problem, body: str) -> Evaluation:
    return harness.evaluate(problem, make_candidate(HEAD + dedent(body)))
