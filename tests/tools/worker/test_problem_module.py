"""Problem files: what they may declare, and one line that names file and fault for all that they may not."""

import threading
from pathlib import Path

import pytest
import torch

from warpsmith.state.errors import InvalidProblem
from warpsmith.state.problem import Problem
from warpsmith.tools import wire
from warpsmith.tools.worker import problem_worker
from warpsmith.tools.worker.problem_module import ProblemModule

GOOD = """
import torch
class Model(torch.nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(n))
    def forward(self, x):
        return x * self.scale
def get_inputs(rows=4):
    return [torch.randn(rows, 3)]
def get_init_inputs():
    return [3]
"""
FILE = Path("folder/problem.py")


def described(source: str) -> Problem:
    """As a worker does it, through JSON."""
    reply = problem_worker.describe({"path": str(FILE), "source": source})
    return Problem.model_validate(reply["problem"])


def opened(source: str) -> None:
    """All that is done with a file before anything is judged."""
    described(source)
    module = ProblemModule(FILE, source)
    module.model(torch.device("cpu"), 0)
    module.inputs({}, torch.device("cpu"), 0)


def fault(source: str) -> str:
    with pytest.raises(InvalidProblem) as caught:
        opened(source)
    text = str(caught.value)
    assert text.startswith(f"{FILE}: "), text
    assert "\n" not in text
    assert len(text) < 600
    return text.removeprefix(f"{FILE}: ")


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_a_good_file_is_described():
    problem = described(GOOD)
    assert (problem.name, problem.path) == ("problem", str(FILE))
    (workload,) = problem.workloads
    assert workload.inputs == ({"shape": [4, 3], "dtype": "float32", "strides": [3, 1]},)
    assert workload.input_bytes == 48


def test_optional_declarations_are_taken_over():
    problem = described(
        GOOD
        + 'workloads = {"tall": {"rows": 99}}\nranges = {"rows": (1, 128)}\nprecision = "tf32"\n'
        + 'target = {"ms": 0.5, "gpu": "H200", "workload": "tall", "source": "a board"}\n'
        + "baselines = {'by hand': lambda x: x}\n"
    )
    assert [w.name for w in problem.workloads] == ["default", "tall"]
    assert problem.workloads[1].inputs[0]["shape"] == [99, 3]
    assert problem.ranges == {"rows": (1, 128)}
    assert problem.precision == "tf32"
    assert problem.target is not None
    assert problem.target.ms == 0.5
    assert problem.baselines == ("by hand",)
    assert problem.smallest.name == "default"


def test_get_init_inputs_may_be_missing():
    source = GOOD.replace("def get_init_inputs():\n    return [3]\n", "")
    assert described(source).init_arguments == {"list": []}


def test_get_inputs_may_be_a_generator_or_give_a_tuple():
    for source in (changed("return [torch.randn(rows, 3)]", "yield torch.randn(rows, 3)"),
                   changed("return [torch.randn(rows, 3)]", "return (torch.randn(rows, 3),)")):  # fmt: skip
        assert described(source).workloads[0].inputs[0]["shape"] == [4, 3]


def test_inputs_of_every_kind_keep_dtype_and_layout():
    source = changed(
        "[torch.randn(rows, 3)]",
        "[torch.randn(8, 4).t(), torch.randn(1, 3).expand(rows, 3), torch.randint(0, 5, (rows,)), torch.rand(3) > 0.5,"
        " torch.randn(2).bfloat16(), torch.randn(2).half(), 7, 0.5, True, None, (torch.zeros(1), 2)]",
    )
    inputs = described(source).workloads[0].inputs
    assert inputs[0]["strides"] == [1, 4]
    assert inputs[1]["strides"] == [0, 1]
    assert [entry["dtype"] for entry in inputs[2:6]] == ["int64", "bool", "bfloat16", "float16"]
    assert inputs[6:10] == (7, 0.5, True, None)


