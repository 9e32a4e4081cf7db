"""Which blocks of memory lay behind an output during a call."""

from warpsmith.tools.worker.canary import lain_there

OUTPUT = (0x1000, 0x1200)


def test_the_outputs_own_block_is_the_only_one() -> None:
    assert lain_there([(0x1000, 0x200), (0x1200, 0x200), (0xE00, 0x200)], *OUTPUT) == 1


def test_a_temporary_over_the_slack_counts() -> None:
    assert lain_there([(0x800, 0x900), (0x1000, 0x200)], *OUTPUT) == 2


def test_a_temporary_that_had_the_very_same_block_counts() -> None:
    assert lain_there([(0x1000, 0x200), (0x1000, 0x200)], *OUTPUT) == 2
