"""The harness on this machine: one fork server, a judge a problem, a box a candidate. With no GPU, a dry run."""

import shutil
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from ..state.candidate import Candidate, reference_as_candidate
from ..state.device import DeviceSheet
from ..state.errors import InfraError
from ..state.evaluation import CompileReport, Evaluation, Status, Tier
from ..state.lowered import LoweredGraph
from ..state.problem import Problem
from ..state.profile import Profile
from ..state.timing import Baseline, Baselines
from . import blocking_kernel, device_search, estimate, evidence, roofline
from .baseline_file import BaselineFile
from .box_users import next_user
from .cell import Cell
from .cell_stock import CellPlan, CellStock
from .compile_pool import Compiled, CompilePool
from .compiler_output import decisive_line
from .file_lock import hold
from .fork_server import Spawn
from .harness import Harness
from .harness_settings import HarnessSettings
from .judges import BASELINE_S, JudgePlan, Judges
from .outside import Outside
from .problem_reader import ProblemReader
from .screen import screen
from .server_process import ServerProcess

__all__ = ["HarnessSettings", "LocalHarness", "open_harness"]
_PROBE_S = 120.0
_IDENTITY_ATTEMPTS = 5
_GIVE_UP = 2.0
"""Candidates this many times slower than the best are not timed to the end."""


def open_harness(settings: HarnessSettings) -> Harness:
    """Starts a harness. Raises InvalidInput where a GPU is required and absent."""
    return LocalHarness(settings)