def test_two_spellings_of_a_faulty_file_have_two_ids():
    assert described(GOOD).id != described(GOOD + "precision = 'tf32'\n").id
    assert described(GOOD).id == described(GOOD).id


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("class Model:\n  def forward(self: return 1\n", "line 2"),
        ("import no_such_module_anywhere\n", "importing it raises ModuleNotFoundError"),
        ("raise ValueError()\n", "importing it raises ValueError"),
        ("raise ValueError('first\\nsecond')\n", "importing it raises ValueError: first"),
        ("import sys\nsys.exit(3)\n", "SystemExit"),
        ("\0", "null bytes"),
        ("x = 1\n", "defines no class Model"),
        (changed("class Model", "class Other"), "defines no class Model"),
        (GOOD + "Model = 3\n", "defines no class Model"),
        (changed("def get_inputs", "def other"), "defines no function get_inputs"),
        (changed("return [torch.randn(rows, 3)]", "raise KeyError('a')"), "get_inputs raises KeyError: 'a'"),
        (changed("return [torch.randn(rows, 3)]", "raise KeyError('a\\nb')"), "get_inputs raises KeyError"),
        (changed("return [torch.randn(rows, 3)]", "yield torch.zeros(3); raise KeyError('a')"), "get_inputs raises"),
        (changed("return [torch.randn(rows, 3)]", "return []"), "get_inputs returns nothing"),
        (changed("return [torch.randn(rows, 3)]", "return iter(())"), "get_inputs returns nothing"),
        (changed("return [torch.randn(rows, 3)]", "return None"), "must return a list"),
        (changed("return [torch.randn(rows, 3)]", "return torch.randn(3)"), "must return a list"),
        (changed("return [torch.randn(rows, 3)]", "return {'x': torch.randn(3)}"), "must return a list"),
        (changed("[torch.randn(rows, 3)]", "[torch.randn(3, dtype=torch.complex64)]"), "complex64 is not supported"),
        (changed("[torch.randn(rows, 3)]", "[object()]"), "get_inputs: object is neither"),
        (changed("[torch.randn(rows, 3)]", "[torch.zeros(3).to_sparse()]"), "get_inputs: a sparse tensor is not"),
        (changed("rows=4", "rows"), "get_inputs raises TypeError"),
        (changed("return [3]", "raise OSError('x')"), "get_init_inputs raises OSError: x"),
        (changed("return [3]", "return [torch.zeros(3)]"), "get_init_inputs gives tensors"),
        (changed("return [3]", "return [object()]"), "get_init_inputs: object is neither"),
        (changed("return [3]", "return 3"), "get_init_inputs raises TypeError"),
        (changed("return [3]", "return [3, 4, 5]"), "Model(...) raises TypeError"),
        (changed("super().__init__()", "raise RuntimeError('no\\nroom')"), "Model(...) raises"),
        (changed("(torch.nn.Module)", "").replace("super().__init__()", "pass"), "Model is no torch.nn.Module"),
        (GOOD + "precision = 'exact'\n", "precision is 'exact'; one of reference, strict-fp32"),
        (GOOD + "precision = ['tf32']\n", "precision is ['tf32']"),
        (GOOD + "workloads = [1, 2]\n", "workloads must be a dict"),
        (GOOD + "workloads = {'w': 3}\n", "workloads['w'] must be a dict"),
        (GOOD + "workloads = {'w': {'columns': 3}}\n", "workload 'w' passes 'columns'"),
        (GOOD + "workloads = {'w': {'rows': torch.float16}}\n", "workloads['w'] must be a dict of"),
        (GOOD + "workloads = {'w': {'rows': 'many'}}\n", "get_inputs(rows='many') raises TypeError"),
        (GOOD + "workloads = {'none': {'rows': 0}}\n", "workload 'none' is empty"),
        (GOOD + "ranges = {'rows': (5, 9)}\n", "ranges['rows'] leave out 4, the default"),
        (changed("return [3]", "return {'n': 3}"), "must return one list, Model's arguments by position"),
        (changed("return [3]", "return [[], {'n': 3}]"), "must return one list, Model's arguments by position"),
        (
            changed("[torch.randn(rows, 3)]", "[__import__('collections').namedtuple('Pair', 'a b')(1, 2)]"),
            "Pair is a named tuple; give a plain",
        ),
        (GOOD + "ranges = {'rows': 3}\n", "ranges"),
        (GOOD + "ranges = {'rows': ('a', 'b')}\n", "ranges"),
        (GOOD + "ranges = {'columns': (1, 2)}\n", "ranges"),
        (GOOD + "ranges = {'rows': (9, 2)}\n", "ranges"),
        (GOOD + "ranges = [1]\n", "ranges"),
        (GOOD + "target = 3.5\n", "target"),
        (GOOD + "target = {'ms': 1.0}\n", "target"),
        (GOOD + "baselines = [lambda x: x]\n", "baselines"),
        (GOOD + "baselines = {'mine': 3}\n", "baselines"),
    ],
)
def test_a_fault_is_one_line_that_names_it(source, says):
    assert says in fault(source)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (changed("torch.randn(rows, 3)", "torch.randn(rows, 3).cuda()"), "get_inputs asks for a CUDA device"),
        (changed("torch.randn(rows, 3)", "torch.randn(rows, 3, device='cuda')"), "get_inputs asks for a CUDA device"),
        (changed("torch.ones(n)", "torch.ones(n).cuda()"), "Model(...) asks for a CUDA device"),
        (GOOD + "torch.zeros(3).cuda()\n", "importing it asks for a CUDA device"),
    ],
)
def test_a_file_that_wants_a_gpu_is_told_what_to_do_without_one(source, says):
    text = fault(source)
    assert says in text
    assert text.endswith("leave the device out: the harness sets it")


@pytest.mark.parametrize(
    "made",
    [
        "torch.randn(rows, 3).to('cpu')",
        "torch.randn(rows, 3) * torch.rand(1).item()",
        "next(iter(torch.utils.data.DataLoader(torch.randn(9, 3), batch_size=rows, shuffle=True)))",
        "torch.randn(int(torch.tensor(4)), 3)",
    ],
)
def test_inputs_that_the_meta_device_cannot_make_are_described_on_the_cpu(made):
    (workload,) = described(changed("torch.randn(rows, 3)", made)).workloads
    assert workload.inputs == ({"shape": [4, 3], "dtype": "float32", "strides": [3, 1]},)


def test_a_worker_answers_with_the_fault_as_data():
    """What crosses to the controller for a faulty file is `fault: problem`, never a traceback."""
    ours, theirs = wire.pair()
    wire.send(ours, {"op": "describe", "path": str(FILE), "source": "x = 1"})
    worker = threading.Thread(target=problem_worker.main, args=(theirs, {}))
    worker.start()
    reply = wire.receive(ours, 20.0).body
    worker.join()
    ours.close()
    theirs.close()
    said = "defines no class Model; add the reference as `class Model(torch.nn.Module)`"
    assert reply == {"fault": "problem", "text": f"{FILE}: {said}"}
