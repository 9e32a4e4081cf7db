"""The harness end to end, as a dry run: verdicts on candidates of every kind, for problems of every kind."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from warpsmith.state.candidate import make_candidate
from warpsmith.state.errors import InfraError, InvalidInput, InvalidProblem
from warpsmith.state.evaluation import Evaluation, Status
from warpsmith.state.problem import Problem
from warpsmith.tools import compile_pool
from warpsmith.tools.local import HarnessSettings, LocalHarness

HEAD = "import torch\nfrom torch import nn\n"
Judge = Callable[[str], Evaluation]


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHarness]:
    harness = LocalHarness(HarnessSettings(dry_run=True, compile_workers=2, call_limit_s=10.0, start_timeout_s=240.0))
    yield harness
    harness.close()


@pytest.fixture
def opened(harness: LocalHarness, tmp_path: Path) -> Callable[[str], Problem]:
    """Writes a problem file and loads it."""

    def load(body: str, name: str = "reference.py") -> Problem:
        path = tmp_path / name
        path.write_text(HEAD + dedent(body))
        return harness.load(path)

    return load


def verdict(harness: LocalHarness, problem: Problem, body: str) -> Evaluation:
    return harness.evaluate(problem, make_candidate(HEAD + dedent(body)))


# One problem for most of the verdicts: a softmax with a weight.

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


@pytest.fixture(scope="module")
def softmax(harness: LocalHarness, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("softmax") / "softmax.py"
    path.write_text(HEAD + SCALED_SOFTMAX)
    return harness.load(path)


@pytest.fixture
def judged(harness: LocalHarness, softmax: Problem) -> Judge:
    return lambda forward: verdict(harness, softmax, CLASS.format(forward=forward))


RIGHT = "return torch.softmax(x * self.scale, -1)"


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
    assert 0 < found.estimate.speedup <= 1
    assert found.error_class == "fp32"


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


LIAR = """
import json, os, socket, stat, struct
def channel():
    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                return number
        except OSError:
            pass
def say(text):
    payload = text.encode()
    os.write(channel(), struct.pack(">I", len(payload)) + payload)
"""


@pytest.mark.parametrize(
    "said",
    [
        "[]",
        "{}",
        "garbage",
        '{"id": 1}',
        '{"id": 2}',
        '{"id": 2, "state": 3, "setup_ms": "soon"}',
        '{"id": 2, "state": [{"name": 3}], "setup_ms": 1}',
        '{"id": 2, "state": [], "setup_ms": NaN}',
        '{"id": 2, "error": {"deep": []}, "kind": []}',
    ],
)
def test_answers_that_the_candidate_writes_itself_are_its_own_fault(
    harness: LocalHarness, softmax: Problem, said: str
) -> None:
    """It writes on the channel while it is constructed, before the honest answer of its own process."""
    source = LIAR + CLASS.format(forward=RIGHT).replace("super().__init__()", f"super().__init__(); say({said!r})")
    found = verdict(harness, softmax, source)
    assert found.status not in (Status.INFRA_ERROR, Status.PASSED)
    assert not found.correct, found


@pytest.mark.parametrize(
    "said", ['{"id": 5}', '{"id": 6}', '{"id": 7, "ms": null}', '{"id": 7, "specs": 3}', '{"id": 7}']
)
def test_answers_to_calls_that_the_candidate_writes_itself_are_its_own_fault(
    harness: LocalHarness, softmax: Problem, said: str
) -> None:
    source = LIAR + CLASS.format(forward=f"say({said!r}); {RIGHT}")
    found = verdict(harness, softmax, source)
    assert found.status is not Status.INFRA_ERROR
    assert not found.correct, found


def test_cutting_the_judges_buffers_short_does_not_end_the_judge(harness: LocalHarness, softmax: Problem) -> None:
    cut = """
import gc, mmap, os
def cut():
    for number in range(3, 256):
        try:
            os.ftruncate(number, 0)
        except OSError:
            pass
