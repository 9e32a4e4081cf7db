"""Baselines kept in a file that can be carried and committed, keyed by problem, GPU and versions."""

import json
from pathlib import Path

from ..state.base import digest
from ..state.device import DeviceSheet
from ..state.errors import InvalidInput
from ..state.problem import Problem
from ..state.timing import Baseline, Baselines
from .whole_file import write_whole

_KEYED_VERSIONS = ("torch", "triton")


def key_of(problem_id: str, gpu: str, versions: dict[str, str]) -> str:
    """A timing holds for one source, one GPU model and one pair of torch and triton."""
    return digest(problem_id, gpu, [versions.get(name) for name in _KEYED_VERSIONS])[:20]


class BaselineFile:
    """A JSON object of `Baselines` by key; with no path it only remembers."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known = _read(path) if path is not None else {}

    def read(self, problem: Problem, device: DeviceSheet) -> list[Baseline]:
        """What is known of a problem on a device; empty if nothing."""
        found = self._known.get(key_of(problem.id, device.name, device.versions))
        return list(found.entries) if found else []

    def write(self, found: Baselines) -> None:
        """Adds or replaces one problem's baselines; the file is replaced whole, never half written."""
        if self._path is not None:
            self._known |= _read(self._path)  # another process may have added to it
        self._known[key_of(found.problem_id, found.gpu, found.versions)] = found
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({k: v.model_dump(mode="json") for k, v in sorted(self._known.items())}, indent=1)
        write_whole(self._path, text)


def _read(path: Path) -> dict[str, Baselines]:
    """What a file holds; nothing where there is none. Raises InvalidInput."""
    if not path.exists():
        return {}
    try:
        loaded = json.loads(path.read_text())
        return {key: Baselines.model_validate(value) for key, value in loaded.items()}
    except (ValueError, AttributeError) as error:
        raise InvalidInput(f"{path}: no baselines file: {str(error).splitlines()[0]}") from error
