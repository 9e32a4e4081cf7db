"""How long the GPU waits before a timed call so that its launch is hidden."""

from warpsmith.tools.worker.lead import Lead


def test_it_covers_three_times_what_the_host_usually_takes() -> None:
    lead = Lead()
    for _ in range(4):
        lead.learn(0.1)
    assert abs(lead.ms - 0.6) < 1e-9
    assert not lead.exposed


def test_one_slow_call_does_not_lengthen_it() -> None:
    lead = Lead()
    for host_ms in (0.1, 0.1, 1.5):
        lead.learn(host_ms)
    assert lead.exposed
    assert abs(lead.ms - 0.6) < 1e-9


def test_a_host_that_stays_slow_does_and_one_that_recovers_shortens_it_again() -> None:
    lead = Lead()
    for host_ms in (0.1, 0.9, 0.9):
        lead.learn(host_ms)
    assert abs(lead.ms - 3.0) < 1e-9
    for _ in range(Lead.RECENT):
        lead.learn(0.1)
    assert abs(lead.ms - 0.6) < 1e-9


def test_it_is_bounded() -> None:
    lead = Lead()
    lead.learn(100.0)
    lead.learn(100.0)
    assert lead.ms == lead.longest_ms
    assert not lead.exposed