"""
    found = verdict(harness, softmax, cut + CLASS.format(forward=f"cut(); {RIGHT}"))
    assert found.status is not Status.INFRA_ERROR
    assert harness._judges[softmax.id].alive


@pytest.mark.slow
def test_a_judge_that_died_meanwhile_is_replaced(harness: LocalHarness, softmax: Problem) -> None:
    assert verdict(harness, softmax, CLASS.format(forward="before = 1; " + RIGHT)).correct
    judge = harness._judges[softmax.id]
    os.kill(judge._pid, signal.SIGKILL)
    harness._server.kill(judge._pid)  # waits until it is gone
    assert verdict(harness, softmax, CLASS.format(forward="after = 1; " + RIGHT)).correct
    assert harness._judges[softmax.id] is not judge


def test_a_judge_that_does_not_open_its_problem_is_ended(
    harness: LocalHarness, opened: Callable[[str], Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = opened(FORWARD.format(forward="return x", inputs="torch.randn(5)"))
    gone = problem.model_copy(update={"source": "no python (", "path": problem.path})
    started: list[int] = []
    spawn = harness._server.spawn

    def noted(request: Any) -> Any:
        reply = spawn(request)
        started.append(reply[0])
        return reply

    monkeypatch.setattr(harness._server, "spawn", noted)
    with pytest.raises((InvalidProblem, InfraError)):
        harness._judge(gone)
    assert started
    assert "running" not in harness._server.status(started[-1])


@pytest.mark.parametrize(
    "said", ['{"dict": 5}', '{"tuple": null}', '{"type": "float"}', '{"literal": 1, "type": "float"}', '"x"']
)
def test_an_output_described_unreadably_is_the_candidates_fault(
    harness: LocalHarness, softmax: Problem, said: str
) -> None:
    patched = f"""
import json, sys
child = sys.modules["warpsmith.tools.worker.child"]
child.structure.flatten = lambda value, honest=child.structure.flatten: (json.loads({said!r}), honest(value)[1])
"""
    found = verdict(harness, softmax, patched + CLASS.format(forward=RIGHT))
    assert found.status is Status.INCORRECT_STRUCTURE, found.message


def test_an_identical_candidate_is_evaluated_once(harness: LocalHarness, softmax: Problem) -> None:
    first = verdict(harness, softmax, CLASS.format(forward=RIGHT + "  # a comment"))
    started = time.monotonic()
    assert verdict(harness, softmax, CLASS.format(forward=RIGHT + "   # another")) == first
    assert time.monotonic() - started < 0.1


def test_one_candidate_from_two_threads_at_once_gets_one_verdict(harness: LocalHarness, softmax: Problem) -> None:
    candidate = make_candidate(HEAD + TRITON + "\nthreads = 2\n")
    found: list[Any] = []

    def judge() -> None:
        try:
            found.append(harness.evaluate(softmax, candidate).status)
        except Exception as error:  # noqa: BLE001 - the test shows it
            found.append(error)

    threads = [threading.Thread(target=judge) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [Status.UNVERIFIED] * 3


# Problems of other kinds.

MIXED = """
class Model(nn.Module):
    def forward(self, logits, target, mask, flag, shift, nothing):
        loss = nn.functional.cross_entropy(logits.float(), target)
        kept = (logits.t() * mask[:, None] + shift) if flag else logits
        return {"loss": loss, "aux": (kept, None, 3), "best": [logits.float().argmax(0), mask.sum()]}
def get_inputs():
    return [torch.randn(10, 24).t().bfloat16().contiguous().t().t(), torch.randint(0, 10, (24,)), torch.rand(10) > 0.5,
            True, 0.25, None]
"""
MIXED_RIGHT = MIXED.split("def get_inputs")[0].replace("class Model", "class ModelNew")


def test_outputs_and_inputs_of_every_kind(harness: LocalHarness, opened: Callable[[str], Problem]) -> None:
    problem = opened(MIXED)
    assert harness.vet(problem) == () or all(isinstance(note, str) for note in harness.vet(problem))
    assert verdict(harness, problem, MIXED_RIGHT).correct

    def status(old: str, new: str) -> Status:
        assert old in MIXED_RIGHT
        return verdict(harness, problem, MIXED_RIGHT.replace(old, new)).status

    assert status("None, 3)", "None, 3.0)") is Status.INCORRECT_STRUCTURE
    assert status("None, 3)", "None, 4)") is Status.INCORRECT_STRUCTURE
    assert status("None, 3)", "3)") is Status.INCORRECT_STRUCTURE
    assert status('"loss": loss', '"loss": loss.item()') is Status.INCORRECT_STRUCTURE
    assert status("cross_entropy(logits.float()", "cross_entropy(logits") is Status.INCORRECT_DTYPE
    assert status("argmax(0)", "argmax(0).int()") is Status.INCORRECT_DTYPE
    assert status("argmax(0)", "argmin(0)") is Status.INCORRECT_NUMERICAL
    assert status("mask.sum()", "mask.sum() + 1") is Status.INCORRECT_NUMERICAL
    assert status("+ shift", "- shift") is Status.INCORRECT_NUMERICAL


IN_PLACE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.1))
    def forward(self, state, gradient):
        state.mul_(1 - self.rate).add_(gradient * self.rate)
        return state + gradient
def get_inputs():
    return [torch.randn(33, 7), torch.randn(33, 7)]
"""


