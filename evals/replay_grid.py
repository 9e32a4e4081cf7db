"""Grids: a part of a problem's slot space, measured setting by setting, so that searches run on it without a GPU.

A grid fixes every kernel step but the one with the most work. Of that step's templates it holds a few choices of each
slot that matters, and a time for every legal combination: a lookup that misses is an error, never an invented time.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

from pydantic import Field

from ..state.base import Record, digest
from ..state.candidate import Candidate, SlotValue
from ..state.device import DeviceSheet
from ..state.errors import InvalidInput
from ..state.plan import Plan
from ..state.problem import Problem
from ..state.program import ForwardPlan, LoopProgram, MatmulProgram
from ..sub_agents.kernel_source import KernelSource, Template
from ..sub_agents.offline_writer import Combination, OfflineWriter
from ..sub_agents.slots import Setting, Slot
from ..sub_agents.step_space import Choice, StepSpace
from ..sub_agents.templates.registry import templates

GRID_DIR = Path(__file__).parent / "replay"
Program = LoopProgram | MatmulProgram
Key = tuple[str, tuple[tuple[str, SlotValue], ...]]
ORDER = {"configuration": 0, "reduction": 1, "compute": 2, "memory": 3}
"""Roles in the order in which their slots are opened."""
KEPT_FIXED = ("exact_math", "fast_math", "precision", "scheme", "specialise", "reverse_last")
"""Slots that change accuracy, or that matter little: never opened."""
MOST_CHOICES = 4
MOST_TEMPLATES = 3


class Entry(Record):
    """One measured setting of the grid's step."""

    template: str
    setting: dict[str, SlotValue]
    estimated_ms: float
    """What the writer's cost model said of this step when the grid was made."""
    ms: float | None = None
    """Median GPU time of one forward call; None where it did not compile, run or come out right."""
    error: str = ""


class FixedStep(Record):
    """The one choice for a step that does not vary."""

    template: str
    setting: dict[str, SlotValue]
    estimated_ms: float


class Grid(Record):
    """A fully enumerated part of a slot space, with times.

    It holds slots and estimates too, so that a replay does not change with the templates.
    """

    problem: Problem
    device: DeviceSheet
    plan: Plan
    step: str
    """Name of the kernel step whose settings vary."""
    slots: dict[str, tuple[Slot, ...]]
    """Of each template, with the choices that the grid has."""
    fixed: dict[str, FixedStep] = Field(default_factory=dict)
    """Every other kernel step."""
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
    spaces = OfflineWriter("triton", templates("triton"))._spaces(plan.forward, device)
    if not spaces:
        raise InvalidInput(f"{problem.name}: no kernel step that the Triton templates cover")
    (step, space), *others = spaces.items()
    chosen = [choice.template for choice in space.promising()][:MOST_TEMPLATES]
    entries: list[Entry] = []
    slots: dict[str, tuple[Slot, ...]] = {}
    for position, template in enumerate(chosen):
        settings = _opened(space, template, (size - len(entries)) // (len(chosen) - position))
        slots[template.name] = tuple(_narrowed(slot, settings) for slot in space.slots(template))
        for setting in settings:
            estimated_ms = space.estimated_ms(Choice.of(template, setting))
            entries.append(Entry(template=template.name, setting=setting, estimated_ms=estimated_ms))
    return Grid(
        problem=problem,
        device=device,
        plan=plan,
        step=step,
        slots=slots,
        fixed={name: _fixed(other) for name, other in others},
        entries=tuple(entries),
    )


def _fixed(space: StepSpace) -> FixedStep:
    choice = space.ranked()[0]
    return FixedStep(template=choice.template.name, setting=choice.values, estimated_ms=space.estimated_ms(choice))


def _narrowed(slot: Slot, settings: Sequence[Setting]) -> Slot:
    """The slot with the choices that occur; a default that does not gives way to the first."""
    held = {setting[slot.name] for setting in settings}
    choices = tuple(choice for choice in slot.choices if choice in held)
    return slot.model_copy(
        update={"choices": choices, "default": slot.default if slot.default in choices else choices[0]}
    )


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
    """A template as the grid has it: its slots, its settings, and what the cost model said of them."""

    def __init__(self, name: str, grid: Grid) -> None:
        self.name = name
        self._grid = grid
        self._estimates = {key_of(e.template, e.setting): e.estimated_ms for e in grid.entries if e.template == name}

    def fits(self, program: Program, hints: dict[str, int]) -> bool:
        if program.name == self._grid.step:
            return bool(self._estimates)
        return self.name == self._grid.fixed[program.name].template

    def slots(self, program: Program, hints: dict[str, int], device: DeviceSheet) -> tuple[Slot, ...]:
        if program.name == self._grid.step:
            return self._grid.slots[self.name]
        setting = self._grid.fixed[program.name].setting
        return tuple(
            Slot(name=name, role="configuration", choices=(value,), default=value) for name, value in setting.items()
        )

    def legal(self, program: Program, setting: Setting, hints: dict[str, int], device: DeviceSheet) -> bool:
        if program.name == self._grid.step:
            return key_of(self.name, setting) in self._estimates
        return setting == self._grid.fixed[program.name].setting

    def estimated_ms(self, program: Program, setting: Setting, hints: dict[str, int], device: DeviceSheet) -> float:
        """Recorded; infinite for a setting that the grid lacks, which is not legal either."""
        if program.name == self._grid.step:
            return self._estimates.get(key_of(self.name, setting), inf)
        return self._grid.fixed[program.name].estimated_ms

    def render(
        self, program: Program, setting: Setting, values: dict[str, tuple[tuple[int | str, ...], str]]
    ) -> KernelSource:
        raise NotImplementedError("settings of a grid are looked up and never rendered")


class GridWriter(OfflineWriter):
    """The offline writer on a grid. Its candidates are settings without a source: nothing is going to run them."""

    def __init__(self, grid: Grid) -> None:
        named = dict.fromkeys([*grid.slots, *(step.template for step in grid.fixed.values())])
        super().__init__("triton", tuple(GridTemplate(name, grid) for name in named))
        self._opened = self._spaces(grid.plan.forward, grid.device)

    def _spaces(self, forward: ForwardPlan | None, device: DeviceSheet) -> dict[str, StepSpace]:
        opened = getattr(self, "_opened", None)
        return opened if opened is not None else super()._spaces(forward, device)

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
    combination = {name: Choice.of(library[each.template], each.setting) for name, each in grid.fixed.items()}
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
