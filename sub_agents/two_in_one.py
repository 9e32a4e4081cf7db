"""Two candidates for one problem as one file that chooses between them by the size of an input.

A kernel tuned for large inputs is often slow on small ones and the other way round. Both lie in the file, and which one
runs is written in the forward pass for anybody to read: a size in elements, compared once.
"""

import ast
import re
from collections.abc import Iterable, Sequence

from ..state.base import Record
from ..state.candidate import Candidate, make_candidate
from ..state.syntax import parse

LIMIT = "LARGE_ELEMENTS"
TEMPLATE = "two_in_one"
_MARK = "_for_small"


class SizeRule(Record):
    """Which of the two runs: the one for large inputs from so many elements on."""

    argument: int
    """Position of the input that is looked at, among the arguments of forward."""
    elements: int


def two_in_one(large: Candidate, small: Candidate, rule: SizeRule) -> Candidate | None:
    """The two merged; None where their files do not fit together: they must differ in kernels and forward only."""
    try:
        source = _merged(_Parts(large.source), _Parts(small.source), rule)
    except (SyntaxError, ValueError):
        return None
    if source is None:
        return None
    language = large.language if large.language == small.language else "cuda"
    return make_candidate(
        source,
        language,
        origin=large.origin if large.origin == small.origin else "llm",
        template=TEMPLATE,
        parent=large.id,
        note=f"{large.id[:6]} from {rule.elements} elements of input {rule.argument} on, {small.id[:6]} below",
    )


class _Parts:
    """A candidate's file taken apart. Raises SyntaxError, or ValueError where it has no `ModelNew` with a forward."""

    def __init__(self, source: str) -> None:
        self.lines = source.split("\n")  # as the parser counts them: `splitlines` knows more ends of lines
        body = parse(source).body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        self.imports = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
        model = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None)
        if model is None:
            raise ValueError("no class ModelNew")
        self.model = model
        members = (node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == "forward")
        forward = next(members, None)
        if forward is None or forward.decorator_list or forward.args.vararg or forward.args.kwarg:
            raise ValueError("no plain forward method")
        self.forward = forward
        self.others = [node for node in body if node is not self.model and node not in self.imports]

    def text(self, node: ast.stmt) -> str:
        """A statement as it is written, with its decorators and comments."""
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        return "\n".join(self.lines[first - 1 : node.end_lineno])

    def frame(self) -> list[str]:
        """The class without its forward, member by member, whatever their comments."""
        head = [ast.dump(each) for each in (*self.model.bases, *self.model.decorator_list)]
        return head + [ast.dump(node) for node in self.model.body if node is not self.forward]


def _merged(large: _Parts, small: _Parts, rule: SizeRule) -> str | None:
    arguments = [each.arg for each in (*large.forward.args.posonlyargs, *large.forward.args.args)][1:]
    same_call = ast.dump(large.forward.args) == ast.dump(small.forward.args)
    if not same_call or large.frame() != small.frame() or rule.argument >= len(arguments):
        return None
    added = _added(large, small)
    taken = set(_names(large.others)) | {"ModelNew", LIMIT}
    if LIMIT in _names([*large.others, *added]) or "ModelNew" in _mentions(added):
        return None
    clashes = [name for name in _names(added) if name in taken]
    before = [node for node in large.others if node.lineno < large.model.lineno]
    after = [node for node in large.others if node.lineno > large.model.lineno]
    blocks = [
        f'"""Two kernels behind one forward pass: one for large inputs, one for those below {LIMIT}."""',
        _imports(large, small),
        f"{LIMIT} = {rule.elements}\n"
        f'"""Elements of `{arguments[rule.argument]}` from which on the kernels for large inputs are faster."""',
        *(large.text(node) for node in before),
        *(_renamed(small.text(node), clashes) for node in added),
        _class(large, small, clashes, arguments[rule.argument]),
        *(large.text(node) for node in after),
    ]
    source = "\n\n\n".join(blocks) + "\n"
    parse(source)
    return source


def _added(large: _Parts, small: _Parts) -> list[ast.stmt]:
    """Statements of the second that the file needs beside those of the first.

    One that both have is shared, unless it uses what is not: a launcher may read the same and launch another kernel.
    """
    common = {ast.dump(node) for node in large.others}
    added = [node for node in small.others if ast.dump(node) not in common]
    while True:
        own = set(_names(added))
        more = [node for node in small.others if node not in added and own & _mentions([node])]
        if not more:
            return [node for node in small.others if node in added]
        added += more


def _imports(large: _Parts, small: _Parts) -> str:
    texts = [ast.unparse(node) for parts in (large, small) for node in parts.imports]
    return "\n".join(sorted(dict.fromkeys(texts), key=lambda text: not text.startswith("from __future__")))


def _names(nodes: Iterable[ast.stmt]) -> list[str]:
    """Names that statements define at the top of a file."""
    found: list[str] = []
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(node.name)
            continue
        for part in ast.walk(node):  # Under a condition functions are defined as well.
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                found.append(part.name)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.append(part.id)
    return list(dict.fromkeys(found))


def _mentions(nodes: Iterable[ast.stmt]) -> set[str]:
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def _renamed(text: str, names: Sequence[str]) -> str:
    """The text with these names marked; attributes of the same name keep theirs."""
    for name in names:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}\b", name + _MARK, text)
    return text


def _class(large: _Parts, small: _Parts, clashes: Sequence[str], looked_at: str) -> str:
    """The class of the first with both forward passes, and one that chooses."""
    indent = " " * large.forward.col_offset
    step = " " * 4
    spec = large.forward.args
    passed = [each.arg for each in (*spec.posonlyargs, *spec.args)][1:]
    passed += [f"{each.arg}={each.arg}" for each in spec.kwonlyargs]
    call = ", ".join(passed)
    own = spec.posonlyargs[0].arg if spec.posonlyargs else spec.args[0].arg
    returns = f" -> {ast.unparse(large.forward.returns)}" if large.forward.returns else ""
    chooser = [
        f"{indent}def forward({ast.unparse(spec)}){returns}:",
        f"{indent}{step}if {looked_at}.numel() >= {LIMIT}:",
        f"{indent}{step}{step}return {own}._on_large({call})",
        f"{indent}{step}return {own}._on_small({call})",
    ]
    whole, written = large.text(large.model), large.text(large.forward)
    both = [_as_method(written, "_on_large"), _as_method(_renamed(small.text(small.forward), clashes), "_on_small")]
    return whole.replace(written, "\n\n".join(["\n".join(chooser), *both]), 1)


def _as_method(forward: str, name: str) -> str:
    return re.sub(r"\bdef forward\(", f"def {name}(", forward, count=1)
