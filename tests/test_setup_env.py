"""The setup script keeps CUDA builds of torch off machines without a GPU, and does nothing when nothing changed."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def setup_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, working on an empty folder."""
    spec = importlib.util.spec_from_file_location("setup_env_under_test", ROOT / "setup_env.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "VENV_PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.delenv("WARPSMITH_TORCH", raising=False)
    monkeypatch.delenv("WARPSMITH_TORCH_INDEX", raising=False)
    return module


def report(*packages: tuple[str, str]) -> str:
    """What `pip install --dry-run --report -` prints, as far as it is read."""
    return json.dumps({"install": [{"metadata": {"name": name, "version": version}} for name, version in packages]})


@pytest.mark.parametrize(
    ("packages", "unwanted"),
    [
        ([("torch", "2.13.0+cpu"), ("sympy", "1.14")], []),
        (
            [("torch", "2.12.0"), ("nvidia-cublas", "13.1"), ("cuda-toolkit", "13.0.2")],
            ["nvidia-cublas 13.1", "cuda-toolkit 13.0.2"],
        ),
        ([("torch", "2.11.0+cu130")], ["torch 2.11.0+cu130"]),
    ],
)
def test_a_plan_with_cuda_packages_is_recognised(
    setup_env: ModuleType, packages: list[tuple[str, str]], unwanted: list[str]
) -> None:
    assert setup_env.cuda_packages(report(*packages)) == unwanted


def test_setup_stops_before_downloading_a_cuda_torch(setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is a recorder that answers with a CUDA plan; the only call it may get is the dry run."""
    calls: list[tuple[str, ...]] = []

    def pip(*arguments: str, what: str) -> str:
        calls.append(arguments)
        return report(("torch", "2.13.0"), ("nvidia-cudnn-cu13", "9.20"))

    monkeypatch.setattr(setup_env, "pip", pip)
    monkeypatch.setattr(setup_env, "installed_torch", lambda: "")
    with pytest.raises(setup_env.SetupError, match="WARPSMITH_TORCH_INDEX"):
        setup_env.install_torch(has_gpu=False)
    assert len(calls) == 1
    assert "--dry-run" in calls[0]


def test_the_index_variable_reaches_pip(setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []

    def pip(*arguments: str, what: str) -> str:
        calls.append(arguments)
        return report(("torch", "2.13.0+cpu"))

    monkeypatch.setattr(setup_env, "pip", pip)
    monkeypatch.setattr(setup_env, "installed_torch", lambda: "")
    monkeypatch.setenv("WARPSMITH_TORCH_INDEX", "file:///wheels")
    setup_env.install_torch(has_gpu=False)
    assert [call[-2:] for call in calls] == [("--index-url", "file:///wheels")] * 2
    assert "--dry-run" not in calls[1]


def test_nothing_is_done_twice(setup_env: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stamp that fits, pip is not even started; a changed pyproject.toml starts it again."""
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(setup_env, "pip", lambda *arguments, what: calls.append(arguments) or report())
    monkeypatch.setattr(setup_env, "gpu_cuda_major", lambda: 0)
    monkeypatch.setattr(setup_env, "installed_torch", lambda: "2.13.0+cpu")
    setup_env.VENV_PYTHON.parent.mkdir(parents=True)
    setup_env.VENV_PYTHON.symlink_to(sys.executable)
    setup_env.set_up(dev=True)
    first = len(calls)
    assert first > 0
    setup_env.set_up(dev=True)
    assert len(calls) == first
    (setup_env.ROOT / "pyproject.toml").write_text("[project]\nname = 'y'\n")
    setup_env.set_up(dev=True)
    assert len(calls) > first


def test_an_unknown_argument_is_refused_in_one_line(setup_env: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert setup_env.main(["--everything"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(("version", "usable"), [("2.11.0", True), ("2.10.1", False), ("2.15.0a0", False)])
def test_a_machines_own_torch_is_reused_if_its_version_was_tried(
    setup_env: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, usable: bool
) -> None:
    site = tmp_path / "site"
    for name in ("torch", "triton"):
        (site / name).mkdir(parents=True)
        (site / name / "__init__.py").touch()
    (site / f"torch-{version}.dist-info").mkdir()
    (site / f"torch-{version}.dist-info" / "METADATA").write_text(f"Name: torch\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert setup_env.machine_has_torch() is usable
