"""Programs of their own, in real boxes, under programs that stand for NVIDIA's tools: what comes back, and what a
candidate cannot do about it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from scripted.verdicts import passed

from warpsmith.state.candidate import make_candidate
from warpsmith.state.evaluation import Evaluation, Status
from warpsmith.state.evidence import SanitizerTool
from warpsmith.state.problem import Problem
from warpsmith.state.profile import Profile
from warpsmith.tools import evidence
from warpsmith.tools.local import HarnessSettings, LocalHarness
from warpsmith.tools.outside import CannotRun, Order, Ran
from warpsmith.tools.profiling.metrics import DURATION
from warpsmith.tools.sanitizing import compute_sanitizer
from warpsmith.tools.scratch_folder import NOBODY

PROBLEM = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(n))
    def forward(self, x):
        return torch.softmax(x * self.scale, -1)
def get_inputs(rows=64):
    return [torch.randn(rows, 48)]
def get_init_inputs():
    return [48]
ranges = {"rows": (1, 100)}
"""
HEAD = """
import glob, os
import torch
from torch import nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(n))
    def forward(self, x):
        y = torch.softmax(x * self.scale, -1)
"""
HANG = "if 'PYTHONHASHSEED' in os.environ: import time; time.sleep(60)"
"""Not where it is only compiled."""
TOOL = """#!{python}
import subprocess, sys
arguments = sys.argv[1:]
done = subprocess.run(arguments[arguments.index("-P") - 1 :])
log = arguments[arguments.index({option!r}) + 1]
asked = arguments[arguments.index("--metrics") + 1] if "--metrics" in arguments else ""
open(log, "w").write({refusal!r} if {unknown!r} and {unknown!r} in asked else {report!r})
sys.exit(done.returncode)
"""
PAGE = f'"ID","Kernel Name","Stream","{DURATION}"\n"","","","ns"\n' + '"0","mine","7","1,000"\n' * 5
CLEAN = '<?xml version="1.0" encoding="utf-8"?>\n<ComputeSanitizerOutput/>\n'
RACE = (
    "<ComputeSanitizerOutput><record><level>Error</level><what><text>Race reported</text></what>"
    "<where><func>mine</func></where></record></ComputeSanitizerOutput>"
)


class Bench:
    """One harness and problem, with tools that say what a test wants."""

    def __init__(self, harness: LocalHarness, problem: Problem, tools: Path) -> None:
        self.harness = harness
        self.problem = problem
        self.tools = tools

    def install(self, name: str, option: str, report: str, unknown: str = "") -> None:
        path = self.tools / name
        refusal = f"==ERROR== Failed to find metric {unknown}\n"
        facts = {"option": option, "report": report, "unknown": unknown, "refusal": refusal}
        path.write_text(TOOL.format(python=sys.executable, **facts))
        path.chmod(0o755)

    def run(self, forward: str, order: Order | None = None) -> Ran:
        candidate = make_candidate(HEAD + _body(forward))
        compiled = self.harness.compiler.compile(self.problem, candidate)
        judge = self.harness.judges.of(self.problem)
        with self.harness.witnesses._outside.job(judge, self.problem, candidate, compiled, "default") as job:
            return self.harness.witnesses._outside.run(job, order or Order(deliver=True))

    def profile(self, forward: str) -> Profile:
        candidate = make_candidate(HEAD + _body(forward))
        compiled = self.harness.compiler.compile(self.problem, candidate)
        return self.harness.witnesses.profile(self.harness.judges.of(self.problem), self.problem, candidate, compiled)

    def judged(self, forward: str, tools: tuple[SanitizerTool, ...] = ("memcheck",), tier: str = "full") -> Evaluation:
        """What a tier makes of a candidate that the judge passed; few tools, since each is a process."""
        candidate = make_candidate(HEAD + _body(forward))
        compiled = self.harness.compiler.compile(self.problem, candidate)
        found = passed(candidate.id).model_copy(update={"tier": tier})
        judge = self.harness.judges.of(self.problem)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compute_sanitizer, "TOOLS", tools)
            patch.setattr(evidence, "_FULL_TOOLS", tools)
            seen = self.harness.witnesses.gather(judge, self.problem, candidate, compiled, found)
        return evidence.settled(found, seen)


def _body(forward: str) -> str:
    return "".join(f"        {line}\n" for line in dedent(forward).strip().splitlines()) + "        return y\n"


@pytest.fixture(scope="module")
def harness() -> Iterator[LocalHarness]:
    harness = LocalHarness(HarnessSettings(dry_run=True, compile_workers=2, start_timeout_s=240.0))
    yield harness
    harness.close()


