"""Writes candidates without a model: chooses a template and a setting for every kernel step of the plan.

A candidate is one combination of choices for all steps; its slots are named `step.slot`, with the template as
`step.template`. The same brief always gives the same candidates.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, zip_longest
from random import Random

from ..state.brief import Brief
from ..state.candidate import Candidate, Language, SlotValue, make_candidate
from ..state.device import DeviceSheet
from ..state.program import ForwardPlan, LoopProgram, MatmulProgram
from . import slot_moves
from .choice_lists import kinds, one_slot, small_grid
from .forward_source import candidate_source
from .kernel_source import KernelSource, Template
from .slots import Setting
from .step_space import (
    CLOSE,
    HOPELESS,
    Choice,
    StepSpace,
    best_twice,
    in_turn,
    leading_choices,
    moves_of,
    telling_moves,
    traffic_ms,
    worthwhile,
)
from .ways import Way, parted

__all__ = ["Choice", "OfflineWriter", "Rewriting", "StepSpace", "carry_over"]

LIGHT = 0.1
"""The share of the time below which a step is not worth an early proposal."""
MOST_TRIES = 400
"""Combinations looked at for one candidate before giving up: after that the space counts as exhausted."""


_Stream = tuple[str, Template, Iterator[Setting]]
Combination = dict[str, Choice]
"""A choice for every kernel step, by the step's name."""

