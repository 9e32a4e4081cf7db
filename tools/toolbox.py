"""The harness as LangChain tools, for sub-agents with a model and for the offline flow: both leave the same trace.

Content is JSON for a model to read; the record that it was made from comes as the artifact.
"""

import threading
from typing import Any, Literal
from uuid import uuid4

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, Field

from ..state.candidate import Candidate, make_candidate
from ..state.evaluation import CompileReport, Evaluation, Tier
from ..state.problem import Problem
from ..state.profile import Profile
from .harness import Harness

Answer = tuple[str, Any]


class KernelArguments(BaseModel):
    """One kernel."""

    source: str = Field(description="A whole Python file that defines ModelNew, importing only torch, triton and cupy")


class JudgeArguments(KernelArguments):
    """One kernel and how thoroughly to judge it."""

    tier: Literal["quick", "full"] = Field(
        default="quick",
        description="Both check and time every workload; full: with more input draws and at more sizes",
    )


class NoArguments(BaseModel):
    """Nothing to say."""


class Toolbox:
    """Five tools over a harness for one problem. A candidate is judged once a tier, whichever tools ask."""

    def __init__(self, harness: Harness, problem: Problem) -> None:
        self.harness = harness
        self.problem = problem
        self._known: dict[str, Candidate] = {}
        self._verdicts: dict[tuple[str, Tier], Evaluation] = {}
        self._locks: dict[tuple[str, Tier], threading.Lock] = {}
        self._lock = threading.Lock()
        specs = (
            ("compile_kernel", self._compile, KernelArguments, "Compile a kernel; gives errors, registers and spills"),
            ("check_correctness", self._check, JudgeArguments, "Compare a kernel's results with the oracle"),
            ("time_kernel", self._time, JudgeArguments, "Time a correct kernel against the best baseline"),
            ("profile_kernel", self._profile, KernelArguments, "Hardware counters of a kernel, where there are any"),
            ("device_sheet", self._device, NoArguments, "Limits and rates of the GPU"),
        )
        self.tools: dict[str, BaseTool] = {
            name: StructuredTool.from_function(
                func, name=name, description=about, args_schema=schema, response_format="content_and_artifact"
            )
            for name, func, schema, about in specs
        }

    def compile_kernel(self, candidate: Candidate) -> CompileReport:
        """Compiles by way of the tool."""
        return CompileReport.model_validate(self._call("compile_kernel", candidate))

    def evaluate(self, candidate: Candidate, tier: Literal["quick", "full"] = "quick") -> Evaluation:
        """The harness's verdict by way of the tools, in their order; a failure ends there."""
        verdict = Evaluation.model_validate(self._call("check_correctness", candidate, tier=tier))
        if verdict.timings:
            verdict = Evaluation.model_validate(self._call("time_kernel", candidate, tier=tier))
        return verdict

    def profile_kernel(self, candidate: Candidate) -> Profile:
        """Profiles by way of the tool."""
        return Profile.model_validate(self._call("profile_kernel", candidate))

    def _call(self, name: str, candidate: Candidate, **arguments: Any) -> Any:
        with self._lock:
            self._known[candidate.id] = candidate
        call = {"type": "tool_call", "id": uuid4().hex, "name": name, "args": {"source": candidate.source, **arguments}}
        return self.tools[name].invoke(call).artifact

    def _candidate(self, source: str) -> Candidate:
        """Offline candidates keep where they came from; a model's are known by their source alone."""
        made = make_candidate(source, origin="llm")
        with self._lock:
            return self._known.setdefault(made.id, made)

    def _judge(self, source: str, tier: Tier) -> Evaluation:
        candidate = self._candidate(source)
        key = (candidate.id, tier)
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            if key not in self._verdicts:
                self._verdicts[key] = self.harness.evaluate(self.problem, candidate, tier)
            return self._verdicts[key]

    def _compile(self, source: str) -> Answer:
        report = self.harness.compile(self.problem, self._candidate(source))
        return report.model_dump_json(exclude_defaults=True), report

    def _check(self, source: str, tier: Tier = "quick") -> Answer:
        verdict = self._judge(source, tier)
        shown = verdict.model_copy(update={"checks": tuple(check for check in verdict.checks if not check.hidden)})
        return shown.model_dump_json(include={"status", "message", "checks", "error_class", "labels"}), verdict

    def _time(self, source: str, tier: Tier = "quick") -> Answer:
        verdict = self._judge(source, tier)
        return verdict.model_dump_json(include={"status", "message", "timings", "custom_share", "estimate"}), verdict

    def _profile(self, source: str) -> Answer:
        profile = self.harness.profile(self.problem, self._candidate(source))
        return profile.model_dump_json(exclude_defaults=True), profile

    def _device(self) -> Answer:
        sheet = self.harness.device()
        return sheet.model_dump_json(exclude={"sandbox"}), sheet
