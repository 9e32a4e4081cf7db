"""Islands: several lines that go on apart, take in each other's best from time to time, and an archive of kinds."""

from collections.abc import Sequence

from ...state.channels import Context, WriterRequest
from ...state.trajectory import Row
from .archive import least_tried_elite
from .pacing import diversity_interval, temperature, varied_slot
from .standing import Standing
from .strategy import Phased, ask, first_language, shared_out


class IslandSearch(Phased):
    """Each island changes its own best; the last one starts from the archive's least tried cell.

    First candidates are dealt out to the islands in turn; later ones belong to the island that asked for them.
    """

    name = "islands"
    heeds_counters = True

    def steps(self, standing: Standing, room: int) -> tuple[WriterRequest, ...]:
        kept = self.candidates(standing)
        if not kept:
            return (ask(standing, first_language(standing.context), "explore", room),)
        count = min(islands_of(standing.context), room)
        seeds = [self._seed(standing, kept, island, count) for island in range(count)]
        width = standing.context.width
        return tuple(
            ask(
                standing,
                seed.language,
                "tune",
                n,
                part=island,
                seeds=(seed.id,),
                temperature=temperature(standing, width),
                vary=varied_slot(standing, width),
                tag=f"island-{island}",
            )
            for island, (seed, n) in enumerate(zip(seeds, shared_out(room, count), strict=True))
            if n
        )

    def _seed(self, standing: Standing, kept: Sequence[Row], island: int, count: int) -> Row:
        if count > 1 and island == count - 1:
            elite = least_tried_elite(kept, standing.rows)
            if elite is not None:
                return elite
        home = island_members(standing, islands_of(standing.context))
        own = [row for row in kept if home.get(row.id) == island]
        if migration_due(standing):
            neighbour = (island - 1) % count
            own += [row for row in kept if home.get(row.id) == neighbour]
        return max(own, key=lambda row: row.rank, default=kept[0])


def islands_of(context: Context) -> int:
    """Two islands in short searches, three from 24 evaluations, four from 64."""
    return 2 if context.budget < 24 else 3 if context.budget < 64 else 4


def migration_due(standing: Standing) -> bool:
    """Every few rounds, half-way between two rounds of forced diversity."""
    interval = diversity_interval(standing.rounds_of_budget(standing.context.width))
    return standing.state.round % interval == interval // 2


def island_members(standing: Standing, count: int) -> dict[str, int]:
    """Which island each row belongs to."""
    home = {}
    for index, row in enumerate(standing.rows):
        tag = row.asked.partition("island-")[2]
        home[row.id] = int(tag) if tag.isdigit() else index % count
    return home