@pytest.fixture(scope="module")
def problem(harness: LocalHarness, tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("problem") / "softmax.py"
    path.write_text(PROBLEM)
    return harness.load(path)


@pytest.fixture
def bench(harness: LocalHarness, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    made = Bench(harness, problem, tools)
    made.install("ncu", "--log-file", PAGE)
    made.install("compute-sanitizer", "--save", CLEAN)
    return made


@pytest.fixture
def as_root(harness: LocalHarness) -> None:
    """Skips where the tool and the candidate have to be one user."""
    layers = harness.device().sandbox
    if layers["namespaces"] != "on" or layers["user"] != "on":
        pytest.skip(f"needs root and namespaces: {layers}")


def test_the_candidate_is_another_user_alone_with_its_inputs(bench: Bench, as_root: None) -> None:
    """It cannot reach the tool's report, sees no problem and no network but loopback, where tools talk to each other;
    and its weights are the reference's, where its constructor makes zeros."""
    found = bench.run(f"""
        folders = glob.glob("/tmp/report-*")
        for folder in folders:
            for what in (os.listdir, os.rmdir, lambda f: os.rename(f, f + "x"), lambda f: open(f + "/log", "w")):
                try:
                    what(folder)
                except PermissionError:
                    continue
                raise RuntimeError(f"reached {{folder}}")
        print("USER", os.getuid(), len(folders))
        print("PROBLEM", len(open({bench.problem.path!r}).read()) if os.path.exists({bench.problem.path!r}) else 0)
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname(), 2)
        try:
            socket.create_connection(("192.0.2.1", 80), 2)
        except OSError:
            print("NO NETWORK")
        assert self.scale.abs().sum() > 0 and x.shape == (64, 48)
    """)
    assert found.code == 0, found.output
    for fact in ("PROBLEM 0", "NO NETWORK"):
        assert fact in found.output
    user, folders = found.output.split("USER ", 1)[1].split()[:2]
    assert (int(user) > NOBODY, folders) == (True, "1")


def test_two_programs_of_a_candidate_are_two_users(bench: Bench, as_root: None) -> None:
    """What the kernel keeps by user, keys among it, would carry one's answer to the other that has to repeat it."""
    users = [bench.run('print("USER", os.getuid())').output.split("USER ", 1)[1].split()[0] for _ in range(2)]
    assert len(set(users)) == 2


def test_a_program_that_hangs_is_ended(bench: Bench) -> None:
    assert bench.run(HANG, Order(deadline_s=6.0)).timed_out


def test_kernels_are_profiled_and_told_apart(bench: Bench) -> None:
    found = bench.profile("def mine(): pass")
    assert found.reason == ""
    assert [kernel.name for kernel in found.kernels] == ["mine"] * 5
    assert sum(kernel.share for kernel in found.kernels) == pytest.approx(1)


def test_metrics_that_the_tool_does_not_know_are_left_out_and_asked_for_no_more(bench: Bench) -> None:
    bench.install("ncu", "--log-file", PAGE, unknown="lts__t_sector_hit_rate.pct")
    assert bench.profile("pass").reason == ""
    assert "lts__t_sector_hit_rate.pct" in bench.harness.witnesses._profiler._unknown


def test_what_cannot_be_profiled_says_why(bench: Bench) -> None:
    bench.install("ncu", "--log-file", "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
    found = bench.profile("pass")
    assert (found.kernels, found.reason) == ((), "not profiled (no permission)")


def test_no_profiler_is_a_reason(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.tools.profiling.ncu.find", lambda: None)
    assert bench.profile("pass").reason == "not profiled (no ncu)"


def test_a_sound_kernel_passes_with_all_its_evidence(bench: Bench) -> None:
    found = bench.judged("pass", tier="record")
    assert found.status is Status.PASSED
    seen = found.evidence
    assert seen is not None
    assert [result.outcome for result in seen.sanitizers] == ["clean"]
    assert {result.workload for result in seen.sanitizers} == {"a hidden workload"}
    assert seen.reproduction is not None
    assert (seen.reproduction.bitwise, seen.reproduction.workload) == (True, "default")
    assert seen.profiler is not None
    assert seen.profiler.agrees
    assert found.kernels == {"mine": pytest.approx(0.001)}
    assert found.labels == ()


def test_a_hazard_makes_it_unsafe(bench: Bench) -> None:
    bench.install("compute-sanitizer", "--save", RACE)
    found = bench.judged("pass")
    assert found.status is Status.UNSAFE
    assert found.message == "memcheck on a hidden workload: Race reported in mine"
    assert found.timings == ()


def test_a_program_that_ends_itself_under_the_tools_is_neither_clean_nor_accused(bench: Bench) -> None:
    found = bench.judged("os._exit(0)")
    assert found.status is Status.PASSED
    seen = found.evidence
    assert seen is not None
    assert {result.outcome for result in seen.sanitizers} == {"not run"}
    assert seen.reproduction is not None
    assert seen.reproduction.bitwise is None
    assert "not_sanitized" in found.labels


def test_a_result_that_hangs_on_the_hash_seed_is_nondeterministic(bench: Bench) -> None:
    found = bench.judged("y = y * (1 + hash('b') % 2)", tools=())
    assert found.status is Status.NONDETERMINISTIC
    assert "output 0 differs between two processes" in found.message


def test_other_bits_within_the_tolerance_are_a_label(bench: Bench) -> None:
    found = bench.judged("y = y * (1 + (hash('b') % 2) * 2.0**-23)", tools=())
    assert found.status is Status.PASSED
    assert found.labels == ("not_bitwise_reproducible",)


def test_inputs_that_are_too_large_for_files_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = bench.harness.judges.of(bench.problem)
    monkeypatch.setattr(judge, "ask", _refusing)
    candidate = make_candidate(HEAD + _body("pass"))
    compiled = bench.harness.compiler.compile(bench.problem, candidate)
    outside = bench.harness.witnesses._outside
    with (
        pytest.raises(CannotRun, match="too large"),
        outside.job(judge, bench.problem, candidate, compiled, "default"),
    ):
        pass


def _refusing(*_: object, **__: object) -> dict[str, str]:
    return {"refused": "the inputs are 9 GiB, too large to hand over"}
