"""Tables of the judge: what it costs and how steady it is, and what the museum's candidates got from it."""

import json
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
    """What the museum's hostile candidates and honest controls got, and how often."""
    if not path.exists():
        return NOT_MEASURED
    content: dict[str, Any] = json.loads(path.read_text())
    rows = [
        ["hostile candidates rejected", f"{content['exploits_rejected']} of {content['exploits_total']}"],
        ["honest controls accepted", f"{content['honest_accepted']} of {content['honest_total']}"],
        ["families of exploits", str(len(content["families"]))],
        ["verdicts on each", f"{content['repeat']}, controls {content.get('honest_repeat', content['repeat'])}"],
        ["with different verdicts", ", ".join(content["flipped"]) or "none"],
        ["not rejected every time", ", ".join(content["missed"]) or "none"],
    ]
    commits = sorted({verdict.get("commit", "") for row in content["rows"] for verdict in row["verdicts"]} - {""})
    about = measured_on({**content, "commits": commits})
    return f"{markdown(['tier ' + content['tier'], ''], rows)}\n\n{about}"
