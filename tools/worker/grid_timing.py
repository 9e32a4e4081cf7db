"""Runs many of our own templates' kernels in one process, to record data that searches are compared on.

    python -P -m warpsmith.tools.worker.grid_timing TASKS.json ANSWERS.jsonl

This is no judge. Candidate and clock share a process, and a kernel is compared with the reference on one input only:
good enough for kernels that we wrote ourselves, and for nothing else. A line `{"begin": id}` is written before each
candidate, so that whoever started this knows which one ended the process.
"""

import json
import statistics
import sys
import types
from pathlib import Path
from typing import Any, TextIO

import torch

from . import structure
from .problem_module import ProblemModule

FLUSH_BYTES = 256 << 20
WARM_UPS = 3
SLOW_MS = 20.0
"""A call that takes longer than this is timed a quarter as often."""
MOST_ERROR = 0.05
"""Root mean square of the difference to the reference over that of the reference."""


class Case:
    """A problem on a device: inputs, the reference's answer and its weights."""

    def __init__(self, path: str, device: str) -> None:
        file = Path(path)
        self.module = ProblemModule(file, file.read_text(encoding="utf-8"))
        self.device = torch.device(device)
        self.inputs = self.module.inputs({}, self.device, rng_seed=1)
        self.model = self.module.model(self.device, rng_seed=2).eval()
        with torch.no_grad():
            self.expected = _tensors(self.model(*_copies(self.inputs)))

    def candidate(self, source_path: str) -> Any:
        file = Path(source_path)
        module = types.ModuleType(f"grid_{file.stem}")
        module.__file__ = str(file)
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), module.__dict__)
        made = module.__dict__["ModelNew"](*self.module.init_arguments()).to(self.device).eval()
        made.load_state_dict(self.model.state_dict())
        return made

    def check(self, made: Any) -> str:
        """What is wrong with a candidate's answer, empty if nothing."""
        with torch.no_grad():
            answer = _tensors(made(*_copies(self.inputs)))
        if len(answer) != len(self.expected):
            return "another number of outputs"
        for own, wanted in zip(answer, self.expected, strict=True):
            if own.shape != wanted.shape or own.dtype != wanted.dtype:
                return "another shape or dtype"
            scale = wanted.float().square().mean().sqrt().item() or 1.0
            error = (own.float() - wanted.float()).square().mean().sqrt().item() / scale
            if not error <= MOST_ERROR:
                return f"off by {error:.2g}"
        return ""

    def ms(self, made: Any, calls: int) -> float:
        """Median GPU time of one call in milliseconds, the L2 cache flushed before each."""
        flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=self.device)
        pairs = []
        with torch.no_grad():
            for number in range(WARM_UPS + calls):
                flush.zero_()
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                made(*self.inputs)
                end.record()
                if number >= WARM_UPS:
                    pairs.append((start, end))
                if number == WARM_UPS:
                    end.synchronize()
                    if start.elapsed_time(end) > SLOW_MS and calls > 4:
                        return self.ms(made, calls // 4)
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in pairs)


def _copies(values: list[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def _tensors(result: Any) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in structure.flatten(result)[1]]


def run(tasks: dict[str, Any], answers: TextIO) -> None:
    """Each task is `{"id", "problem", "source"}`; `mode` is `check` or `time`."""
    case: Case | None = None
    opened = ""
    for task in tasks["tasks"]:
        if task["problem"] != opened:
            case, opened = None, task["problem"]  # The old one's memory first.
            case = Case(opened, tasks.get("device", "cuda"))
        assert case is not None
        answers.write(json.dumps({"begin": task["id"]}) + "\n")
        answers.flush()
        answer: dict[str, Any] = {"id": task["id"]}
        try:
            made = case.candidate(task["source"])
            if tasks["mode"] == "check":
                answer["error"] = case.check(made)
            else:
                answer["ms"] = case.ms(made, tasks["calls"])
        except Exception as error:  # noqa: BLE001 - whatever a setting fails with is that setting's record
            answer["error"] = f"{type(error).__name__}: {error}"[:200]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    with Path(sys.argv[2]).open("a", encoding="utf-8") as out:
        run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), out)
