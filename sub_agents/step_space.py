"""What can be chosen for one kernel step, and in which order a search should look at it.

The order is the cost model's where a template has one: choices that it puts far above the best are left to the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from typing import Protocol, TypeVar, runtime_checkable

from ..state.candidate import SlotValue
from ..state.device import DeviceSheet
from ..state.dtypes import BYTES
from ..state.program import Load, LoopProgram, MatmulProgram, Operand, Store
from ..state.sizes import product, value
from . import slot_moves
from .kernel_source import Template
from .slots import Setting, Slot

Program = LoopProgram | MatmulProgram
_T = TypeVar("_T")
HOPELESS = 1.6
"""How many times as long as the best estimate a choice may take before it is left to the very end."""
SHAPING = 3
"""The greatest weight of a slot that changes a kernel's shape."""
MATHEMATICS = ("exact_math", "fast_math")
"""Slots that give up accuracy: moved early only where the cost model sees a gain."""
UNLIKELY = (*MATHEMATICS, "specialise")
"""Slots whose other choices are tried only where the cost model sees a gain."""
CHEAPER = 0.92
"""The share of the time at which cheaper mathematics is tried first."""
MOST_STEPS = 6
"""Moves downhill by the cost model."""
CLOSE = 1.15
"""How many times as long the second best may take for its neighbours to be tried as often as the best one's."""
PLAUSIBLE = 1.3
"""How many times as long as the best estimate a choice may take to be among the first."""


@runtime_checkable
class Costed(Protocol):
    """A template that can say how long a setting should take. Only ratios matter."""

    def estimated_ms(self, program: Program, setting: Setting, hints: dict[str, int], device: DeviceSheet) -> float: ...


@dataclass(frozen=True)
class Choice:
    """A template with a setting, for one step."""

    template: Template
    setting: tuple[tuple[str, SlotValue], ...]

    @classmethod
    def of(cls, template: Template, setting: Setting) -> "Choice":
        return cls(template, tuple(setting.items()))

    @property
    def values(self) -> Setting:
        return dict(self.setting)


@dataclass(frozen=True)
class StepSpace:
    """What can be chosen for one step."""

    program: Program
    templates: tuple[Template, ...]
    hints: dict[str, int]
    device: DeviceSheet

    def slots(self, template: Template) -> tuple[Slot, ...]:
        return template.slots(self.program, self.hints, self.device)

    def legal(self, template: Template) -> slot_moves.Legal:
        return lambda setting: template.legal(self.program, setting, self.hints, self.device)

    def default(self, template: Template) -> Choice | None:
        """The template's default setting, or its first legal one, None if there is none."""
        slots = self.slots(template)
        setting = slot_moves.defaults(slots)
        if self.legal(template)(setting):
            return Choice.of(template, setting)
        found = next(iter(slot_moves.spread(slots, self.legal(template), Random(0), 1)), None)
        return None if found is None else Choice.of(template, found)

    def estimated_ms(self, choice: Choice) -> float:
        if isinstance(choice.template, Costed):
            return choice.template.estimated_ms(self.program, choice.values, self.hints, self.device)
        return traffic_ms(self.program, self.hints, self.device)

    def promising(self) -> list[Choice]:
        """Default choices of all templates, the cheapest first by the cost model (ties in the library's order)."""
        found = [choice for template in self.templates if (choice := self.default(template)) is not None]
        return sorted(found, key=self.estimated_ms)

    def ranked(self) -> list[Choice]:
        """Defaults, and what the cost model makes of them, the cheapest first; a default within 5% leads."""
        found: dict[Choice, float] = {}
        for choice in self.promising():
            found.setdefault(choice, self.estimated_ms(choice))
            better = self.refined(choice)
            found.setdefault(better, 1.05 * self.estimated_ms(better))
        return sorted(found, key=lambda choice: found[choice])

    def refined(self, choice: Choice) -> Choice:
        """The setting that single moves of the slots of a kernel's shape lead to, downhill by the cost model."""
        slots, legal = self.slots(choice.template), self.legal(choice.template)
        shaping = [slot for slot in slots if slot.role in ("configuration", "reduction") or slot.name == "stages"]
        best, best_ms = choice, self.estimated_ms(choice)
        for _ in range(MOST_STEPS):
            around = [
                Choice.of(choice.template, {**best.values, slot.name: other})
                for slot in shaping
                for other in slot.choices
                if other != best.values[slot.name]
            ]
            legal_ones = [each for each in around if legal(each.values)]
            nearest = min(legal_ones, key=self.estimated_ms, default=best)
            if self.estimated_ms(nearest) > 0.98 * best_ms:
                break
            best, best_ms = nearest, self.estimated_ms(nearest)
        return best


def traffic_ms(program: Program, hints: Mapping[str, int], device: DeviceSheet) -> float:
    """The greater of two times: moving operands and results once at copy bandwidth, multiplying at the matrix rate."""
    moved, flops = _work(program, hints)
    rate = max(device.matmul_flops.values(), default=0.0) or max(device.peak_flops.values(), default=1e15)
    return 1e3 * max(moved / device.copy_bytes_per_s, flops / rate)