class LocalHarness:
    """See `Harness`. The parent never imports torch."""

    def __init__(self, settings: HarnessSettings) -> None:
        self.settings = settings
        self._own_dir = settings.work_dir is None
        self.work_dir = Path(settings.work_dir or tempfile.mkdtemp(prefix="warpsmith-")).resolve()
        self.work_dir.mkdir(parents=True, exist_ok=True)
        if self._own_dir:
            self.work_dir.chmod(0o711)  # without namespaces another user has to reach its scratch folder by this path
        self._gpu_lock = threading.RLock()
        self._quiet = threading.RLock()
        """Held while anything is timed, and while a process opens its GPU context or is ended: after the GPU lock where
        both are held."""
        self._passed_ms: dict[str, dict[str, float]] = {}
        """Times by problem and candidate: whoever is far behind the best is given up early."""
        self._evaluated: dict[tuple[str, str, str], Evaluation] = {}
        self._vetted: dict[str, tuple[str, ...]] = {}
        """Notes by problem: of one that was refused nothing is kept."""
        self._baseline_lock = threading.Lock()
        """Taken before all others: who asks second for the baselines of a problem waits, and finds them measured."""
        self._turns: dict[str, threading.RLock] = {}
        """A lock a candidate: its compiler and its runs share one scratch folder."""
        self._servers: list[ServerProcess] = []
        self._boxes_lock: IO[bytes] | None = None
        try:
            self._start()
        except BaseException:
            self._end_servers()
            raise

    def _start(self) -> None:
        settings = self.settings
        self._servers.append(ServerProcess(self.work_dir, settings.start_timeout_s, interpret=False, gpu=settings.gpu))
        if not device_search.expects_gpu(settings):
            self._start_interpreter()
        self._device = device_search.find(self._servers[0], self.work_dir, settings)
        self.dry = self._device.simulated
        if self.dry and len(self._servers) == 1:
            self._start_interpreter()
        self._servers[-1].hello()
        self._server = self._servers[-1].client
        self._blocker = "" if self.dry else blocking_kernel.cubin(self._device.arch, self.work_dir)
        self._device = self._device.model_copy(update={"sandbox": self._sandbox_layers()})
        self._reader = ProblemReader(self._server)
        self.compiler = CompilePool(
            self._servers[0].client, self.work_dir, self._device, settings.compile_workers, settings.compile_limit_s
        )
        if all(self._device.sandbox[layer] == "on" for layer in ("namespaces", "mount view")):
            self.compiler.shown_at = self.work_dir / "boxes" / "shown"
        else:
            self._own_boxes()
        plan = CellPlan(
            work_dir=self.work_dir,
            params={"device": "cpu" if self.dry else "cuda:0", "blocker": self._blocker},
            namespaces=settings.namespaces,
            own_user=self._device.sandbox["user"] == "on",
            max_memory_bytes=settings.max_memory_bytes,
        )
        self.cells = CellStock(self._server, self.compiler, plan, self._quiet)
        self.baselines = BaselineFile(settings.baseline_file)
        params = {
            "device": "cpu" if self.dry else "cuda:0",
            "blocker": self._blocker,
            "work_dir": str(self.work_dir),
            "compile_threads": settings.compile_workers,
        }
        plan_of_judges = JudgePlan(bounds=self._bounds, best_baselines=self._best_baselines, params=params)
        self.judges = Judges(self._server, plan_of_judges, self._quiet)
        outside = Outside(self._server, self.work_dir, self.compiler, settings.max_memory_bytes)
        outside.namespaces = self._device.sandbox["namespaces"] == "on"
        outside.separate_user = self._device.sandbox["user"] == "on"
        self.witnesses = evidence.Witnesses(outside)

    def _sandbox_layers(self) -> dict[str, str]:
        """`on` for each layer of isolation, or why it is not: from an empty cell, which also shows that one starts."""
        scratch = self.work_dir / "boxes" / f"empty-{uuid4().hex}"
        scratch.mkdir(parents=True)
        hidden = [str(self.work_dir)]
        box = {"scratch": str(scratch), "hidden": hidden, "user": next_user(), "namespaces": self.settings.namespaces}
        with Cell(self._server, Spawn("candidate", {"device": "cpu"}, box), _PROBE_S) as cell:
            cell.open_context()
        layers = dict.fromkeys(("namespaces", "mount view", "user"), "on")
        for note in cell.notes:
            layer, _, why = note.partition(": ")
            layers[layer] = why
        return layers

    def _own_boxes(self) -> None:
        """Scratch folders known by their path belong to one harness: a second one has its own beside them."""
        self._boxes_lock = hold(self.work_dir / "boxes.lock")
        if self._boxes_lock is None:
            self.compiler.boxes = self.work_dir / "boxes" / uuid4().hex

    def device(self) -> DeviceSheet:
        return self._device

    def load(self, path: Path) -> Problem:
        return self._reader.load(path)

    def renew(self, problem: Problem) -> None:
        with self._gpu_lock:
            self.judges.renew(problem)
            # Verdicts on other draws: `list`, as other threads may be adding theirs.
            self._evaluated = {key: found for key, found in list(self._evaluated.items()) if key[0] != problem.id}

    def vet(self, problem: Problem) -> tuple[str, ...]:
        with self._gpu_lock:
            if problem.id not in self._vetted:
                self._vetted[problem.id] = self.judges.vet(problem)
            return self._vetted[problem.id]

    def lower(self, problem: Problem) -> LoweredGraph:
        return self._reader.lowered(problem, problem.primary.name, dynamic=True).result()

    def compiler_output(self, problem: Problem) -> str:
        """The kernels that torch.compile makes of the reference, as source; why there are none in a dry run."""
        if self.dry:
            return "not available without a GPU"
        with self._gpu_lock, self._quiet:
            return self._reader.generated(problem, "cuda:0", self.work_dir / "inductor")

    def baseline(self, problem: Problem) -> Baselines:
        wanted = [(name, w.name) for w in problem.timed_workloads for name in self._baseline_names(problem, w.name)]
        if self.dry:
            entries = [Baseline(name=n, workload=w, ms=None, error="not timed: dry run") for n, w in wanted]
            return self._baselines_of(problem, entries)
        with self._baseline_lock:
            return self._timed_baselines(problem, wanted)

    def _timed_baselines(self, problem: Problem, wanted: list[tuple[str, str]]) -> Baselines:
        """Those that the file lacks are measured; and the reference is timed against itself, once."""
        started = time.monotonic()
        known = self.baselines.read(problem, self._device)
        missing = [pair for pair in wanted if pair not in {(e.name, e.workload) for e in known}]
        lost: list[Baseline] = []
        with self._gpu_lock, self._quiet:
            for name, workload in missing:
                try:
                    reply = self.judges.of(problem).ask("baseline", BASELINE_S, name=name, workload=workload)
                    known.append(Baseline.model_validate(reply))
                except InfraError as error:
                    if name == "eager":
                        raise
                    # One that does not end costs itself only, and is tried again by the next run.
                    lost.append(Baseline(name=name, workload=workload, ms=None, error=str(error).splitlines()[0][:300]))
            if missing:
                self.baselines.write(self._baselines_of(problem, known))
            found = self._baselines_of(problem, known + lost)
            self.judges.use_baselines(problem)
        measured_seconds = time.monotonic() - started
        if not self.judges.calibrated(problem):
            self.identity(problem)
        return found.model_copy(update={"measured_seconds": measured_seconds})

    def _best_baselines(self, problem: Problem) -> dict[str, str]:
        """Name of the best baseline a workload, where any is known."""
        known = self._baselines_of(problem, self.baselines.read(problem, self._device))
        timed = [w.name for w in problem.timed_workloads if known.ms("eager", w.name) is not None]
        return {name: known.best(name).name for name in timed}

    def _baseline_names(self, problem: Problem, workload: str) -> tuple[str, ...]:
        """Slow-to-build modes are timed on the primary workload only."""
        if workload == problem.primary.name:
            return self.settings.baseline_names + problem.baselines
        return tuple(n for n in self.settings.baseline_names if n in ("eager", "compile"))

    def _baselines_of(self, problem: Problem, entries: list[Baseline]) -> Baselines:
        return Baselines(
            problem_id=problem.id, gpu=self._device.name, versions=self._device.versions, entries=tuple(entries)
        )

    def compile(self, problem: Problem, candidate: Candidate) -> CompileReport:
        with self._turns.setdefault(candidate.id, threading.RLock()):
            return self.compiler.compile(problem, candidate, self.judges.hidden(problem)).report

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        with self._turns.setdefault(candidate.id, threading.RLock()):
            return self._evaluate(problem, candidate, tier)

    def _evaluate(self, problem: Problem, candidate: Candidate, tier: Tier) -> Evaluation:
        key = (problem.id, candidate.id, tier)
        if key in self._evaluated and self._evaluated[key].status is not Status.INFRA_ERROR:
            return self._evaluated[key]
        started = time.monotonic()
        compiled = self.compiler.compile(problem, candidate, self.judges.hidden(problem))
        if not compiled.report.ok:
            found = Evaluation(
                candidate=candidate.id,
                problem=problem.id,
                status=Status.COMPILE_ERROR,
                tier=tier,
                message=decisive_line(compiled.report.error),
                compile=compiled.report,
            )
        elif self.dry and candidate.language == "cuda":
            found = Evaluation(
                candidate=candidate.id,
                problem=problem.id,
                status=Status.UNVERIFIED,
                tier="dry",
                message="compiled only: CUDA C++ does not run without a GPU",
            )
        else:
            found = self._judge_candidate(problem, candidate, tier, compiled)
        found = self._complete(problem, candidate, found, compiled)
        if evidence.wanted(found, self.settings.evidence_tiers):
            with self._gpu_lock, self._quiet:
                seen = self.witnesses.gather(self.judges.of(problem), problem, candidate, compiled, found)
            found = evidence.settled(found, seen)
        self._race(found)
        found = found.model_copy(update={"seconds": time.monotonic() - started})
        self._evaluated[key] = found
        return found

    def _judge_candidate(self, problem: Problem, candidate: Candidate, tier: Tier, compiled: Compiled) -> Evaluation:
        reply = self._in_cell(problem, "evaluate", candidate, compiled, "dry" if self.dry else tier)
        return Evaluation.model_validate(reply)

    def _in_cell(
        self, problem: Problem, op: str, candidate: Candidate, compiled: Compiled, tier: str
    ) -> dict[str, Any]:
        """Has a judge look at a candidate in a fresh cell.

        One retry with a new judge and a new cell: a fault of ours that passes must not cost a verdict, one that stays
        must show.
        """
        for attempt in (1, 2):
            try:
                with self.cells.cell(problem, candidate, compiled) as cell, self._gpu_lock, self.cells.turn(cell):
                    fields = {
                        "candidate": candidate.id,
                        "source": candidate.source,
                        "path": str(self.compiler.box_of(compiled, candidate) / "candidate.py"),
                        "compiled": not self.dry and bool(compiled.report.kernels) and not compiled.report.warnings,
                        "call_limit_s": self.settings.call_limit_s,
                        "give_up_ms": self._give_up_ms(problem),
                        "tier": tier,
                    }
                    return self.judges.of(problem).ask_about(cell, op, fields, self._quiet)
            except InfraError:
                with self._gpu_lock:
                    self.judges.close()
                self.cells.discard()
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def _give_up_ms(self, problem: Problem) -> float | None:
        times = self._passed_ms.get(problem.id) if self.settings.racing else None
        return _GIVE_UP * min(list(times.values())) if times else None

    def _race(self, found: Evaluation) -> None:
        """Takes in a time to be far behind of, or takes it back: a later look may void it, and others must not pay."""
        times = self._passed_ms.setdefault(found.problem, {})
        if found.status is Status.PASSED and found.primary is not None:
            times[found.candidate] = found.primary.candidate.median_ms
        else:
            times.pop(found.candidate, None)

    def identity(self, problem: Problem) -> dict[str, Any]:
        """Times the reference against itself through the whole harness: `ratio`, `ms`, `status`.

        Raises InfraError where the ratio is off by more than 3% (5% below 50 us): then nothing here can be timed.
        """
        candidate = reference_as_candidate(problem.source)
        nothing_compiled = Compiled(report=CompileReport(ok=True, seconds=0.0))
        for _ in range(_IDENTITY_ATTEMPTS):
            reply = self._in_cell(problem, "identity", candidate, nothing_compiled, "quick")
            if self.dry or _is_one(reply):
                self.judges.calibrate(problem, reply.get("hop_ms", {}))
                return reply
        raise InfraError(
            f"the reference against itself reads {reply.get('ratio')}, not 1 ({reply.get('text') or reply['status']}): "
            "the machine is too noisy to time on; see `warpsmith doctor`"
        )

    def _complete(self, problem: Problem, candidate: Candidate, found: Evaluation, compiled: Any) -> Evaluation:
        """Adds the compile report, and in a dry run the estimate."""
        update: dict[str, Any] = {"compile": compiled.report} if found.compile is None else {}
        update["notes"] = (*found.notes, *screen(candidate.source))
        if self.dry and found.status is Status.UNVERIFIED:
            bounds = self._bounds(problem).get(problem.primary.name)
            if bounds is not None:
                update["estimate"] = estimate.estimate(compiled, bounds, self._device)
        return found.model_copy(update=update)

    def profile(self, problem: Problem, candidate: Candidate) -> Profile:
        if self.dry:
            return Profile(candidate=candidate.id, reason="not profiled (no GPU)")
        with self._turns.setdefault(candidate.id, threading.RLock()):
            compiled = self.compiler.compile(problem, candidate)
            with self._gpu_lock, self._quiet:
                return self.witnesses.profile(self.judges.of(problem), problem, candidate, compiled)

    def close(self) -> None:
        with ExitStack() as steps:  # the last one first, and each of them whatever became of those before it
            steps.callback(self._end_servers)
            steps.callback(self.cells.close)
            steps.callback(self.judges.close)  # before the cells: what is being timed would be waited for to its end
            steps.callback(self.cells.stop)
            steps.callback(self._reader.close)

    def _end_servers(self) -> None:
        with ExitStack() as steps:
            if self._own_dir:
                steps.callback(shutil.rmtree, self.work_dir, ignore_errors=True)
            if self._boxes_lock is not None:
                steps.callback(self._boxes_lock.close)
            for server in self._servers:
                steps.callback(server.close)

    def _bounds(self, problem: Problem) -> dict[str, dict[str, float]]:
        """Void bound and speed of light a workload; zeros where the reference cannot be lowered."""
        return {
            w.name: roofline.bounds(self._reader.lowered(problem, w.name).result(), self._device).model_dump()
            for w in problem.workloads
        }

    def _start_interpreter(self) -> None:
        """Triton decides at import whether it interprets, so a dry run's candidates need a server of their own; the
        first one compiles."""
        self._servers.append(ServerProcess(self.work_dir, self.settings.start_timeout_s, interpret=True))


def _is_one(reply: dict[str, Any]) -> bool:
    """Whether a ratio of the reference to itself is 1 within 3%, or 5% below 50 us."""
    ratio = reply.get("ratio")
    return ratio is not None and abs(ratio - 1) <= (0.03 if reply["ms"] > 0.05 else 0.05)
