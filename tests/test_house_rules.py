"""Rules of the house that no linter holds: sizes, copies, silent failures, and nothing of one machine in the source."""

import ast
import re
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("evals", "graph", "sub_agents", "tools", "state")
SOURCES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")) + [ROOT / "setup_env.py"]
CODE = [path for path in SOURCES if "problems" not in path.parts and "exploits" not in path.parts]
MOST_LINES = 400
MOST_FUNCTION_LINES = 80
LEAST_COPIED_STATEMENTS = 4
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function)]


def own_statements(function: Function) -> list[ast.stmt]:
    """The body without its docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.body[1:] if documented else function.body


def test_files_are_under_four_hundred_lines() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in CODE}
    assert {name: size for name, size in sizes.items() if size >= MOST_LINES} == {}


def test_functions_can_be_seen_whole() -> None:
    sizes = {
        f"{path.relative_to(ROOT)}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in CODE
        for function in functions(path)
    }
    assert {name: size for name, size in sizes.items() if size > MOST_FUNCTION_LINES} == {}


def test_source_is_parsed_in_one_place() -> None:
    """CPython 3.11 mixes up two threads that parse at once: state/syntax.py says what it does about it."""
    found = [
        str(path.relative_to(ROOT)) for path in CODE if path.name != "syntax.py" and "ast.parse(" in path.read_text()
    ]
    assert found == []


def test_no_function_body_is_written_twice() -> None:
    """Bodies of four statements or more, compared as syntax: names of variables count, comments do not."""
    seen: dict[str, list[str]] = defaultdict(list)
    for path in CODE:
        for function in functions(path):
            body = own_statements(function)
            if (
                sum(isinstance(node, ast.stmt) for statement in body for node in ast.walk(statement))
                >= LEAST_COPIED_STATEMENTS
            ):
                text = "\n".join(ast.dump(statement) for statement in body)
                seen[text].append(f"{path.relative_to(ROOT)}:{function.name}")
    assert [places for places in seen.values() if len(places) > 1] == []


def does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return docstring or isinstance(statement, (ast.Pass, ast.Continue, ast.Break))


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches everything and then does nothing with it."""
    caught = handler.type
    broad = caught is None or (isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException"))
    return broad and all(does_nothing(statement) for statement in handler.body)


def handlers(code: str) -> list[ast.ExceptHandler]:
    return [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ExceptHandler)]


def test_no_broad_except_is_silent() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{handler.lineno}"
        for path in CODE
        for handler in handlers(path.read_text())
        if swallows(handler)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("clause", "silent"),
    [
        ("except Exception: pass", True),
        ("except: return None", True),
        ("except OSError: pass", False),
        ("except Exception as error: log(error)", False),
    ],
)
def test_the_rule_on_silent_excepts_tells_them_apart(clause: str, silent: bool) -> None:
    (handler,) = handlers(f"def f():\n  try: g()\n  {clause}")
    assert swallows(handler) is silent


def tracked_text_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.splitlines()]
    return [path for path in paths if path.is_file() and path.suffix not in (".png", ".gz", ".db")]


PRIVATE = re.compile(
    r"(?<![\w.])/(?:work|home/\w+|root|Users/\w+|mnt/\w+)/|\bissue \d|(?<!\w)shared/design|\bhttps?://(?!127\.0\.0\.1|localhost)\S*pypi",
    re.IGNORECASE,
)


def test_nothing_names_one_machine_or_how_the_work_was_organised() -> None:
    found = []
    for path in tracked_text_files():
        if path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if PRIVATE.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def test_what_the_commands_leave_behind_is_not_type_checked() -> None:
    """Candidates lie in `runs` after `make run`: the types of a checkout must not depend on who ran it before."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.endswith("/")]
    excluded = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["exclude"]
    folders = [name for name in ignored if not name.startswith((".", "*", "_"))]
    assert "runs" in folders
    assert [name for name in folders if not re.search(excluded, f"/x/{name}/best.py")] == []
