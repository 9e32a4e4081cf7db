"""The controller: nodes, routers, Python API, batch and command line.

    from warpsmith.graph import optimize
    result = optimize("problem.py", budget=30)

Names are loaded on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..state.channels import Context as Context
    from ..state.trajectory import Result as Result
    from .api import Interrupted as Interrupted
    from .api import optimize as optimize
    from .api import resume as resume
    from .batch import optimize_batch as optimize_batch
    from .controller import build_graph as build_graph
    from .services import Collaborators as Collaborators
    from .waiting import Waiting as Waiting

_HOMES = {
    "Collaborators": "warpsmith.graph.services",
    "Context": "warpsmith.state.channels",
    "Interrupted": "warpsmith.graph.api",
    "Result": "warpsmith.state.trajectory",
    "Waiting": "warpsmith.graph.waiting",
    "build_graph": "warpsmith.graph.controller",
    "optimize": "warpsmith.graph.api",
    "optimize_batch": "warpsmith.graph.batch",
    "resume": "warpsmith.graph.api",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
