"""The cost model of Triton loop kernels: orders that were measured on an H200, and what defaults follow from it."""

from typing import Any

import pytest
from programs import examples
from programs.sheets import H200

from warpsmith.state.program import Load, LoopProgram, Statement, Store
from warpsmith.sub_agents.kernel_source import Template
from warpsmith.sub_agents.templates.registry import templates
from warpsmith.sub_agents.templates.triton_expression import Printer
from warpsmith.sub_agents.templates.triton_row import row_shape, tile_code


def template(name: str) -> Template:
    return next(each for each in templates("triton") if each.name == name)


def estimate(name: str, program: LoopProgram, **slots: Any) -> float:
    """Milliseconds with the template's defaults and some slots changed."""
    chosen = template(name)
    setting = {slot.name: slot.default for slot in chosen.slots(program, {}, H200)} | slots
    return float(chosen.estimated_ms(program, setting, {}, H200))  # type: ignore[attr-defined]


def loop_of(plan: Any) -> LoopProgram:
    (program,) = plan.steps
    assert isinstance(program, LoopProgram)
    return program


def masked_sum(batch: int, tokens: int, features: int) -> LoopProgram:
    """The sum over the middle axis of x times a mask that runs contiguously along that axis."""
    return LoopProgram(
        name="masked",
        space=(batch, tokens, features),
        reduced=(False, True, False),
        loads=(
            Load(name="a", value="x", dtype="bfloat16", strides=(tokens * features, features, 1)),
            Load(name="m", value="mask", dtype="bool", strides=(tokens, 1, 0)),
        ),
        body=(
            Statement(name="w", op="cast", args=("m",), dtype="float32"),
            Statement(name="p", op="mul", args=("a", "w"), dtype="float32"),
            Statement(name="s", op="reduce_sum", args=("p",), dtype="float32"),
        ),
        stores=(Store(name="s", value="y", dtype="float32", strides=(features, 0, 1)),),
    )


def scaled_groups(rows: int, width: int) -> LoopProgram:
    """int8 groups less a zero point, times a scale each, to bfloat16."""
    return LoopProgram(
        name="scaled",
        space=(rows, width),
        reduced=(False, False),
        loads=(
            Load(name="q", value="x", dtype="int8", strides=(width, 1)),
            Load(name="z", value="zero", dtype="float32", strides=(1, 0)),
            Load(name="g", value="scale", dtype="float32", strides=(1, 0)),
        ),
        body=(
            Statement(name="f", op="cast", args=("q",), dtype="float32"),
            Statement(name="d", op="sub", args=("f", "z"), dtype="float32"),
            Statement(name="t", op="mul", args=("d", "g"), dtype="float32"),
        ),
        stores=(Store(name="t", value="y", dtype="bfloat16", strides=(width, 1)),),
    )


def running_total(rows: int, columns: int, twice: bool = False) -> LoopProgram:
    """The running total of rows of float32, or the running total of that."""
    totals = [Statement(name="s", op="scan_sum", args=("a", False), dtype="float32")]
    if twice:
        totals.append(Statement(name="t", op="scan_sum", args=("s", False), dtype="float32"))
    return LoopProgram(
        name="totals",
        space=(rows, columns),
        reduced=(False, True),
        loads=(Load(name="a", value="x", dtype="float32", strides=(columns, 1)),),
        body=tuple(totals),
        stores=(Store(name=totals[-1].name, value="y", dtype="float32", strides=(columns, 1)),),
    )


def scan_defaults(program: LoopProgram) -> dict[str, Any]:
    return {slot.name: slot.default for slot in template("triton_scan").slots(program, {}, H200)}


def test_the_heavy_operand_decides_which_way_memory_runs() -> None:
    shape = row_shape(masked_sum(96, 2047, 1024), {})
    assert shape.strided
    assert shape.inner_contiguous == 1024
    assert shape.heavy == 1


