"""From a Triton seed's template and slots to CUDA templates and settings: the same structure and tile sizes.

Triton names a tile (`block_size` elements, `num_warps`), CUDA what a thread does with it: vector width, vectors in
flight. The first choices keep the seed's structure, or one that CUDA alone can give it (a row that Triton loops
over, held in shared memory or a cluster); the defaults of every fitting template follow.
"""

from collections.abc import Mapping

from ...state.candidate import SlotValue
from ...state.program import LoopProgram, MatmulProgram
from .. import slot_moves
from ..kernel_source import Template
from ..offline_writer import Choice, StepSpace, carry_over
from ..slots import Setting, Slot
from ..templates.cuda_row import columns_contiguous

PREFERENCE: dict[str, tuple[str, ...]] = {
    "triton_pointwise": ("cuda_pointwise", "cuda_transpose"),
    "triton_row_persistent": ("cuda_row_block", "cuda_column", "cuda_row_shared", "cuda_row_cluster"),
    "triton_row_looped": ("cuda_row_cluster", "cuda_row_shared", "cuda_column", "cuda_row_block", "cuda_row_looped"),
    "triton_row_lookback": ("cuda_row_cluster", "cuda_split_reduction", "cuda_row_shared", "cuda_row_looped"),
    "triton_split_reduction": ("cuda_split_reduction", "cuda_column", "cuda_row_cluster"),
    "triton_matmul": ("cuda_matmul_hopper", "cuda_matmul"),
    "triton_split_matmul": ("cuda_matmul_hopper", "cuda_matmul"),
    "triton_matmul_small": ("cuda_matmul_small", "cuda_matmul"),
    "triton_matvec": ("cuda_matvec",),
}
"""CUDA templates for each Triton template, the closest first."""
HINTS = ("load", "store", "specialise", "reverse_last")
WORSE = 1.15
"""A variant may be estimated to take this many times as long as what it varies."""
NO_RIVAL = 1.5
"""A structure that is estimated to take this many times as long as the best is not worth an early proposal: less than
`HOPELESS` in step_space, from which on a choice waits until the very end."""
TRANSCENDENTAL = frozenset({"exp", "log", "tanh", "erf", "sigmoid"})
FAST = {"fast_math": 1}
VARIANTS: tuple[dict[str, int], ...] = (
    {"unroll": 1, "block_size": -1, "num_warps": -1, "store": 1},
    {"unroll": -1, "rows_per_program": 1, "num_warps": 1, "load": -1},
    {"vector": -1, "unroll": 1},
    {"lanes": 1, "num_warps": 1},
)
"""Steps among the slots' choices that make another shape of the same template, the most telling first."""


def rewritten(space: StepSpace, seed: Mapping[str, SlotValue]) -> list[Choice]:
    """Choices in CUDA that start from a seed's slots for the same step, the most promising first.

    Templates' own defaults come first, the best by the cost model ahead, in turn with what the seed's tile becomes in
    CUDA: warps and blocks that suit Triton are often not what suits a kernel whose threads are placed by hand. What
    differs from an earlier choice by a hint alone comes last.
    """
    if not isinstance(space.program, LoopProgram):
        return _in_order(space, carry_over(space, seed), seed)
    own = _ranked(space, seed)
    translations: list[Choice] = []
    for template in _preferred(space, seed):
        slots = space.slots(template)
        setting = _legal_near(space, template, slots, translated(template.name, slots, seed))
        if setting is not None:
            translations.append(Choice.of(template, setting))
    best = own[0].template.name if own else ""
    translations.sort(key=lambda choice: choice.template.name != best)
    ordered = [*own[:1], *_variants(space, own[0])[:1], *own[1:2], *translations[:1]] if own else []
    if own and len(own) > 1 and space.estimated_ms(own[1]) > NO_RIVAL * space.estimated_ms(own[0]):
        # No other structure comes near: other shapes of the best one are worth more.
        ordered = [own[0], *_variants(space, own[0])[:2], *translations[:1]]
    for choice in own[:1]:
        ordered += _variants(space, choice)
    return _spaced([*ordered, *own, *translations])


def _ranked(space: StepSpace, seed: Mapping[str, SlotValue]) -> list[Choice]:
    """Defaults of all templates by estimated time; the seed's own structure is favoured a little."""
    near = {template.name for template in _preferred(space, seed)[:2]}
    return sorted(space.promising(), key=lambda c: space.estimated_ms(c) * (1.0 if c.template.name in near else 1.03))


def _variants(space: StepSpace, choice: Choice) -> list[Choice]:
    """The same template with the changes of shape that matter most, where they are legal."""
    slots = {slot.name: slot for slot in space.slots(choice.template)}
    found = []
    for changes in (FAST, *VARIANTS) if _transcendental(space.program) else VARIANTS:
        moved = dict(choice.values)
        for name, steps in changes.items():
            if name in slots:
                slot = slots[name]
                at = slot_moves.place(slot, moved[name]) + steps
                moved[name] = slot.choices[min(max(at, 0), len(slot.choices) - 1)]
        made = Choice.of(choice.template, moved)
        fair = space.legal(choice.template)(moved) and space.estimated_ms(made) <= WORSE * space.estimated_ms(choice)
        if fair and made != choice:
            found.append(made)
    return found


