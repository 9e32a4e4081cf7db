"""Counts read as English."""

import pytest

from warpsmith.state.wording import counted


@pytest.mark.parametrize(("count", "text"), [(0, "0 kernels"), (1, "1 kernel"), (2, "2 kernels"), (21, "21 kernels")])
def test_only_one_takes_the_singular(count: int, text: str) -> None:
    assert counted(count, "kernel") == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 launches"), (1, "1 launch"), (2, "2 launches")])
def test_a_plural_of_its_own_is_used_where_it_is_given(count: int, text: str) -> None:
    assert counted(count, "launch", "launches") == text
