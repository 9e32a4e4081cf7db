"""The trajectory as points of an SVG: speedup over the order of evaluation, with the best so far as a line."""

from collections.abc import Sequence
from math import ceil, floor, log2

from ..state.base import Record
from ..state.trajectory import TrajectoryEntry

WIDTH, HEIGHT = 760.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 12.0, 14.0, 30.0


class Dot(Record):
    """One candidate; failed ones lie on the axis."""

    x: float
    y: float
    failed: bool
    language: str
    title: str


class Tick(Record):
    """One horizontal line."""

    y: float
    label: str


class PhaseSpan(Record):
    """Where a phase begins, for a label."""

    x: float
    name: str


class Plot(Record):
    """Everything that the template draws."""

    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    bottom: float = HEIGHT - BOTTOM
    dots: tuple[Dot, ...]
    line: str
    """Points of the best so far, as SVG's `points`."""
    ticks: tuple[Tick, ...]
    phases: tuple[PhaseSpan, ...]


def trajectory_plot(entries: Sequence[TrajectoryEntry], unit: str = "×") -> Plot:
    """Speedups on a logarithmic axis, so that twice as fast and half as fast lie equally far from 1.

    `unit` is empty in a dry run, which has fractions of the speed of light.
    """
    ranks = [entry.rank for entry in entries if entry.rank > 0]
    low, high = floor(log2(min([*ranks, 1.0]))), max(ceil(log2(max([*ranks, 1.0]))), 1)
    step = (WIDTH - LEFT - RIGHT) / max(len(entries), 1)

    def x_of(index: int) -> float:
        return round(LEFT + (index + 0.5) * step, 1)

    def y_of(rank: float) -> float:
        return round(TOP + (high - log2(rank)) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    dots, points, phases, best, phase = [], [], [], 0.0, ""
    for index, entry in enumerate(entries):
        x = x_of(index)
        if entry.phase != phase:
            phase = entry.phase
            phases.append(PhaseSpan(x=round(x - step / 2, 1), name=phase))
        failed = entry.rank <= 0
        y = HEIGHT - BOTTOM if failed else y_of(entry.rank)
        told = entry.status.value if failed else f"{entry.rank:.3g}{unit}"
        dots.append(Dot(x=x, y=y, failed=failed, language=entry.language, title=f"{entry.id} {entry.language} {told}"))
        if entry.rank > best:
            if best > 0:
                points.append((x, y_of(best)))
            best = entry.rank
        if best > 0:
            points.append((x, y_of(best)))
    ticks = tuple(Tick(y=y_of(2.0**power), label=f"{2.0**power:g}{unit}") for power in range(low, high + 1))
    line = " ".join(f"{x},{y}" for x, y in points)
    return Plot(dots=tuple(dots), line=line, ticks=ticks, phases=tuple(phases))
