"""What a run says of the models that it asked."""

from warpsmith.graph.spending import spending, spending_lines
from warpsmith.sub_agents.models.store import Entry


def entry(ordinal: int, outcome: str, error: str = "") -> Entry:
    place = {"key": "k", "ordinal": ordinal, "role": "planner", "phase": "plan"}
    return Entry(**place, outcome=outcome, error=error)


def test_requests_without_an_answer_are_told_with_the_reason() -> None:
    entries = [
        entry(0, "answered"),
        entry(1, "failed", "EndpointFault: m at http://127.0.0.1:9/v1: answers 500 after 5 tries"),
        entry(2, "failed", "EndpointFault: m at http://127.0.0.1:9/v1: cannot be reached after 5 tries"),
    ]
    found = spending(entries, [], dry_run=True)
    assert found.failed == 2
    assert spending_lines(found)[-1] == (
        "2 requests got no answer, the last for: m at http://127.0.0.1:9/v1: cannot be reached after 5 tries"
    )


def test_nothing_is_said_where_all_were_answered() -> None:
    assert not any("no answer" in line for line in spending_lines(spending([entry(0, "answered")], [], dry_run=True)))
