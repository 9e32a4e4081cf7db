"""Kernels that tune themselves: `triton.autotune` is frozen to one configuration before anything is judged.

An autotuner times configurations inside the call that is being timed, and may choose another one at every run. With a
single configuration it times nothing (Triton then takes it at once), so a frozen kernel is what was measured.
"""

import ast

from ..state.candidate import Candidate, make_candidate
from ..state.syntax import parse

MOST_FROZEN = 6
"""Most configurations of one kernel that become candidates of their own."""


def autotunes(source: str) -> bool:
    """Whether a source has an autotuner with more than one configuration, or with a list that cannot be read."""
    return any(_configurations(decorator) != 1 for decorator in _decorators(source))


def frozen(candidate: Candidate) -> list[Candidate]:
    """The candidate once for each configuration, evenly chosen where there are many; itself where it tunes nothing.

    Where the configurations are no literal list it stays as it is, and its note says that it autotunes.
    """
    if not autotunes(candidate.source):
        return [candidate]
    counts = [_configurations(decorator) for decorator in _decorators(candidate.source)]
    most = max(count or 0 for count in counts)
    if any(count is None for count in counts) or most == 0:
        return [candidate.model_copy(update={"note": f"{candidate.note} (autotunes itself: not frozen)".strip()})]
    shown = min(most, MOST_FROZEN)
    chosen = dict.fromkeys(round(step * (most - 1) / max(1, shown - 1)) for step in range(shown))
    return [_with_configuration(candidate, number) for number in chosen]


def _with_configuration(candidate: Candidate, number: int) -> Candidate:
    """Every autotuner of the candidate with its configuration of that number alone, or its last one."""
    tree = parse(candidate.source)
    texts = []
    for decorator in _autotuners(tree):
        listed = _listed(decorator)
        assert listed is not None
        kept = listed.elts[min(number, len(listed.elts) - 1)]
        listed.elts = [kept]
        texts.append(ast.unparse(kept))
    note = f"{candidate.note} frozen to {'; '.join(texts)}".strip()
    source = ast.unparse(ast.fix_missing_locations(tree))
    fields = candidate.model_dump(exclude={"id", "source", "language", "note"})
    return make_candidate(source, candidate.language, **{**fields, "note": note})


def _decorators(source: str) -> list[ast.Call]:
    try:
        return _autotuners(parse(source))
    except (SyntaxError, ValueError):
        return []


def _autotuners(tree: ast.Module) -> list[ast.Call]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [
        decorator
        for function in functions
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).split(".")[-1] == "autotune"
    ]


def _listed(decorator: ast.Call) -> ast.List | None:
    """The literal list of configurations, None where it is made in another way."""
    given = next((each.value for each in decorator.keywords if each.arg == "configs"), None)
    given = given or (decorator.args[0] if decorator.args else None)
    if not isinstance(given, ast.List) or any(isinstance(each, ast.Starred) for each in given.elts):
        return None
    return given


def _configurations(decorator: ast.Call) -> int | None:
    listed = _listed(decorator)
    return None if listed is None else len(listed.elts)
