"""Carrying weights over: by name, else by value under two seeds, else a clear refusal."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from warpsmith.tools.worker.weights import CannotMap, map_weights, state_of


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)
        self.norm = nn.LayerNorm(5)
        self.second = nn.Linear(5, 4)


class Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(6, 5)
        self.n = nn.LayerNorm(5)
        self.w2 = nn.Linear(5, 4)


class Reversed(nn.Module):
    """The same names, built in another order: under one seed every random value differs."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(5, 4)
        self.norm = nn.LayerNorm(5)
        self.first = nn.Linear(6, 5)


class ReversedAndRenamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w2 = nn.Linear(5, 4)
        self.w1 = nn.Linear(6, 5)


class Fewer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 5)


class More(Reference):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("workspace", torch.zeros(7))


class Flat(nn.Module):
    """One bare parameter under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(nn.Linear(6, 5).weight.detach().clone())


class Twins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))
        self.gain = nn.Parameter(torch.ones(5))


class TwinsRenamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.other = nn.Parameter(torch.ones(5))


def states(build: Callable[[], nn.Module]) -> list[list[dict[str, Any]]]:
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(state_of(build()))
    return found


def mapping(candidate: Callable[[], nn.Module], reference: Callable[[], nn.Module] = Reference) -> dict[str, str]:
    return map_weights(states(candidate), states(reference))


@pytest.mark.parametrize("candidate", [Reference, Reversed])
def test_names_decide_whatever_the_values(candidate):
    found = mapping(candidate)
    assert len(found) == 6
    assert all(ours == theirs for ours, theirs in found.items())


def test_renamed_weights_are_found_by_value_where_values_are_random():
    names = {"w1": "first", "n": "norm", "w2": "second"}
    assert mapping(Renamed) == {f"{a}.{kind}": f"{b}.{kind}" for a, b in names.items() for kind in ("weight", "bias")}
    assert mapping(Flat) == {"a": "first.weight"}


def test_renamed_weights_in_another_order_cannot_be_mapped_and_the_first_is_named():
    with pytest.raises(CannotMap, match="cannot map weights: w2.weight .* none has its shape and values"):
        mapping(ReversedAndRenamed)


def test_a_candidate_may_leave_weights_out():
    assert mapping(Fewer) == {"first.weight": "first.weight", "first.bias": "first.bias"}


def test_a_weight_of_its_own_cannot_be_mapped():
    with pytest.raises(CannotMap, match="workspace"):
        mapping(More)


def test_several_that_fit_are_no_answer():
    with pytest.raises(CannotMap, match="other .* several fit"):
        mapping(TwinsRenamed, Twins)


def test_values_must_agree_under_both_seeds():
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.a = nn.Parameter(nn.Linear(6, 5).weight.detach().clone())

    with pytest.raises(CannotMap, match="none has its shape"):
        mapping(Constant)


def test_a_model_without_weights_maps_to_nothing():
    assert mapping(nn.ReLU) == {}
    assert mapping(nn.ReLU, nn.ReLU) == {}


def test_a_weight_that_is_there_under_one_seed_only_is_refused():
    there = {"name": "w", "shape": [2], "fingerprint": [1.0]}
    with pytest.raises(CannotMap, match="w is there under one seed"):
        map_weights([[there], []], [[{**there, "name": "v"}], [{**there, "name": "v"}]])
