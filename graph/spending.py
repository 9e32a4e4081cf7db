"""What models cost a run and what they brought, from the record of answers and the trajectory. Pure functions."""

import re
from collections.abc import Sequence

from ..state.spending import RoundSpending, Spending
from ..state.trajectory import Row
from ..state.wording import counted
from ..sub_agents.models.store import Entry
from ..sub_agents.models.usage import total_cost, total_tokens, usage_rows
from .keeping import ranked

LEAST_GAIN = 0.001
"""Gain per 1000 tokens from which a round was worth them: a tenth of a percent."""
_ROUND = re.compile(r"r(\d+)-")


def spending(entries: Sequence[Entry], rows: Sequence[Row], dry_run: bool) -> Spending:
    """Usage by role and phase, gains by round, and the models' best against the best without them."""
    offline = _best([row for row in rows if row.origin != "llm"], dry_run)
    model = _best([row for row in rows if row.origin == "llm"], dry_run)
    tokens = total_tokens(entries)
    gain = max(0.0, model / max(offline, 1.0) - 1)
    failed = [entry for entry in entries if entry.outcome == "failed"]
    return Spending(
        roles=usage_rows(entries),
        rounds=_rounds(entries, rows, dry_run),
        tokens=tokens,
        cost=total_cost(entries),
        offline_rank=offline,
        model_rank=model,
        gain_per_1000_tokens=1000 * gain / tokens if tokens else 0.0,
        in_flight=sum(entry.outcome in ("in_flight", "abandoned") for entry in entries),
        failed=len(failed),
        failure=failed[-1].error.partition(": ")[2] if failed else "",
    )


def round_spending(tokens: int, number: int, before: float, after: float) -> RoundSpending:
    """One round's tokens and gain; before the first kernel the best is the baseline."""
    gain = max(0.0, after / max(before, 1.0) - 1) if after > 0 else 0.0
    return RoundSpending(round=number, tokens=tokens, gain=gain, paid=1000 * gain >= LEAST_GAIN * tokens)


def spending_lines(found: Spending) -> list[str]:
    """In words, for a terminal."""
    roles = ", ".join(f"{role} {tokens}" for role, tokens in found.tokens_by_role.items())
    budget = f" of {found.token_budget}" if found.token_budget else ""
    cost = f", cost {found.cost:.4g}" if found.cost is not None else ""
    lines = [
        f"models: {found.tokens}{budget} tokens ({roles}){cost}; "
        f"gain {found.gain_per_1000_tokens:.2%} per 1000 tokens over the best kernel without a model"
    ]
    wasted = [each for each in found.rounds if each.tokens and not each.paid]
    if wasted:
        named = ", ".join(str(each.round) for each in wasted)
        lines.append(f"rounds that cost more than they gained: {named} ({sum(e.tokens for e in wasted)} tokens)")
    if found.in_flight:
        lines.append(f"{counted(found.in_flight, 'request')} in flight when a session ended, perhaps asked again")
    if found.failed:
        lines.append(f"{counted(found.failed, 'request')} got no answer, the last for: {found.failure}")
    if found.stopped:
        lines.append(f"models stopped: {found.stopped}")
    return lines


def _rounds(entries: Sequence[Entry], rows: Sequence[Row], dry_run: bool) -> tuple[RoundSpending, ...]:
    found, before = [], 0.0
    for number in sorted({row.round for row in rows} | {round for e in entries if (round := _round_of(e)) is not None}):
        own = [entry for entry in entries if _round_of(entry) == number]
        after = max(before, _best([row for row in rows if row.round == number], dry_run))
        if own:
            found.append(round_spending(total_tokens(own), number, before, after))
        before = after
    return tuple(found)


def _round_of(entry: Entry) -> int | None:
    """The round that a request's tag names."""
    match = _ROUND.match(entry.tag)
    return int(match[1]) if match else None


def _best(rows: Sequence[Row], dry_run: bool) -> float:
    kept = ranked(rows, dry_run)
    return kept[0].rank if kept else 0.0
