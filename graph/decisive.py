"""Which settings a result depends on: all but a named few, so that a new one is never forgotten."""

from typing import Any

from ..state.channels import Context

UNDECISIVE = frozenset(
    {
        "max_concurrency",
        "require_gpu",
        "dry_run",
        "arch",
        "gpu",
        "baselines",
        "out",
        "record",
        "pace",
    }
)
"""Where and how fast a run goes on; the device that it found counts for itself."""


def decisive(context: Context) -> dict[str, Any]:
    """The settings with which another value may give another result."""
    return {name: value for name, value in context.model_dump().items() if name not in UNDECISIVE}
