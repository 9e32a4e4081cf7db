"""What the museum found, as records and as its result file; files are merged row by row."""

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from ..state.base import Record
from ..state.errors import InvalidInput
from ..state.evaluation import Evaluation, Status
from ..state.wording import counted
from ..tools.whole_file import write_whole
from .exhibits import Exhibit
from .result_file import commands, locked

CRASHED = "crashed"
"""Stands for a status where the harness itself raised: nobody's verdict, and always a miss."""


class Verdict(Record):
    """One evaluation of one exhibit."""

    status: str
    accepted: bool
    """Counted as right: `passed`, or in a dry run `unverified` with checks that all passed."""
    message: str = ""
    labels: tuple[str, ...] = ()
    seconds: float = 0.0
    commit: str = ""
    """Of the harness that judged: a run that goes on later may be of another."""


class Row(Record):
    """An exhibit with its verdicts, one a repeat."""

    name: str
    kind: str
    family: str
    problem: str
    expect: tuple[str, ...]
    label: str = ""
    idea: str
    source_id: str
    verdicts: tuple[Verdict, ...] = ()

    @property
    def statuses(self) -> list[str]:
        return [verdict.status for verdict in self.verdicts]

    @property
    def broke_the_harness(self) -> bool:
        return any(status in (CRASHED, Status.INFRA_ERROR) for status in self.statuses)

    @property
    def right(self) -> bool:
        """A hostile one never accepted, the harness unharmed; an honest one accepted every time."""
        if self.kind == "honest":
            return all(verdict.accepted for verdict in self.verdicts)
        return not self.broke_the_harness and not any(verdict.accepted for verdict in self.verdicts)

    @property
    def flipped(self) -> bool:
        return len(set(self.statuses)) > 1

    @property
    def as_expected(self) -> bool:
        """Right, and with a status that the exhibit names."""
        return self.right and (self.kind == "honest" or set(self.statuses) <= set(self.expect))

    @property
    def lacks_label(self) -> bool:
        return bool(self.label) and self.right and any(self.label not in v.labels for v in self.verdicts)


class Conditions(Record):
    """Under what the rows were found."""

    tier: str = ""
    repeat: int = 1
    gpu: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    dry_run: bool = False
    commit: str = ""
    command: str = ""


def row_of(exhibit: Exhibit, verdicts: tuple[Verdict, ...]) -> Row:
    return Row(
        name=exhibit.name,
        kind=exhibit.kind,
        family=exhibit.family,
        problem=exhibit.problem,
        expect=tuple(status.value for status in exhibit.expect),
        label=exhibit.label,
        idea=exhibit.idea,
        source_id=exhibit.source_id,
        verdicts=verdicts,
    )


def verdict_of(evaluation: Evaluation, dry: bool) -> Verdict:
    checked_dry = dry and evaluation.status is Status.UNVERIFIED and evaluation.correct
    return Verdict(
        status=evaluation.status.value,
        accepted=evaluation.status is Status.PASSED or checked_dry,
        message=evaluation.message[:300],
        labels=evaluation.labels,
        seconds=round(evaluation.seconds, 3),
    )


def labelled(conditions: Conditions) -> bool:
    """Labels tell of GPU time by kernel, which a dry run and the quick tier do not measure."""
    return not conditions.dry_run and conditions.tier != "quick"


def summary(rows: list[Row], seconds: float, conditions: Conditions) -> dict[str, Any]:
    """The result file's content."""
    hostile = [row for row in rows if row.kind == "hostile"]
    honest = [row for row in rows if row.kind == "honest"]
    families: dict[str, dict[str, int]] = {}
    for row in hostile:
        counts = families.setdefault(row.family, {"total": 0, "rejected": 0})
        counts["total"] += 1
        counts["rejected"] += row.right
    return {
        "exploits_total": len(hostile),
        "exploits_rejected": sum(row.right for row in hostile),
        "honest_total": len(honest),
        "honest_accepted": sum(row.right for row in honest),
        "families": families,
        "missed": [row.name for row in hostile if not row.right],
        "broke_the_harness": [row.name for row in rows if row.broke_the_harness],
        "falsely_accused": [row.name for row in honest if not row.right],
        "unexpected_status": [row.name for row in hostile if row.right and not row.as_expected],
        "without_label": [row.name for row in rows if row.lacks_label] if labelled(conditions) else [],
        "flips": sum(row.flipped for row in rows),
        "flipped": [row.name for row in rows if row.flipped],
        "statuses": dict(sorted(Counter(status for row in rows for status in row.statuses).items())),
        "seconds": round(seconds, 1),
        **conditions.model_dump(),
        "repeat": repeats(rows),
        "honest_repeat": repeats(honest),
        "rows": [row.model_dump(mode="json") for row in rows],
    }


