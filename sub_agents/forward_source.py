"""One self-contained candidate file: the reference with its forward pass replaced by kernel calls."""

import ast
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..state.errors import InvalidInput
from ..state.lowered import Symbol, references
from ..state.program import ForwardPlan, LoopProgram, Step, TorchStep, ViewStep
from ..state.sizes import Size
from ..state.syntax import parse
from .kernel_source import UPDATE, KernelSource

DROPPED = frozenset(
    ("get_inputs", "get_init_inputs", "workloads", "checks", "ranges", "precision", "layouts", "target", "baselines")
)
"""What a problem file says about how it is judged: no part of a candidate."""


def candidate_source(problem_source: str, plan: ForwardPlan, kernels: Mapping[str, KernelSource]) -> str:
    """The candidate's file: imports, the reference's own code, kernels, and `ModelNew` with a generated forward.

    Args:
        problem_source: a problem file with a class `Model`.
        plan: what the forward pass does.
        kernels: source of each kernel step, by step name.

    Raises InvalidInput where the source has no class `Model` with a forward method.
    """
    tree = parse(problem_source)
    tree.body = [statement for statement in tree.body if not _dropped(statement)]
    model = next((s for s in tree.body if isinstance(s, ast.ClassDef) and s.name == "Model"), None)
    if model is None:
        raise InvalidInput("the problem's source has no class Model: define one with a forward method")
    forward = next((s for s in model.body if isinstance(s, ast.FunctionDef) and s.name == "forward"), None)
    if forward is None:
        raise InvalidInput("the problem's class Model has no forward method: write one")
    arguments = [a.arg for a in (*forward.args.posonlyargs, *forward.args.args, *forward.args.kwonlyargs)]
    _Renamer().visit(tree)
    body = _Forward(plan, kernels, arguments[0], arguments[1:]).lines()
    forward.body = parse("\n".join(body)).body
    forward.decorator_list = []
    imports, rest = _split_imports(tree.body)
    before = [s for s in rest if s is not model and rest.index(s) < rest.index(model)]
    after = [s for s in rest if s is not model and s not in before]
    return _joined(
        [
            '"""The reference\'s forward pass as fused GPU kernels: `ModelNew` takes the place of `Model`."""',
            _imports(imports, kernels.values()),
            *(_unparsed(s) for s in before),
            *(_kernel_code(kernels)),
            _class_source(model, forward, body),
            *(_unparsed(s) for s in after),
        ]
    )


class _Renamer(ast.NodeTransformer):
    """`Model` becomes `ModelNew` wherever the name is used."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = "ModelNew" if node.name == "Model" else node.name
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = "ModelNew" if node.id == "Model" else node.id
        return node


def _dropped(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return statement.name in DROPPED
    if isinstance(statement, ast.Assign):
        return all(isinstance(t, ast.Name) and t.id in DROPPED for t in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and statement.target.id in DROPPED
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True
    return isinstance(statement, ast.If) and ast.unparse(statement.test).startswith("__name__")


def _split_imports(body: list[ast.stmt]) -> tuple[list[str], list[ast.stmt]]:
    imports = [ast.unparse(s) for s in body if isinstance(s, (ast.Import, ast.ImportFrom))]
    return imports, [s for s in body if not isinstance(s, (ast.Import, ast.ImportFrom))]


def _imports(own: list[str], kernels: Iterable[KernelSource]) -> str:
    lines = {"import torch", *own}
    for kernel in kernels:
        lines |= set(kernel.imports)
    future = sorted(line for line in lines if line.startswith("from __future__"))
    plain = sorted(line for line in lines if line.startswith("import "))
    named = sorted(line for line in lines if line.startswith("from ") and line not in future)
    return "\n".join([*future, *plain, *named])


def _kernel_code(kernels: Mapping[str, KernelSource]) -> list[str]:
    """Each piece of kernel code once, in the order of the steps."""
    return list(dict.fromkeys(kernel.code.strip("\n") for kernel in kernels.values()))


def _unparsed(statement: ast.stmt) -> str:
    return ast.unparse(statement)


def _joined(parts: list[str]) -> str:
    """Two blank lines around functions and classes, one elsewhere."""
    text = parts[0] + "\n\n" + parts[1]
    before = parts[1]
    for part in parts[2:]:
        block = any(_is_block(p) for p in (part, before))
        text += ("\n\n\n" if block else "\n" if not before.startswith(("import", "from")) else "\n\n") + part
        before = part
    return text + "\n"


def _is_block(part: str) -> bool:
    return bool(re.search(r"^(@|class |def |async def )", part, re.MULTILINE))


def _class_source(model: ast.ClassDef, forward: ast.FunctionDef, body: list[str]) -> str:
    """The class unparsed, with the generated forward's own text, which keeps its comments and line breaks."""
    marker = "__generated_forward__"
    forward.body = [ast.Expr(ast.Name(marker))]
    text = ast.unparse(ast.fix_missing_locations(model))
    indented = "\n".join(f"        {line}" if line else "" for line in body)
    return text.replace(f"        {marker}", indented)


