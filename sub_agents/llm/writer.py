"""A writer with a model behind it: several conversations at once, each with its own angle, and repairs of what failed.

A subgraph of subgraphs: assign -> (write | repair)* -> END.
"""

import operator
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from ...state.brief import Brief, Scored
from ...state.candidate import Candidate, Language, make_candidate
from ...state.evaluation import Status
from . import repairer
from .briefing import verdict_text
from .conversation import HandIn, WriteTask, build_conversation
from .desk import Desk
from .nested import run_inside
from .prompts import version
from .repairer import Failure

REPAIRABLE = frozenset(
    (
        Status.COMPILE_ERROR,
        Status.RUNTIME_ERROR,
        Status.CONTRACT_ERROR,
        Status.INCORRECT_SHAPE,
        Status.INCORRECT_DTYPE,
        Status.INCORRECT_STRUCTURE,
        Status.INCORRECT_NUMERICAL,
        Status.NONDETERMINISTIC,
        Status.UNSAFE,
    )
)
"""Statuses that a change of the code can mend."""
LONGEST_CHAIN = 2
"""A repair of a repair is still repaired; what fails then is given up."""
REPAIRED = "repaired"


class RepairTask(Failure):
    """A failed candidate to repair."""

    parent: str
    repairs: int = 0
    """Repairs that led to it already."""


class Requested(TypedDict):
    writes: list[WriteTask]
    repairs: list[RepairTask]


class HandedIn(TypedDict):
    handed_in: Annotated[list[HandIn], operator.add]


class Request(Requested, HandedIn):
    pass


def fan_out(state: Request) -> list[Send]:
    """One branch a conversation."""
    writes = [Send("write", {"task": task}) for task in state["writes"]]
    return [*(Send("repair", task) for task in state["repairs"]), *writes]


def repair(state: RepairTask, runtime: Runtime[Desk]) -> dict[str, Any]:
    """Hands in the repairer's file, if there is one."""
    failure = Failure(source=state.source, verdict=state.verdict, tag=state.tag)
    made = run_inside(repairer.inner, {"failure": failure}, runtime.context)
    note = f"{REPAIRED} ({state.repairs + 1})"
    fixed = [HandIn(source=made["repaired"], note=note, parent=state.parent)] if made["repaired"] else []
    return {"handed_in": fixed}


def assign(state: Request) -> dict[str, Any]:
    """Nothing to decide any more: what is asked for was settled from the brief."""
    return {}


def build_writer(
    name: str, checkpointer: Literal[False] | None = None
) -> CompiledStateGraph[Request, Desk, Requested, HandedIn]:
    """assign -> Send(write | repair) -> END; `write` is the conversation's own graph."""
    builder: StateGraph[Request, Desk, Requested, HandedIn] = StateGraph(
        Request, input_schema=Requested, output_schema=HandedIn
    )
    builder.add_node("assign", assign)
    builder.add_node("write", build_conversation(checkpointer))
    builder.add_node("repair", repair, input_schema=RepairTask)
    builder.add_edge(START, "assign")
    builder.add_conditional_edges("assign", fan_out, ["write", "repair"])
    builder.add_edge("write", END)
    builder.add_edge("repair", END)
    return builder.compile(checkpointer=checkpointer, name=name)


triton_writer = build_writer("triton_writer")
cuda_writer = build_writer("cuda_writer")
_INNER = {"triton": build_writer("triton_writer", False), "cuda": build_writer("cuda_writer", False)}
"""For use inside a run, whose own checkpoints stay small that way."""


class LlmWriter:
    """A `Writer` that asks a model. `open_desk` gives each brief its collaborators."""

    def __init__(self, language: Language, open_desk: Callable[[Brief, Language], Desk], parallel: int = 2) -> None:
        self.name = f"llm-{language}"
        self._language: Language = language
        self._open_desk = open_desk
        self._parallel = parallel

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        """At most n candidates, kernels that tools judged among them; fewer where the model gives none."""
        writes, repairs = requests(brief, self._language, n, self._parallel)
        if not writes and not repairs:
            return []
        desk = self._open_desk(brief, self._language)
        made = run_inside(_INNER[self._language], {"writes": writes, "repairs": repairs}, desk)
        seeds = brief.seeds or ()
        parent = seeds[0].candidate.id if seeds and brief.directive in ("rewrite", "tune") else None
        found: dict[str, Candidate] = {}
        for each in made["handed_in"]:
            candidate = make_candidate(
                each.source,
                self._language,
                origin="llm",
                parent=each.parent or parent,
                note=each.note,
                prompt=version(),
            )
            if candidate.id not in brief.tried:
                found.setdefault(candidate.id, candidate)
        return list(found.values())[:n]


def requests(brief: Brief, language: Language, n: int, parallel: int) -> tuple[list[WriteTask], list[RepairTask]]:
    """How a request for n candidates is shared: repairs of the last failures first, then conversations.

    Evaluations that no hand-in needs go to the conversations' tools.
    """
    tag = f"r{brief.round}-{language}-{brief.rng_seed:08x}"
    failures = [each for each in brief.failures if _worth_repairing(each, language)]
    repairs = [
        RepairTask(
            source=each.candidate.source,
            verdict=verdict_text(each.evaluation),
            tag=f"{tag}-mend-{each.candidate.id[:8]}",
            parent=each.candidate.id,
            repairs=repairs_of(each.candidate),
        )
        for each in failures[: (n + 1) // 2]
    ]
    left = n - len(repairs)
    count = min(parallel, left)
    writes = [
        WriteTask(tag=f"{tag}-{index}", angle=len(brief.tried) + index, evaluations=(left - count + index) // count)
        for index in range(count)
    ]
    return writes, repairs


def _worth_repairing(failed: Scored, language: Language) -> bool:
    candidate = failed.candidate
    if candidate.origin != "llm" or candidate.language != language or failed.evaluation.status not in REPAIRABLE:
        return False
    return repairs_of(candidate) < LONGEST_CHAIN


def repairs_of(candidate: Candidate) -> int:
    """How many repairs led to it, as its note says."""
    found = re.fullmatch(rf"{REPAIRED} \((\d+)\)", candidate.note)
    return int(found[1]) if found else 0