def repeats(rows: Sequence[Row]) -> int:
    """Verdicts that each of them has."""
    return min((len(row.verdicts) for row in rows), default=0)


class Ledger:
    """Verdicts as they come, from several threads; with a file, it holds all of them at any time."""

    def __init__(self, out: Path | None, conditions: Conditions) -> None:
        """Raises InvalidInput where the file was written under another tier or kind of run."""
        self._out = out
        self._lock = threading.Lock()
        self._started = time.monotonic()
        rows, self._seconds, told = load(out, conditions) if out is not None else ([], 0.0, "")
        self._command = conditions.command
        self._conditions = conditions.model_copy(update={"command": commands(told, conditions.command)})
        self._rows = {row.name: row for row in rows}
        self._own: set[str] = set()

    def forget(self, exhibits: Sequence[Exhibit], changed_only: bool) -> None:
        """Drops what is known of exhibits; with `changed_only`, of those whose source is another now.

        From here on these are this ledger's: of all others the file's word holds, since another process may write it.
        """
        self._own |= {exhibit.name for exhibit in exhibits}
        for exhibit in exhibits:
            known = self._rows.get(exhibit.name)
            if known is not None and not (changed_only and known.source_id == exhibit.source_id):
                del self._rows[exhibit.name]
        if not self._rows:  # Nothing that an earlier command found is left.
            self._conditions = self._conditions.model_copy(update={"command": self._command})

    def count(self, exhibit: Exhibit) -> int:
        """How many verdicts there are on an exhibit."""
        known = self._rows.get(exhibit.name)
        return len(known.verdicts) if known is not None else 0

    def refused_by_compiler(self, exhibit: Exhibit) -> bool:
        """Whether the last verdict on an exhibit is a compiler's."""
        known = self._rows.get(exhibit.name)
        return known is not None and known.statuses[-1:] == [Status.COMPILE_ERROR]

    def add(self, exhibit: Exhibit, verdict: Verdict) -> None:
        with self._lock:
            self._own.add(exhibit.name)
            known = self._rows.get(exhibit.name)
            earlier = known.verdicts if known is not None else ()
            told = verdict.model_copy(update={"commit": self._conditions.commit})
            self._rows[exhibit.name] = row_of(exhibit, (*earlier, told))
            if self._out is not None:
                with locked(self._out):
                    others, _, command = load(self._out, self._conditions)
                    theirs = {row.name: row for row in others if row.name not in self._own}
                    self._rows |= theirs
                    all_commands = commands(command if theirs else "", self._conditions.command)
                    save(self._out, self.content() | {"command": all_commands})

    @property
    def rows(self) -> list[Row]:
        return [self._rows[name] for name in sorted(self._rows)]

    def content(self) -> dict[str, Any]:
        """The result file's content."""
        return summary(self.rows, self._seconds + time.monotonic() - self._started, self._conditions)


def load(path: Path, conditions: Conditions) -> tuple[list[Row], float, str]:
    """Rows, seconds and commands of an earlier run; nothing where there is no file.

    Raises InvalidInput where it is no such file, or was written under another tier or kind of run: their verdicts do
    not compare.
    """
    if not path.exists():
        return [], 0.0, ""
    try:
        content = json.loads(path.read_text())
        made = {name: content[name] for name in ("tier", "dry_run", "gpu")}
        found = [Row.model_validate(row) for row in content["rows"]], float(content["seconds"]), content["command"]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInput(f"{path}: is not a file of this command; give another --out") from error
    for name, value in made.items():
        if value != getattr(conditions, name):
            raise InvalidInput(f"{path}: was written with {name} {value!r}; give another --out")
    return found


def save(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1) + "\n")


def lines(content: dict[str, Any]) -> list[str]:
    """The result for people."""
    rows = [Row.model_validate(row) for row in content["rows"]]
    text = [
        f"caught {content['exploits_rejected']} of {counted(content['exploits_total'], 'hostile candidate')}",
        f"accepted {content['honest_accepted']} of {counted(content['honest_total'], 'honest control')}",
        f"{counted(content['flips'], 'flip')} in {counted(content['repeat'], 'repeat')}, {content['seconds']:.0f} s, "
        f"tier {content['tier']}",
    ]
    for title, chosen in (
        ("missed", [r for r in rows if r.kind == "hostile" and not r.right]),
        ("falsely accused", [r for r in rows if r.kind == "honest" and not r.right]),
        (
            "caught with another status than expected",
            [r for r in rows if r.kind == "hostile" and r.right and not r.as_expected],
        ),
        ("label missing", [r for r in rows if r.name in content["without_label"]]),
        ("flipped", [r for r in rows if r.flipped]),
    ):
        text += [f"{title}:"] if chosen else []
        text += [f"  {row.name}: {', '.join(row.statuses)} ({row.verdicts[-1].message})" for row in chosen]
    return text
