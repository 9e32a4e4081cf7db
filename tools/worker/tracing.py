"""Which kernels really ran, and the candidate's own share of GPU time. Evidence from inside: it labels only."""

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...state.problem import Workload
from .session import CandidateFailed

if TYPE_CHECKING:
    from .trial import Trial

_ATTRIBUTES = r"(?:__(?:launch_bounds|cluster_dims)__\s*\([^)]*\)\s*)*"
_GLOBAL = re.compile(rf"__global__\s+{_ATTRIBUTES}void\s+{_ATTRIBUTES}(\w+)")


def own_kernel_names(source: str) -> set[str]:
    """Names of the kernels that a candidate's source defines: `@triton.jit` functions and `__global__` ones."""
    names = set(_GLOBAL.findall(source))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list):
            names.add(node.name)
    return names


def trace(trial: "Trial", workload: Workload) -> dict[str, Any]:
    """Kernel times of one call by name (ms), and the share of the candidate's own kernels."""
    judge = trial.judge
    expected = judge.expectation(workload, "problem", 0, "timed")
    bench = trial.map(workload, expected)
    bench.write(judge.inputs(workload, "problem", 0))
    try:
        reply = trial.session.ask("trace", 60.0, instance="timed")
    except CandidateFailed:
        return {}  # no evidence is no share: None, and the report says so
    kernels = {str(k)[:200]: float(v) for k, v in list(reply.get("kernels", {}).items())[:200]}
    return {"kernels": kernels, "custom_share": custom_share(kernels, Path(trial.path).read_text())}


def custom_share(kernels: dict[str, float], source: str) -> float | None:
    """Share of time in kernels that the source defines; None where nothing was seen."""
    total = sum(kernels.values())
    if total <= 0:
        return None
    own = own_kernel_names(source)
    mine = sum(ms for name, ms in kernels.items() if _base_name(name) in own)
    return min(1.0, mine / total)


def _base_name(kernel: str) -> str:
    """A kernel's name without return type, namespace, template arguments and parameters."""
    text = kernel.split("(")[0].split("<")[0].strip()
    return text.split()[-1].split("::")[-1] if text else ""
