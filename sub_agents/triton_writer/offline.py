"""The offline Triton writer: the generic one over the Triton templates."""

from ..offline_writer import OfflineWriter
from ..templates.registry import templates


class TritonWriter(OfflineWriter):
    """Proposes Triton candidates from the template library; needs no key and no network."""

    def __init__(self) -> None:
        super().__init__("triton", templates("triton"))