def test_a_reference_that_changes_an_input_expects_the_same_change(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened(IN_PLACE)
    harness.vet(problem)
    honest = IN_PLACE.split("def get_inputs")[0].replace("class Model", "class ModelNew")
    assert verdict(harness, problem, honest).correct
    apart = honest.replace("state.mul_(1 - self.rate).add_(", "state = (state * (1 - self.rate)).add_(")
    assert verdict(harness, problem, apart).status is Status.INCORRECT_NUMERICAL
    too_much = honest.replace("return state + gradient", "gradient.zero_(); return state + gradient")
    assert verdict(harness, problem, too_much).status is not Status.UNVERIFIED


BATCH_NORM = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
    def forward(self, x):
        return torch.relu(self.norm(x))
def get_inputs():
    return [torch.randn(32, 6)]
"""


def test_batch_norm_in_training_mode_is_judged_in_that_mode(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened(BATCH_NORM)
    harness.vet(problem)
    honest = BATCH_NORM.split("def get_inputs")[0].replace("class Model", "class ModelNew")
    assert verdict(harness, problem, honest).correct
    frozen = honest + "\n    def train(self, mode=True): return super().train(False)\n"
    assert verdict(harness, problem, frozen).status is Status.INCORRECT_NUMERICAL


LAYERS = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(12, 16), nn.LayerNorm(16), nn.Linear(16, 5)
    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))
def get_inputs(rows=8):
    return [torch.randn(2 * rows, 24)[::2, ::2]]
"""


def test_weights_cross_by_name_or_by_value_or_not_at_all(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened(LAYERS)
    honest = LAYERS.split("def get_inputs")[0].replace("class Model", "class ModelNew")
    order = "nn.Linear(12, 16), nn.LayerNorm(16), nn.Linear(16, 5)"
    assert verdict(harness, problem, honest).correct
    renamed = honest.replace("self.first", "self.w0").replace("self.norm", "self.w1").replace("self.last", "self.w2")
    assert verdict(harness, problem, renamed).correct
    backwards = "self.last = nn.Linear(16, 5); self.norm = nn.LayerNorm(16); self.first = nn.Linear(12, 16)"
    reversed_names = honest.replace("self.first, self.norm, self.last = " + order, backwards)
    assert verdict(harness, problem, reversed_names).correct
    both = reversed_names.replace("self.first", "self.w0").replace("self.last", "self.w2")
    found = verdict(harness, problem, both)
    assert found.status is Status.CONTRACT_ERROR
    assert found.message.startswith("cannot map weights: w2.weight")
    extra = honest.replace("super().__init__()", "super().__init__(); self.register_buffer('space', torch.zeros(3))")
    assert verdict(harness, problem, extra).status is Status.CONTRACT_ERROR
    private = extra.replace("torch.zeros(3))", "torch.zeros(3), persistent=False)")
    assert verdict(harness, problem, private).correct
    flat = honest.replace("self.first(x)", "self.first(torch.as_strided(x, x.shape, (12, 1)))")
    assert verdict(harness, problem, flat).status is Status.INCORRECT_NUMERICAL


FORWARD = """
class Model(nn.Module):
    def forward(self, x):
        {forward}
def get_inputs():
    return [{inputs}]
"""


@pytest.mark.parametrize(
    ("forward", "inputs", "says"),
    [
        ("return nn.functional.dropout(x, 0.5)", "torch.randn(64)", "random"),
        ("return x + torch.randn(64)", "torch.randn(64)", "random"),
        ("return torch.zeros_like(x)", "torch.randn(64)", "constant"),
        ("return x * 0 + 1", "torch.rand(64)", "constant"),
        ("return x * float('nan')", "torch.randn(64)", "NaN"),
        ("return 3", "torch.randn(64)", "no tensor"),
        ("return object()", "torch.randn(64)", "forward returns object"),
        ("raise ValueError", "torch.randn(64)", "forward raises ValueError"),
        ("raise ValueError('a\\nb')", "torch.randn(64)", "forward raises ValueError: a"),
        ("return x @ x", "torch.randn(64, 3)", "forward raises RuntimeError"),
        ("return torch.fft.fft(x)", "torch.randn(64)", "complex64"),
    ],
)
def test_a_problem_that_cannot_be_judged_is_refused_in_one_line(
    harness: LocalHarness, opened: Callable[[str], Problem], forward: str, inputs: str, says: str
) -> None:
    problem = opened(FORWARD.format(forward=forward, inputs=inputs))
    with pytest.raises(InvalidProblem) as caught:
        harness.vet(problem)
    text = str(caught.value)
    assert text.startswith(f"{problem.path}: ")
    assert says in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("def get_inputs(): return [torch.randn(3)]", "no class Model"),
        (FORWARD.format(forward="return x", inputs="1 / 0"), "ZeroDivisionError"),
        (FORWARD.format(forward="return x", inputs=""), "returns nothing"),
        ("import os; os._exit(0)", "its process died"),
        ("import os; os.abort()", "its process died"),
    ],
)
def test_a_file_that_does_not_load_is_refused_in_one_line(
    opened: Callable[[str], Problem], body: str, says: str
) -> None:
    with pytest.raises(InvalidProblem) as caught:
        opened(body)
    assert says in str(caught.value)
    assert "reference.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_unreadable_or_binary_file_is_refused_in_one_line(harness: LocalHarness, tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="no such file"):
        harness.load(tmp_path / "missing.py")
    with pytest.raises(InvalidProblem, match="cannot be read"):
        harness.load(tmp_path)
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidProblem, match="cannot be read"):
        harness.load(tmp_path / "binary.py")