Rewriting = Callable[[StepSpace, Mapping[str, SlotValue]], list[Choice]]
"""Choices in this writer's language that start from a seed's template and slots for the same step."""


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

    heeds_counters = False
    """A profile costs seconds and would not change a proposal."""

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
        tried, found = set(brief.tried), list[Candidate]()
        streams = [
            self._written(way, Random(f"{brief.rng_seed} {brief.directive} {len(tried)}")) for way in self._ways(brief)
        ]
        for candidate in islice(in_turn(streams), MOST_TRIES * max(1, n)):
            if len(found) == n:
                break
            if candidate.id not in tried:
                tried.add(candidate.id)
                found.append(candidate)
        return found

    def _ways(self, brief: Brief) -> list[Way]:
        plans = [each for each in (brief.plan.forward, brief.plan.apart) if each is not None]
        made = [(each, self._spaces(each, brief.device)) for each in plans]
        return parted([Way(brief, forward, spaces) for forward, spaces in made if spaces])

    def _written(self, way: Way, rng: Random) -> Iterator[Candidate]:
        for combination, parent, note in self._proposals(way.brief, way.spaces, rng):
            candidate = self._candidate(way.brief, way.forward, way.spaces, combination)
            yield candidate.model_copy(update={"parent": parent, "note": note})

    def reproduce(self, brief: Brief, slots: dict[str, SlotValue]) -> Candidate | None:
        """The candidate that these slots stand for on the brief's problem, or the nearest; None where that is far.

        Steps are matched by their order, since their names may differ.
        """
        forward, spaces = brief.plan.forward, self._spaces(brief.plan.forward, brief.device)
        steps = [step.name for step in forward.steps if step.name in spaces] if forward else []
        theirs = list(dict.fromkeys(name.partition(".")[0] for name in slots))
        if forward is None or not steps or len(steps) != len(theirs):
            return None
        names = dict(zip(theirs, steps, strict=True))
        renamed = {f"{names[name.partition('.')[0]]}.{name.partition('.')[2]}": value for name, value in slots.items()}
        combination = _parse(make_candidate("", self._language, slots=renamed), spaces)
        if combination is None:
            return None
        fitted: Combination = {}
        for name, choice in combination.items():
            slots_here = spaces[name].slots(choice.template)
            wanted = slot_moves.carried(slots_here, choice.values)
            setting = slot_moves.nearest_legal(slots_here, wanted, spaces[name].legal(choice.template))
            if setting is None:
                return None
            fitted[name] = Choice.of(choice.template, setting)
        return self._candidate(brief, forward, spaces, fitted)

    def _spaces(self, forward: ForwardPlan | None, device: DeviceSheet) -> dict[str, StepSpace]:
        """The choices for every kernel step, the step with the most work first; empty if some step has none."""
        spaces: dict[str, StepSpace] = {}
        if forward is None:
            return spaces
        own = False
        hints = forward.hints
        for step in forward.steps:
            if not isinstance(step, LoopProgram | MatmulProgram):
                continue
            own_space = self._space(self._templates, step, hints, device)
            own = own or own_space is not None
            # A template may fit what this device has no instructions for.
            space = own_space or self._space(self._fallback, step, hints, device)
            if space is None:
                return {}
            spaces[step.name] = space
        if not own:
            return {}
        heaviest = sorted(spaces.items(), key=lambda pair: -traffic_ms(pair[1].program, pair[1].hints, device))
        return dict(heaviest)

    @staticmethod
    def _space(
        templates: tuple[Template, ...], step: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> StepSpace | None:
        """The choices among these templates, None where there is none."""
        space = StepSpace(step, tuple(t for t in templates if t.fits(step, hints)), hints, device)
        return space if space.promising() else None

    def _proposals(
        self, brief: Brief, spaces: dict[str, StepSpace], rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        seeds = [scored.candidate for scored in brief.seeds or brief.pool]
        if brief.directive == "rewrite":
            yield from self._rewrites(seeds, spaces)
        if brief.directive == "tune":
            if brief.vary is not None:
                yield from self._varied(seeds, spaces, brief.vary)
            yield from self._tuned(seeds, spaces, rng, brief.temperature)
        if brief.directive == "diversify":
            yield from self._different([scored.candidate for scored in brief.pool], spaces, rng)
        pool = [each for scored in brief.pool if (each := _parse(scored.candidate, spaces)) is not None]
        streams = [self._explored(spaces, pool, rng)]
        if brief.spread:
            streams.append(self._kinds(spaces, pool, rng))
        yield from in_turn(streams)

    def _kinds(
        self, spaces: dict[str, StepSpace], pool: list[Combination], rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """Every kind of kernel for the steps that matter, in turn."""
        best: Combination = pool[0] if pool else {name: space.ranked()[0] for name, space in spaces.items()}
        heavy = _heavy(spaces, best)
        for choices in zip_longest(*(kinds(spaces[name], rng) for name in heavy)):
            for name, choice in zip(heavy, choices, strict=True):
                if choice is not None:
                    yield {**best, name: choice}, None, f"a kind of {name}"

    def _explored(
        self, spaces: dict[str, StepSpace], pool: list[Combination], rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """The best choices by the cost model, then neighbours of the two best (the measured ones where there are)."""
        ranked = {name: space.ranked() for name, space in spaces.items()}
        best: Combination = {name: choices[0] for name, choices in ranked.items()}
        yield best, None, "the cheapest by the cost model"
        heavy = _heavy(spaces, best)
        leading = {name: leading_choices(spaces[name], ranked[name], 3 if len(heavy) == 1 else 2) for name in heavy}
        for name in heavy:
            for choice in leading[name][1:]:
                yield {**best, name: choice}, None, f"{name} by {choice.template.name}"
        streams = [self._near(centre, spaces, heavy, rng) for centre in pool[:2]]
        if not streams:
            first, *others = leading[heavy[0]]
            streams = [self._near({**best, heavy[0]: choice}, spaces, heavy, rng) for choice in (first, *others[:1])]
            if others and spaces[heavy[0]].estimated_ms(others[0]) > CLOSE * spaces[heavy[0]].estimated_ms(first):
                streams = [streams[0]] * 3 + streams[1:]
        yield from in_turn(streams)
        for name in heavy:
            for choice in worthwhile(spaces[name], ranked[name]):
                yield {**best, name: choice}, None, f"{name} by {choice.template.name}"
        yield from self._spread(spaces, pool[0] if pool else best, rng)

    def _near(
        self, combination: Combination, spaces: dict[str, StepSpace], heavy: list[str], rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """One slot moved by a place, the slots that tell most first; then two, of different slots."""
        moved = {name: list(telling_moves(spaces[name], combination[name], 1, rng)) for name in heavy}
        for choices in zip_longest(*moved.values()):
            for name, choice in zip(moved, choices, strict=True):
                if choice is not None:
                    yield {**combination, name: choice}, None, "one slot from the best"
        for _ in range(2 * sum(map(len, moved.values()))):
            name = rng.choice(heavy)
            if not moved[name]:
                continue
            farther = list(telling_moves(spaces[name], rng.choice(moved[name]), 1, rng))
            if farther:
                yield {**combination, name: rng.choice(farther)}, None, "two slots from the best"

    def _spread(
        self, spaces: dict[str, StepSpace], best: Combination, rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """An even spread over every template's slots: first what the cost model does not rule out, then all of it."""
        ruled_out: list[tuple[Combination, str | None, str]] = []
        streams: list[_Stream] = []
        for name, space in spaces.items():
            for choice in space.promising():
                settings = slot_moves.spread(space.slots(choice.template), space.legal(choice.template), rng, 64)
                streams.append((name, choice.template, settings))
        for name, template, settings in _weighted(streams):
            setting = next(settings, None)
            if setting is None:
                continue
            choice, space = Choice.of(template, setting), spaces[name]
            proposal = {**best, name: choice}, None, f"spread over {template.name}"
            if space.estimated_ms(choice) > HOPELESS * space.estimated_ms(best[name]):
                ruled_out.append(proposal)
            else:
                yield proposal
        yield from ruled_out

    def _different(
        self, pool: list[Candidate], spaces: dict[str, StepSpace], rng: Random
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """Combinations whose structure no candidate of the pool has, hopeless ones left out."""
        known = {_structure(spaces, each) for each in map(lambda c: _parse(c, spaces), pool) if each is not None}
        base = next((each for c in pool if (each := _parse(c, spaces)) is not None), None)
        best = base or {name: space.ranked()[0] for name, space in spaces.items()}
        for name in _heavy(spaces, best):
            space = spaces[name]
            options = space.ranked()
            for choice in space.promising():
                settings = slot_moves.spread(space.slots(choice.template), space.legal(choice.template), rng, 24)
                options += [Choice.of(choice.template, setting) for setting in settings]
            for choice in worthwhile(space, options):
                combination = {**best, name: choice}
                structure = _structure(spaces, combination)
                if structure not in known:
                    known.add(structure)
                    yield combination, None, f"another structure for {name}"

    def _tuned(
        self, seeds: list[Candidate], spaces: dict[str, StepSpace], rng: Random, temperature: float
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """One slot of a seed moved, those that tell most first and the best seed twice as often; then two slots."""
        reach = 1 + int(temperature > 0.5) + int(temperature > 1.5)
        parsed = [(seed.id, each) for seed in seeds if (each := _parse(seed, spaces)) is not None]
        streams = []
        for parent, combination in parsed:
            heavy = _heavy(spaces, combination)
            near = [
                [{**combination, name: choice} for choice in telling_moves(spaces[name], combination[name], reach, rng)]
                for name in heavy
            ]
            streams.append([(parent, each) for turn in zip_longest(*near) for each in turn if each is not None])
        single = list(best_twice(streams))
        for parent, combination in single:
            yield combination, parent, "one slot moved"
        for parent, combination in parsed[:1]:
            for name in _heavy(spaces, combination):
                for choice in small_grid(spaces[name], combination[name]):
                    yield {**combination, name: choice}, parent, f"{name} by grid"
        for _ in range(4 * len(single)):
            parent, combination = rng.choice(single)
            name = rng.choice(list(spaces))
            moves = moves_of(spaces[name], combination[name], reach)
            if moves:
                yield {**combination, name: rng.choice(moves)[1]}, parent, "two slots moved"

    def _varied(
        self, seeds: list[Candidate], spaces: dict[str, StepSpace], ordinal: int
    ) -> Iterator[tuple[Combination, str | None, str]]:
        """Every other choice of one slot of each seed, all else as it is."""
        for seed in seeds:
            combination = _parse(seed, spaces)
            if combination is not None:
                for name, slot, choice in one_slot(spaces, _heavy(spaces, combination), combination, ordinal):
                    yield {**combination, name: choice}, seed.id, f"{name}: only {slot} moved"

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


def _heavy(spaces: dict[str, StepSpace], combination: Combination) -> list[str]:
    """Steps that take a worthwhile share of the time, the longest first."""
    times = {name: space.estimated_ms(combination[name]) for name, space in spaces.items()}
    longest = sorted(times, key=lambda name: -times[name])
    return [name for name in longest if times[name] >= LIGHT * sum(times.values())] or longest[:1]
