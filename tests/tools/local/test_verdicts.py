"""Verdicts on candidates of every kind, in a dry run: right, wrong, and ill."""

import time
from collections.abc import Callable

import pytest
from candidates.softmax import CLASS, CUDA, RIGHT, TRITON, verdict

from warpsmith.state.evaluation import Evaluation, Status
from warpsmith.state.problem import Problem
from warpsmith.tools.local import LocalHarness

Judge = Callable[[str], Evaluation]


def test_the_reference_itself_is_right_and_untimed(judged: Judge) -> None:
    found = judged(RIGHT)
    assert found.status is Status.UNVERIFIED
    assert found.tier == "dry"
    assert found.correct
    assert {check.draw for check in found.checks} >= {"problem", "normal", "large", "negative", "spike", "integers"}
    assert found.timings == ()
    assert "untimed" in found.message
    assert found.error_class == "fp32"


def test_another_way_to_the_same_numbers_is_right(judged: Judge) -> None:
    steps = "y = x * self.scale; e = (y - y.amax(-1, True)).exp(); return e / e.sum(-1, True)"
    assert judged(steps).correct


def test_a_triton_kernel_compiles_for_the_target_and_runs_in_the_interpreter(
    harness: LocalHarness, softmax: Problem
) -> None:
    found = verdict(harness, softmax, TRITON)
    assert found.status is Status.UNVERIFIED, found.message
    assert found.correct
    assert found.compile is not None
    (kernel,) = found.compile.kernels
    assert kernel.name == "rows"
    assert kernel.registers is not None
    assert kernel.registers > 0
    assert found.estimate is not None
    assert 0 < found.estimate.sol_fraction <= 1
    assert found.error_class == "fp32"


def test_a_cuda_kernel_is_compiled_only(harness: LocalHarness, softmax: Problem) -> None:
    found = verdict(harness, softmax, CUDA)
    assert found.status is Status.UNVERIFIED
    assert "compiled only" in found.message
    assert found.checks == ()
    assert found.compile is not None
    assert [kernel.name for kernel in found.compile.kernels] == ["fill"]
    assert found.estimate is not None


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (CUDA.replace("out[i] = 1.0f", "out[i] = one"), 'identifier "one" is undefined'),
        (CUDA.replace('extern "C" ', ""), 'extern "C"'),
        (TRITON.replace("tl.exp(", "tl.expo("), "expo"),
        (TRITON.replace("BLOCK=64", "BLOCK=48"), "power of 2"),
        (CLASS.format(forward="return ("), "SyntaxError"),
        ("class ModelNew\0", "null bytes"),
    ],
)
def test_what_does_not_compile_fails_with_the_compilers_decisive_line(
    harness: LocalHarness, softmax: Problem, source: str, says: str
) -> None:
    found = verdict(harness, softmax, source)
    assert found.status is Status.COMPILE_ERROR
    assert says in found.message
    assert "\n" not in found.message
    assert found.compile is not None
    assert not found.compile.ok


