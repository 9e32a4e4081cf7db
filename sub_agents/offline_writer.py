"""Writes candidates without a model: chooses a template and a setting for every kernel step of the plan.

A candidate is one combination of choices for all steps; its slots are named `step.slot`, with the template as
`step.template`. The same brief always gives the same candidates.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Protocol, runtime_checkable

from ..state.brief import Brief
from ..state.candidate import Candidate, Language, SlotValue, make_candidate
from ..state.device import DeviceSheet
from ..state.plan import Plan
from ..state.program import ForwardPlan, Load, LoopProgram, MatmulProgram, Operand, Store
from ..state.sizes import value
from . import slot_moves
from .forward_source import candidate_source
from .kernel_source import KernelSource, Template
from .slots import Setting, Slot

Program = LoopProgram | MatmulProgram
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
MOST_TRIES = 400
"""Combinations looked at for one candidate before giving up: after that the space counts as exhausted."""


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


_Stream = tuple[str, Template, Iterator[Setting]]
Combination = dict[str, Choice]
"""A choice for every kernel step, by the step's name."""

Rewriting = Callable[["StepSpace", Mapping[str, SlotValue]], list[Choice]]
"""Choices in this writer's language that start from a seed's template and slots for the same step."""


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


def traffic_ms(program: Program, hints: Mapping[str, int], device: DeviceSheet) -> float:
    """The greater of two times: moving operands and results once at copy bandwidth, multiplying at the matrix rate."""
    accesses: tuple[Load | Store | Operand, ...] = (*program.loads, *program.stores)
    flops = 0.0
    if isinstance(program, MatmulProgram):
        k, n, m = (value(size, hints) for size in (program.k, program.n, program.m))
        batch = 1
        for size in program.batch:
            batch *= value(size, hints)
        flops = 2.0 * batch * m * n * k
        moved = sum(batch * k * side * _BYTES.get(program.a.dtype, 4) for side in (m, n))
    else:
        moved = 0
    for access in accesses:
        elements = 1
        for size, stride in zip(program.space, access.strides, strict=True):
            elements *= value(size, hints) if stride != 0 else 1
        moved += elements * _BYTES.get(access.dtype, 1)
    rate = max(device.matmul_flops.values(), default=0.0) or max(device.peak_flops.values(), default=1e15)
    return 1e3 * max(moved / device.copy_bytes_per_s, flops / rate)


def carry_over(space: StepSpace, seed: Mapping[str, SlotValue]) -> list[Choice]:
    """The generic rewriting: every fitting template with the seed's values in slots of the same name."""
    choices = []
    for template in space.templates:
        setting = slot_moves.carried(space.slots(template), seed)
        if space.legal(template)(setting):
            choices.append(Choice.of(template, setting))
    return choices or space.promising()[:1]


