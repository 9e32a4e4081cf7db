"""A whole small world for the controller: a harness, planner and writers whose answers follow from the candidate.

Everything is computed from the candidate's slots, so that a test can say beforehand which one must win.
"""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsmith.state.brief import Brief
from warpsmith.state.candidate import Candidate, Language, make_candidate
from warpsmith.state.device import DeviceSheet
from warpsmith.state.errors import InvalidProblem
from warpsmith.state.evaluation import Check, CompileReport, Estimate, Evaluation, Status, Tier
from warpsmith.state.lowered import LoweredGraph
from warpsmith.state.plan import Plan, Strategy
from warpsmith.state.problem import Problem, Target, Workload
from warpsmith.state.profile import Profile
from warpsmith.state.syntax import literal
from warpsmith.state.timing import Baseline, Baselines, Sample, Timing

SOURCE = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
GPU = DeviceSheet(
    name="Scripted H200",
    arch="sm_90",
    sm_count=132,
    l2_bytes=60 << 20,
    shared_bytes_per_block=227 << 10,
    shared_bytes_per_sm=228 << 10,
    memory_bytes=141 << 30,
    peak_bytes_per_s=4.8e12,
    copy_bytes_per_s=4.3e12,
    versions={"torch": "2.11.0", "triton": "3.6.0"},
)
BASELINE_MS = 1.0
SOL_MS = 0.25


def kernel(language: Language, tile: int, stages: int = 1, parent: str | None = None, fate: str = "") -> Candidate:
    """A candidate that the scripted harness understands by its slots."""
    slots = {"tile": tile, "stages": stages, "fate": fate}
    source = f"class ModelNew:\n    language = {language!r}\n    slots = {slots!r}\n"
    return make_candidate(source, language, origin="template", template="scripted", slots=slots, parent=parent)


def written_slots(candidate: Candidate) -> dict[str, Any]:
    """The slots as the source has them: a harness goes by nothing else."""
    written = candidate.source.partition("slots = ")[2].splitlines()[0]
    return dict(literal(written))


def speedup_of(candidate: Candidate) -> float:
    """Best at tile 64; CUDA is a tenth faster than Triton; each stage adds 5%."""
    slots, cuda = written_slots(candidate), "language = 'cuda'" in candidate.source
    tile, stages = int(slots["tile"]), int(slots["stages"])
    return 2.0 * 0.8 ** abs(tile.bit_length() - 7) * (1.1 if cuda else 1.0) * 1.05 ** (stages - 1)


