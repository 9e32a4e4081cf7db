"""Runs a grid's settings in worker processes, and goes on past the one that a setting ends or hangs."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..state.base import Record
from ..state.errors import InfraError

WORKER = "warpsmith.tools.worker.grid_timing"
STALLED_S = 60.0
"""Without a new answer for so long, the setting that a worker is at counts as hanging."""


class Runner(Record):
    """Where and how workers run."""

    work: Path
    device: str = "cuda"
    calls: int = 20
    deadline: float
    """On the monotonic clock: what has no answer by then has none."""
    stalled_s: float = STALLED_S
    environment: dict[str, str] = {}
    """Added to the worker's own: the GPU to use, where Triton keeps what it compiled."""

    def answers(self, mode: str, tasks: list[dict[str, str]], jobs: int) -> dict[str, dict[str, Any]]:
        """The answer to each task by its id, in so many processes at once; less where time ran out."""
        parts = [tasks[index::jobs] for index in range(jobs) if tasks[index::jobs]]
        with ThreadPoolExecutor(max(1, len(parts))) as pool:
            found = pool.map(lambda part: self._part(mode, f"{mode}-{part[0]['id']}", part), parts)
        return {id: answer for answers in found for id, answer in answers.items()}

    def _part(self, mode: str, name: str, tasks: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
        file = self.work / f"{name}.answers.jsonl"
        file.unlink(missing_ok=True)
        while time.monotonic() < self.deadline:
            answers, _ = read_answers(file)
            left = [task for task in tasks if task["id"] not in answers]
            if not left:
                break
            why = self._worker({"mode": mode, "tasks": left, "calls": self.calls, "device": self.device}, name, file)
            after, begun = read_answers(file)
            if why == "late":
                break
            if begun is not None:
                with file.open("a", encoding="utf-8") as out:
                    out.write(json.dumps({"id": begun, "error": f"the process {why}"}) + "\n")
            elif len(after) == len(answers):
                said = (self.work / f"{name}.log").read_text(encoding="utf-8").strip().splitlines()
                raise InfraError(f"{WORKER} {why} without an answer: {said[-1] if said else 'it said nothing'}")
        return read_answers(file)[0]

    def _worker(self, tasks: dict[str, Any], name: str, file: Path) -> str:
        """Runs one worker until it ends; says whether it `ended`, `stalled` or was `late`."""
        listed = self.work / f"{name}.tasks.json"
        listed.write_text(json.dumps(tasks), encoding="utf-8")
        with (self.work / f"{name}.log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", WORKER, str(listed), str(file)],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                cwd=self.work,
            )
            size, since = -1, time.monotonic()
            while process.poll() is None:
                time.sleep(0.2)
                now, grown = time.monotonic(), file.stat().st_size if file.exists() else 0
                if grown != size:
                    size, since = grown, now
                if now > self.deadline or now - since > self.stalled_s:
                    process.kill()
                    process.wait()
                    return "late" if now > self.deadline else "stalled"
        return "ended"


def read_answers(file: Path) -> tuple[dict[str, dict[str, Any]], str | None]:
    """Answers by id, and the id that was begun and has none."""
    answers: dict[str, dict[str, Any]] = {}
    begun: str | None = None
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # The process ended while it wrote.
        if "begin" in entry:
            begun = entry["begin"]
        else:
            answers[entry["id"]] = entry
    return answers, begun if begun not in answers else None
