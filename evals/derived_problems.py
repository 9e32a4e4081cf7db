"""Problems that nobody has seen: a suite problem's reference with other sizes in its timed workloads.

Which sizes may vary is what the file itself declares under `ranges`. They are multiplied by 5/8 and 3/2 in turn, so
that the traffic stays about what it was; a size that divides by 16 goes on doing so, and an odd one stays odd, since
alignment is part of what a kernel is chosen for. Sizes under `checks` stay.
"""

import ast
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from ..state.errors import InvalidProblem
from ..state.syntax import expression, parse

FACTORS = (0.625, 1.5)
ALIGNED = 16
"""Elements; below, sizes are counts (of a small batch) and are only rounded."""


def other_size(size: int, factor: float, ends: tuple[int, int]) -> int:
    """A size between the ends that differs from `size` where they leave room, of the same alignment or oddness."""
    least, most = ends
    if size % ALIGNED == 0 and size > ALIGNED:
        found = round(size * factor / ALIGNED) * ALIGNED
    else:
        found = int(size * factor + 0.5) | (size & 1)
    found = min(max(found, least), most)
    if found != size:
        return found
    return size + 1 if size < most else max(size - 1, least)


def derived_source(source: str, path: Path) -> str:
    """The source with other sizes in the defaults of `get_inputs` and in `workloads`; `path` is named in errors.

    Raises InvalidProblem where the file declares no size of get_inputs that may vary.
    """
    tree = parse(source)
    declared = {"ranges": {}, "workloads": {}} | {name: _value(node) for name, node in _dicts(tree).items()}
    ranges = {name: (int(least), int(most)) for name, (least, most) in declared["ranges"].items()}
    factors = {name: FACTORS[number % 2] for number, name in enumerate(ranges)}

    def changed(sizes: Mapping[str, Any]) -> dict[str, Any]:
        varying = {name for name, size in sizes.items() if name in ranges and type(size) is int}
        found = {name: other_size(sizes[name], factors[name], ranges[name]) for name in varying}
        return {name: found.get(name, size) for name, size in sizes.items()}

    main = _change_defaults(tree, changed)
    if not main:
        raise InvalidProblem(f"{path}: no size of get_inputs may vary; declare one under `ranges`")
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and _target(statement) == "workloads":
            others = {name: changed(sizes) for name, sizes in declared["workloads"].items()}
            statement.value = expression(repr(others))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _change_defaults(tree: ast.Module, changed: Callable[[Mapping[str, Any]], dict[str, Any]]) -> bool:
    """Changes the literal defaults of get_inputs; whether any is another now."""
    inputs = next(
        (node.args for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "get_inputs"), None
    )
    if inputs is None:
        return False
    names = [argument.arg for argument in inputs.args[len(inputs.args) - len(inputs.defaults) :]]
    old = {
        name: default.value
        for name, default in zip(names, inputs.defaults, strict=True)
        if isinstance(default, ast.Constant)
    }
    new = changed(old)
    inputs.defaults = [
        ast.Constant(new[name]) if name in new else default
        for name, default in zip(names, inputs.defaults, strict=True)
    ]
    return new != old


def _target(statement: ast.Assign) -> str:
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _dicts(tree: ast.Module) -> dict[str, ast.expr]:
    assigned = {_target(node): node.value for node in tree.body if isinstance(node, ast.Assign)}
    return {name: assigned[name] for name in ("ranges", "workloads") if name in assigned}


class _Shifts(ast.NodeTransformer):
    """Writes `1 << 27` as a number: literals hold no shifts."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = node.left, node.right
        if isinstance(node.op, ast.LShift) and isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
            return ast.copy_location(ast.Constant(int(str(left.value)) << int(str(right.value))), node)
        return node


def _value(node: ast.expr) -> Any:
    return ast.literal_eval(_Shifts().visit(deepcopy(node)))
