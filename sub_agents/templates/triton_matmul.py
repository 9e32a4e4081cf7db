"""Matrix product with a fused epilogue in Triton: one tile of the result a program, operands pipelined.

fp16 and bf16 operands go to tensor cores as they are. fp32 operands are split on the fly (`tf32x3`, `bf16x6`), which
keeps fp32 accuracy; plain tf32 is not offered.
"""

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .matmul_program import (
    BYTES,
    Extent,
    epilogue_share,
    extent,
    factor_dtype,
    fold,
    large,
    product_ms,
    products,
    reads,
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
from .triton_matmul_source import (
    Pieces,
    Values,
    pieces,
    rendered,
    written_out,
)

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
INTERPRETED_DOT = {
    "bfloat16": _DOT.format(kind="bfloat16", what="bfloat16", precision=""),
    "bf16x6": _DOT.format(kind="bf16x6", what="in this precision", precision=', input_precision="bf16x6"'),
}


class TritonMatmul:
    """Grouped tile order, k split over programs, pointer or TMA descriptor loads, persistent grid."""

    name = "triton_matmul"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """Any product of operands of one dtype (fp32, fp16, bf16), and two products of halves with one left factor."""
        return isinstance(program, MatmulProgram) and factor_dtype(program) is not None

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Tile sizes, pipeline depth and load path; defaults by the number of tiles against multiprocessors."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        sizes = wide_extent(folded, hints)
        default = default_setting(folded, hints, device)
        # Halves in 64 of k fill a row of shared memory, which is where tensor cores read fastest.
        tile_k = (32, 64) if default["tile_k"] == 32 else (64, 128) if large(sizes, device) else (32, 64, 128)
        groups = (4, 8, 16) if large(sizes, device) else (1, 4, 8, 16)
        tiles = (32, 64, 128, 256)
        tiles_m, tiles_n = (
            (16, *tiles) if size <= 64 or 16 in default.values() else tiles for size in (sizes.m, sizes.n)
        )
        warps = (2, 4, 8) if default["num_warps"] == 2 else (4, 8)
        made = [
            Slot(name="tile_m", role="configuration", choices=tiles_m, default=default["tile_m"]),
            Slot(name="tile_n", role="configuration", choices=tiles_n, default=default["tile_n"]),
            Slot(name="tile_k", role="memory", choices=tile_k, default=default["tile_k"]),
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
        ]
        if descriptors_possible(folded, hints):
            about = "TMA tensor descriptors instead of pointers"
            load = Slot(
                name="loads", role="memory", choices=("pointer", "descriptor"), default=default["loads"], about=about
            )
            made.append(load)
        if factor_dtype(folded) == "float32":
            about = "how fp32 factors are split for tensor cores"
            schemes = ("tf32x3", "bf16x6", "ieee")
            made.append(Slot(name="precision", role="compute", choices=schemes, default="tf32x3", about=about))
        return tuple(made)

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
        dtype = factor_dtype(folded)
        if dtype is None:
            return False
        setting = widened(folded, setting)
        tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
        warps, splits = int(setting["num_warps"]), int(setting["split_k"])
        # The accumulator in registers: 128 a thread is what ptxas holds without spilling; splitting fp32 takes more.
        if tile_m * tile_n > (64 if dtype == "float32" else 128) * 32 * warps or tile_m * tile_n < 256 * warps:
            return False
        if shared_bytes(setting, dtype) + epilogue_bytes(folded, setting) > device.shared_bytes_per_block:
            return False
        sizes = wide_extent(folded, hints)
        if splits > 1 and (bool(setting["persistent"]) or splits * tile_k > sizes.k):
            return False
        if not worthwhile(sizes, setting, device):
            return False
        if dtype == "float32" and device.arch == "sm_90" and large(sizes, device) and sizes.k >= 256:
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
        rates = {"tf32x3": 95e12, "bf16x6": 80e12, "ieee": 30e12}
        half = 740e12 if setting.get("loads") == "descriptor" else 640e12 if vectors_possible(folded, hints) else 150e12
        return product_ms(folded, setting, hints, device, rates.get(str(setting.get("precision")), half))

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
            reads=reads(folded),
            symbols=parts.symbols,
        )