def test_ranges_that_the_reference_does_not_answer_in_are_refused_in_one_line(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened("""
        class Model(nn.Module):
            def forward(self, x):
                if x.shape[0] != 24: raise ValueError("24 rows only")
                return x * 2
        def get_inputs(rows=24):
            return [torch.randn(rows, 4)]
        ranges = {"rows": (1, 64)}
    """)
    with pytest.raises(
        InvalidProblem, match=r"forward raises at rows=\d+, which ranges allow: ValueError: 24 rows only"
    ):
        harness.vet(problem)


def test_a_file_whose_get_inputs_is_a_generator_is_judged(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    problem = opened("""
        class Model(nn.Module):
            def forward(self, x, y): return x + y
        def get_inputs():
            for _ in range(2):
                yield torch.randn(5)
    """)
    harness.vet(problem)
    body = "class ModelNew(nn.Module):\n    def forward(self, x, y): return {}"
    assert verdict(harness, problem, body.format("y + x")).correct
    assert verdict(harness, problem, body.format("x + x")).status is Status.INCORRECT_NUMERICAL


def test_a_dry_run_has_a_target_and_times_nothing(harness: LocalHarness, softmax: Problem) -> None:
    assert harness.device().simulated
    assert harness.device().arch == "sm_90"
    baselines = harness.baseline(softmax)
    assert {entry.name for entry in baselines.entries} >= {"eager", "compile"}
    assert all(entry.ms is None and "dry run" in entry.error for entry in baselines.entries)
    assert "no GPU" in harness.profile(softmax, make_candidate("x = 1")).reason


def test_a_reference_is_lowered_with_its_free_dimensions(harness: LocalHarness, softmax: Problem) -> None:
    graph = harness.lower(softmax)
    assert not graph.unsupported
    assert [symbol.hint for symbol in graph.symbols] == [16]
    assert harness.lower(softmax) is graph


def test_compiling_that_does_not_end_is_bounded(
    harness: LocalHarness, softmax: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_pool, "_COMPILE_S", 1.5)
    started = time.monotonic()
    report = harness.compile(softmax, make_candidate(HEAD + "while True: pass\n"))
    assert time.monotonic() - started < 20
    assert not report.ok or "not compiled ahead" in report.warnings
    assert "did not end" in report.error + report.warnings


@pytest.mark.slow
def test_a_harness_that_cannot_start_leaves_no_folder_and_no_process(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tempfile.tempdir = None
    before = children()
    with pytest.raises(InvalidInput, match="--arch sm_12"):
        LocalHarness(HarnessSettings(dry_run=True, arch="sm_12", start_timeout_s=240.0))
    tempfile.tempdir = None
    assert children() == before
    assert list(tmp_path.iterdir()) == []


def children() -> set[str]:
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


@pytest.mark.slow
def test_without_namespaces_candidates_are_judged_all_the_same_and_the_gaps_are_told(tmp_path: Path) -> None:
    settings = HarnessSettings(dry_run=True, namespaces=False, start_timeout_s=240.0)
    harness = LocalHarness(settings)
    try:
        path = tmp_path / "softmax.py"
        path.write_text(HEAD + SCALED_SOFTMAX)
        problem = harness.load(path)
        right = verdict(harness, problem, TRITON)
        assert right.correct, right.message
        assert any("namespaces: switched off" in note for note in right.notes)
        assert verdict(harness, problem, CLASS.format(forward="import os; os.abort()")).status is Status.RUNTIME_ERROR
        assert verdict(harness, problem, CLASS.format(forward=RIGHT)).correct
    finally:
        harness.close()
