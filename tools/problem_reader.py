"""Reads and lowers problem files, each in a fresh trusted worker that a deadline ends."""

import re
import tokenize
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..state.errors import InvalidProblem
from ..state.lowered import LoweredGraph
from ..state.problem import Problem
from . import wire
from .fork_server import ForkServer, Spawn
from .judge_handle import checked

_CODING = re.compile(r"(coding[:=]\s*)[-\w.]+")
_DESCRIBE_S, _LOWER_S, _GENERATE_S = 60.0, 40.0, 120.0


class ProblemReader:
    """Problems from files, and their references as core ATen."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._graphs: dict[tuple[str, str], Future[LoweredGraph]] = {}
        self._pool = ThreadPoolExecutor(4)

    def load(self, path: Path) -> Problem:
        try:
            source = _read(path)
        except FileNotFoundError:
            raise InvalidProblem(f"{path}: no such file") from None
        except (OSError, UnicodeDecodeError, SyntaxError) as error:
            raise InvalidProblem(f"{path}: cannot be read: {error}") from error
        reply = self._ask_once("problem", {"op": "describe", "path": str(path), "source": source}, _DESCRIBE_S, path)
        problem = Problem.model_validate(reply["problem"])
        # Vetting, bounds and planning each need a lowered graph; all of them start now.
        self.lowered(problem, problem.primary.name, dynamic=True)
        for workload in problem.workloads:
            self.lowered(problem, workload.name)
        return problem

    def lowered(self, problem: Problem, workload: str, dynamic: bool = False) -> Future[LoweredGraph]:
        """The reference at one workload's sizes, or with its free dimensions symbolic; each is lowered once."""
        key = (problem.id, f"{workload}/{dynamic}")
        if key not in self._graphs:
            self._graphs[key] = self._pool.submit(self._lower, problem, workload, dynamic)
        return self._graphs[key]

    def _lower(self, problem: Problem, workload: str, dynamic: bool) -> LoweredGraph:
        body = {
            "op": "lower",
            "path": problem.path,
            "source": problem.source,
            "arguments": next(w.arguments for w in problem.workloads if w.name == workload),
            "dynamic": dynamic,
            "deadline_s": _LOWER_S - 10,
        }
        try:
            reply = self._ask_once("problem", body, _LOWER_S, Path(problem.path))
        except InvalidProblem as error:
            # A reference that cannot be lowered can still be judged: only the planner loses its sight.
            return LoweredGraph(nodes=(), outputs=None, unsupported=str(error))
        return LoweredGraph.model_validate(reply["graph"])

    def generated(self, problem: Problem, device: str, cache: Path) -> str:
        """The code that torch.compile makes of the reference at the primary workload. Raises InvalidProblem."""
        body = {
            "op": "generated",
            "path": problem.path,
            "source": problem.source,
            "arguments": problem.primary.arguments,
            "device": device,
            "cache": str(cache),
        }
        return str(self._ask_once("problem", body, _GENERATE_S, Path(problem.path))["text"])

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

    def close(self) -> None:
        """Waits for what is being lowered and starts nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _read(path: Path) -> str:
    """A file's text as Python reads it: without a byte order mark, in the encoding that its first lines name.

    Text is kept as UTF-8 from here on, so that is what a line naming another says afterwards. Raises SyntaxError for
    encodings that are none.
    """
    with tokenize.open(path) as file:
        lines = file.readlines()
    named = [_CODING.sub(r"\1utf-8", line) if line.lstrip().startswith("#") else line for line in lines[:2]]
    return "".join(named + lines[2:])
