"""Matrix product from operands that a first kernel has split into half-precision planes.

fp32 factors become sums of halves, and the product a sum of half-precision products on tensor cores:
`fp16x3` x = s (h + l) with fp16 h, l and a power of two s for each operand tile: h h + h l + l h;
`bf16x6` x = h + m + l in bf16: the six products above 2^-24.
What is dropped is below the rounding of fp32 itself. (After Ootomo and Yokota, "Recovering single precision accuracy
from tensor cores while surpassing the FP32 theoretical peak performance", 2022: also why partial sums leave the tensor
core at every step.) Halves are only copied (`packed`), which pays where their layout is one that TMA cannot read.

Splitting reads each fp32 element once and writes as many bytes: small against a product of any size. The main loop
then needs no masks and no transposition. An infinite input gives NaN where fp32 would give infinity.
"""

from ...state.device import DeviceSheet
from ...state.program import LoopProgram, MatmulProgram, Operand
from ...state.sizes import product
from ..kernel_source import KernelSource
from ..slots import Setting, Slot
from .matmul_program import Pace, extent, fold, large, operand_dtype, product_ms, worthwhile
from .triton_matmul import DEVICE_DOT
from .triton_matmul_operands import descriptors_possible
from .triton_matmul_settings import best_tile, epilogue_bytes, epilogue_slot, residents
from .triton_matmul_source import (
    Pieces,
    Values,
    batch_indices,
    batch_lines,
    pieces,
    plus,
    rendered,
    tile_terms,
    written_out,
)

PLANES = {"fp16x3": ("high", "low"), "bf16x6": ("high", "middle", "low"), "packed": ("high",)}
PRODUCTS = {
    "fp16x3": (("low", "high"), ("high", "low"), ("high", "high")),
    "bf16x6": (
        ("low", "high"),
        ("high", "low"),
        ("middle", "middle"),
        ("middle", "high"),
        ("high", "middle"),
        ("high", "high"),
    ),
    "packed": (("high", "high"),),
}


class TritonSplitMatmul:
    """A splitting kernel for each operand, then a TMA-fed product; needs sm_90 or newer."""

    name = "triton_split_matmul"

    def fits(self, program: LoopProgram | MatmulProgram, hints: dict[str, int]) -> bool:
        """fp32 products; of half-precision ones those whose layout TMA cannot read as it is."""
        if not isinstance(program, MatmulProgram) or operand_dtype(program) is None:
            return False
        return operand_dtype(program) == "float32" or not descriptors_possible(fold(program), hints)

    def slots(
        self, program: LoopProgram | MatmulProgram, hints: dict[str, int], device: DeviceSheet
    ) -> tuple[Slot, ...]:
        """Tile sizes, pipeline depth and how fp32 is split."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        fp32 = operand_dtype(folded) == "float32"
        tile_m, tile_n, split_k = best_tile(extent(folded, hints), device, wide=not fp32, tile_k=64)
        big = tile_m * tile_n >= 128 * 128
        made = [
            Slot(name="tile_m", role="configuration", choices=(64, 128, 256), default=max(64, tile_m)),
            Slot(name="tile_n", role="configuration", choices=(32, 64, 128, 256), default=max(32, tile_n)),
            Slot(name="tile_k", role="memory", choices=(32, 64, 128), default=64),
            Slot(name="num_warps", role="configuration", choices=(4, 8), default=8 if big else 4),
            Slot(name="num_stages", role="compute", choices=(2, 3, 4, 5), default=3),
            Slot(name="group_m", role="memory", choices=(1, 4, 8, 16), default=8, about="rows of tiles that share L2"),
            Slot(name="split_k", role="reduction", choices=(1, 2, 4, 8, 16, 32), default=split_k),
            Slot(name="persistent", role="configuration", choices=(False, True), default=False),
            epilogue_slot(folded, tile_m * tile_n),
        ]
        if fp32:
            about = "three fp16 products of scaled tiles, or six bf16 products"
            made.append(
                Slot(name="scheme", role="compute", choices=("fp16x3", "bf16x6"), default="fp16x3", about=about)
            )
        return tuple(made)

    def legal(
        self,
        program: LoopProgram | MatmulProgram,
        setting: Setting,
        hints: dict[str, int],
        device: DeviceSheet,
    ) -> bool:
        """Accumulators fit registers, the pipeline fits shared memory, the device has TMA."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        scheme = scheme_of(folded, setting)
        tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
        splits = int(setting["split_k"])
        # Split products keep a step's sum beside the accumulator.
        per_thread = tile_m * tile_n // (32 * int(setting["num_warps"]))
        if per_thread > (128 if scheme == "packed" else 64) or per_thread < 8:
            return False
        if pipeline_bytes(folded, setting) + epilogue_bytes(folded, setting) + 1024 > device.shared_bytes_per_block:
            return False
        sizes = extent(folded, hints)
        if splits > 1 and (bool(setting["persistent"]) or splits * tile_k > sizes.k):
            return False
        if not worthwhile(sizes, setting, device):
            return False
        # Half as fast as three products, so worth one try: for operands whose elements span more than 40 bits.
        if scheme == "bf16x6" and large(sizes, device) and (tile_m, tile_n, tile_k) != (128, 128, 64):
            return False
        return int(device.arch.removeprefix("sm_")[:-1]) >= 9

    def estimated_ms(
        self, program: LoopProgram | MatmulProgram, setting: Setting, hints: dict[str, int], device: DeviceSheet
    ) -> float:
        """By waves of tiles, and the splitting kernels' traffic."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        rate = {"fp16x3": 225e12, "bf16x6": 110e12, "packed": 740e12}[scheme_of(folded, setting)]
        return product_ms(folded, setting, hints, device, Pace(rate_flops=rate, split=True))

    def render(self, program: LoopProgram | MatmulProgram, setting: Setting, values: Values) -> KernelSource:
        """Two splitting kernels and the product, with a last one where k is split."""
        assert isinstance(program, MatmulProgram)
        folded = fold(program)
        parts = pieces(folded, values)
        imports = [*parts.imports, "from triton.tools.tensor_descriptor import TensorDescriptor"]
        if setting["persistent"]:
            imports.append("import functools")
        return KernelSource(
            imports=tuple(imports),
            code=rendered("triton_matmul.py.j2", _context(folded, setting, parts)),
            function=f"run_{folded.name}",
            reads=folded.reads,
            symbols=parts.symbols,
        )


def scheme_of(program: MatmulProgram, setting: Setting) -> str:
    """How operands become planes."""
    return str(setting["scheme"]) if operand_dtype(program) == "float32" else "packed"


def pipeline_bytes(program: MatmulProgram, setting: Setting) -> int:
    """Shared memory of the planes' tiles under way."""
    tile_m, tile_n, tile_k = (int(setting[f"tile_{axis}"]) for axis in "mnk")
    planes = len(PLANES[scheme_of(program, setting)])
    return (tile_m + tile_n) * tile_k * 2 * planes * int(setting["num_stages"])


