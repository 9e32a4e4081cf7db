"""What a winner's source shows without running it: numbers that nothing explains, and branches on particular inputs."""

import ast
from collections.abc import Iterator, Sequence

from ..state.problem import Problem
from ..state.syntax import parse

SMALL = 16
"""Whole numbers up to this need no name."""
VALUE_READS = ("item", "tolist", "cpu", "numpy", "equal", "allclose")
"""Calls that bring a tensor's values to the host: nothing but special-casing needs them in a forward pass."""
SIZE_READS = ("shape", "size", "numel", "stride", "dim", "ndim")


def unnamed_numbers(source: str, problem: Problem) -> list[str]:
    """Numbers inside Triton kernels that are no small or round number, no size of the problem and not in the reference.

    Keyword arguments and assigned names explain their number. Sources that do not parse give none.
    """
    known = _numbers_of(problem.source) | _sizes_of(problem)
    found = []
    for kernel in _kernels(source):
        named = {id(part) for node in ast.walk(kernel) for part in _named(node)}
        for node in ast.walk(kernel):
            value = node.value if isinstance(node, ast.Constant) else None
            if id(node) not in named and _is_number(value) and not _plain(value) and value not in known:
                found.append(f"{value!r} in line {getattr(node, 'lineno', 0)}")
    return found


def special_cases(source: str) -> list[str]:
    """Lines of `ModelNew` and what it calls that branch on a particular size, or bring values to the host."""
    try:
        tree = parse(source)
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VALUE_READS:
            found.append(f"line {line} reads values: .{node.func.attr}()")
        tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While) else []
        found += [f"line {line} compares a size with {size}" for test in tests for size in _sizes_compared(test)]
    return found


def _sizes_compared(test: ast.expr) -> Iterator[object]:
    """Literals that a test compares a size with for equality, those from 2 on."""
    for node in ast.walk(test):
        if not isinstance(node, ast.Compare) or not any(isinstance(op, ast.Eq | ast.NotEq | ast.In) for op in node.ops):
            continue
        sides = [node.left, *node.comparators]
        reads = any(
            isinstance(part, ast.Attribute) and part.attr in SIZE_READS for side in sides for part in ast.walk(side)
        )
        for side in sides:
            for part in ast.walk(side):
                value = part.value if isinstance(part, ast.Constant) else None
                if reads and _is_number(value) and value > 1:  # type: ignore[operator]
                    yield value


def _kernels(source: str) -> Iterator[ast.FunctionDef]:
    try:
        tree = parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(each) for each in node.decorator_list):
            yield node


def _named(node: ast.AST) -> Sequence[ast.AST]:
    """Constants that a keyword, an assigned name or a docstring explains."""
    if isinstance(node, ast.keyword) or (isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None):
        return [node.value]  # type: ignore[list-item]
    return [node.value] if isinstance(node, ast.Expr) else []


def _numbers_of(source: str) -> set[object]:
    try:
        tree = parse(source)
    except SyntaxError:
        return set()
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and _is_number(node.value)}


def _sizes_of(problem: Problem) -> set[object]:
    """Dimensions and strides of the workloads' inputs, and their products."""
    sizes: set[object] = set()
    for workload in problem.workloads:
        for entry in workload.inputs:
            if isinstance(entry, dict) and "shape" in entry:
                total = 1
                for size in reversed(entry["shape"]):
                    total *= size
                    sizes |= {size, total}
    return sizes


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: object) -> bool:
    """Small, a power of two, or the reciprocal of one; infinities too."""
    size = abs(float(value))  # type: ignore[arg-type]
    if size <= SMALL and size == int(size) or size == float("inf"):
        return True
    size = 1 / size if 0 < size < 1 else size
    return size == int(size) and int(size) & (int(size) - 1) == 0
