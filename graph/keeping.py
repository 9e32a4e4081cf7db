"""Which candidates are kept, and how near they are to what they could reach. Pure functions."""

from collections import Counter
from collections.abc import Sequence

from ..state.device import DeviceSheet
from ..state.evaluation import Evaluation, Status
from ..state.problem import Target
from ..state.trajectory import Row, TargetGap

GAIN = 1.005
"""A new best counts as a gain from this ratio on: below it two measurements of one kernel differ as much."""
POOL_SIZE = 6
"""Kept candidates of each language that a run goes on working with."""
ELITES = 3
"""Further kept candidates of structures that none of these has: slower, and kept all the same."""
AHEAD = 2
"""Candidates of each language that are not behind on the primary workload, kept however well others do elsewhere."""


def keepable(judged: Row | Evaluation, dry_run: bool) -> bool:
    """Passed (which means stable timings); in a dry run, unverified with an estimate."""
    wanted = Status.UNVERIFIED if dry_run else Status.PASSED
    return judged.status is wanted and judged.rank > 0


def ranked(rows: Sequence[Row], dry_run: bool) -> tuple[Row, ...]:
    """The kept rows, best first; of equal ones the earlier first."""
    return tuple(sorted((row for row in rows if keepable(row, dry_run)), key=lambda row: -row.rank))


def best_of_each_language(ranked_rows: Sequence[Row], count: int) -> tuple[Row, ...]:
    """The first `count` rows of each language, in the order given."""
    seen: Counter[str] = Counter()
    chosen = []
    for row in ranked_rows:
        seen[row.language] += 1
        if seen[row.language] <= count:
            chosen.append(row)
    return tuple(chosen)


def pool_of(ranked_rows: Sequence[Row]) -> tuple[Row, ...]:
    """What a run goes on working with: the best of each language, of a few other structures, and of those that are not
    behind on the primary workload.

    Every checkpoint holds the pool, so what the trajectory alone needs is left out of its rows.
    """
    chosen = best_of_each_language(ranked_rows, POOL_SIZE)
    structures = {row.structure for row in chosen}
    others: dict[str, Row] = {}
    for row in ranked_rows:
        if row.structure not in structures:
            others.setdefault(row.structure, row)
    elites = list(others.values())[:ELITES]
    ahead = best_of_each_language([row for row in ranked_rows if not row.behind], AHEAD)
    ids = {row.id for row in (*chosen, *elites, *ahead)}
    slim = {"asked": "", "bottleneck": "", "parent": ""}
    return tuple(row.model_copy(update=slim) for row in ranked_rows if row.id in ids)


def sol_fraction(evaluation: Evaluation) -> float | None:
    """The smallest fraction of the speed of light over the workloads; None where nothing was timed."""
    return min((timing.sol_fraction for timing in evaluation.timings), default=None)


def behind(evaluation: Evaluation) -> bool:
    """Slower than the baseline on the primary workload, beyond noise: whoever asked is better off with the baseline."""
    return evaluation.primary is not None and evaluation.primary.verdict == "loss"


def wins_everywhere(evaluation: Evaluation) -> bool:
    """Every timed workload is a win by the paired gate, and there is one."""
    return bool(evaluation.timings) and all(timing.verdict == "win" for timing in evaluation.timings)


def target_gap(target: Target | None, evaluation: Evaluation, device: DeviceSheet) -> TargetGap | None:
    """The gap to a published time. It is never called beaten on another GPU or without a stable time."""
    if target is None:
        return None
    same_gpu = not device.simulated and target.gpu.lower() in device.name.lower()
    timing = next((timing for timing in evaluation.timings if timing.workload == target.workload), None)
    if timing is None:
        return TargetGap(target=target, comparable=same_gpu, note=f"workload {target.workload} was not timed")
    gap = timing.candidate.median_ms / target.ms - 1
    note = "" if same_gpu else f"the target was measured on {target.gpu}, this on {device.name}: not comparable"
    return TargetGap(target=target, comparable=same_gpu, gap=gap, beaten=same_gpu and gap < 0, note=note)
