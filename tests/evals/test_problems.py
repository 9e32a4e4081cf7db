"""Every problem of the suite loads, runs at its small workload and is worth judging."""

import importlib.util
import inspect
import math
from collections import Counter
from types import ModuleType
from typing import Any

import pytest
import torch

from warpsmith.evals.suite import PROBLEMS_DIR, SUITE, WIDER, SuiteProblem

every_problem = pytest.mark.parametrize("entry", [*SUITE, *WIDER], ids=lambda entry: entry.name)
LAUNCH_BOUND = {"gru_gates"}
L2_BYTES = 60e6
CONTRACT_NAMES = {"Model", "get_inputs", "get_init_inputs", "workloads", "checks", "ranges", "precision"}


def load(entry: SuiteProblem) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"problem_{entry.name}", entry.path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors(part)] if isinstance(value, (tuple, list)) else []


def run_once(module: ModuleType, sizes: dict[str, int]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Inputs as the forward pass leaves them, and outputs."""
    torch.manual_seed(20)
    model = module.Model(*module.get_init_inputs())
    inputs = module.get_inputs(**sizes)
    with torch.no_grad():
        return tensors(inputs), tensors(model(*inputs))


def bytes_moved(values: list[torch.Tensor]) -> int:
    return sum(value.numel() * value.element_size() for value in values)


def test_the_suite_lists_exactly_the_files_on_disk() -> None:
    for entries, folder in ((SUITE, PROBLEMS_DIR), (WIDER, PROBLEMS_DIR / "wider")):
        on_disk = {path for path in folder.glob("*.py") if path.stem != "__init__"}
        assert on_disk == {entry.path for entry in entries}
        assert len(entries) == len(on_disk)


def test_each_family_has_nine_problems_and_a_third_in_bfloat16() -> None:
    sizes = Counter(entry.family for entry in SUITE)
    half = Counter(entry.family for entry in SUITE if entry.dtype == "bfloat16")
    assert set(sizes) == {"pointwise", "reduction", "matmul"}
    for family, count in sizes.items():
        assert count >= 9, family
        assert half[family] >= count / 3, family


@every_problem
def test_small_workload_is_cheap_deterministic_finite_and_not_constant(entry: SuiteProblem) -> None:
    module = load(entry)
    sizes = module.checks["small"]
    inputs, outputs = run_once(module, sizes)
    assert sum(value.numel() for value in (*inputs, *outputs)) <= 60_000
    _, again = run_once(module, sizes)
    assert outputs
    for output, repeated in zip(outputs, again, strict=True):
        assert torch.equal(output, repeated)
        assert output.double().isfinite().all()
        if output.numel() > 1:
            assert output.double().std() > 0
    torch.manual_seed(21)
    other = tensors(module.Model(*module.get_init_inputs())(*module.get_inputs(**sizes)))
    assert not all(torch.equal(a, b) for a, b in zip(outputs, other, strict=True)), "output ignores its inputs"


@every_problem
def test_label_matches_the_type_of_most_input_and_output_elements(entry: SuiteProblem) -> None:
    inputs, outputs = run_once(load(entry), load(entry).checks["small"])
    elements = Counter[str]()
    for value in (*inputs, *outputs):
        if value.is_floating_point():
            elements[str(value.dtype).removeprefix("torch.")] += value.numel()
    assert elements.most_common(1)[0][0] == entry.dtype


@every_problem
def test_file_follows_the_contract(entry: SuiteProblem) -> None:
    module = load(entry)
    public = {name for name in vars(module) if not name.startswith("_")} - {"torch", "nn", "F"}
    assert public <= CONTRACT_NAMES
    parameters = inspect.signature(module.get_inputs).parameters
    assert set(module.ranges) == set(parameters), "every size may vary, and nothing else does"
    assert set(module.workloads) == {"odd"}
    assert set(module.checks) == {"small"}
    for sizes in (*module.workloads.values(), *module.checks.values()):
        assert set(sizes) == set(parameters)
    main = {name: parameter.default for name, parameter in parameters.items()}
    for sizes in (main, *module.workloads.values(), *module.checks.values()):
        for name, size in sizes.items():
            low, high = module.ranges[name]
            assert low <= size <= high, f"{name}={size}"
    assert any(size % 2 for size in module.workloads["odd"].values())


@every_problem
def test_main_workload_fills_the_gpu(entry: SuiteProblem) -> None:
    """On the meta device, so nothing is allocated: several times the L2 cache, or at least 1e11 FLOP."""
    module = load(entry)
    with torch.device("meta"), torch.no_grad():
        model = module.Model(*module.get_init_inputs())
        inputs = module.get_inputs()
        outputs = model(*inputs)
    moved = bytes_moved(tensors(inputs)) + bytes_moved(tensors(outputs))
    if entry.name in LAUNCH_BOUND:
        assert moved < 4e6
        return
    assert moved < 2e9
    flops = 0.0
    if entry.family in ("matmul", "attention", "convolution"):
        from torch.utils.flop_counter import FlopCounterMode

        counter = FlopCounterMode(display=False)
        with counter, torch.device("meta"), torch.no_grad():
            model(*inputs)
        flops = float(counter.get_total_flops())
        assert flops > 0
    assert moved > 4 * L2_BYTES or flops > 1e11, f"{moved / 1e6:.0f} MB, {flops:.1e} FLOP"


@every_problem
def test_odd_workload_differs_from_the_main_one_and_is_smaller(entry: SuiteProblem) -> None:
    module = load(entry)
    with torch.device("meta"):
        main, odd = module.get_inputs(), module.get_inputs(**module.workloads["odd"])
    count = [sum(math.prod(value.shape) for value in tensors(inputs)) for inputs in (main, odd)]
    assert count[1] < 2 * count[0]
    assert [tuple(value.shape) for value in tensors(main)] != [tuple(value.shape) for value in tensors(odd)]
