"""Kernels built to have one bottleneck: they are what they say, and the rules name it from recorded counters."""

from contextlib import closing
from pathlib import Path

import pytest

from warpsmith.evals.diagnosis_set import COUNTERS, DIAGNOSIS_DIR, KnownKernel, collect, load, read
from warpsmith.graph.diagnosis import counters, diagnose
from warpsmith.state.errors import InvalidInput
from warpsmith.state.evaluation import KernelResources
from warpsmith.tools.harness_settings import HarnessSettings
from warpsmith.tools.local import open_harness

KERNELS = collect()
CLASSES = {"uncoalesced", "bank_conflicts", "spills", "occupancy", "tail", "partial_wave", "launch", "scalar_loads"}
CLASSES |= {"tensor_cores_unused", "memory", "compute", "latency"}


def test_the_set_has_every_class_of_interest() -> None:
    assert len(KERNELS) >= 12
    assert {kernel.expect for kernel in KERNELS} >= CLASSES


def test_every_problem_is_used_by_a_kernel() -> None:
    problems = {path.stem for path in (DIAGNOSIS_DIR / "problems").glob("*.py")}
    assert {kernel.problem for kernel in KERNELS} == problems


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"""Idea.\n\nproblem: relu_wide\nexpect: boredom\n"""', "expect"),
        ('"""Idea.\n\nproblem: none_such\nexpect: memory\n"""', "there is no problem 'none_such'"),
        ("import torch\n", "does not open with a docstring"),
    ],
)
def test_a_file_that_says_nothing_usable_is_named_with_its_fault(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "kernel.py").write_text(text)
    with pytest.raises(InvalidInput, match=fault) as raised:
        read(tmp_path / "kernel.py")
    assert "kernel.py" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_recording_that_is_none_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="record it with record_diagnosis"):
        load(tmp_path / "counters.json")
    (tmp_path / "counters.json").write_text("{}")
    with pytest.raises(InvalidInput, match="is no recording"):
        load(tmp_path / "counters.json")


@pytest.mark.slow
def test_every_kernel_compiles_to_what_it_was_built_to_be() -> None:
    found: dict[str, KernelResources] = {}
    with closing(open_harness(HarnessSettings(dry_run=True, baseline_names=("eager",)))) as harness:
        for kernel in KERNELS:
            report = harness.compile(harness.load(kernel.problem_path), kernel.candidate())
            assert report.ok, f"{kernel.name}: {report.error}"
            assert report.warnings == "", kernel.name
            (found[kernel.name],) = report.kernels
    sass = {name: facts.sass for name, facts in found.items() if facts.sass is not None}
    assert len(sass) == len(KERNELS)
    assert {name for name, facts in found.items() if facts.spill_bytes} == {"spills"}
    assert {name for name in sass if sass[name].tensor} == {"compute_tensor_cores"}
    assert found["occupancy_registers"].theoretical_occupancy == 0.125
    assert found["occupancy_registers"].limiter == "registers"
    assert found["occupancy_shared_memory"].limiter == "shared memory"
    assert found["partial_wave_few_blocks"].blocks == 48
    assert sass["memory_wide_loads"].widest_load_bits == 128
    assert sass["scalar_loads_bf16"].widest_load_bits == 16
    assert sass["tensor_cores_unused"].fma >= 256


@pytest.mark.skipif(not COUNTERS.exists(), reason="counters are recorded on a GPU by record_diagnosis")
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_rules_name_the_bottleneck_from_recorded_counters(kernel: KnownKernel) -> None:
    recording = load()
    recorded = recording.of(kernel.name)
    assert recorded is not None, "not recorded"
    assert recorded.source_id == kernel.source_id, "the kernel was changed after it was recorded"
    assert recorded.profile.kernels, recorded.profile.reason
    assert recorded.diagnosed(recording.device).bottleneck == kernel.expect


@pytest.mark.skipif(not COUNTERS.exists(), reason="counters are recorded on a GPU by record_diagnosis")
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_what_compiling_tells_is_what_the_profiler_measured(kernel: KnownKernel) -> None:
    recorded = load().of(kernel.name)
    assert recorded is not None
    assert recorded.evaluation.compile is not None
    (static,) = recorded.evaluation.compile.kernels
    measured = recorded.profile.kernels[0].metrics
    assert static.registers is not None
    allocated = max(16, -(-static.registers // 8) * 8)
    assert static.registers <= measured["launch__registers_per_thread"] <= allocated
    assert measured["launch__grid_size"] == static.blocks
    assert measured[counters.THEORETICAL_OCCUPANCY] == pytest.approx(static.theoretical_occupancy, abs=0.01)


@pytest.mark.skipif(not COUNTERS.exists(), reason="counters are recorded on a GPU by record_diagnosis")
def test_without_counters_the_rules_say_less_and_nothing_false_of_sound_kernels() -> None:
    recording = load()
    for name in ("memory_wide_loads", "compute_tensor_cores"):
        recorded = recording.of(name)
        assert recorded is not None
        blind = diagnose(recorded.evaluation, None, recording.device, recorded.product_flops)
        assert blind.bottleneck in (None, "speed_of_light")
