"""The suite as data: which problems it holds, with their family and main floating-point type for the tables.

The labels are for reading results only. Planner, writers and harness see a problem file and nothing of this.
"""

from pathlib import Path
from typing import Literal

from ..state.base import Record
from ..state.errors import InvalidInput

Family = Literal["pointwise", "reduction", "matmul", "attention", "convolution", "moving"]
PROBLEMS_DIR = Path(__file__).parent / "problems"


class SuiteProblem(Record):
    """One problem file of the suite."""

    name: str
    """File name without `.py`."""
    family: Family
    dtype: Literal["float32", "bfloat16"]
    """Type that most of the traffic is in."""
    folder: str = ""
    """Where it lies, seen from the suite's own problems."""

    @property
    def path(self) -> Path:
        return PROBLEMS_DIR / self.folder / f"{self.name}.py"


def _family(family: Family, float32: str, bfloat16: str = "", folder: str = "") -> tuple[SuiteProblem, ...]:
    named = [(name, "float32") for name in float32.split()] + [(name, "bfloat16") for name in bfloat16.split()]
    return tuple(
        SuiteProblem.model_validate({"name": name, "family": family, "dtype": dtype, "folder": folder})
        for name, dtype in named
    )


SUITE: tuple[SuiteProblem, ...] = (
    *_family(
        "pointwise",
        "layer_scale_residual adamw_step ema_in_place image_normalise channel_affine_hardswish gru_gates",
        "bias_gelu_tanh swiglu_packed rotary_halves dequantise_groups",
    ),
    *_family(
        "reduction",
        "log_softmax_vocabulary residual_layer_norm group_norm_silu channel_l2_normalise row_max_argmax "
        "channel_statistics smooth_l1_mean",
        "attention_softmax logsumexp_penalty rms_norm_residual masked_mean_pool",
    ),
    *_family(
        "matmul",
        "linear_fp32 weight_gradient bmm_small_matrices linear_scaled_residual pairwise_distances",
        "linear_gelu attention_scores decode_projection low_rank_update gated_projection",
    ),
)


WIDER: tuple[SuiteProblem, ...] = (
    *_family("attention", "causal_attention", "biased_attention cross_attention", folder="wider"),
    *_family("convolution", "residual_convolution depthwise_convolution", "strided_convolution", folder="wider"),
    *_family("moving", "pooled_activation running_total embedded_norm upsampled_skip", folder="wider"),
)
"""Kinds that the suite has not, in a result file of their own. `wider` names all of them."""


def select(names: str = "", shard: str = "0/1") -> tuple[SuiteProblem, ...]:
    """Problems by comma-separated names (the suite for none), of which every n-th from i for `shard` = `i/n`.

    Raises InvalidInput for an unknown name or a shard that is not `i/n` with 0 <= i < n.
    """
    by_name = {problem.name: problem for problem in (*SUITE, *WIDER)}
    wanted = [name.strip() for name in names.split(",") if name.strip()] or [problem.name for problem in SUITE]
    if "wider" in wanted:
        place = wanted.index("wider")
        wanted[place : place + 1] = [problem.name for problem in WIDER]
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise InvalidInput(f"--problems: no problem {unknown[0]!r} in the suite; known: {', '.join(sorted(by_name))}")
    index, count = read_shard(shard)
    return tuple(by_name[name] for name in wanted)[index::count]


def read_shard(shard: str) -> tuple[int, int]:
    """`i/n` as two numbers. Raises InvalidInput for anything that is not `i/n` with 0 <= i < n."""
    index, _, count = shard.partition("/")
    if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise InvalidInput(f"--shard: {shard!r} is not i/n with 0 <= i < n, such as 0/2")
    return int(index), int(count)
