"""A subgraph inside a node: nothing to wait for, nothing to warn of, and still seen from outside."""

import warnings
from typing import TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from warpsmith.sub_agents.llm.nested import run_inside


class Count(TypedDict):
    count: int


def graph_of(checkpointer, **nodes):
    builder = StateGraph(Count)
    before = START
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=checkpointer)


def one_more(state: Count) -> Count:
    return {"count": state["count"] + 1}


INNER = graph_of(False, plain=one_more, deeper=graph_of(False, deepest=one_more))


def twice(state: Count) -> Count:
    return run_inside(INNER, run_inside(INNER, state, None), None)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_with_checkpoints_waits_only_for_its_own_and_shows_the_nested_ones(durability):
    outer = graph_of(InMemorySaver(), nested=twice, after=one_more)
    config = {"configurable": {"thread_id": "run"}}
    options = {"durability": durability, "subgraphs": True, "stream_mode": "updates"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = [(len(place), *update) for place, update in outer.stream({"count": 0}, config, **options)]
    names = [name for _, name in steps]
    assert names == ["plain", "deepest", "deeper"] * 2 + ["nested", "after"]
    assert steps[-2][0] == 0 < steps[0][0] < steps[1][0]
    assert outer.get_state(config).values == {"count": 5}


def test_checkpoints_are_the_outer_runs_alone():
    saver = InMemorySaver()
    outer = graph_of(saver, nested=twice)
    outer.invoke({"count": 0}, {"configurable": {"thread_id": "run"}}, durability="sync")
    assert {each.config["configurable"]["checkpoint_ns"] for each in saver.list(None)} == {""}


def test_outside_of_any_run_it_is_a_run_of_its_own():
    assert run_inside(INNER, {"count": 1}, None) == {"count": 3}