def _transcendental(program: LoopProgram | MatmulProgram) -> bool:
    """Whether functions cost enough to bound a kernel; the harness decides whether fast ones are accurate enough."""
    return any(s.op in TRANSCENDENTAL for s in program.body)


def _spaced(choices: list[Choice]) -> list[Choice]:
    """Distinct choices in order, those behind that differ from an earlier one in nothing but hints."""
    first: dict[tuple[object, ...], Choice] = {}
    late: list[Choice] = []
    for choice in dict.fromkeys(choices):
        shape = (choice.template.name, *(pair for pair in choice.setting if pair[0] not in HINTS))
        if shape in first:
            late.append(choice)
        first.setdefault(shape, choice)
    return [*first.values(), *late]


def _preferred(space: StepSpace, seed: Mapping[str, SlotValue]) -> list[Template]:
    names = PREFERENCE.get(str(seed.get("template", "")), ())
    by_name = {template.name: template for template in space.templates}
    chosen = [by_name[name] for name in names if name in by_name]
    if seed.get("tile") == "two_sided":
        chosen.sort(key=lambda template: template.name != "cuda_transpose")
    if isinstance(space.program, LoopProgram) and not columns_contiguous(space.program):
        chosen.sort(key=lambda template: template.name != "cuda_column")
    return chosen


def _in_order(space: StepSpace, choices: list[Choice], seed: Mapping[str, SlotValue]) -> list[Choice]:
    """What the seed's tiles become, and each template's own best, by estimate; preferred structures in doubt."""
    preferred = [template.name for template in _preferred(space, seed)]
    own = space.ranked()
    fair = dict.fromkeys([*choices, *own])
    least = min(map(space.estimated_ms, fair), default=0.0)

    def late(choice: Choice) -> tuple[float, int]:
        near = choice.template.name in preferred
        # Estimates of products are good to a fifth, no better.
        return (
            int(5 * space.estimated_ms(choice) / max(least, 1e-9)),
            preferred.index(choice.template.name) if near else len(preferred),
        )

    return sorted(fair, key=late)


def _legal_near(space: StepSpace, template: Template, slots: tuple[Slot, ...], setting: Setting) -> Setting | None:
    """The setting if it is legal, else with one slot after another set back to its default until it is."""
    legal = space.legal(template)
    if legal(setting):
        return setting
    for slot in slots:
        setting = {**setting, slot.name: slot.default}
        if legal(setting):
            return setting
    return None


def translated(name: str, slots: tuple[Slot, ...], seed: Mapping[str, SlotValue]) -> Setting:
    """The seed's slots in a CUDA template's terms, with its defaults for what Triton does not say."""
    wanted: dict[str, SlotValue] = {k: seed[k] for k in ("passes", "reverse_last", "split") if k in seed}
    if seed.get("store_cache") == "cs":
        wanted["store"] = "streaming"
    if seed.get("load_eviction") == "evict_first":
        wanted["load"] = "streaming"
    wanted |= _shape(name, slots, seed)
    return slot_moves.carried(slots, wanted)


def _shape(name: str, slots: tuple[Slot, ...], seed: Mapping[str, SlotValue]) -> dict[str, SlotValue]:
    """Threads, vectors and rows."""
    warps, block = _whole(seed, "num_warps"), _whole(seed, "block_size")
    if warps is None:
        return {}
    vector = next((int(slot.default) for slot in slots if slot.name == "vector"), 1)
    in_flight = None if block is None else max(1, block // (32 * warps * vector))
    if name == "cuda_pointwise":
        shape: dict[str, SlotValue] = {"block_size": 32 * warps, "grid_limit": _whole(seed, "programs") or 0}
        return shape if in_flight is None else {**shape, "unroll": in_flight}
    if name == "cuda_transpose":
        return {"block_size": 32 * warps, "tile": _whole(seed, "columns") or 32}
    if name == "cuda_row_block":
        rows = _whole(seed, "rows_per_program") or 1
        return {"num_warps": warps, "rows_per_program": rows}
    if name == "cuda_column":
        rows = _whole(seed, "rows_per_program") or 1
        shape = {"num_warps": warps, "lanes": max(1, rows // vector)}
        return {**shape, "keep": "registers" if seed.get("template") == "triton_row_persistent" else "memory"}
    if name in ("cuda_row_looped", "cuda_split_reduction") and in_flight is not None:
        return {"num_warps": warps, "unroll": in_flight}
    # Shared memory and clusters have no counterpart in Triton: threads follow from how much a block holds.
    return {}


def _whole(seed: Mapping[str, SlotValue], name: str) -> int | None:
    found = seed.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
