"""A recording of a whole run on scripted collaborators, for tests that need a run in another process."""

from pathlib import Path

from scripted.collaborators import SOURCE, ScriptedHarness, ScriptedPlanner, ScriptedWriter

from warpsmith.graph import optimize
from warpsmith.graph.services import Collaborators


def record_run(folder: Path, name: str = "scripted_problem", **settings: object) -> tuple[Path, Path]:
    """Makes a problem file and a recording of a run on it in `folder`; returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    problem, recording = folder / f"{name}.py", folder / "recording.jsonl"
    problem.write_text(f"{SOURCE}# {name}\n")
    fates = {32: "compile", 256: "wrong"}
    given = Collaborators(
        harness=ScriptedHarness(),
        planner=ScriptedPlanner(),
        writers={language: ScriptedWriter(language, fates=fates) for language in ("triton", "cuda")},
    )
    optimize(problem, given=given, out=str(folder / "recorded"), record=str(recording), **settings)
    return problem, recording