def _work(program: Program, hints: Mapping[str, int]) -> tuple[float, float]:
    """Bytes that move, and FLOPs of products."""
    accesses: tuple[Load | Store | Operand, ...] = (*program.loads, *program.stores)
    moved, flops = 0.0, 0.0
    if isinstance(program, MatmulProgram):
        k, n, m = (value(size, hints) for size in (program.k, program.n, program.m))
        batch = value(product(program.batch), hints)
        flops = program.flops(hints)
        windows = program.b.windows
        right = k * n if windows is None else value(windows.elements, hints)
        moved = batch * right * (1 if program.also is None else 2) * BYTES.get(program.b.dtype, 4)
        if program.scores is None:
            moved += batch * m * k * BYTES.get(program.a.dtype, 4)
        else:
            moved += _work(program.scores, hints)[0]
    else:
        points = value(product(program.space), hints)
        tables = program.tables.values()
        moved = sum(min(value(t.extent, hints), points) * BYTES.get(t.dtype, 1) for t in tables)
    for access in accesses:
        elements = 1
        for size, stride in zip(program.space, access.strides, strict=True):
            elements *= value(size, hints) if stride != 0 else 1
        moved += elements * BYTES.get(access.dtype, 1)
    return moved, flops


def leading_choices(space: StepSpace, ranked: list[Choice], count: int) -> list[Choice]:
    """The first of the ranked choices, one default among them: the model may be wrong about what it made itself."""
    plausible = worthwhile(space, ranked, PLAUSIBLE)[:count]
    defaults = set(space.promising())
    if count < 3 or len(plausible) < 2 or not defaults.isdisjoint(plausible):
        return plausible
    default = [choice for choice in worthwhile(space, ranked) if choice in defaults][:1]
    return plausible[: count - len(default)] + default


def worthwhile(space: StepSpace, choices: list[Choice], most: float = HOPELESS) -> list[Choice]:
    """Those that the cost model puts at no more than `most` times the best of them."""
    times = {choice: space.estimated_ms(choice) for choice in choices}
    least = min(times.values(), default=0.0)
    return [choice for choice in choices if times[choice] <= most * least]


def telling_moves(space: StepSpace, choice: Choice, reach: int, rng: Random) -> Iterator[Choice]:
    """Neighbours of a choice: every slot's likelier move first, slots in the order in which they usually matter."""
    now = space.estimated_ms(choice)
    moved: dict[str, list[tuple[int, float, float, Choice]]] = {}
    for distance, each in moves_of(space, choice, reach):
        name = next(slot for slot, setting in each.setting if choice.values[slot] != setting)
        estimate = space.estimated_ms(each)
        if estimate <= HOPELESS * now:
            moved.setdefault(name, []).append((distance, round(estimate / now, 2), rng.random(), each))
    weights = {slot.name: _weight(slot) for slot in space.slots(choice.template)}
    weights |= {name: 0 for name in MATHEMATICS if name in moved and min(moved[name])[1] <= CHEAPER}
    ordered = {name: sorted(moved[name], key=lambda m: m[:3]) for name in sorted(moved, key=lambda name: weights[name])}
    for shaping in (True, False):
        groups = []
        for name, found in ordered.items():
            if (weights[name] <= SHAPING) == shaping:
                gains = [m for m in found if name not in UNLIKELY or m[1] < 1]
                groups.append(iter([each for *_, each in gains]))
        yield from in_turn(groups)


def _weight(slot: Slot) -> int:
    """How late a slot comes: what moving it changes is the block's shape, the loop's, or only how a cache is used."""
    if slot.name == "num_warps":
        return 0
    if slot.name in ("stages", "num_stages"):
        return SHAPING
    return {"configuration": 1, "reduction": 2, "compute": 4, "memory": 5}[slot.role]


def moves_of(space: StepSpace, choice: Choice, reach: int) -> list[tuple[int, Choice]]:
    """Legal neighbours of a choice with their distance in places."""
    slots = space.slots(choice.template)
    legal = space.legal(choice.template)
    found = []
    for setting in slot_moves.neighbours(slots, choice.values, reach):
        if legal(setting):
            distance = sum(
                abs(slot_moves.place(s, setting[s.name]) - slot_moves.place(s, choice.values[s.name])) for s in slots
            )
            found.append((distance, Choice.of(choice.template, setting)))
    return found


def in_turn(streams: Sequence[Iterator[_T]]) -> Iterator[_T]:
    """One of each stream, again and again."""
    missing = object()
    for turn in zip_longest(*streams, fillvalue=missing):
        yield from (each for each in turn if each is not missing)  # type: ignore[misc]


def best_twice(streams: list[list[_T]]) -> Iterator[_T]:
    """In turn, the first stream twice as often as the others."""
    if len(streams) < 2:
        yield from (each for stream in streams for each in stream)
        return
    first, *others = streams
    halves = iter(first[::2]), iter(first[1::2])
    yield from in_turn([halves[0], iter(others[0]), halves[1], *map(iter, others[1:])])
