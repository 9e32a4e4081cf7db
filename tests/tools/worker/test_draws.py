"""Input draws and hidden workloads: repeatable by seed, and legal for every layout."""

import time
from pathlib import Path

import pytest
import torch

from warpsmith.tools.worker import draws, hidden
from warpsmith.tools.worker.problem_module import ProblemModule

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, *rest): return x
def get_inputs(rows=4, columns=6, depth=2):
    base = torch.rand(rows, columns)
    return [base, torch.rand(columns, rows).t(), torch.rand(1, columns).expand(rows, columns), torch.rand(0, columns),
            torch.randint(0, 9, (rows,)), torch.rand(rows) > 0.5, torch.rand(rows, columns)[:, ::2], 0.5, None]
workloads = {"small": {"rows": 2, "columns": 3}}
ranges = {"rows": (1, 4100), "columns": (2, 300)}
"""
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def module() -> ProblemModule:
    return ProblemModule(Path("p.py"), SOURCE)


def drawn(module: ProblemModule, kind: str, seed: int) -> list:
    return draws.draw(module, {}, kind, seed, CPU)


@pytest.mark.parametrize("kind", draws.KINDS)
def test_a_draw_is_fixed_by_its_seed_and_changes_with_it(module, kind):
    first, again, other = drawn(module, kind, 1), drawn(module, kind, 1), drawn(module, kind, 2)
    for a, b in zip(first[:7], again[:7], strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("kind", draws.KINDS)
def test_layouts_dtypes_and_literals_are_the_problems_own(module, kind):
    own, found = module.inputs({}, CPU), drawn(module, kind, 3)
    assert found[7:] == [0.5, None]
    for a, b in zip(own[:7], found[:7], strict=True):
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
    assert found[4].max() < 9
    assert torch.equal(found[2][0], found[2][-1]), "rows of an expanded tensor are one row"


def test_kinds_are_what_their_names_say():
    module = ProblemModule(Path("p.py"), SOURCE.replace("rows=4, columns=6", "rows=64, columns=100"))
    x = {kind: drawn(module, kind, 5)[0] for kind in draws.KINDS}
    assert (x["problem"] >= 0).all()
    assert abs(float(x["normal"].mean())) < 0.1
    assert float(x["large"].std()) > 50
    assert 0 < float(x["tiny"].abs().max()) < 0.01
    assert float(x["tiny"].abs().median()) > torch.finfo(torch.float32).tiny
    assert float(x["negative"].max()) <= -1
    assert int((x["spike"].abs() > 100).sum()) == 1
    assert set(x["integers"].unique().tolist()) <= set(range(-4, 5))


def test_the_spike_moves_with_the_seed(module):
    places = {int(drawn(module, "spike", seed)[0].argmax()) for seed in range(20)}
    assert len(places) > 5


def test_a_transposed_input_gets_its_spike_too(module):
    assert float(drawn(module, "spike", 4)[1].max()) == 1000


def test_large_fp16_draws_stay_far_from_overflow():
    tensor = torch.empty(10_000, dtype=torch.float16)
    draws.fill(tensor, "large", torch.Generator().manual_seed(0))
    assert tensor.isfinite().all()
    assert tensor.abs().max() < 128


def test_seeds_are_fresh_and_no_generators_business():
    state = torch.get_rng_state()
    assert len({draws.fresh_seed() for _ in range(50)}) == 50
    assert torch.equal(state, torch.get_rng_state())


def test_random_weights_move_off_their_start_and_stay_legal():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.LayerNorm(8)).bfloat16()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    draws.randomise_weights(model, 3)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]) == (name == "1.num_batches_tracked"), name
    assert (model[1].running_var > 0).all()


def test_random_weights_are_the_same_under_one_seed():
    models = [torch.nn.Linear(4, 4) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        draws.randomise_weights(model, 9)
    assert torch.equal(models[0].weight, models[1].weight)
    assert not torch.equal(models[0].weight[0], models[0].weight[1])


def test_hidden_workloads_are_awkward_new_within_range_and_fixed_by_the_seed(module):
    problem = module.describe()
    found = hidden.workloads(problem, module, 7)
    assert len(found) == 3
    assert found == hidden.workloads(problem, module, 7)
    assert found != hidden.workloads(problem, module, 8)
    for workload in found:
        assert workload.arguments not in [w.arguments for w in problem.workloads]
        assert 1 <= workload.arguments["rows"] <= 4100
        assert 2 <= workload.arguments["columns"] <= 300
    assert len({tuple(w.arguments.items()) for w in found}) == 3


def test_a_problem_without_ranges_has_no_hidden_workloads():
    module = ProblemModule(Path("p.py"), SOURCE.replace("ranges", "nothing"))
    assert hidden.workloads(module.describe(), module, 7) == []


def test_a_range_of_one_size_that_is_known_leaves_nothing_to_hide():
    source = SOURCE.replace('"rows": (1, 4100), "columns": (2, 300)', '"rows": (2, 2), "columns": (3, 3)')
    source = source.replace("rows=4, columns=6", "rows=2, columns=3")
    module = ProblemModule(Path("p.py"), source)
    assert hidden.workloads(module.describe(), module, 7) == []


def test_hidden_workloads_stay_small():
    source = SOURCE.replace('"rows": (1, 4100), "columns": (2, 300)', '"rows": (1000000, 2000000)')
    source = source.replace("rows=4, columns=6", "rows=1000000, columns=600")
    module = ProblemModule(Path("p.py"), source)
    assert all(w.input_bytes <= 1 << 28 for w in hidden.workloads(module.describe(), module, 7))


NEIGHBOURLY = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x
def get_inputs(rows=4096, columns=1024, groups=4): return [torch.rand(rows, columns)]
workloads = {"small": {"rows": 5, "columns": 33}, "odd": {"rows": 129, "columns": 1021}}
ranges = {"rows": (1, 8192), "columns": (1, 4096)}
"""


