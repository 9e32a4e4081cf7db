"""All templates by language, in the order in which equally promising ones are tried."""

from ...state.candidate import Language
from ..kernel_source import Template
from .cuda_column import CudaColumn
from .cuda_convolution import CudaConvolution
from .cuda_depthwise import CudaDepthwise
from .cuda_matmul import CudaMatmul
from .cuda_matmul_hopper import CudaMatmulHopper
from .cuda_matmul_small import CudaMatmulSmall
from .cuda_matvec import CudaMatvec
from .cuda_pointwise import CudaPointwise
from .cuda_row_block import CudaRowBlock
from .cuda_row_looped import CudaRowLooped
from .cuda_row_shared import CudaRowCluster, CudaRowShared
from .cuda_split_reduction import CudaSplitReduction
from .cuda_transpose import CudaTranspose
from .triton_attention import TritonAttention
from .triton_matmul import TritonMatmul
from .triton_matmul_small import TritonMatmulSmall
from .triton_matvec import TritonMatvec
from .triton_pointwise import TritonPointwise
from .triton_row_lookback import TritonRowLookback
from .triton_row_looped import TritonRowLooped
from .triton_row_persistent import TritonRowPersistent
from .triton_scan import TritonScan
from .triton_split_matmul import TritonSplitMatmul
from .triton_split_reduction import TritonSplitReduction

_TEMPLATES: dict[Language, tuple[Template, ...]] = {
    "triton": (
        TritonPointwise(),
        TritonRowPersistent(),
        TritonRowLooped(),
        TritonSplitReduction(),
        TritonRowLookback(),
        TritonScan(),
        TritonMatmulSmall(),
        TritonSplitMatmul(),
        TritonMatmul(),
        TritonMatvec(),
        TritonAttention(),
    ),
    "cuda": (
        CudaPointwise(),
        CudaTranspose(),
        CudaRowBlock(),
        CudaRowShared(),
        CudaRowCluster(),
        CudaColumn(),
        CudaSplitReduction(),
        CudaRowLooped(),
        CudaMatmulSmall(),
        CudaConvolution(),
        CudaDepthwise(),
        CudaMatmulHopper(),
        CudaMatmul(),
        CudaMatvec(),
    ),
    "torch": (),
}


def templates(language: Language) -> tuple[Template, ...]:
    """The library of one language; empty where there is none."""
    return _TEMPLATES[language]
