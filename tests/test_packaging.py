"""What is on disk is in the wheel, and the package is only ever imported under its own name."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("evals", "graph", "sub_agents", "tools", "state")
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = CONFIG["tool"]["setuptools"]["packages"]


APART = tuple(ROOT / "evals" / name for name in ("exploits", "diagnosis", "endurance"))
"""Candidates that the harness and the diagnosis are tested on: never imported by name, and not in the wheel."""


def files(layer: str, pattern: str) -> list[Path]:
    """Files of a layer that ship, caches left out."""
    found = [path for path in (ROOT / layer).rglob(pattern) if path.is_file()]
    found = [path for path in found if not any(path.is_relative_to(folder) for folder in APART)]
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]


def folder(package: str) -> Path:
    return ROOT.joinpath(*package.split(".")[1:])


def test_every_folder_with_python_files_is_a_listed_package() -> None:
    """A package that is not listed works in an editable install and is missing from the wheel."""
    on_disk = {"warpsmith"}
    for layer in LAYERS:
        for source in files(layer, "*.py"):
            on_disk.add(".".join(("warpsmith", *source.parent.relative_to(ROOT).parts)))
    assert set(PACKAGES) == on_disk
    assert len(PACKAGES) == len(set(PACKAGES))


def test_every_package_has_an_init_file() -> None:
    """import-linter does not see folders without one."""
    assert [package for package in PACKAGES if not (folder(package) / "__init__.py").exists()] == []


def test_every_data_file_is_listed() -> None:
    """Everything inside a layer that is not Python has to be named as package data."""
    data: dict[str, list[str]] = CONFIG["tool"]["setuptools"]["package-data"]
    listed = {
        path for package, patterns in data.items() for pattern in patterns for path in folder(package).glob(pattern)
    }
    on_disk = {path for layer in LAYERS for path in files(layer, "*") if path.suffix not in (".py", ".pyc")}
    assert on_disk - listed == set()


def imported_modules(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append(node.module)
    return names


def test_no_layer_is_imported_by_its_bare_name() -> None:
    """`import tools` would find whatever lies in the user's folder."""
    bare = []
    for layer in (*LAYERS, "tests"):
        for source in files(layer, "*.py"):
            for name in imported_modules(ast.parse(source.read_text())):
                if name.split(".")[0] in LAYERS:
                    bare.append(f"{source.relative_to(ROOT)}: {name}")
    assert bare == []


def test_the_root_init_imports_nothing() -> None:
    """pytest may run it a second time under another name."""
    assert imported_modules(ast.parse((ROOT / "__init__.py").read_text())) == []


def test_records_graph_and_evals_load_without_torch() -> None:
    """The controller process never imports torch, triton or cupy."""
    modules = "warpsmith.graph, warpsmith.evals.suite, warpsmith.tools.harness"
    code = f"import sys, {modules}; print(sorted({{'torch', 'triton', 'cupy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
