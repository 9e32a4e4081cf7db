"""Matrix product with a fused epilogue in Triton: one tile of the result a program, operands pipelined.

fp16 and bf16 operands go to tensor cores as they are. fp32 operands are split on the fly (`tf32x3`, `bf16x6`), which
keeps fp32 accuracy; plain tf32 is offered for convolutions only, which PyTorch itself computes so unless told not to.
"""

from collections.abc import Iterator, Sequence

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .matmul_program import (
    FACTOR_DTYPES,
    Extent,
    Pace,
    by_channel,
    extent,
    fold,
    large,
    product_ms,
    products,
    tiled_dtype,
    worthwhile,
)
from .triton_matmul_operands import (
    alignments,
    descriptor_lines,
    descriptors_possible,
    factors,
    operand_side,
    vectors_possible,
)
from .triton_matmul_settings import (
    CONVOLVED,
    PRECISION,
    default_setting,
    epilogue_bytes,
    epilogue_slot,
    flight_bytes,
    residents,
    shared_bytes,
    whole_loads,
    wide_extent,
    widened,
)
from .triton_matmul_source import (
    Pieces,
    Values,
    pieces,
    rendered,
    written_out,
)

FEWEST_ROWS = 8
"""Rows of the left factor from which a convolution of each channel by itself is worth tensor cores' 16."""

_DOT = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_dot_{kind}(a, b, acc):
        # The interpreter multiplies {what} wrongly or not at all.
        return tl.dot(a.to(tl.float32), b.to(tl.float32), acc)

else:

    @triton.jit
    def device_dot_{kind}(a, b, acc):
        return tl.dot(a, b, acc{precision})
"""


_ROUNDED_DOT = """if triton.knobs.runtime.interpret:

    @triton.jit
    def device_dot_tf32(a, b, acc):
        return tl.dot(a, b, acc)

else:

    @triton.jit
    def device_dot_tf32(a, b, acc):
        # Tensor cores cut off what TF32 has no bits for, always downwards; PyTorch's convolutions round to the nearest.
        a = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [a], dtype=tl.float32, is_pure=True, pack=1)
        b = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r,r", [b], dtype=tl.float32, is_pure=True, pack=1)
        return tl.dot(a, b, acc, input_precision="tf32")
