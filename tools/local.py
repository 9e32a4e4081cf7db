"""The harness on this machine: one fork server, a judge a problem, a box a candidate. With no GPU, a dry run."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from pydantic import Field

from ..state.base import Record
from ..state.candidate import Candidate
from ..state.device import DeviceSheet
from ..state.errors import InfraError, InvalidInput, InvalidProblem
from ..state.evaluation import CompileReport, Evaluation, Status, Tier
from ..state.lowered import LoweredGraph
from ..state.problem import Problem
from ..state.profile import Profile
from ..state.timing import Baseline, Baselines
from . import device_sheets, estimate, roofline, wire
from .baseline_file import BaselineFile
from .compile_pool import Compiled, CompilePool, decisive_line
from .fork_server import ForkServer, Spawn
from .harness import Harness

BASELINE_NAMES = ("eager", "compile", "max-autotune", "cuda-graphs")
_DESCRIBE_S, _LOWER_S, _OPEN_S, _BASELINE_S, _EVALUATE_S = 60.0, 40.0, 180.0, 400.0, 600.0


class HarnessSettings(Record):
    """How to judge on this machine."""

    work_dir: Path | None = None
    """Scratch space and caches; a temporary folder where None."""
    dry_run: bool | None = None
    """None: a dry run exactly where there is no GPU."""
    require_gpu: bool = False
    arch: str = "sm_90"
    """What a dry run compiles for."""
    gpu: int = 0
    baseline_file: Path | None = None
    """Cached baselines: read, and extended by what is measured."""
    baseline_names: tuple[str, ...] = BASELINE_NAMES
    compile_workers: int = Field(default_factory=lambda: max(1, min(8, (os.cpu_count() or 2) // 2)))
    max_memory_bytes: int = 24 << 30
    """Host memory that one candidate may use."""
    namespaces: bool = True
    start_timeout_s: float = 120.0


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
        self._gpu_lock = threading.RLock()
        self._judges: dict[str, Judge] = {}
        self._graphs: dict[tuple[str, str], LoweredGraph] = {}
        self._evaluated: dict[tuple[str, str, str], Evaluation] = {}
        interpret = self._wants_interpreter()
        self._servers = [ServerProcess(self.work_dir, settings.start_timeout_s, interpret)]
        if interpret:
            # Triton decides at import whether it interprets; compiling needs a server that does not.
            self._servers.append(ServerProcess(self.work_dir, settings.start_timeout_s, interpret=False))
        self._hello = self._servers[0].hello()
        self._server = self._servers[0].client
        self._device = self._find_device()
        self.dry = self._device.simulated
        self._servers[-1].hello()
        self.compiler = CompilePool(self._servers[-1].client, self.work_dir, self._device, settings.compile_workers)
        self.baselines = BaselineFile(settings.baseline_file)

    def device(self) -> DeviceSheet:
        return self._device

    def load(self, path: Path) -> Problem:
        try:
            source = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InvalidProblem(f"{path}: no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidProblem(f"{path}: cannot be read: {error}") from error
        reply = self._ask_once("problem", {"op": "describe", "path": str(path), "source": source}, _DESCRIBE_S, path)
        return Problem.model_validate(reply["problem"])

    def vet(self, problem: Problem) -> tuple[str, ...]:
        with self._gpu_lock:
            reply = self._judge(problem).ask("vet", _OPEN_S)
        return tuple(reply["notes"])

    def lower(self, problem: Problem) -> LoweredGraph:
        return self._lowered(problem, "default", dynamic=True)

    def _lowered(self, problem: Problem, workload: str, dynamic: bool = False) -> LoweredGraph:
        key = (problem.id, f"{workload}/{dynamic}")
        if key not in self._graphs:
            arguments = next(w.arguments for w in problem.workloads if w.name == workload)
            body = {
                "op": "lower",
                "path": problem.path,
                "source": problem.source,
                "arguments": arguments,
                "dynamic": dynamic,
                "deadline_s": _LOWER_S - 10,
            }
            try:
                reply = self._ask_once("problem", body, _LOWER_S, Path(problem.path))
                self._graphs[key] = LoweredGraph.model_validate(reply["graph"])
            except InvalidProblem as error:
                # A reference that cannot be lowered can still be judged: only the planner loses its sight.
                self._graphs[key] = LoweredGraph(nodes=(), outputs=None, unsupported=str(error))
        return self._graphs[key]

    def baseline(self, problem: Problem) -> Baselines:
        wanted = [(name, w.name) for w in problem.workloads for name in self._baseline_names(problem, w.name)]
        if self.dry:
            entries = [Baseline(name=n, workload=w, ms=None, error="not timed: dry run") for n, w in wanted]
            return self._baselines_of(problem, entries)
        known = self.baselines.read(problem, self._device)
        missing = [pair for pair in wanted if pair not in {(e.name, e.workload) for e in known}]
        with self._gpu_lock:
            for name, workload in missing:
                reply = self._judge(problem).ask("baseline", _BASELINE_S, name=name, workload=workload)
                known.append(Baseline.model_validate(reply))
        found = self._baselines_of(problem, known)
        if missing:
            self.baselines.write(found)
        return found

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
        return self.compiler.compile(problem, candidate).report

    def evaluate(self, problem: Problem, candidate: Candidate, tier: Tier = "quick") -> Evaluation:
        key = (problem.id, candidate.id, tier)
        if key in self._evaluated and self._evaluated[key].status is not Status.INFRA_ERROR:
            return self._evaluated[key]
        started = time.monotonic()
        compiled = self.compiler.compile(problem, candidate)
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
        found = found.model_copy(update={"seconds": time.monotonic() - started})
        self._evaluated[key] = found
        return found

    def _judge_candidate(self, problem: Problem, candidate: Candidate, tier: Tier, compiled: Compiled) -> Evaluation:
        scratch = self.compiler.fresh_box(compiled, candidate)
        body = {
            "candidate": candidate.id,
            "tier": "dry" if self.dry else tier,
            "path": str(scratch / "candidate.py"),
            "box": self._box(scratch, problem),
            "max_memory_bytes": self.settings.max_memory_bytes,
            "compiled": bool(compiled.report.kernels) and not compiled.report.warnings,
        }
        with self._gpu_lock:
            reply = self._judge(problem).ask("evaluate", _EVALUATE_S, **body)
        return Evaluation.model_validate(reply)

    def _box(self, scratch: Path, problem: Problem) -> dict[str, Any]:
        return {
            "scratch": str(scratch),
            "hidden": [str(self.work_dir)],
            "namespaces": self.settings.namespaces,
        }

    def _complete(self, problem: Problem, candidate: Candidate, found: Evaluation, compiled: Any) -> Evaluation:
        """Adds the compile report, and in a dry run the estimate."""
        update: dict[str, Any] = {"compile": compiled.report} if found.compile is None else {}
        if self.dry and found.status is Status.UNVERIFIED:
            bounds = self._bounds(problem).get(problem.primary.name)
            if bounds is not None:
                update["estimate"] = estimate.estimate(compiled, bounds, self._device)
        return found.model_copy(update=update)

    def profile(self, problem: Problem, candidate: Candidate) -> Profile:
        reason = "no GPU" if self.dry else "profiling is not part of this version"
        return Profile(candidate=candidate.id, reason=f"not profiled ({reason})")

    def close(self) -> None:
        for judge in self._judges.values():
            judge.close()
        self._judges.clear()
        for server in self._servers:
            server.close()
        if self._own_dir:
            shutil.rmtree(self.work_dir, ignore_errors=True)

    def _judge(self, problem: Problem) -> "Judge":
        """The problem's judge; opening another problem closes the last one's, so that one owns the GPU."""
        judge = self._judges.get(problem.id)
        if judge is not None and judge.alive:
            return judge
        for other in self._judges.values():
            other.close()
        self._judges.clear()
        device = "cpu" if self.dry else f"cuda:{self.settings.gpu}"
        judge = Judge(self._server, {"device": device, "work_dir": str(self.work_dir), "compile_threads": 1})
        best = {}
        if not self.dry:
            known = self._baselines_of(problem, self.baselines.read(problem, self._device))
            for workload in problem.workloads:
                if known.ms("eager", workload.name) is not None:
                    best[workload.name] = known.best(workload.name).name
        judge.ask(
            "open", _OPEN_S, problem=problem.model_dump(mode="json"), bounds=self._bounds(problem), best_baseline=best
        )
        self._judges[problem.id] = judge
        return judge

    def _bounds(self, problem: Problem) -> dict[str, dict[str, float]]:
        """Void bound and speed of light a workload; zeros where the reference cannot be lowered."""
        return {
            w.name: roofline.bounds(self._lowered(problem, w.name), self._device).model_dump()
            for w in problem.workloads
        }

    def _ask_once(self, role: str, body: dict[str, Any], deadline_s: float, path: Path) -> dict[str, Any]:
        """One request to a fresh trusted worker."""
        pid, channel = self._server.spawn(Spawn(role))
        try:
            wire.send(channel, body)
            reply = wire.receive(channel, deadline_s, max_bytes=64 << 20).body
        except wire.WireTimeout:
            raise InvalidProblem(f"{path}: {body['op']} did not end within {deadline_s:.0f} s") from None
        except wire.WireError as error:
            raise InvalidProblem(f"{path}: its process died during {body['op']} ({error})") from error
        finally:
            channel.close()
            self._server.kill(pid)
        return checked(reply)

    def _wants_interpreter(self) -> bool:
        """Triton decides at import whether it interprets, so this is settled before the server starts."""
        if self.settings.dry_run is not None:
            return self.settings.dry_run
        return not any(Path("/dev").glob("nvidia[0-9]*"))

    def _find_device(self) -> DeviceSheet:
        versions = dict(self._hello.get("versions", {}))
        cache = self.work_dir / "device.json"
        why = "dry run asked for"
        if not self._hello.get("interpreted"):
            if cache.exists():
                return DeviceSheet.model_validate_json(cache.read_text())
            pid, channel = self._server.spawn(Spawn("device", {"gpu": self.settings.gpu}))
            reply = wire.receive(channel, 120.0).body
            channel.close()
            self._server.kill(pid)
            if reply["gpu"] is not None:
                sheet = device_sheets.measured_sheet(reply["gpu"], versions)
                cache.write_text(sheet.model_dump_json())
                return sheet
            why = reply["why"]
        if self.settings.require_gpu:
            raise InvalidInput(f"--require-gpu: no usable GPU ({why}); leave it out for a dry run")
        return device_sheets.target_sheet(self.settings.arch, versions)


class ServerProcess:
    """One fork server as a child of this process. Started at once; `hello` waits until it can fork."""

    def __init__(self, work_dir: Path, timeout_s: float, interpret: bool) -> None:
        self._log = work_dir / "server.log"
        self._timeout_s = timeout_s
        self._sock, theirs = wire.pair()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "warpsmith.tools.worker.server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=server_environment(work_dir, interpret),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log.open("ab"),
        )
        theirs.close()
        self._hello: dict[str, Any] = {}
        self.client = ForkServer(self._sock)

    def hello(self) -> dict[str, Any]:
        """What the server has loaded: versions, and whether Triton interprets. Raises InfraError."""
        if not self._hello:
            try:
                self._hello = wire.receive(self._sock, self._timeout_s).body
            except wire.WireError as error:
                log = self._log.read_text(errors="replace").strip().splitlines()
                raise InfraError(f"the worker server does not start: {log[-1] if log else error}") from error
        return self._hello

    def close(self) -> None:
        self.client.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Judge:
    """The controller's handle on one judge process."""

    def __init__(self, server: ForkServer, params: dict[str, Any]) -> None:
        self._server = server
        self._pid, self._channel = server.spawn(Spawn("judge", params))
        self.alive = True
        checked(self._receive(120.0))

    def ask(self, op: str, deadline_s: float, **fields: Any) -> dict[str, Any]:
        """One request. Raises InvalidProblem or InfraError."""
        wire.send(self._channel, {"op": op, **fields})
        return checked(self._receive(deadline_s))

    def _receive(self, deadline_s: float) -> dict[str, Any]:
        try:
            return wire.receive(self._channel, deadline_s).body
        except wire.WireError as error:
            self.close()
            raise InfraError(f"the judge does not answer: {error}") from error

    def close(self) -> None:
        if self.alive:
            self.alive = False
            self._channel.close()
            self._server.kill(self._pid)


def checked(reply: dict[str, Any]) -> dict[str, Any]:
    """Turns a worker's word of a fault into the exception that it stands for."""
    if reply.get("fault") == "problem":
        raise InvalidProblem(str(reply["text"]))
    if "fault" in reply:
        raise InfraError(f"{reply['text']}{_trace(reply)}")
    return reply


def _trace(reply: dict[str, Any]) -> str:
    return "\n" + str(reply["trace"]) if reply.get("trace") else ""


_PASSED_ON = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "PYTHONPATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "CUDA_PATH",
    "VIRTUAL_ENV",
)


def server_environment(work_dir: Path, interpret: bool) -> dict[str, str]:
    """The server's whole environment: no secrets, so no worker can have any."""
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment.update(
        HOME=str(work_dir),
        TRITON_CACHE_DIR=str(work_dir / "triton"),
        TRITON_DEFAULT_FP_FUSION="1",
        PYTHONUNBUFFERED="1",
        OPENBLAS_NUM_THREADS="1",
    )
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    return environment


def dump(evaluation: Evaluation) -> str:
    """One JSON line."""
    return json.dumps(evaluation.model_dump(mode="json"))