@pytest.mark.parametrize(
    ("forward", "status"),
    [
        ("return torch.zeros_like(x)", Status.INCORRECT_NUMERICAL),
        ("return 2 * torch.softmax(x * self.scale, -1)", Status.INCORRECT_NUMERICAL),
        ("return torch.softmax(x, -1)", Status.INCORRECT_NUMERICAL),
        ("return torch.empty_like(x)", Status.INCORRECT_NUMERICAL),
        ("return torch.full_like(x, float('nan'))", Status.INCORRECT_NUMERICAL),
        ("return torch.softmax((x * self.scale).bfloat16(), -1).float()", Status.INCORRECT_NUMERICAL),
        ("return torch.softmax(x * self.scale, -1).half()", Status.INCORRECT_DTYPE),
        ("return torch.softmax(x * self.scale, -1).double()", Status.INCORRECT_DTYPE),
        ("return torch.softmax(x * self.scale, -1)[:, :-1]", Status.INCORRECT_SHAPE),
        ("return torch.softmax(x * self.scale, -1)[None]", Status.INCORRECT_SHAPE),
        ("return (torch.softmax(x * self.scale, -1),)", Status.INCORRECT_STRUCTURE),
        ("return None", Status.INCORRECT_STRUCTURE),
        ("raise KeyError('lost')", Status.RUNTIME_ERROR),
        ("return torch.softmax(x * self.scale, -1) if x.shape[0] == 3 else 1 / 0", Status.RUNTIME_ERROR),
        ("raise MemoryError", Status.RESOURCE),
        ("x.mul_(self.scale); return torch.softmax(x, -1)", Status.CONTRACT_ERROR),
        ("import os; os._exit(0)", Status.RUNTIME_ERROR),
        ("import sys; sys.exit(0)", Status.RUNTIME_ERROR),
        ("import ctypes; ctypes.string_at(8)", Status.RUNTIME_ERROR),
        ("return object()", Status.RUNTIME_ERROR),
        ("return x.as_subclass(type('Lazy', (torch.Tensor,), {}))", Status.REWARD_HACK),
        (
            "self.kept = getattr(self, 'kept', None) if hasattr(self, 'kept') else torch.softmax(x * self.scale, -1);"
            " return self.kept",
            Status.INCORRECT_NUMERICAL,
        ),
    ],
)
def test_a_wrong_candidate_gets_the_status_that_says_why(judged: Judge, forward: str, status: Status) -> None:
    found = judged(forward)
    assert found.status is status, found.message
    assert found.message
    assert found.timings == ()


def test_the_next_candidate_is_unaffected_by_a_crash(judged: Judge) -> None:
    assert judged("import os, signal; os.kill(os.getppid(), signal.SIGKILL); os.abort()").status is Status.RUNTIME_ERROR
    assert judged(RIGHT + "  # after a crash\n        pass").correct


def test_an_exception_is_told_with_its_line_in_the_candidate(judged: Judge) -> None:
    found = judged("oops = {}; return oops['key']")
    assert "KeyError: 'key'" in found.message
    assert "oops['key']" in found.message


@pytest.mark.slow
def test_a_hang_is_a_timeout_and_the_next_candidate_is_well(harness: LocalHarness, softmax: Problem) -> None:
    hang = "    while type(x) is torch.Tensor: pass\n        out = torch.empty_like(x)"
    source = TRITON.replace("out = torch.empty_like(x)", "\n    " + hang)
    started = time.monotonic()
    found = verdict(harness, softmax, source)
    assert found.status is Status.TIMEOUT, found.message
    assert "call did not end" in found.message
    assert time.monotonic() - started < 40
    assert verdict(harness, softmax, TRITON + "\nhang = False\n").correct


@pytest.mark.parametrize(
    ("source", "status", "says"),
    [
        ("x = 1", Status.RUNTIME_ERROR, "no class ModelNew"),
        ("raise OSError('at import')", Status.RUNTIME_ERROR, "at import"),
        (CLASS.format(forward=RIGHT).replace("(self, n)", "(self)"), Status.RUNTIME_ERROR, "TypeError"),
        (CLASS.format(forward=RIGHT.replace("scale", "gain")).replace("scale", "gain"), None, ""),
        (
            CLASS.format(forward=RIGHT.replace("scale", "gain"))
            .replace("scale", "gain")
            .replace("super().__init__()", "super().__init__(); torch.randn(3)"),
            Status.CONTRACT_ERROR,
            "cannot map weights: gain",
        ),
        (CLASS.format(forward=RIGHT).replace("torch.randn(n)", "torch.randn(n + 1)"), Status.CONTRACT_ERROR, "scale"),
        (CLASS.format(forward=RIGHT).replace("nn.Parameter(torch.randn(n))", "torch.ones(n)"), None, ""),
    ],
)
def test_construction_and_weights(
    harness: LocalHarness, softmax: Problem, source: str, status: Status | None, says: str
) -> None:
    found = verdict(harness, softmax, source)
    if "torch.ones(n)" in source:  # a constant in place of the weight: well-formed, and wrong
        assert found.status is Status.INCORRECT_NUMERICAL
    elif status is None:
        assert found.correct, found.message
    else:
        assert (found.status, says in found.message) == (status, True), found.message
