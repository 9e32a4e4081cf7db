"""`programs.triton_loop_run` as tests call it: one process an action, since starting one takes seconds."""

import functools
from typing import Any

from programs.process import printed

TEMPLATES = (
    "triton_pointwise",
    "triton_row_persistent",
    "triton_row_looped",
    "triton_split_reduction",
    "triton_row_lookback",
    "triton_scan",
)


@functools.cache
def found(action: str) -> dict[str, Any]:
    """What `programs.triton_loop_run` prints, by template: one process, since starting one takes seconds."""
    return printed("triton_loop_run", action, *TEMPLATES)