@dataclass
class ScriptedHarness:
    """Judges by slots. `fate` fails a candidate: `compile`, `wrong`, `full` (only cross-validated), `final`."""

    dry: bool = False
    target: Target | None = None
    speed: float = 1.0
    delay_s: float = 0.0
    calls: list[tuple[str, str]] = field(default_factory=list)
    closed: bool = False
    most_at_once: int = 0
    _at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def device(self) -> DeviceSheet:
        return GPU.model_copy(update={"simulated": self.dry})

    def load(self, path: Path) -> Problem:
        if not path.is_file():
            raise InvalidProblem(f"{path}: no such file")
        workloads = (Workload(name="default", input_bytes=1 << 28), Workload(name="odd", input_bytes=1 << 20))
        source = path.read_text()
        if "class Model" not in source:
            raise InvalidProblem(f"{path}: defines no class Model; add the reference as `class Model(nn.Module)`")
        return Problem(name=path.stem, path=str(path), source=source, workloads=workloads, target=self.target)

    def vet(self, problem: Problem) -> tuple[str, ...]:
        self._note("vet", problem.name)
        return ("fixed by constructor",)

    def renew(self, problem: Problem) -> None:
        self._note("renew", problem.name)

    def lower(self, problem: Problem) -> LoweredGraph:
        return LoweredGraph(nodes=(), outputs=None)

    def baseline(self, problem: Problem) -> Baselines:
        entries = tuple(
            Baseline(name=name, workload=workload.name, ms=None if self.dry else ms)
            for workload in problem.workloads
            for name, ms in (("eager", 2 * BASELINE_MS), ("compile", BASELINE_MS), ("cuda-graphs", 0.5))
        )
        return Baselines(problem_id=problem.id, gpu=GPU.name, versions=GPU.versions, entries=entries)

    def compile(self, problem: Problem, candidate: Candidate) -> CompileReport:
        self._note("compile", candidate.id)
        failed = written_slots(candidate)["fate"] == "compile"
        return CompileReport(ok=not failed, seconds=0.1, error="tile.py:3: error: no such tile" if failed else "")

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        self._note(tier, candidate.id)
        time.sleep(self.delay_s)
        with self._lock:
            self._at_once -= 1
        return self._verdict(problem, candidate, tier)

    def profile(self, problem: Problem, candidate: Candidate) -> Profile:
        self._note("profile", candidate.id)
        return Profile(candidate=candidate.id, reason="not profiled (scripted)")

    def close(self) -> None:
        self.closed = True

    def _note(self, what: str, id: str) -> None:
        with self._lock:
            self.calls.append((what, id))

    def _verdict(self, problem: Problem, candidate: Candidate, tier: Tier) -> Evaluation:
        fate = written_slots(candidate)["fate"]
        common = {"candidate": candidate.id, "problem": problem.id, "tier": "dry" if self.dry else tier, "seconds": 0.5}
        report = CompileReport(ok=fate != "compile", seconds=0.1, error="no such tile" if fate == "compile" else "")
        if fate == "compile":
            return Evaluation(status=Status.COMPILE_ERROR, message="no such tile", compile=report, **common)
        wrong = fate == "wrong" or (fate == "full" and tier != "quick") or (fate == "final" and tier == "record")
        check = Check(workload="default", draw="normal", passed=not wrong, error_rms=1e-7, bound_rms=3e-7)
        if wrong:
            message = "off by one in row 3"
            return Evaluation(
                status=Status.INCORRECT_NUMERICAL, message=message, checks=(check,), compile=report, **common
            )
        speedup = speedup_of(candidate) * self.speed
        if self.dry:
            estimate = Estimate(ms=BASELINE_MS / speedup, sol_fraction=speedup, basis="scripted")
            return Evaluation(
                status=Status.UNVERIFIED,
                message="untimed",
                checks=(check,),
                estimate=estimate,
                compile=report,
                **common,
            )
        names = [w.name for w in problem.workloads] if tier != "quick" else ["default"]
        return Evaluation(
            status=Status.PASSED,
            checks=(check,),
            timings=tuple(timing(name, speedup) for name in names),
            error_class="fp32",
            custom_share=1.0,
            compile=report,
            **common,
        )


def timing(workload: str, speedup: float) -> Timing:
    return Timing(
        workload=workload,
        candidate=sample(BASELINE_MS / speedup),
        baseline=sample(BASELINE_MS),
        baseline_name="compile",
        speedup=speedup,
        verdict="win" if speedup > 1.02 else "loss" if speedup < 0.98 else "tie",
        stable=True,
        floor_ms=SOL_MS / 2,
        sol_ms=SOL_MS,
    )


def sample(ms: float) -> Sample:
    return Sample(median_ms=ms, std_ms=ms / 100, low_ms=ms * 0.99, high_ms=ms * 1.01, count=50)


class ScriptedPlanner:
    def plan(self, problem: Problem, graph: LoweredGraph, device: DeviceSheet) -> Plan:
        return Plan(summary="one scripted kernel", strategies=(Strategy(name="tile", expected_speedup=2, why="it is"),))


@dataclass
class ScriptedWriter:
    """Explores tiles in order, rewrites seeds with their tile, tunes stages. `fates` spoils candidates by tile."""

    language: Language
    tiles: tuple[int, ...] = (16, 32, 256, 128, 64, 512, 1024, 8, 4, 2)
    stages: int = 4
    fates: dict[int, str] = field(default_factory=dict)
    briefs: list[Brief] = field(default_factory=list)
    name: str = "scripted"

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        self.briefs.append(brief)
        if brief.directive in ("explore", "diversify"):
            made = [self._kernel(tile) for tile in self.tiles]
        elif brief.directive == "rewrite":
            made = [self._kernel(int(s.candidate.slots["tile"]), 1, s.candidate.id) for s in brief.seeds]
        else:
            made = [
                self._kernel(int(s.candidate.slots["tile"]), stages, s.candidate.id)
                for s in brief.seeds
                if s.candidate.language == self.language
                for stages in range(2, self.stages + 1)
            ]
        return [candidate for candidate in made if candidate.id not in brief.tried][:n]

    def _kernel(self, tile: int, stages: int = 1, parent: str | None = None) -> Candidate:
        return kernel(self.language, tile, stages, parent, self.fates.get(tile, ""))
