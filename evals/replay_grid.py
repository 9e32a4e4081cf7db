"""Grids: a part of a problem's slot space, measured setting by setting, so that searches run on it without a GPU.

A grid fixes every kernel step but the one with the most work. Of that step's templates it holds a few choices of each
slot that matters, and a time for every legal combination: a lookup that misses is an error, never an invented time.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import Field

from ..state.base import Record, digest
from ..state.candidate import Candidate, SlotValue
from ..state.device import DeviceSheet
from ..state.errors import InvalidInput
from ..state.plan import Plan
from ..state.problem import Problem
from ..state.program import LoopProgram, MatmulProgram
from ..sub_agents.kernel_source import KernelSource, Template
from ..sub_agents.offline_writer import Combination, OfflineWriter
from ..sub_agents.slots import Setting, Slot
from ..sub_agents.step_space import Choice, Costed, StepSpace
from ..sub_agents.templates.registry import templates

GRID_DIR = Path(__file__).parent / "replay"
Program = LoopProgram | MatmulProgram
Key = tuple[str, tuple[tuple[str, SlotValue], ...]]
ORDER = {"configuration": 0, "reduction": 1, "compute": 2, "memory": 3}
"""Roles in the order in which their slots are opened."""
KEPT_FIXED = ("exact_math", "fast_math", "precision", "scheme", "specialise", "reverse_last")
"""Slots that change accuracy, or that matter little: never opened."""
MOST_CHOICES = 4


class Entry(Record):
    """One measured setting of the grid's step."""

    template: str
    setting: dict[str, SlotValue]
    ms: float | None = None
    """Median GPU time of one forward call; None where it did not compile, run or come out right."""
    error: str = ""


class Grid(Record):
    """A fully enumerated part of a slot space, with times."""

    problem: Problem
    device: DeviceSheet
    plan: Plan
    step: str
    """Name of the kernel step whose settings vary."""
    fixed: dict[str, tuple[str, dict[str, SlotValue]]] = Field(default_factory=dict)
    """Template and setting of every other kernel step."""
    entries: tuple[Entry, ...]
    calls: int = 0
    """Timed calls a setting."""
    gpu: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    commit: str = ""
    command: str = ""

    @cached_property
    def times(self) -> dict[Key, float | None]:
        return {key_of(entry.template, entry.setting): entry.ms for entry in self.entries}

    @property
    def best_ms(self) -> float:
        return min(entry.ms for entry in self.entries if entry.ms is not None)

    def ms(self, template: str, setting: Setting) -> float | None:
        """The recorded time, None for a setting that failed. Raises InvalidInput for one that the grid lacks."""
        key = key_of(template, setting)
        if key not in self.times:
            raise InvalidInput(f"{self.problem.name}: the grid has no {template} with {setting}; record it again")
        return self.times[key]


def key_of(template: str, setting: Setting) -> Key:
    return template, tuple(sorted(setting.items()))


def open_grid(problem: Problem, plan: Plan, device: DeviceSheet, size: int) -> Grid:
    """A grid without times, of up to about `size` settings. Raises InvalidInput for a plan without a kernel."""
    spaces = OfflineWriter("triton", templates("triton"))._spaces(plan, device)
    if not spaces:
        raise InvalidInput(f"{problem.name}: no kernel step that the Triton templates cover")
    (step, space), *others = spaces.items()
    chosen = [choice.template for choice in space.promising()][:3]
    entries: list[Entry] = []
    for position, template in enumerate(chosen):
        share = (size - len(entries)) // (len(chosen) - position)
        entries += [Entry(template=template.name, setting=setting) for setting in _opened(space, template, share)]
    fixed = {name: (other.ranked()[0].template.name, other.ranked()[0].values) for name, other in others}
    return Grid(problem=problem, device=device, plan=plan, step=step, fixed=fixed, entries=tuple(entries))


def _opened(space: StepSpace, template: Template, size: int) -> list[Setting]:
    """Legal settings with as many slots open as fit, those that matter most first."""
    slots = space.slots(template)
    start = space.default(template)
    if start is None:
        return []
    choices: dict[str, tuple[SlotValue, ...]] = {name: (value,) for name, value in start.values.items()}
    settings = [start.values]
    for slot in sorted(slots, key=lambda slot: (slot.name != "num_warps", ORDER[slot.role])):
        if slot.name in KEPT_FIXED or len(slot.choices) < 2:
            continue
        for count in range(MOST_CHOICES, 1, -1):
            wider = {**choices, slot.name: _around(slot, start.values[slot.name], count)}
            found = [each for each in _combinations(wider) if space.legal(template)(each)]
            if len(settings) < len(found) <= size:
                choices, settings = wider, found
                break
    return settings


