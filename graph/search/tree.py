"""Monte Carlo tree search over candidates: UCT chooses what to change next, rewards are backed up to every ancestor.

A node is a candidate, its children are the candidates that were made from it; the root's are those that were made from
nothing. UCT: Kocsis and Szepesvari (2006); progressive widening, for nodes with too many possible children to try all:
Coulom (2007).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil, inf, log, sqrt

from ...state.channels import WriterRequest
from ...state.trajectory import Row
from .pacing import temperature
from .standing import Standing
from .strategy import Phased, ask, first_language

ROOT = ""
EXPLORATION = 0.25
"""Weight of the term for what was seldom tried; rewards lie in [0, 1]."""


class TreeSearch(Phased):
    """A round's candidates are chosen one after the other, each counted as a visit before the next is chosen."""

    name = "mcts"

    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        languages = {row.id: row.language for row in self.candidates(standing)}
        tree = Tree([row for row in standing.rows if row.rank <= 0 or row.id in languages])
        chosen: Counter[str] = Counter()
        for _ in range(room):
            node = tree.select()
            tree.visit(node)
            chosen[node] += 1
        heat = temperature(standing, standing.context.width)
        return tuple(
            ask(standing, languages[node], "tune", n, part=part, seeds=(node,), temperature=heat)
            if node != ROOT
            else ask(standing, first_language(standing.context), "explore", n, part=part)
            for part, (node, n) in enumerate(chosen.items())
        )


class Tree:
    """Visits and rewards of every candidate, its descendants' counted in."""

    def __init__(self, rows: Sequence[Row]) -> None:
        known = {row.id for row in rows}
        best = max((row.rank for row in rows), default=0.0) or 1.0
        self.alive = {row.id for row in rows if row.rank > 0}
        self.parents = {row.id: row.parent if row.parent in known else ROOT for row in rows}
        self.children: dict[str, list[str]] = defaultdict(list)
        self.visits: Counter[str] = Counter()
        self.rewards: dict[str, float] = defaultdict(float)
        self.expected: Counter[str] = Counter()
        for row in rows:
            self.children[self.parents[row.id]].append(row.id)
            self.visit(row.id, row.rank / best)

    def visit(self, node: str, reward: float | None = None) -> None:
        """Counts a visit of a node and all above it. Without a reward it is one that is still under way."""
        if reward is None:
            self.expected[node] += 1
        while True:
            self.visits[node] += 1
            self.rewards[node] += reward or 0.0
            if node == ROOT:
                return
            node = self.parents[node]

    def select(self) -> str:
        """The node to make the next child of: down by UCT until a node may have another child."""
        node = ROOT
        while True:
            living = [child for child in self.children[node] if child in self.alive]
            made = len(self.children[node]) + self.expected[node]
            if not living or made < ceil(sqrt(self.visits[node] + 1)):
                return node
            node = max(living, key=lambda child: self.uct(node, child))

    def uct(self, parent: str, child: str) -> float:
        """Mean reward and what little knowledge adds to it."""
        visits = self.visits[child]
        if visits == 0:
            return inf
        return self.rewards[child] / visits + EXPLORATION * sqrt(log(self.visits[parent] + 1) / visits)
