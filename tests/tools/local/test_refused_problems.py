"""Problem files that cannot be judged are refused in one line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from candidates.softmax import FORWARD, HEAD

from warpsmith.state.candidate import make_candidate
from warpsmith.state.errors import InfraError, InvalidProblem
from warpsmith.state.problem import Problem
from warpsmith.tools.local import LocalHarness


@pytest.mark.parametrize(
    ("forward", "inputs", "says"),
    [
        ("return nn.functional.dropout(x, 0.5)", "torch.randn(64)", "random"),
        ("return x + torch.randn(64)", "torch.randn(64)", "random"),
        ("import random; return x * random.random()", "torch.randn(64)", "draws random numbers"),
        ("import numpy; return x * numpy.random.rand()", "torch.randn(64)", "draws random numbers"),
        ("import numpy; return x * numpy.random.default_rng().random()", "torch.randn(64)", "by more than rounding"),
        ("return x[:0]", "torch.randn(64)", "forward's result is empty at workload 'default'"),
        ("return torch.zeros_like(x)", "torch.randn(64)", "constant"),
        ("return x * 0 + 1", "torch.rand(64)", "constant"),
        ("return x * float('nan')", "torch.randn(64)", "NaN"),
        ("return 3", "torch.randn(64)", "no tensor"),
        ("return object()", "torch.randn(64)", "forward returns object"),
        ("raise ValueError", "torch.randn(64)", "forward raises ValueError"),
        ("raise ValueError('a\\nb')", "torch.randn(64)", "forward raises ValueError: a"),
        ("return x @ x", "torch.randn(64, 3)", "forward raises RuntimeError"),
        ("return torch.fft.fft(x)", "torch.randn(64)", "complex64"),
        ("x.append(x[0] * 2); return torch.stack(x).sum(0)", "[torch.randn(64)]", "forward adds to a list or dict"),
        ("return x[x * 0 + 0.1 + 0.2 == x * 0 + 0.3]", "torch.randn(64)", "hangs on rounding"),
        ("return x + (1 if (x + 1).dtype != torch.float64 else [])", "torch.randn(64)", "in float64 and without grad"),
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


def test_a_forward_that_ends_its_process_is_named_and_nobody_is_blamed(
    harness: LocalHarness, opened: Callable[[str], Problem]
) -> None:
    """A device that fails looks the same from outside."""
    problem = opened(FORWARD.format(forward="import os; os._exit(3)", inputs="torch.randn(64)"))
    with pytest.raises(InfraError) as caught:
        harness.vet(problem)
    text = str(caught.value)
    assert text.startswith(f"{problem.path}: the process that ran forward died")
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


def test_a_file_is_read_in_the_encoding_that_python_reads_it_in(harness: LocalHarness, tmp_path: Path) -> None:
    source = HEAD + FORWARD.format(forward="return x * 2  # größer", inputs="torch.randn(4)")
    for name, content in {
        "marked.py": b"\xef\xbb\xbf" + source.encode(),
        "latin.py": b"# -*- coding: latin-1 -*-\n" + source.encode("latin-1"),
    }.items():
        (tmp_path / name).write_bytes(content)
        problem = harness.load(tmp_path / name)
        assert problem.source.endswith(source)
        assert "latin" not in problem.source
    (tmp_path / "none.py").write_bytes(b"# coding: no-such\n" + source.encode())
    with pytest.raises(InvalidProblem, match="cannot be read: unknown encoding"):
        harness.load(tmp_path / "none.py")


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


KEEPING = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {kept}
    def forward(self, x):
        {forward}
def get_inputs():
    return [torch.randn(8, 16)]
"""