def test_a_neighbour_keeps_what_kernels_are_specialised_on():
    module = ProblemModule(Path("p.py"), NEIGHBOURLY)
    problem = module.describe()
    found = {hidden.neighbour(problem, module, seed).arguments["columns"] for seed in range(20)}
    assert found == {49}  # the only size up to 64 that 16 divides with the same rest
    near = [hidden.neighbour(problem, module, seed) for seed in range(20)]
    assert {each.arguments["rows"] for each in near} == {6, 7, 8}
    assert all(each.name.startswith(hidden.PREFIX) for each in near)
    assert near[3] == hidden.neighbour(problem, module, 3)


HUGE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return x
def get_inputs(n=100000000): return [torch.rand(n)]
ranges = {"n": (1, 1000000000)}
"""


def test_a_neighbour_of_a_huge_size_is_found_at_once():
    module = ProblemModule(Path("p.py"), HUGE)
    started = time.perf_counter()
    sizes = {hidden.neighbour(module.describe(), module, seed).arguments["n"] for seed in range(20)}
    assert time.perf_counter() - started < 5.0
    assert len(sizes) > 10
    assert all(1 << 26 < size < 100_000_000 and size % 16 == 0 for size in sizes), "never larger than it is"


def test_a_problem_that_cannot_vary_has_no_neighbour():
    module = ProblemModule(Path("p.py"), NEIGHBOURLY.replace('ranges = {"rows": (1, 8192), "columns": (1, 4096)}', ""))
    assert hidden.neighbour(module.describe(), module, 1) is None


def test_a_seed_fixes_what_get_inputs_draws():
    draws.seed_all(5, CPU)
    first = torch.rand(3)
    draws.seed_all(5, CPU)
    assert torch.equal(first, torch.rand(3))


def test_rolled_draws_keep_the_numbers_and_move_them() -> None:
    """For problems whose get_inputs gives the same numbers under every seed."""
    for tensor in (torch.arange(60.0).reshape(5, 12), torch.arange(60.0).reshape(5, 12).t()):
        before = tensor.clone()
        draws.fill(tensor, draws.ROLLED, torch.Generator().manual_seed(3))
        assert not torch.equal(tensor, before)
        assert torch.equal(tensor.flatten().sort().values, before.flatten().sort().values)