def test_short_rows_are_held_rather_than_read_again() -> None:
    rows = loop_of(examples.softmax(2**17, 577))
    held = estimate("triton_row_persistent", rows)
    assert 1.3 * held < estimate("triton_row_looped", rows, block_size=1024, rows_per_program=4, num_warps=16)
    assert 1.3 * held < estimate("triton_split_reduction", rows)


def test_a_short_row_in_one_warp_beats_a_block_that_shares_several() -> None:
    rows = loop_of(examples.softmax(2**17, 577))
    one_warp = estimate("triton_row_persistent", rows, rows_per_program=1, num_warps=1)
    assert one_warp < estimate("triton_row_persistent", rows, rows_per_program=4, num_warps=8)


def test_a_loop_that_waits_for_every_chunk_is_slow_where_few_programs_run() -> None:
    few = loop_of(examples.softmax(128, 2**20))
    assert estimate("triton_row_looped", few, stages=1) > 1.3 * estimate("triton_row_looped", few, stages=3)
    assert estimate("triton_row_looped", few, block_size=1024) > estimate("triton_row_looped", few, block_size=4096)


def test_narrow_strided_tiles_waste_sectors() -> None:
    program = masked_sum(96, 2047, 1024)
    narrow, wide = (estimate("triton_row_looped", program, rows_per_program=rows) for rows in (8, 128))
    assert narrow > 1.5 * wide


@pytest.mark.parametrize(("width", "tile"), [(128, "two_sided"), (3, "flat")])
def test_what_is_constant_along_a_row_is_read_once_a_row_where_rows_fill_a_tile(width: int, tile: str) -> None:
    slots = {s.name: s.default for s in template("triton_pointwise").slots(scaled_groups(2**20, width), {}, H200)}
    assert slots["tile"] == tile


def test_a_tile_is_multiplied_by_the_inverse_of_what_is_constant_along_it() -> None:
    program = loop_of(examples.softmax(64, 64))
    code = tile_code(program, Printer(), (False, False))
    (division,) = [s for s in program.body if s.op == "div"]
    assert code.divides_by_fewer(division)
    assert "tl.div_rn" in code.statement_line(division)
    assert " * (tl.div_rn(" in code.statement_line(division)


@pytest.mark.parametrize(("rows", "columns"), [(333, 20011), (1, 2**20), (16, 65536), (132, 100_000)])
def test_few_long_rows_are_shared_out_for_running_totals(rows: int, columns: int) -> None:
    program = running_total(rows, columns)
    defaults = scan_defaults(program)
    assert defaults["split"] > 1
    assert template("triton_scan").legal(program, defaults, {}, H200)
    shared = estimate("triton_scan", program)
    assert 1.1 * shared < estimate("triton_scan", program, split=1, block_size=4096, num_warps=16)


@pytest.mark.parametrize(("rows", "columns"), [(8192, 4096), (2000, 20011)])
def test_running_totals_of_many_rows_are_not_shared_out(rows: int, columns: int) -> None:
    program = running_total(rows, columns)
    defaults = scan_defaults(program)
    assert "split" not in defaults
    assert not template("triton_scan").legal(program, {**defaults, "split": 4}, {}, H200)


@pytest.mark.parametrize(("rows", "columns"), [(0, 20011), (3, 0)])
def test_nothing_has_an_estimate(rows: int, columns: int) -> None:
    assert estimate("triton_scan", running_total(rows, columns)) > 0
    plan = loop_of(examples.softmax(rows, columns))
    assert all(estimate(name, plan) > 0 for name in ("triton_row_persistent", "triton_row_looped"))


def test_short_rows_and_running_totals_of_running_totals_are_walked_whole() -> None:
    assert scan_defaults(running_total(3, 4096))["split"] == 1
    assert "split" not in scan_defaults(running_total(3, 700))
    assert "split" not in scan_defaults(running_total(1, 2**20, twice=True))
