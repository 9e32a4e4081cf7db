"""A static look at a candidate's source: what a kernel has no use for is named for a person to look at.

It decides nothing. Text can be hidden from any scanner, and honest kernels use streams and threads; what a candidate
does is judged by what it delivers and when.
"""

import ast

from ..state.syntax import parse

_MODULES = {
    "ctypes": "calls C functions directly",
    "gc": "walks other objects",
    "inspect": "looks at frames or sources",
    "multiprocessing": "starts processes",
    "os": "uses the operating system",
    "pickle": "loads pickled code",
    "signal": "handles signals",
    "socket": "opens sockets",
    "subprocess": "starts programs",
    "threading": "starts threads",
    "_thread": "starts threads",
    "urllib": "opens connections",
    "requests": "opens connections",
}
_NAMES = {
    "_getframe": "looks at frames",
    "f_back": "looks at frames",
    "f_globals": "looks at frames",
    "__code__": "replaces code",
    "__import__": "imports by name",
    "import_module": "imports by name",
    "modules": "looks at loaded modules",
    "elapsed_time": "touches event timing",
    "perf_counter": "touches the clock",
    "Stream": "uses streams of its own",
    "CUDAGraph": "uses CUDA graphs",
    "eval": "runs text",
    "exec": "runs text",
    "setattr": "replaces attributes",
}


def screen(source: str) -> tuple[str, ...]:
    """Findings as `screen: line 3: os: uses the operating system`, in source order, one a name."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return ()
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        for name in _names(node):
            if name in _MODULES or name in _NAMES:
                found.setdefault(name, getattr(node, "lineno", 0))
    about = {**_NAMES, **_MODULES}
    ordered = sorted(found.items(), key=lambda item: item[1])
    return tuple(f"screen: line {line}: {name}: {about[name]}" for name, line in ordered)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0], *(alias.name for alias in node.names)]
    if isinstance(node, ast.Attribute):
        return [node.attr] if node.attr in _NAMES else []
    return [node.id] if isinstance(node, ast.Name) and node.id in _NAMES else []
