"""Tokens, time and money by role and phase, summed from the record of answers."""

from collections.abc import Iterable

from ...state.spending import RoleSpending
from .store import Entry


def usage_rows(entries: Iterable[Entry]) -> tuple[RoleSpending, ...]:
    """One row for each role, phase and model, in the order in which they first asked."""
    grouped: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        grouped.setdefault((entry.role, entry.phase, entry.model), []).append(entry)
    return tuple(_row(key, group) for key, group in grouped.items())


def total_tokens(entries: Iterable[Entry]) -> int:
    """Tokens of all requests, abandoned ones at their upper bound."""
    return sum(entry.usage.tokens for entry in entries)


def total_cost(entries: Iterable[Entry]) -> float | None:
    """Cost of all requests; None where that of one is unknown."""
    costs = [entry.usage.known_cost for entry in entries]
    return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)


def money_spent(entries: Iterable[Entry]) -> float:
    """Cost of the requests whose cost is known: at least so much was spent."""
    return sum(entry.usage.known_cost or 0.0 for entry in entries)


def _row(key: tuple[str, str, str], group: list[Entry]) -> RoleSpending:
    role, phase, model = key
    usages = [entry.usage for entry in group]
    return RoleSpending(
        role=role,
        phase=phase,
        model=model,
        asks=len(group),
        answered=sum(entry.outcome == "answered" for entry in group),
        requests=sum(usage.requests for usage in usages),
        prompt_tokens=sum(usage.prompt_tokens for usage in usages),
        completion_tokens=sum(usage.completion_tokens for usage in usages),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in usages),
        seconds=sum(usage.seconds for usage in usages),
        cost=total_cost(group),
        estimated=any(usage.estimated for usage in usages),
    )