"""


DEVICE_DOT = {
    "bfloat16": _DOT.format(kind="bfloat16", what="bfloat16", precision=""),
    "tf32": _ROUNDED_DOT,
    "bf16x6": _DOT.format(kind="bf16x6", what="in this precision", precision=', input_precision="bf16x6"'),
}


def dot_context(kind: str, prelude: Sequence[str]) -> dict[str, object]:
    """How a kernel multiplies tiles of halves, or of fp32 in this precision: `dot`, `precision`, and its prelude."""
    special = kind in DEVICE_DOT
    return {
        "prelude": tuple(dict.fromkeys([*prelude, *([DEVICE_DOT[kind]] if special else [])])),
        "dot": f"device_dot_{kind}" if special else "tl.dot",
        "precision": "" if special or kind in FACTOR_DTYPES else f', input_precision="{kind}"',
    }


class TritonMatmul:
    """Grouped tile order, k split over programs, pointer or TMA descriptor loads, persistent grid."""

    name = "triton_matmul"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Any product of operands of one dtype (fp32, fp16, bf16), and two products of halves with one left factor.

        Not convolutions of each channel by itself, where nearly all that tensor cores computed would be padding.
        """
        if not isinstance(program, MatmulProgram) or tiled_dtype(program) is None:
            return False
        folded = fold(program)
        return not by_channel(folded) or extent(folded, hints).m >= FEWEST_ROWS

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Tile sizes, pipeline depth and load path; defaults by the number of tiles against multiprocessors."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = wide_extent(folded, hints)
        default = default_setting(folded, hints, device)
        groups = (4, 8, 16) if large(sizes, device) else (1, 4, 8, 16)
        tiles = (32, 64, 128, 256)
        tiles_m, tiles_n = (
            (16, *tiles) if size <= 64 or 16 in default.values() else tiles for size in (sizes.m, sizes.n)
        )
        warps = (2, 4, 8) if default["num_warps"] == 2 else (4, 8)
        return (
            Slot(name="tile_m", role="configuration", choices=tiles_m, default=default["tile_m"]),
            Slot(name="tile_n", role="configuration", choices=tiles_n, default=default["tile_n"]),
            Slot(name="tile_k", role="memory", choices=_depths(sizes, device, default), default=default["tile_k"]),
            Slot(name="num_warps", role="configuration", choices=warps, default=default["num_warps"]),
            Slot(name="num_stages", role="compute", choices=(2, 3, 4, 5), default=default["num_stages"]),
            Slot(name="group_m", role="memory", choices=groups, default=8, about="rows of tiles that share L2"),
            Slot(
                name="split_k",
                role="reduction",
                choices=(1, 2, 4, 8, 16, 32) if folded.also is None else (1,),
                default=default["split_k"],
            ),
            Slot(name="persistent", role="configuration", choices=(False, True), default=False),
            epilogue_slot(folded, products(folded) * int(default["tile_m"]) * int(default["tile_n"])),
            *_conditional_slots(folded, hints, default),
        )

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Fits registers and shared memory, and asks for nothing that the sizes cannot use."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        dtype = tiled_dtype(folded)
        if dtype is None:
            return False
        setting = widened(folded, setting)
        tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
        warps, splits = int(setting["num_warps"]), int(setting["split_k"])
        # The accumulator in registers: 128 a thread is what ptxas holds without spilling; splitting fp32 takes more.
        if tile_m * tile_n > (64 if dtype == "float32" else 128) * 32 * warps or tile_m * tile_n < 256 * warps:
            return False
        if setting.get("epilogue_loads") == "early" and (splits > 1 or int(setting["epilogue_parts"]) > 1):
            return False
        if shared_bytes(setting, dtype) + epilogue_bytes(folded, setting) > device.shared_bytes_per_block:
            return False
        sizes = wide_extent(folded, hints)
        if setting["persistent"] and sizes.k <= tile_k:
            # There is no loop whose loads a flattened grid could start early.
            return False
        if splits > 1 and (bool(setting["persistent"]) or splits * tile_k > sizes.k):
            return False
        if not worthwhile(sizes, setting, device):
            return False
        split = dtype == "float32" and folded.b.windows is None
        if split and device.arch == "sm_90" and large(sizes, device) and sizes.k >= 256:
            # Twice as slow as `triton_split_matmul` on an H200, unless k is so short that splitting first costs more.
            return False
        described = device.arch >= "sm_90" and descriptors_possible(folded, hints)
        if setting.get("loads", "pointer") == "descriptor":
            return described
        # Pointers cost registers and address arithmetic that TMA does not.
        return not (described and dtype != "float32" and large(sizes, device))

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By waves of tiles at the rates that large products reached on an H200."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        rates = {"tf32": 15e12, "tf32x3": 95e12, "bf16x6": 80e12, "ieee": 30e12}
        half = 740e12 if setting.get("loads") == "descriptor" else 640e12 if vectors_possible(folded, hints) else 150e12
        if folded.b.windows is not None:
            # Windows are gathered element by element: 100 GFLOP in 1.4 ms, and 59 in 4 to 5 ms of float32.
            half = 75e12
        rate = rates.get(str(setting.get("precision")), half)
        pace = Pace(rate_flops=rate, flight_bytes=flight_bytes(folded, setting, hints))
        return product_ms(folded, setting, hints, device, pace)

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """One kernel, or two where k is split."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        parts = pieces(folded, values)
        use_descriptors = setting.get("loads", "pointer") == "descriptor"
        imports = list(parts.imports)
        context = tiled_context(folded, setting, parts, use_descriptors)
        code = rendered("triton_matmul.py.j2", context)
        if use_descriptors:
            imports.append("from triton.tools.tensor_descriptor import TensorDescriptor")
        if use_descriptors and alignments(folded):
            # Sizes that TMA cannot take only show in a call: those calls go to a kernel with pointers.
            plain = folded.model_copy(update={"name": f"{folded.name}_unaligned"})
            slower = setting | {"loads": "pointer", "persistent": False}
            without = tiled_context(plain, slower, parts) | {"prelude": ()}
            code += "\n\n" + rendered("triton_matmul.py.j2", without)
        if setting["persistent"]:
            imports.append("import functools")
        return KernelSource(
            imports=tuple(imports),
            code=code,
            function=f"run_{folded.name}",
            reads=folded.reads,
            symbols=parts.symbols,
        )


def _depths(sizes: Extent, device: DeviceSheet, default: Setting) -> tuple[int, ...]:
    """Choices of `tile_k`."""
    if sizes.k <= 32:
        return (16, 32, 64)
    if default["tile_k"] == 32:
        return (32, 64)
    # Halves in 64 of k fill a row of shared memory, which is where tensor cores read fastest.
    return (64, 128) if large(sizes, device) else (32, 64, 128)


def _conditional_slots(folded: MatmulProgram, hints: dict[str, int], default: Setting) -> Iterator[Slot]:
    """What only some products leave to choose."""
    if whole_loads(folded):
        about = "whether tiles that the epilogue reads are asked for before the product"
        early = default.get("epilogue_loads", "late")
        yield Slot(name="epilogue_loads", role="memory", choices=("late", "early"), default=early, about=about)
    if descriptors_possible(folded, hints):
        about = "TMA tensor descriptors instead of pointers"
        choices = ("pointer", "descriptor")
        yield Slot(name="loads", role="memory", choices=choices, default=default["loads"], about=about)
    if tiled_dtype(folded) == "float32":
        # PyTorch takes TF32 for no convolution of each channel by itself.
        yield PRECISION if folded.b.windows is None or by_channel(folded) else CONVOLVED


def tiled_context(
    program: MatmulProgram, setting: Setting, parts: Pieces, use_descriptors: bool = False
) -> dict[str, object]:
    """What `triton_matmul.py.j2` renders from, with operands from pointers or descriptors."""
    fp32 = tiled_dtype(program) == "float32"
    kind = str(setting["precision"]) if fp32 else program.a.dtype
    a_name, *right = (parts.pointer_of[operand.value] for operand in factors(program).values())
    host_lines: list[str] = []
    made: dict[str, str] = {}
    shared = shared_bytes(widened(program, setting), program.a.dtype) + epilogue_bytes(program, setting)
    if use_descriptors:
        if aligned := alignments(program):
            host_lines.append(f"if not ({' and '.join(aligned)}):")
            host_lines.append(f"    return run_{program.name}_unaligned({', '.join(parts.parameters)})")
        a_name, *right = (f"{side}_descriptor" for side in factors(program))
        for side, operand in factors(program).items():
            source = parts.argument_of[parts.pointer_of[operand.value]]
            host_lines += descriptor_lines(program, side, operand, source, setting)
            made[f"{side}_descriptor"] = f"{side}_descriptor"
    context = {
        **setting,
        "name": program.name,
        "residents": residents(shared, widened(program, setting)),
        "m": written_out(program.m),
        "n": written_out(program.n),
        "k": written_out(program.k),
        "loads": setting.get("loads", "pointer"),
        "a": operand_side(program, "a", a_name),
        "b": operand_side(program, "b", right[0]),
        "c": None if program.also is None else operand_side(program, "c", right[1]),
        **dot_context(kind, parts.prelude),
        "early_lines": (),
        "host_lines": host_lines,
        **parts.context((a_name, *right), made, split=int(setting["split_k"]) > 1),
    }
    if setting.get("epilogue_loads") == "early":
        context |= {"early_lines": parts.load_lines, "epilogue_lines": parts.epilogue_lines[len(parts.load_lines) :]}
    return context
