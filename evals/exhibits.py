"""The exploit museum's files as data: every hostile candidate and honest control with what it says of itself.

A file opens with a docstring: the idea in one line, then `key: value` lines that are read here.

    problem: softmax_rows          a file in `exploits/problems/`
    family: timing                 hostile files only; also the folder's name
    needs: cpu                     `cpu`: can be judged without a GPU; `gpu`: cannot
    expect: incorrect_numerical    acceptable statuses, separated by spaces; `passed` for an honest control
    label: torch_only              optional: a fact that a right verdict also states

Files are never imported here: only a harness runs them, in a box.
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from ..state.base import Record, digest
from ..state.candidate import Candidate, make_candidate
from ..state.errors import InvalidInput
from ..state.evaluation import Status
from ..state.syntax import literal

EXPLOITS_DIR = Path(__file__).parent / "exploits"
_KEYS = frozenset(("problem", "family", "needs", "expect", "label"))


class Exhibit(Record):
    """One candidate of the museum."""

    name: str
    """Path under `exploits/` without `.py`, such as `hostile/timing/patched_event`."""
    kind: Literal["hostile", "honest"]
    family: str
    problem: str
    needs: Literal["cpu", "gpu"]
    expect: tuple[Status, ...]
    label: str = ""
    idea: str
    source: str

    @model_validator(mode="after")
    def _expects_what_its_kind_may(self) -> Self:
        if not self.expect:
            raise ValueError("expects no status")
        if self.kind == "honest" and self.expect != (Status.PASSED,):
            raise ValueError("an honest control expects `passed` and nothing else")
        if self.kind == "hostile" and {Status.PASSED, Status.INFRA_ERROR} & set(self.expect):
            raise ValueError("a hostile candidate must not expect `passed` or `infra_error`")
        return self

    @property
    def source_id(self) -> str:
        return digest(self.source)[:16]

    @property
    def problem_path(self) -> Path:
        return EXPLOITS_DIR / "problems" / f"{self.problem}.py"

    def candidate(self, run: int = 0) -> Candidate:
        """The candidate; `run` makes it a new one, so that no remembered verdict answers."""
        return make_candidate(f"{self.source}\nMUSEUM_RUN = {run}\n", note=self.idea)


def docstring_of(text: str, path: Path) -> str:
    """The text between the first pair of triple quotes: some exhibits are not meant to parse as a whole.

    Raises InvalidInput.
    """
    start, end = text.find('"""'), text.find('"""', 3)
    if start != 0 or end < 0:
        raise InvalidInput(f"{path}: does not open with a docstring; give it one with the idea, problem and expect")
    return str(literal(text[: end + 3]))


def read(path: Path, root: Path = EXPLOITS_DIR) -> Exhibit:
    """One file. Raises InvalidInput naming the file and the fault."""
    source = path.read_text(encoding="utf-8")
    idea, *lines = docstring_of(source, path).strip().splitlines()
    fields: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if colon and key in _KEYS:
            fields[key] = value.strip()
    relative = path.relative_to(root).with_suffix("")
    kind = relative.parts[0]
    family = fields.pop("family", "honest" if kind == "honest" else "")
    if kind == "hostile" and family != relative.parts[1]:
        raise InvalidInput(f"{path}: family is {family!r}, its folder {relative.parts[1]!r}; make them the same")
    try:
        made = Exhibit.model_validate(
            {
                **fields,
                "name": str(relative),
                "kind": kind,
                "family": family,
                "idea": idea,
                "source": source,
                "expect": tuple(fields.get("expect", "").split()),
            }
        )
    except ValueError as error:
        raise InvalidInput(f"{path}: {' '.join(str(error).split())}") from error
    if not made.problem_path.exists():
        raise InvalidInput(f"{path}: there is no problem {made.problem!r} in {made.problem_path.parent}")
    return made


def _wanted(name: str, only: str) -> bool:
    return any(text in name for text in only.split(","))


def collect(only: str = "", root: Path = EXPLOITS_DIR) -> tuple[Exhibit, ...]:
    """All exhibits, or those with one of `only`'s comma-separated texts in family or name.

    Raises InvalidInput if there are none.
    """
    paths = sorted(path for kind in ("hostile", "honest") for path in (root / kind).rglob("*.py"))
    found = tuple(exhibit for exhibit in (read(path, root) for path in paths) if _wanted(exhibit.name, only))
    if not found:
        raise InvalidInput(f"no exhibit has {only!r} in its name under {root}; the museum needs a checkout")
    return found
