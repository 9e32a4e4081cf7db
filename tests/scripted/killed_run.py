"""A run with a model behind HTTP and scripted collaborators, as a process that a test can kill.

`python killed_run.py start PROBLEM OUT URL` or `... resume RUN_DIR - URL`; with a fourth argument, a file's path, the
second evaluation writes that file and never ends.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from scripted.collaborators import ScriptedHarness, ScriptedPlanner

from warpsmith.graph import optimize, resume
from warpsmith.graph.services import Collaborators


@dataclass
class HangingHarness(ScriptedHarness):
    """Never ends its second evaluation where it is told to hang."""

    hung: Path | None = None

    def evaluate(self, problem, candidate, tier="quick"):
        if self.hung is not None and sum(what == "quick" for what, _ in self.calls) == 1:
            self.hung.write_text(candidate.id)
            time.sleep(600)
        return super().evaluate(problem, candidate, tier)


class NoSeeds:
    """An offline writer that knows nothing of the problem."""

    name = "none"

    def propose(self, brief, n):
        return []


def main(action: str, target: str, out: str, url: str, hung: str = "") -> None:
    given = Collaborators(
        harness=HangingHarness(hung=Path(hung) if hung else None),
        planner=ScriptedPlanner(),
        writers={"triton": NoSeeds(), "cuda": NoSeeds()},
    )
    if action == "start":
        settings = {"out": out, "languages": "triton", "budget": 4, "width": 1, "tokens": 400_000}
        result = optimize(target, given=given, model="scripted", base_url=url, **settings)
    else:
        result = resume(target, given=given)
    sys.stdout.write(f"{result.best} {result.outcome} {[entry.id for entry in result.trajectory]}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