def best_tile(
    program: MatmulProgram, sizes: Extent, device: DeviceSheet, *, wide: bool, tile_k: int
) -> tuple[int, int, int]:
    """Tile sizes and split of k with the best estimated throughput."""
    # (tile_m, tile_n, share of peak that a full grid of such tiles reaches)
    tiles = [(128, 128, 0.85), (64, 128, 0.7), (128, 64, 0.7), (64, 64, 0.55), (32, 64, 0.3), (64, 32, 0.3)]
    tiles += [(16, 128, 0.25), (128, 16, 0.25), (16, 64, 0.2), (64, 16, 0.2)]
    if wide:
        tiles = [(128, 256, 1.0), (256, 128, 0.98), *tiles]

    def rate(choice: tuple[int, int, int, float]) -> float:
        tile_m, tile_n, split_k, share = choice
        across_m, across_n = -(-sizes.m // tile_m), -(-sizes.n // tile_n)
        used = sizes.m / (across_m * tile_m) * sizes.n / (across_n * tile_n)
        count = sizes.batch * across_m * across_n * split_k
        # Whole waves of one tile a multiprocessor, and for each split the parts' way through memory.
        filled = count / (-(-count // device.sm_count) * device.sm_count)
        return share * used * filled * (1 - 0.04 * split_k.bit_length() if split_k > 1 else 1.0)

    splits = [s for s in (1, 2, 4, 8, 16, 32) if s == 1 or s * 8 * tile_k <= sizes.k]
    choices = [(m, n, split, share) for m, n, share in tiles for split in splits]
    return max(choices, key=rate)[:3]


def default_setting(program: MatmulProgram, hints: dict[str, int], device: DeviceSheet) -> Setting:
    """The best tile with a pipeline that fits it; k split where even small tiles leave multiprocessors idle."""
    sizes = wide_extent(program, hints)
    half = factor_dtype(program) != "float32"
    tile_k = 64 if half else 32
    if program.also is None and min(sizes.m, sizes.n) <= MOST_SKINNY < max(sizes.m, sizes.n) and half:
        return skinny_setting(sizes, device) | {"loads": _loads(program, hints, device)}
    # Where the epilogue is a good part of the work, two programs on a multiprocessor hide it behind each other's
    # products: that takes tiles half as large.
    wide = half and vectors_possible(program, hints) and epilogue_share(program, sizes) < 0.2
    tile_m, tile_n, split_k = best_tile(program, sizes, device, wide=wide, tile_k=tile_k)
    if program.also is not None:
        # Each sum is as wide as half a tile: 128 x 64 twice where one product would have 128 x 128.
        tile_m, tile_n, split_k = (tile_m, tile_n, 1) if tile_n >= 64 else (max(64, tile_m), 64, 1)
    big = tile_m * tile_n >= 128 * 128
    stages = 3 if big else 4
    return {
        "tile_m": tile_m,
        "tile_n": tile_n // products(program),
        "tile_k": tile_k,
        "num_warps": 8 if big else 4,
        "num_stages": max(2, min(stages, -(-sizes.k // (tile_k * split_k)))),
        "split_k": split_k,
        "loads": _loads(program, hints, device),
    }


def widened(program: MatmulProgram, setting: Setting) -> Setting:
    """A setting as for one product with the sums and right factors of all."""
    return {**setting, "tile_n": int(setting["tile_n"]) * products(program)}


def wide_extent(program: MatmulProgram, hints: dict[str, int]) -> Extent:
    """Sizes as for one product with the columns of all."""
    sizes = extent(program, hints)
    return sizes.model_copy(update={"n": sizes.n * products(program)})


MOST_SKINNY = 16


def skinny_setting(sizes: Extent, device: DeviceSheet) -> Setting:
    """For a product bound by reading one operand: all programs run at once, each with many loads under way."""
    short, long = sorted((sizes.m, sizes.n))
    tile = 64 if sizes.batch * long >= 64 * 2 * device.sm_count else 32
    count = sizes.batch * -(-long // tile) * -(-short // 16)
    split = 1
    while split < 32 and 2 * split * count <= 4 * device.sm_count and sizes.k >= 2 * split * 4 * 64:
        split *= 2
    tile_m, tile_n = (16, tile) if sizes.m <= sizes.n else (tile, 16)
    return {
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": 64,
        "num_warps": 4 if tile == 64 else 2,
        "num_stages": max(2, min(5, -(-sizes.k // (64 * split)))),
        "split_k": split,
    }


def _loads(program: MatmulProgram, hints: dict[str, int], device: DeviceSheet) -> str:
    half = factor_dtype(program) != "float32"
    return "descriptor" if half and device.arch >= "sm_90" and descriptors_possible(program, hints) else "pointer"


def epilogue_slot(program: MatmulProgram, tile_elements: int) -> Slot:
    """Halves by default where a large tile meets tensors as large: their registers come on top of the accumulator."""
    loads_tiles = any(load.strides[-2] != 0 and load.strides[-1] != 0 for load in program.loads)
    default = 2 if tile_elements > 128 * 128 and (loads_tiles or len(program.body) > 4) else 1
    return Slot(
        name="epilogue_parts", role="compute", choices=(1, 2), default=default, about="pieces of a tile stored in turn"
    )


def shared_bytes(setting: Setting, dtype: str) -> int:
    """Shared memory of the operand pipeline, and for fp32 of the split parts."""
    tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
    stages = int(setting["num_stages"])
    pipeline = (tile_m + tile_n) * tile_k * BYTES[dtype] * stages
    return pipeline + (2 * tile_n * tile_k * 4 if dtype == "float32" else 0)


def epilogue_bytes(program: MatmulProgram, setting: Setting) -> int:
    """Shared memory that a persistent kernel keeps beside its pipeline to bring the result into rows."""
    if not setting["persistent"]:
        return 0
    widest = max(4 if store.dtype in ("float32", "int32") else BYTES.get(store.dtype, 1) for store in program.stores)
    return int(setting["tile_m"]) * int(setting["tile_n"]) * widest // int(setting["epilogue_parts"])


def residents(shared_bytes: int, setting: Setting) -> int:
    """Programs that a multiprocessor of an H100 or H200 holds at once, for the grid of a persistent kernel."""
    threads = 32 * int(setting["num_warps"])
    registers = int(setting["tile_m"]) * int(setting["tile_n"]) // threads + 50
    return max(1, min(4, 227 * 1024 // max(shared_bytes, 1), 65536 // (threads * registers)))


def tiled_context(
    program: MatmulProgram, setting: Setting, parts: Pieces, use_descriptors: bool = False
) -> dict[str, object]:
    """What `triton_matmul.py.j2` renders from, with operands from pointers or descriptors."""
    split_k = int(setting["split_k"])
    fp32 = factor_dtype(program) == "float32"
    kind = str(setting["precision"]) if fp32 else program.a.dtype
    a_name, *right = (parts.pointer_of[operand.value] for operand in factors(program).values())
    stored = ("parts_ptr",) if split_k > 1 else parts.epilogue_pointers
    host_lines: list[str] = []
    shared = shared_bytes(widened(program, setting), program.a.dtype) + epilogue_bytes(program, setting)
    argument_of = {**parts.argument_of, "parts_ptr": "parts"}
    if use_descriptors:
        if aligned := alignments(program):
            host_lines.append(f"if not ({' and '.join(aligned)}):")
            host_lines.append(f"    return run_{program.name}_unaligned({', '.join(parts.parameters)})")
        a_name, *right = (f"{side}_descriptor" for side in factors(program))
        for side, operand in factors(program).items():
            source = parts.argument_of[parts.pointer_of[operand.value]]
            host_lines += descriptor_lines(program, side, operand, source, setting)
            argument_of[f"{side}_descriptor"] = f"{side}_descriptor"
    kernel_pointers = tuple(dict.fromkeys([a_name, *right, *stored]))
    sum_pointers = tuple(dict.fromkeys(["parts_ptr", *parts.epilogue_pointers]))
    return {
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
        "prelude": (*parts.prelude, *((INTERPRETED_DOT[kind],) if kind in INTERPRETED_DOT else ())),
        "dot": f"device_dot_{kind}" if kind in INTERPRETED_DOT else "tl.dot",
        "precision": "" if kind in INTERPRETED_DOT or not fp32 else f', input_precision="{kind}"',
        "batch_lines": parts.batch_lines,
        "batch_count": parts.batch_count,
        "epilogue_lines": parts.epilogue_lines,
        "output_lines": parts.output_lines,
        "host_lines": host_lines,
        "returned": parts.returned,
        "index": parts.index,
        "parameters": parts.parameters,
        "symbols": parts.symbols,
        "kernel_pointers": kernel_pointers,
        "sum_pointers": sum_pointers,
        "arguments": [argument_of[each] for each in kernel_pointers] + list(parts.symbols),
        "sum_arguments": [argument_of[each] for each in sum_pointers] + list(parts.symbols),
    }
