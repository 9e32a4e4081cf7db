"""The tools that a sub-agent with a model may call: the harness's own, and notes to read.

Kernels that a tool judges spend the run's budget of evaluations: each is one of the candidates that the request asked
for, and is handed to the controller like the one that is handed in.
"""

from collections.abc import Callable, Mapping

from pydantic import BaseModel, Field, ValidationError

from ...state.candidate import normalised_hash
from ...state.errors import WarpsmithError
from ...tools.toolbox import NoArguments
from ..models.protocol import ToolCall, ToolSpec
from .api_notes import read_docs
from .desk import Desk
from .sections import trimmed

JUDGING = frozenset(("check_correctness", "time_kernel", "profile_kernel"))
"""Tools that run a kernel."""
MOST_TOKENS = 4000
"""Of one tool's answer."""


class DocsArguments(BaseModel):
    """What to read about."""

    topic: str = Field(description="triton, cuda, or a name in triton.language such as tl.dot")


class AgentTools:
    """One conversation's tools.

    `judged` are the kernels that spent one of its `evaluations`, in order, by id with source.
    """

    def __init__(self, desk: Desk, tag: str, evaluations: int, judged: Mapping[str, str]) -> None:
        self._desk = desk
        self._tag = tag
        self.evaluations = evaluations
        self.judged = dict(judged)
        self._notes: dict[str, tuple[str, type[BaseModel], Callable[[dict[str, str]], str]]] = {
            "read_docs": ("API notes on the installed Triton and CUDA", DocsArguments, self._read_docs),
        }
        if desk.similar is not None:
            about = "Verified kernels found before for the same structure"
            self._notes["find_similar"] = (about, NoArguments, self._find_similar)
        if desk.compiler_output is not None:
            about = "The code that torch.compile generates for the reference"
            self._notes["compiler_output"] = (about, NoArguments, self._compiler_output)

    @property
    def left(self) -> int:
        """Evaluations that tools may still spend here."""
        return self.evaluations - len(self.judged)

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model may call: tools that run kernels only where the request has evaluations for them."""
        harness = [
            ToolSpec(name=tool.name, about=tool.description, arguments=tool.args_schema)  # type: ignore[arg-type]
            for name, tool in self._desk.toolbox.tools.items()
            if name not in JUDGING or self.evaluations > 0
        ]
        return (*harness, *(ToolSpec(name=n, about=about, arguments=a) for n, (about, a, _) in self._notes.items()))

    def use(self, call: ToolCall, ordinal: int) -> str:
        """A tool's answer as text for the model; a call that cannot be carried out is told so."""
        if call.fault:
            return f"error: {call.fault}"
        if call.name not in (spec.name for spec in self.specs()):
            return f"error: there is no tool {call.name}"
        source = str(call.arguments.get("source", ""))
        if call.name in JUDGING:
            id = normalised_hash(source)
            if id not in self.judged and id not in self._desk.brief.tried:
                if self.left < 1:
                    return "error: no evaluations are left for tools; hand in your kernel"
                self.judged[id] = source
        key = (self._tag, ordinal, call.name, call.arguments)
        return self._desk.journal.tell(key, lambda: self._run(call))

    def _run(self, call: ToolCall) -> str:
        try:
            if call.name in self._notes:
                text = self._notes[call.name][2]({k: str(v) for k, v in call.arguments.items()})
            else:
                text = str(self._desk.toolbox.tools[call.name].invoke(call.arguments))
        except ValidationError as error:
            text = f"error: arguments of {call.name}: {error.errors()[0]['msg']}"
        return trimmed(text, MOST_TOKENS, "ends")

    def _read_docs(self, arguments: dict[str, str]) -> str:
        return read_docs(arguments.get("topic", ""), self._desk.brief.device)

    def _find_similar(self, _arguments: dict[str, str]) -> str:
        found = self._desk.similar(self._desk.brief) if self._desk.similar else ""
        return found or "nothing similar is known"

    def _compiler_output(self, _arguments: dict[str, str]) -> str:
        made = self._desk.compiler_output
        try:
            return made(self._desk.brief.problem) if made else "not available"
        except WarpsmithError as error:
            return f"not available ({error})"