class OfflineWriter:
    """A `Writer` over a template library.

    `fallback` templates of another language serve steps that no own template fits; a combination without any own
    template is never proposed. `rewriting` turns a seed's choices into own ones.
    """

    def __init__(
        self,
        language: Language,
        templates: tuple[Template, ...],
        fallback: tuple[Template, ...] = (),
        rewriting: Rewriting = carry_over,
    ) -> None:
        self.name = f"offline-{language}"
        self._language: Language = language
        self._templates = templates
        self._fallback = fallback
        self._rewriting = rewriting

    def propose(self, brief: Brief, n: int) -> list[Candidate]:
        """At most n new candidates, the most promising first; none if the plan has no kernel step for this writer."""
        forward = brief.plan.forward
        spaces = self._spaces(brief.plan, brief.device)
        if forward is None or not spaces:
            return []
        tried, found = set(brief.tried), list[Candidate]()
        proposals = self._proposals(brief, spaces, Random(f"{brief.rng_seed} {brief.directive} {len(tried)}"))
        for combination, parent, note in islice(proposals, MOST_TRIES * max(1, n)):
            if len(found) == n:
                break
            candidate = self._candidate(brief, forward, spaces, combination).model_copy(
                update={"parent": parent, "note": note}
            )
            if candidate.id not in tried:
                tried.add(candidate.id)
                found.append(candidate)
        return found

    def _spaces(self, plan: Plan, device: DeviceSheet) -> dict[str, StepSpace]:
        """The choices for every kernel step, the step with the most work first; empty if some step has none."""
        spaces: dict[str, StepSpace] = {}
        if plan.forward is None:
            return spaces
        own = False
        hints = plan.forward.hints
        for step in plan.forward.steps:
            if not isinstance(step, LoopProgram | MatmulProgram):
                continue
            fitting = tuple(t for t in self._templates if t.fits(step, hints))
            own = own or bool(fitting)
            fitting = fitting or tuple(t for t in self._fallback if t.fits(step, hints))
            space = StepSpace(step, fitting, hints, device)
            if not space.promising():
                return {}
            spaces[step.name] = space
        if not own:
            return {}
        heaviest = sorted(spaces.items(), key=lambda pair: -traffic_ms(pair[1].program, pair[1].hints, device))
        return dict(heaviest)

    def _proposals(
        self, brief: Brief, spaces: dict[str, StepSpace], rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        seeds = [scored.candidate for scored in brief.seeds or brief.pool]
        if brief.directive == "rewrite":
            yield from self._rewrites(seeds, spaces)
        if brief.directive in ("tune", "repair"):
            yield from self._tuned(seeds, spaces, rng, brief.temperature)
        if brief.directive == "diversify":
            yield from self._different([scored.candidate for scored in brief.pool], spaces, rng)
        yield from self._explored(spaces, rng)

    def _explored(self, spaces: dict[str, StepSpace], rng: Random) -> Iterator[tuple[Combination, str | None, str]]:
        """Defaults of every template, then an even spread, each on the heaviest step first."""
        ranked = {name: space.promising() for name, space in spaces.items()}
        best: Combination = {name: choices[0] for name, choices in ranked.items()}
        yield best, None, "defaults"
        for name, choices in ranked.items():
            for choice in choices[1:]:
                yield {**best, name: choice}, None, f"{name} by {choice.template.name}"
        streams: list[_Stream] = []
        for name, choices in ranked.items():
            for choice in choices:
                settings = slot_moves.spread(
                    spaces[name].slots(choice.template), spaces[name].legal(choice.template), rng, 64
                )
                streams.append((name, choice.template, settings))
        for name, template, settings in _weighted(streams):
            setting = next(settings, None)
            if setting is not None:
                yield {**best, name: Choice.of(template, setting)}, None, f"spread over {template.name}"

    def _different(
        self, pool: list[Candidate], spaces: dict[str, StepSpace], rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """Combinations whose structure no candidate of the pool has."""
        known = {_structure(spaces, each) for each in map(lambda c: _parse(c, spaces), pool) if each is not None}
        base = next((each for c in pool if (each := _parse(c, spaces)) is not None), None)
        best = base or {name: space.promising()[0] for name, space in spaces.items()}
        for name, space in spaces.items():
            options: list[Choice] = []
            for choice in space.promising():
                options.append(choice)
                options += [
                    Choice.of(choice.template, setting)
                    for setting in slot_moves.spread(
                        space.slots(choice.template), space.legal(choice.template), rng, 24
                    )
                ]
            for choice in options:
                combination = {**best, name: choice}
                structure = _structure(spaces, combination)
                if structure not in known:
                    known.add(structure)
                    yield combination, None, f"another structure for {name}"

    def _tuned(
        self, seeds: list[Candidate], spaces: dict[str, StepSpace], rng: Random, temperature: float
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """One slot of a seed moved to a neighbour, then two; hotter is farther."""
        reach = 1 + int(temperature > 0.5) + int(temperature > 1.5)
        parsed = [(seed.id, each) for seed in seeds if (each := _parse(seed, spaces)) is not None]
        single: list[tuple[str, Combination]] = []
        for parent, combination in parsed:
            for name, space in spaces.items():
                moves = _moves(space, combination[name], reach)
                near = [m for m in moves if m[0] == 1]
                far = [m for m in moves if m[0] > 1]
                rng.shuffle(near)
                rng.shuffle(far)
                single += [(parent, {**combination, name: choice}) for _, choice in (*near, *far)]
        for parent, combination in single:
            yield combination, parent, "one slot moved"
        for _ in range(4 * len(single)):
            parent, combination = rng.choice(single)
            name = rng.choice(list(spaces))
            moves = _moves(spaces[name], combination[name], reach)
            if moves:
                yield {**combination, name: rng.choice(moves)[1]}, parent, "two slots moved"

    def _rewrites(
        self, seeds: list[Candidate], spaces: dict[str, StepSpace]
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """Each seed's structure and tile sizes in this language, round-robin over the seeds."""
        queues = []
        for seed in seeds:
            ranked = {name: self._rewriting(space, _step_slots(seed, name)) for name, space in spaces.items()}
            ranked = {name: choices or spaces[name].promising() for name, choices in ranked.items()}
            best: Combination = {name: choices[0] for name, choices in ranked.items()}
            others = [{**best, name: choice} for name, choices in ranked.items() for choice in choices[1:]]
            queues.append((seed.id, [best, *others]))
        for turn in range(max((len(queue) for _, queue in queues), default=0)):
            for parent, queue in queues:
                if turn < len(queue):
                    yield queue[turn], parent, f"rewritten in {self._language}"

    def _candidate(
        self, brief: Brief, forward: ForwardPlan, spaces: dict[str, StepSpace], combination: Combination
    ) -> Candidate:
        values = {name: (each.shape, each.dtype) for name, each in forward.values.items()}
        kernels: dict[str, KernelSource] = {}
        slots: dict[str, SlotValue] = {}
        for step in forward.steps:
            if step.name not in combination:
                continue
            choice = combination[step.name]
            kernels[step.name] = choice.template.render(spaces[step.name].program, choice.values, values)
            slots[f"{step.name}.template"] = choice.template.name
            slots |= {f"{step.name}.{slot}": setting for slot, setting in choice.setting}
        names = dict.fromkeys(combination[name].template.name for name in kernels)
        return make_candidate(
            candidate_source(brief.problem.source, forward, kernels),
            self._language,
            origin="template",
            template="+".join(names),
            slots=slots,
        )


def _weighted(streams: list[_Stream]) -> Iterator[_Stream]:
    """Streams in turn, the earlier ones more often: 0, 0 1, 0 1 2, ... then all."""
    for _ in range(16):
        for depth in range(1, len(streams) + 1):
            yield from streams[:depth]


def _step_slots(candidate: Candidate, step: str) -> dict[str, SlotValue]:
    prefix = f"{step}."
    return {name.removeprefix(prefix): v for name, v in candidate.slots.items() if name.startswith(prefix)}


def _parse(candidate: Candidate, spaces: dict[str, StepSpace]) -> Combination | None:
    """The combination that a candidate of this writer was made from, None for anybody else's."""
    combination: Combination = {}
    for name, space in spaces.items():
        slots = _step_slots(candidate, name)
        template = next((t for t in space.templates if t.name == slots.get("template")), None)
        if template is None:
            return None
        setting = {slot.name: slots.get(slot.name, slot.default) for slot in space.slots(template)}
        combination[name] = Choice.of(template, setting)
    return combination


def _structure(spaces: dict[str, StepSpace], combination: Combination) -> tuple[object, ...]:
    """What makes two kernels different in kind: templates, reduction strategies and the shape of tiles."""
    parts: list[object] = []
    for name, choice in combination.items():
        setting = choice.values
        kinds = [
            setting[slot.name]
            for slot in spaces[name].slots(choice.template)
            if slot.role == "reduction" or slot.name == "tile"
        ]
        parts.append((name, choice.template.name, *kinds))
    return tuple(sorted(parts, key=repr))


def _moves(space: StepSpace, choice: Choice, reach: int) -> list[tuple[int, Choice]]:
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