def _context(program: MatmulProgram, setting: Setting, parts: Pieces) -> dict[str, object]:
    scheme = scheme_of(program, setting)
    half = {"fp16x3": "float16", "bf16x6": "bfloat16"}.get(scheme, program.a.dtype)
    operands = ["a_planes", "b_planes"] + (["a_scales_ptr", "b_scales_ptr"] if scheme == "fp16x3" else [])
    made = {"a_scales_ptr": "a_scales", "b_scales_ptr": "b_scales"}
    for planes, tile in (("a_planes", setting["tile_m"]), ("b_planes", setting["tile_n"])):
        made[planes] = f"TensorDescriptor.from_tensor({planes}, [{tile}, {setting['tile_k']}])"
    interpreted = (DEVICE_DOT["bfloat16"],) if half == "bfloat16" else ()
    return {
        **setting,
        "name": program.name,
        "residents": residents(pipeline_bytes(program, setting) + epilogue_bytes(program, setting), setting),
        "m": written_out(program.m),
        "n": written_out(program.n),
        "k": written_out(program.k),
        "loads": "planes",
        "scheme": scheme,
        "planes": len(PLANES[scheme]),
        "plane_names": PLANES[scheme],
        "products": PRODUCTS[scheme],
        "a": _side(program, "a"),
        "c": None,
        "early_lines": (),
        "b": _side(program, "b"),
        "dot": "device_dot_bfloat16" if interpreted else "tl.dot",
        "prelude": (*parts.prelude, *interpreted),
        "host_lines": [line for side in "ab" for line in _split_lines(program, side, setting, parts)],
        **parts.context(operands, made, split=int(setting["split_k"]) > 1),
    }


def _own_batch(operand: Operand) -> bool:
    return any(stride != 0 for stride in operand.strides[:-2])


def _side(program: MatmulProgram, side: str) -> dict[str, object]:
    operand = program.a if side == "a" else program.b
    outer_stride, k_stride = operand.strides[-2:] if side == "a" else operand.strides[:-3:-1]
    strides = (*operand.strides[:-2], outer_stride, k_stride)
    indices = [*batch_indices(program), "outer[:, None]", "depth[None, :]"]
    return {
        "name": side,
        "batch": "rest" if _own_batch(operand) else "0",
        "batch_lines": batch_lines(program) if _own_batch(operand) else (),
        "size": written_out(program.m if side == "a" else program.n),
        "k_inner": k_stride == 1,
        "source": plus("source_ptr", tile_terms(strides, indices, operand.offset)),
    }


def _split_lines(program: MatmulProgram, side: str, setting: Setting, parts: Pieces) -> list[str]:
    """Host lines that allocate one operand's planes and launch its splitting kernel."""
    operand, size = (program.a, program.m) if side == "a" else (program.b, program.n)
    scheme, tile, tile_k = (
        scheme_of(program, setting),
        setting[f"tile_{'m' if side == 'a' else 'n'}"],
        setting["tile_k"],
    )
    half = {"fp16x3": "float16", "bf16x6": "bfloat16"}.get(scheme, operand.dtype)
    source = parts.argument_of[parts.pointer_of[operand.value]]
    batch = written_out(product(program.batch)) if _own_batch(operand) else "1"
    device = f"device={parts.parameters[0]}.device"
    lines = [
        f"{side}_tiles = triton.cdiv({size}, {tile})",
        f"k_steps = max(triton.cdiv({program.k}, {tile_k}), 1)",
        f"{side}_planes = torch.empty(({batch} * {len(PLANES[scheme])} * {side}_tiles * {tile}, k_steps * {tile_k}), "
        f"dtype=torch.{half}, {device})",
    ]
    arguments = [source, f"{side}_planes"]
    if scheme == "fp16x3":
        lines.append(f"{side}_scales = torch.empty(({batch} * {side}_tiles * k_steps,), dtype=torch.float32, {device})")
        arguments.append(f"{side}_scales")
    arguments += [*parts.symbols, f"TILE={tile}", f"TILE_K={tile_k}", f"INDEX={parts.index}", "num_warps=8"]
    grid = f"({batch} * {side}_tiles * k_steps,)"
    return [*lines, f"{program.name}_split_{side}_kernel[{grid}]({', '.join(arguments)})"]
