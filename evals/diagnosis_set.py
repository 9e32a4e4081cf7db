"""Kernels that were built to have one known bottleneck each, and the counters recorded of them.

A kernel's file opens with a docstring: how it is built in one line, then `problem:` (a file in `diagnosis/problems/`)
and `expect:` (the class that the rules must name). Files are never imported here: only a harness runs them.
"""

from pathlib import Path
from typing import Any

from ..graph.diagnosis import diagnose
from ..state.base import Record, digest
from ..state.bottleneck import BottleneckClass, Diagnosed
from ..state.candidate import Candidate, make_candidate
from ..state.device import DeviceSheet
from ..state.errors import InvalidInput
from ..state.evaluation import Evaluation
from ..state.profile import Profile
from .exhibits import docstring_of

DIAGNOSIS_DIR = Path(__file__).parent / "diagnosis"
COUNTERS = DIAGNOSIS_DIR / "counters.json"


class KnownKernel(Record):
    """One kernel with the bottleneck that it was given."""

    name: str
    problem: str
    expect: BottleneckClass
    idea: str
    source: str

    @property
    def problem_path(self) -> Path:
        return DIAGNOSIS_DIR / "problems" / f"{self.problem}.py"

    @property
    def source_id(self) -> str:
        """Changes with the kernel or its problem: a recording of other code says nothing."""
        return digest(self.source, self.problem_path.read_text(encoding="utf-8"))[:16]

    def candidate(self) -> Candidate:
        return make_candidate(self.source, note=self.idea)


class Recorded(Record):
    """What a GPU said of one kernel."""

    name: str
    source_id: str
    product_flops: float
    """FLOPs of the matrix products of its problem."""
    evaluation: Evaluation
    profile: Profile

    def diagnosed(self, device: DeviceSheet) -> Diagnosed:
        return diagnose(self.evaluation, self.profile, device, self.product_flops)


class Recording(Record):
    """The file: every recorded kernel, and where it was recorded."""

    gpu: str
    versions: dict[str, str]
    device: DeviceSheet
    commit: str
    command: str
    kernels: tuple[Recorded, ...] = ()

    def of(self, name: str) -> Recorded | None:
        return next((recorded for recorded in self.kernels if recorded.name == name), None)


def read(path: Path) -> KnownKernel:
    """One file. Raises InvalidInput naming the file and the fault."""
    source = path.read_text(encoding="utf-8")
    idea, *lines = docstring_of(source, path).strip().splitlines()
    fields: dict[str, Any] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if colon and key in ("problem", "expect"):
            fields[key] = value.strip()
    try:
        made = KnownKernel.model_validate({**fields, "name": path.stem, "idea": idea, "source": source})
    except ValueError as error:
        raise InvalidInput(f"{path}: {' '.join(str(error).split())}") from error
    if not made.problem_path.exists():
        raise InvalidInput(f"{path}: there is no problem {made.problem!r} in {made.problem_path.parent}")
    return made


def collect(only: str = "", root: Path = DIAGNOSIS_DIR) -> tuple[KnownKernel, ...]:
    """All kernels, or those whose name has `only` in it. Raises InvalidInput if there are none."""
    found = tuple(read(path) for path in sorted((root / "kernels").glob("*.py")) if only in path.stem)
    if not found:
        raise InvalidInput(f"no kernel has {only!r} in its name under {root / 'kernels'}; they need a checkout")
    return found


def load(path: Path = COUNTERS) -> Recording:
    """The recorded counters. Raises InvalidInput where the file is none or does not read."""
    try:
        return Recording.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}); record it with record_diagnosis") from error
    except ValueError as error:
        raise InvalidInput(
            f"{path}: is no recording ({' '.join(str(error).split())[:200]}); record it again"
        ) from error