def _around(slot: Slot, value: SlotValue, count: int) -> tuple[SlotValue, ...]:
    """`count` neighbouring choices with the value among them, in the middle where it can be."""
    at = slot.choices.index(value)
    first = max(0, min(at - (count - 1) // 2, len(slot.choices) - count))
    return slot.choices[first : first + count]


def _combinations(choices: dict[str, tuple[SlotValue, ...]]) -> Iterator[Setting]:
    for values in product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


class GridTemplate:
    """A template that has only what the grid holds."""

    def __init__(self, base: Template, grid: Grid) -> None:
        self.name = base.name
        self.base = base
        self._grid = grid
        self._settings = [entry.setting for entry in grid.entries if entry.template == base.name]
        self._keys = {key_of(base.name, setting) for setting in self._settings}
        self._costs: dict[Key, float] = {}
        self._slots: dict[str, tuple[Slot, ...]] = {}

    def fits(self, program: Program, hints: dict[str, int]) -> bool:
        return bool(self._allowed(program)) and self.base.fits(program, hints)

    def slots(self, program: Program, hints: dict[str, int], device: DeviceSheet) -> tuple[Slot, ...]:
        """The base's slots with the grid's choices; a default that is not among them gives way to the first."""
        if program.name not in self._slots:
            self._slots[program.name] = tuple(
                self._narrow(slot, program) for slot in self.base.slots(program, hints, device)
            )
        return self._slots[program.name]

    def legal(self, program: Program, setting: Setting, hints: dict[str, int], device: DeviceSheet) -> bool:
        if program.name != self._grid.step:
            return setting == self._grid.fixed[program.name][1]
        return key_of(self.name, setting) in self._keys

    def render(
        self, program: Program, setting: Setting, values: dict[str, tuple[tuple[int | str, ...], str]]
    ) -> KernelSource:
        return self.base.render(program, setting, values)

    def _allowed(self, program: Program) -> Sequence[Setting]:
        if program.name == self._grid.step:
            return self._settings
        name, setting = self._grid.fixed.get(program.name, ("", {}))
        return [setting] if name == self.name else []

    def _narrow(self, slot: Slot, program: Program) -> Slot:
        held = {setting[slot.name] for setting in self._allowed(program)}
        choices = tuple(choice for choice in slot.choices if choice in held)
        return slot.model_copy(
            update={"choices": choices, "default": slot.default if slot.default in choices else choices[0]}
        )


class CostedGridTemplate(GridTemplate):
    """One whose base has a cost model."""

    def estimated_ms(self, program: Program, setting: Setting, hints: dict[str, int], device: DeviceSheet) -> float:
        key = key_of(program.name, setting)
        if key not in self._costs:
            assert isinstance(self.base, Costed)
            self._costs[key] = self.base.estimated_ms(program, setting, hints, device)
        return self._costs[key]


class GridWriter(OfflineWriter):
    """The offline writer on a grid. Its candidates are settings without a source: nothing is going to run them."""

    def __init__(self, grid: Grid) -> None:
        named = {entry.template for entry in grid.entries} | {name for name, _ in grid.fixed.values()}
        held = [template for template in templates("triton") if template.name in named]
        super().__init__(
            "triton",
            tuple((CostedGridTemplate if isinstance(t, Costed) else GridTemplate)(t, grid) for t in held),
        )
        self._opened = self._spaces(grid.plan, grid.device)

    def _spaces(self, plan: Plan, device: DeviceSheet) -> dict[str, StepSpace]:
        opened = getattr(self, "_opened", None)
        return opened if opened is not None else super()._spaces(plan, device)

    def _candidate(self, brief: Any, forward: Any, spaces: Any, combination: Combination) -> Candidate:
        slots: dict[str, SlotValue] = {}
        for step, choice in combination.items():
            slots[f"{step}.template"] = choice.template.name
            slots |= {f"{step}.{name}": value for name, value in choice.setting}
        names = dict.fromkeys(choice.template.name for choice in combination.values())
        return Candidate(
            id=digest(slots)[:16],
            language="triton",
            source="",
            origin="template",
            template="+".join(names),
            slots=slots,
        )


def setting_of(grid: Grid, candidate: Candidate) -> tuple[str, Setting]:
    """Template and setting of the grid's step in a candidate."""
    prefix = f"{grid.step}."
    own = {name.removeprefix(prefix): value for name, value in candidate.slots.items() if name.startswith(prefix)}
    template = own.pop("template")
    return str(template), own


def combination_of(grid: Grid, entry: Entry) -> Combination:
    """The combination that a grid's entry stands for, over the whole library."""
    library = {template.name: template for template in templates("triton")}
    combination = {name: Choice.of(library[template], setting) for name, (template, setting) in grid.fixed.items()}
    return {**combination, grid.step: Choice.of(library[entry.template], entry.setting)}


def save_grid(grid: Grid, folder: Path = GRID_DIR) -> Path:
    """Writes `<problem>.json.gz`; equal grids give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{grid.problem.name}.json.gz"
    file.write_bytes(gzip.compress(grid.model_dump_json().encode(), mtime=0))
    return file


def load_grids(folder: Path = GRID_DIR) -> list[Grid]:
    """Every grid of a folder, by name. Raises InvalidInput where a file is none."""
    grids = []
    for file in sorted(folder.glob("*.json.gz")):
        try:
            grids.append(Grid.model_validate(json.loads(gzip.decompress(file.read_bytes()))))
        except (ValueError, OSError, EOFError) as error:
            raise InvalidInput(f"{file}: is not a recorded grid; record it again") from error
    return grids
