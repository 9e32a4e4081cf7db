"""Carries the reference's weights over to a candidate: by name and shape, else by value under two seeds."""

from typing import Any

import torch

from .child import describe_weight


class CannotMap(Exception):
    """Some weight of the candidate has no counterpart in the reference; the text names it."""


def map_weights(
    candidate_states: list[list[dict[str, Any]]], reference_states: list[list[dict[str, Any]]]
) -> dict[str, str]:
    """Candidate's name to reference's name. Each argument holds one state a seed, the same seeds on both sides.

    Raises CannotMap. A candidate may have fewer weights than the reference (those it does not use).
    """
    reference = {entry["name"]: entry for entry in reference_states[0]}
    mapping: dict[str, str] = {}
    unmatched = []
    for entry in candidate_states[0]:
        counterpart = reference.get(entry["name"])
        if counterpart is not None and _alike(entry, counterpart):
            mapping[entry["name"]] = entry["name"]
        else:
            unmatched.append(entry["name"])
    for name in unmatched:
        mapping[name] = _by_value(name, candidate_states, reference_states)
    return mapping


def _by_value(name: str, candidate_states: list[Any], reference_states: list[Any]) -> str:
    suspects: set[str] | None = None
    for candidate_state, reference_state in zip(candidate_states, reference_states, strict=True):
        entry = next((e for e in candidate_state if e["name"] == name), None)
        if entry is None:
            raise CannotMap(f"cannot map weights: {name} is there under one seed and not under another")
        alike = {r["name"] for r in reference_state if _alike(entry, r) and _same_values(entry, r)}
        suspects = alike if suspects is None else suspects & alike
    if not suspects or len(suspects) > 1:
        why = "several fit" if suspects else "none has its shape and values"
        raise CannotMap(f"cannot map weights: {name} matches no weight of the reference by name and shape, and {why}")
    return suspects.pop()


def _alike(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return list(left["shape"]) == list(right["shape"])


def _same_values(left: dict[str, Any], right: dict[str, Any]) -> bool:
    pairs = list(zip(left["fingerprint"], right["fingerprint"], strict=False))
    return bool(pairs) and all(abs(a - b) <= 1e-6 * max(1.0, abs(a), abs(b)) for a, b in pairs)


def state_of(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Description of a model's state, as the child gives it."""
    return [describe_weight(name, tensor) for name, tensor in model.state_dict().items()]