@pytest.mark.parametrize(
    ("kept", "forward", "names"),
    [
        ("self.register_buffer('mean', torch.zeros(16))", "return x - self.mean.mul_(0.9).add_(x.mean(0))", "mean"),
        ("self.register_buffer('ema', torch.zeros(16))", "self.ema = self.ema + x.mean(0); return x - self.ema", "ema"),
        ("self.calls = 0", "self.calls += 1; return x * self.calls", "calls"),
        ("self.seen = []", "self.seen.append(x.mean()); return x - torch.stack(self.seen).mean()", "seen"),
        ("self.fc = nn.utils.spectral_norm(nn.Linear(16, 16))", "return self.fc(x)", "fc.weight_u, fc.weight_v"),
    ],
)
def test_what_is_kept_between_calls_and_reaches_the_output_is_refused_by_name(
    harness: LocalHarness, opened: Callable[[str], Problem], kept: str, forward: str, names: str
) -> None:
    with pytest.raises(InvalidProblem, match=f"^[^\n]*hangs on the calls before it, which change {names}; [^\n]*$"):
        harness.vet(opened(KEEPING.format(kept=kept, forward=forward)))


@pytest.mark.parametrize(
    ("kept", "forward"),
    [
        ("self.norm = nn.BatchNorm1d(16)", "return self.norm(x)"),
        ("self.fc = nn.utils.spectral_norm(nn.Linear(16, 16)); self.eval()", "return self.fc(x)"),
        ("pass", "self.last = x; return torch.tanh(x)"),
    ],
)
def test_what_is_kept_and_does_not_reach_the_output_is_judged(
    harness: LocalHarness, opened: Callable[[str], Problem], kept: str, forward: str
) -> None:
    assert harness.vet(opened(KEEPING.format(kept=kept, forward=forward))) == ()


def test_dropout_that_is_on_is_named(harness: LocalHarness, opened: Callable[[str], Problem]) -> None:
    on = KEEPING.format(kept="self.drop = nn.Dropout(0.1)", forward="return self.drop(x)")
    with pytest.raises(InvalidProblem, match=r"dropout is on in drop; call self\.eval\(\)"):
        harness.vet(opened(on))
    problem = opened(
        on.replace("forward(self, x):", "forward(self, x):\n        x = x * 2").replace("0.1)", "0.1).eval()")
    )
    harness.vet(problem)


@pytest.mark.parametrize(
    "made",
    [
        "torch.manual_seed(42) and torch.randn(64)",
        "torch.randn(64, generator=torch.Generator().manual_seed(0))",
    ],
)
def test_inputs_that_are_the_same_every_time_are_judged_in_other_orders(
    harness: LocalHarness, opened: Callable[[str], Problem], made: str
) -> None:
    problem = opened(FORWARD.format(forward="return torch.tanh(x)", inputs=made))
    (note,) = harness.vet(problem)
    assert note.startswith("get_inputs gives the same numbers under every seed")
    with pytest.raises(InvalidProblem, match="constant"):
        harness.vet(opened(FORWARD.format(forward="return x * 0 + 1", inputs=made)))


DRAWN = """
import random
import numpy
class Model(nn.Module):
    def forward(self, x, *rest):
        return x * 2
def get_inputs():
    return {made}
"""


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("[torch.rand(4), random.random()]", "other numbers or shapes"),
        ("[torch.rand(random.randint(4, 4000))]", "other numbers or shapes"),
        ("[torch.tensor([random.SystemRandom().random()])]", "no seed"),
        ("[torch.from_numpy(numpy.random.default_rng().random(4))]", "no seed"),
    ],
)
def test_inputs_that_no_seed_fixes_are_refused_in_one_line(
    harness: LocalHarness, opened: Callable[[str], Problem], made: str, says: str
) -> None:
    with pytest.raises(InvalidProblem, match=f"^[^\n]*get_inputs .*{says}[^\n]*$"):
        harness.vet(opened(DRAWN.format(made=made)))


def test_inputs_drawn_by_python_or_numpy_are_judged(harness: LocalHarness, opened: Callable[[str], Problem]) -> None:
    made = "[torch.tensor([random.random() for _ in range(8)]), torch.from_numpy(numpy.random.rand(8))]"
    problem = opened(DRAWN.format(made=made))
    harness.vet(problem)
    source = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, y): return x + x\n"
    assert harness.evaluate(problem, make_candidate(source)).correct
