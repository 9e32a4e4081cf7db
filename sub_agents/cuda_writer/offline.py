"""The offline CUDA writer: the generic one over the CUDA templates, with Triton for steps that none of them fits."""

from ..offline_writer import OfflineWriter
from ..templates.registry import templates
from .rewriting import rewritten


class CudaWriter(OfflineWriter):
    """Proposes CUDA C++ candidates from the template library; needs no key and no network."""

    def __init__(self) -> None:
        super().__init__("cuda", templates("cuda"), fallback=templates("triton"), rewriting=rewritten)