class _Forward:
    """Writes the statements of a forward pass."""

    def __init__(
        self, plan: ForwardPlan, kernels: Mapping[str, KernelSource], self_name: str, arguments: list[str]
    ) -> None:
        self.plan = plan
        self.kernels = kernels
        self.self_name = self_name
        self.arguments = arguments[: len(plan.inputs)]
        self.left = arguments[len(plan.inputs) :]
        self.names = self._names()
        self.updated = {
            step.args[0]["ref"]: f"{self.names[step.args[0]['ref']]}_given"
            for step in plan.steps
            if isinstance(step, TorchStep) and step.op == UPDATE
        }
        """Inputs changed in place, with the name of the caller's own tensor, which may not be contiguous."""
        self.overwritten = {s.into for step in plan.steps if isinstance(step, LoopProgram) for s in step.stores}
        """Inputs that a kernel writes to itself."""

    def _names(self) -> dict[str, str]:
        """Python name of each value: arguments keep theirs, everything else avoids them and the modules in use."""
        taken = {"torch", "triton", "tl", "cupy", "numpy", self.self_name, *self.arguments, *self.left}
        taken |= {symbol.name for symbol in self.plan.symbols} | {kernel.function for kernel in self.kernels.values()}
        names = dict(zip(self.plan.inputs, self.arguments, strict=False))
        made = [name for step in self.plan.steps for name in _made(step)]
        for value in (*self.plan.inputs, *self.plan.parameters, *made):
            if value in names:
                continue
            name = value
            while name in taken:
                name += "_"
            taken.add(name)
            names[value] = name
        return names

    def lines(self) -> list[str]:
        return [
            *self._scalars(),
            *self._inputs(),
            *self._symbols(),
            *self._parameters(),
            *self._steps(),
            self._return(),
        ]

    def _scalars(self) -> list[str]:
        lines = []
        for value, content in self.plan.scalars.items():
            name = self.names[value]
            test = (
                f"{name} is not {content!r}"
                if content is None or isinstance(content, bool)
                else f"{name} != {content!r}"
            )
            lines += [f"if {test}:", f'    raise ValueError("these kernels were made for {name}={content!r}")']
        return lines

    def _inputs(self) -> list[str]:
        """Strides are part of the plan and kernels move words of 16 bytes: an input that lies otherwise is copied."""
        lines = []
        used = set(self._used())
        for value in self.plan.inputs:
            if value not in used or value in self.plan.scalars:
                continue
            name = self.names[value]
            strides = self.plan.strides.get(value)
            if value in self.updated:
                lines.append(f"{self.updated[value]} = {name}")
            if strides is None:
                lines += [
                    f"{name} = {name}.contiguous()",
                    f"if {name}.data_ptr() % 16:",
                    f"    {name} = {name}.clone()",
                ]
            else:
                lines += self._relaid(name, strides, " or {name}.data_ptr() % 16")
        return lines

    def _relaid(self, name: str, strides: tuple[Size, ...], other: str = "") -> list[str]:
        wanted = _tuple(self._size_of_input(s) for s in strides)
        if 0 in strides:
            return [f"if {name}.stride() != {wanted}:", f'    raise ValueError("these kernels expect {name} expanded")']
        copy = f"torch.empty_strided({name}.shape, {wanted}, dtype={name}.dtype, device={name}.device).copy_({name})"
        return [f"if {name}.stride() != {wanted}{other.format(name=name)}:", f"    {name} = {copy}"]

    def _size_of_input(self, size: Size) -> str:
        text = str(size)
        for symbol in reversed(self.plan.symbols):  # A formula names symbols before it.
            source = f"({symbol.formula})" if symbol.formula else self._bound(symbol)
            text = re.sub(rf"\b{symbol.name}\b", source, text)
        return text

    def _symbols(self) -> list[str]:
        return [f"{symbol.name} = {symbol.formula or self._bound(symbol)}" for symbol in self.plan.symbols]

    def _bound(self, symbol: Symbol) -> str:
        return f"{self.names[self.plan.inputs[symbol.input]]}.shape[{symbol.dim}]"

    def _parameters(self) -> list[str]:
        lines = []
        for value, target in self.plan.parameters.items():
            source = self.self_name + "".join(
                f"[{part}]" if part.isdigit() else f".{part}" for part in target.split(".")
            )
            strides = self.plan.strides.get(value)
            name = self.names[value]
            if value in self.updated:
                lines.append(f"{self.updated[value]} = {source}")
            if strides is None:
                lines.append(f"{name} = {source}.contiguous()")
            else:
                lines += [f"{name} = {source}", *self._relaid(name, strides)]
        return lines

    def _steps(self) -> list[str]:
        lines: list[str] = []
        last_use = self._last_uses()
        for number, step in enumerate(self.plan.steps):
            target = ", ".join(self.names[name] for name in _made(step))
            lines += [f"{target} = {self._call(step)}"] if target else self._call(step).splitlines()
            lines += self._after(step)
            dead = [self.names[name] for name, at in last_use.items() if at == number]
            if dead:
                lines.append(f"del {', '.join(dead)}")
        return lines

    def _after(self, step: Step) -> list[str]:
        """Kernels read PyTorch's results as contiguous tensors."""
        if not isinstance(step, TorchStep) or step.op == "constant":
            return []
        known = [self.names[name] for name in step.outputs if name in self.plan.values]
        return [f"{name} = {name}.contiguous()" for name in known]

    def _last_uses(self) -> dict[str, int]:
        """Values that steps make and later steps alone read: their memory can go after the last of these."""
        made = {name for step in self.plan.steps for name in _made(step)}
        kept = set(references(self.plan.returns))
        last: dict[str, int] = {}
        for number, step in enumerate(self.plan.steps):
            for name in self._reads(step):
                if name in made and name not in kept:
                    last[name] = number
        return {name: at for name, at in last.items() if at + 1 < len(self.plan.steps)}

    def _reads(self, step: Step) -> list[str]:
        if isinstance(step, TorchStep):
            return references([*step.args, *step.kwargs.values()])
        return [step.base] if isinstance(step, ViewStep) else list(self.kernels[step.name].reads)

    def _used(self) -> list[str]:
        bound = [self.plan.inputs[symbol.input] for symbol in self.plan.symbols if not symbol.formula]
        read = [name for step in self.plan.steps for name in self._reads(step)]
        return [*[b for b in bound if b in read], *read, *references(self.plan.returns)]

    def _call(self, step: Step) -> str:
        if isinstance(step, ViewStep):
            shape, strides = _tuple(map(str, step.shape)), _tuple(map(str, step.strides))
            base = self.names[step.base]
            offset = f", {base}.storage_offset() + {step.offset}" if step.offset != 0 else ""
            return f"torch.as_strided({base}, {shape}, {strides}{offset})"
        if isinstance(step, TorchStep):
            return self._torch_call(step)
        kernel = self.kernels[step.name]
        arguments = [*(self.names[name] for name in kernel.reads), *kernel.symbols]
        return f"{kernel.function}({', '.join(arguments)})"

    def _torch_call(self, step: TorchStep) -> str:
        if step.op == "constant":
            content, dtype = (self._argument(a) for a in step.args)
            return f"torch.tensor({content}, dtype={dtype}, device={self._device()})"
        if step.op == UPDATE:
            target, source = step.args[0]["ref"], step.args[1]["ref"]
            copy = f"{self.updated[target]}.copy_({self.names[source]})"
            # A kernel wrote to the caller's tensor already, unless it was given a contiguous copy.
            return self._unless_same(target, copy) if target in self.overwritten else copy
        arguments = [self._argument(a) for a in step.args]
        arguments += [f"{key}={self._argument(a)}" for key, a in step.kwargs.items()]
        return f"torch.ops.{step.op}({', '.join(arguments)})"

    def _unless_same(self, target: str, copy: str) -> str:
        return f"if {self.names[target]} is not {self.updated[target]}:\n    {copy}"

    def _device(self) -> str:
        tensors = [name for name in self.plan.inputs if name not in self.plan.scalars]
        return f"{self.names[tensors[0]]}.device" if tensors else '"cuda"'

    def _argument(self, argument: Any) -> str:
        if isinstance(argument, (list, tuple)):
            return f"[{', '.join(self._argument(a) for a in argument)}]"
        if not isinstance(argument, dict):
            return repr(argument)
        ((key, content),) = argument.items()
        if key == "ref":
            return self.names[content]
        if key == "size":
            return str(content)
        if key == "float":
            return f'float("{content}")'
        return self._device() if key == "device" else f"torch.{content}"

    def _return(self) -> str:
        return f"return {self._structure(self.plan.returns)}"

    def _structure(self, structure: Any) -> str:
        if isinstance(structure, (list, tuple)):
            return f"[{', '.join(self._structure(part) for part in structure)}]"
        if not isinstance(structure, dict):
            return repr(structure)
        ((key, content),) = structure.items()
        if key == "tuple":
            return _tuple(self._structure(part) for part in content)
        if key == "dict":
            return "{" + ", ".join(f"{name!r}: {self._structure(part)}" for name, part in content) + "}"
        return self._argument(structure)


def _made(step: Step) -> list[str]:
    if isinstance(step, TorchStep):
        return list(step.outputs)
    return [step.name] if isinstance(step, ViewStep) else [store.value for store in step.stores]


def _tuple(parts: Iterable[str]) -> str:
    listed = list(parts)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"
