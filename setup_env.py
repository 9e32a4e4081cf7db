"""Makes `.venv` with everything that Warpsmith needs on this machine. Standard library only.

    python3 setup_env.py          what `make run` needs
    python3 setup_env.py --dev    also what `make test`, `make lint` and `make types` need

A machine without a GPU never downloads a CUDA build of torch: pip is asked for its plan first, and a plan that holds
one ends the setup with one line. `WARPSMITH_TORCH_INDEX` names the package index to take torch from, and
`WARPSMITH_TORCH` another requirement than the default `torch==2.13.0`.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LEAST_PYTHON = (3, 11)
CPU_TORCH = "torch==2.13.0"
GPU_TORCH = "torch>=2.11,<2.15"
TORCH_RANGE = ((2, 11), (2, 15))
# The first pip whose --dry-run reads metadata only: older ones would download the CUDA build to plan it.
PIP = "pip>=24"
CUDA_PREFIXES = ("nvidia-", "cuda-toolkit")


class SetupError(Exception):
    """Setup cannot go on; the text is one line that says what to do."""


def say(text: str) -> None:
    sys.stderr.write(f"setup: {text}\n")
    sys.stderr.flush()


def run(command: "list[str]", what: str) -> str:
    """Runs a command, returns its standard output; SetupError with its last line of error if it fails."""
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
        raise SetupError(f"{what} failed: {errors[-1].strip()}")
    return done.stdout


def newer_python() -> "str | None":
    """A Python on the search path that is new enough, where the running one is not."""
    for minor in (13, 12, 11):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    return None


def gpu_cuda_major() -> int:
    """Major CUDA version that the driver of a working GPU supports; 0 without a GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode or "CUDA Version:" not in done.stdout:
        return 0
    version = done.stdout.split("CUDA Version:")[1].split()[0]
    return int(version.split(".")[0]) if version[0].isdigit() else 0


def machine_has_torch() -> bool:
    """Whether the running Python already has a usable torch and triton, as images for GPU machines do."""
    if sys.prefix != sys.base_prefix or any(importlib.util.find_spec(name) is None for name in ("torch", "triton")):
        return False
    major, minor = importlib.metadata.version("torch").split(".")[:2]
    return TORCH_RANGE[0] <= (int(major), int(minor)) < TORCH_RANGE[1]


def stamp_text(extras: "list[str]") -> str:
    """Changes exactly when the environment has to be brought up to date."""
    settings = [os.environ.get(name, "") for name in ("WARPSMITH_TORCH_INDEX", "WARPSMITH_TORCH")]
    parts = [(ROOT / "pyproject.toml").read_text(), Path(__file__).read_text(), str(ROOT), *settings, *extras]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def make_venv() -> None:
    if VENV_PYTHON.exists():
        return
    reuse = ["--system-site-packages"] if machine_has_torch() else []
    say(
        f"making {VENV.name} with Python {sys.version.split()[0]}" + (", reusing this machine's torch" if reuse else "")
    )
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError("this Python cannot make environments; on Debian and Ubuntu: apt-get install python3-venv")
    run([sys.executable, "-m", "venv", *reuse, str(VENV)], "making .venv")


def pip(*arguments: str, what: str) -> str:
    command = [str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    return run(command, what)


def installed_torch() -> str:
    """Version of the environment's torch, empty if it has none."""
    probe = "from importlib.metadata import version; print(version('torch'))"
    done = subprocess.run([str(VENV_PYTHON), "-c", probe], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def cuda_packages(report: str) -> "list[str]":
    """Names in a pip report (JSON) that only a CUDA build of torch needs, and torch itself if it is such a build."""
    found = []
    for item in json.loads(report)["install"]:
        name, version = item["metadata"]["name"].lower(), item["metadata"]["version"]
        if name.startswith(CUDA_PREFIXES) or (name == "torch" and "+cu" in version):
            found.append(f"{name} {version}")
    return found


def install_torch(has_gpu: bool) -> None:
    if installed_torch():
        return
    requirement = os.environ.get("WARPSMITH_TORCH") or (GPU_TORCH if has_gpu else CPU_TORCH)
    index = os.environ.get("WARPSMITH_TORCH_INDEX")
    choice = [requirement, *(["--index-url", index] if index else [])]
    if not has_gpu:
        plan = pip("install", "--dry-run", "--quiet", "--report", "-", *choice, what=f"planning {requirement}")
        unwanted = cuda_packages(plan)
        if unwanted:
            raise SetupError(
                f"no GPU here, but pip would take a CUDA build of torch ({unwanted[0]} and {len(unwanted) - 1} more): "
                "set WARPSMITH_TORCH_INDEX to the URL of an index with CPU builds, or install a CPU torch into .venv"
            )
    say(f"installing {requirement}")
    pip("install", "--quiet", *choice, what=f"installing {requirement}")


def install_package(extras: "list[str]") -> None:
    """Warpsmith itself, editable, with its extras; the torch that is there stays as it is."""
    constraint = VENV / "torch-constraint.txt"
    constraint.write_text(f"torch=={installed_torch()}\n")
    target = f".[{','.join(extras)}]"
    say(f"installing warpsmith{target[1:]}")
    pip("install", "--quiet", "--constraint", str(constraint), "--editable", target, what=f"installing {target}")


def set_up(dev: bool) -> None:
    started = time.monotonic()
    cuda_major = gpu_cuda_major()
    # Without a GPU the CUDA compiler's wheels are still wanted: kernels compile there, they only do not run.
    cuda = ["cuda12" if cuda_major == 12 else "cuda13"] if sys.platform == "linux" else []
    extras = [*cuda, *(["llm", "studio", "dev"] if dev else [])]
    stamp = VENV / ("setup-dev.stamp" if dev else "setup-run.stamp")
    wanted = stamp_text(extras)
    if VENV_PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    make_venv()
    pip("install", "--quiet", "--upgrade", PIP, what=f"installing {PIP}")
    install_torch(has_gpu=cuda_major > 0)
    install_package(extras)
    # For mypy, which has to find the root folder under the package's name.
    types = ROOT / ".types"
    types.mkdir(exist_ok=True)
    if not (types / "warpsmith").is_symlink():
        (types / "warpsmith").symlink_to("..")
    stamp.write_text(wanted)
    say(f"ready in {time.monotonic() - started:.0f} s ({'GPU' if cuda_major else 'no GPU: dry runs'})")


def main(arguments: "list[str]") -> int:
    if set(arguments) - {"--dev"}:
        say(f"unknown argument in {arguments}; usage: setup_env.py [--dev]")
        return 2
    if sys.version_info < LEAST_PYTHON:
        python = newer_python()
        if python is None:
            say(
                f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: try make PYTHON=/path/to/python3.11"
            )
            return 2
        return subprocess.call([python, __file__, *arguments])
    try:
        set_up(dev="--dev" in arguments)
    except SetupError as error:
        say(str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
