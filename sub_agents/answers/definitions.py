"""What a piece of Python defines: the model class, how it is constructed and called, and the names it lacks."""

import ast
import builtins
import symtable
from collections.abc import Iterator
from typing import NamedTuple

MOST_ALIASES = 5
MODULE_NAMES = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__builtins__", "__spec__", "__path__"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Arity(NamedTuple):
    """How many positional arguments a method takes besides `self`. `most` is None where there is no limit.

    `required` counts those without a default, keyword-only ones apart: a call that gives none of these fails.
    """

    required: int
    most: int | None
    keywords: tuple[str, ...] = ()

    def takes(self, calls: "Arity") -> bool:
        """Whether every positional call that `calls` allows is allowed here too."""
        enough = self.most is None or (calls.most is not None and self.most >= calls.most)
        return not self.keywords and self.required <= calls.required and enough


class Model(NamedTuple):
    """A model class. An arity is None where it cannot be told from the file (a base class from elsewhere)."""

    constructor: Arity | None
    forward: Arity | None
    lacks_forward: bool = False
    empty_forward: bool = False
    """Its body is a placeholder."""


def model_in(tree: ast.Module, name: str) -> Model | None:
    """The class of that name, also under an alias (`ModelNew = Fused`); None where the file has none."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    aliases = {
        target.id: node.value.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for _ in range(MOST_ALIASES):
        if name in classes or name not in aliases:
            break
        name = aliases[name]
    if name not in classes:
        return None
    constructor, _ = _method(classes, name, "__init__")
    forward, found = _method(classes, name, "forward")
    lacks = found is None and forward is not None
    empty = isinstance(found, Function) and _is_placeholder(found)
    return Model(constructor, None if lacks else forward, lacks, empty)


def undefined_names(source: str) -> tuple[str, ...]:
    """Global names that the code uses and nothing in it defines; none where names may come from elsewhere.

    Raises SyntaxError.
    """
    table = symtable.symtable(source, "candidate", "exec")
    if "import *" in source or "globals()" in source or "exec(" in source:
        return ()
    defined, used = set(MODULE_NAMES), set()
    for scope in _scopes(table):
        at_top = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if binds and (at_top or symbol.is_declared_global()):
                defined.add(symbol.get_name())
            if symbol.is_referenced() and (at_top or symbol.is_global()):
                used.add(symbol.get_name())
    return tuple(sorted(used - defined))


def top_level_names(tree: ast.Module) -> set[str]:
    """Functions, classes and plain variables that a file defines."""
    names = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, *_FUNCTIONS))}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def _method(
    classes: dict[str, ast.ClassDef], name: str, method: str, seen: frozenset[str] = frozenset()
) -> tuple[Arity | None, ast.stmt | None]:
    """Arity and definition of a method, looked up along the bases that the file defines.

    `nn.Module` has a constructor without arguments and no forward: then they are `Arity(0, 0)` and None.
    """
    own = classes[name]
    for node in own.body:
        if isinstance(node, _FUNCTIONS) and node.name == method:
            plain = all(isinstance(d, ast.Attribute) and d.attr == "no_grad" for d in node.decorator_list)
            return (_arity(node.args) if plain else None), node
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == method for target in targets):
            return None, node
    bases = [ast.unparse(base) for base in own.bases]
    for base in bases:
        if base in classes and base not in seen:
            arity, found = _method(classes, base, method, seen | {name})
            if found is not None or arity is None:
                return arity, found
        elif base.rpartition(".")[2] not in ("Module", "object"):
            return None, None
    return Arity(0, 0), None


def _arity(arguments: ast.arguments) -> Arity:
    positional = len(arguments.posonlyargs) + len(arguments.args) - 1
    required = max(0, positional - len(arguments.defaults))
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    needed = tuple(argument.arg for argument, default in keywords if default is None)
    return Arity(required, None if arguments.vararg else max(0, positional), needed)


def _is_placeholder(function: Function) -> bool:
    """Nothing but a docstring, `...`, `pass` or `raise NotImplementedError`."""
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Raise) and node.exc is not None and "NotImplemented" in ast.unparse(node.exc))
        for node in function.body
    )
