"""Tables of the judge: what it costs and how steady it is, and what the museum's candidates got from it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .table_text import NOT_MEASURED, markdown, measured_on, number


def harness_table(path: Path) -> str:
    """Every number of the file, nested ones with dotted names. In ratios to itself the fourth decimal counts."""
    if not path.exists():
        return NOT_MEASURED
    content: dict[str, Any] = json.loads(path.read_text())
    rows = [
        [name, number(value, 5 if name.startswith("identity") else 3)]
        for name, value in flat(content, "")
        if not name.startswith("versions")
    ]
    return f"{markdown(['measure', 'value'], rows)}\n\n{measured_on(content)}"


def flat(content: dict[str, Any], prefix: str) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in content.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append((prefix + name, float(value)))
    return found


def museum_table(path: Path) -> str:
    """What the museum's hostile candidates and honest controls got, and how often: a column a tier that was run."""
    paths = [path, path.with_name(path.name.replace("exploits-", "exploits-full-"))]
    runs = [json.loads(each.read_text()) for each in paths if each.exists()]
    if not runs:
        return NOT_MEASURED
    rows = [[name, *(of(run) for run in runs)] for name, of in _MUSEUM_ROWS.items()]
    heads = ["tier " + run["tier"] for run in runs]
    commits = {verdict.get("commit", "") for run in runs for row in run["rows"] for verdict in row["verdicts"]}
    about = measured_on({**runs[0], "commits": sorted(commits - {""})})
    return f"{markdown(['', *heads], rows)}\n\n{about}"


_MUSEUM_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "hostile candidates rejected": lambda run: f"{run['exploits_rejected']} of {run['exploits_total']}",
    "honest controls accepted": lambda run: f"{run['honest_accepted']} of {run['honest_total']}",
    "families of exploits": lambda run: str(len(run["families"])),
    "verdicts on each": lambda run: f"{run['repeat']}, controls {run.get('honest_repeat', run['repeat'])}",
    "with different verdicts": lambda run: ", ".join(run["flipped"]) or "none",
    "not rejected every time": lambda run: ", ".join(run["missed"]) or "none",
}


def endurance_table(path: Path) -> str:
    """Hundreds of candidates in one go: what became of the ill ones, and what was left behind."""
    if not path.exists():
        return NOT_MEASURED
    content: dict[str, Any] = json.loads(path.read_text())
    left = content["gpu_memory_left_mib"]
    rows = [
        ["candidates", str(content["candidates"])],
        ["of which crash, hang, leak or exhaust memory", str(content["ill"])],
        ["verdicts", str(content["verdicts"])],
        ["wrong verdicts", str(content["wrong"])],
        ["processes left", str(content["processes_left"])],
        ["GPU memory left, MiB", "not known" if left is None else str(left)],
        ["candidates a minute", number(content["candidates_per_minute"])],
    ]
    return f"{markdown(['in one go', ''], rows)}\n\n{measured_on(content)}"
