"""What is asked of a model and what comes back: the one interface that sub-agents know.

The errors that asking can raise:
    ModelError
    ├── QuotaExhausted    the account behind the endpoint has no credit left: stop at once, keep the best kernel
    ├── BudgetSpent       this run's own token or money budget does not cover the next answer
    └── EndpointFault     the endpoint cannot be reached, refuses the request, or answers nonsense after all retries
"""

from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field

from ...state.base import Record, digest
from ...state.errors import WarpsmithError
from ...state.trajectory import Phase

Role = Literal["planner", "triton_writer", "cuda_writer", "repairer"]
Rung = Literal["json_schema", "tool_call", "json_mode", "text"]
Budget = Literal["tokens", "money"]
Finish = Literal["stop", "truncated", "refused", "tool_calls"]


class ModelError(WarpsmithError):
    """A model could not be asked. The text is one line for a person and holds no key."""

    usage: "Usage | None" = None
    """What was spent before it failed."""


class QuotaExhausted(ModelError):
    """The account behind the endpoint has no credit left: nothing asked later can succeed."""


class BudgetSpent(ModelError):
    """What is left of the run's budget of tokens or money does not cover another answer."""

    def __init__(self, text: str = "", budget: Budget = "tokens") -> None:
        super().__init__(text)
        self.budget: Budget = budget
        """The one that is spent."""


class EndpointFault(ModelError):
    """The endpoint failed after every retry, or refused the request for good."""


class ToolSpec(Record):
    """A tool that the model may call."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_]{1,64}$")
    about: str
    arguments: type[BaseModel]
    """A call's arguments are checked against it before anybody sees them."""


class ToolCall(Record):
    """A tool that the model wants called."""

    id: str
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    fault: str = ""
    """Why the call cannot be carried out (unknown tool, arguments that do not fit); to be answered as a tool error."""


class Message(Record):
    """One message of a conversation."""

    author: Literal["system", "user", "assistant", "tool"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant's message: what it wanted called. Each must be answered by a tool's message."""
    answers_call: str = ""
    """Of a tool's message: id of the call that it answers."""


class Ask(Record):
    """One request to a model. The role decides which model gets it."""

    role: Role
    phase: Phase | Literal["plan"]
    messages: tuple[Message, ...] = Field(min_length=1)
    answer_schema: type[BaseModel] | None = None
    """Shape that the answer must have; how it is asked for depends on what the endpoint supports."""
    tools: tuple[ToolSpec, ...] = ()
    temperature: float = Field(default=1.0, ge=0, le=2)
    max_output_tokens: int = Field(default=8192, ge=1)
    tag: str = ""
    """Tells apart what is otherwise the same request, as for two writers with one brief."""

    @property
    def key(self) -> str:
        """Hash of everything that the answer depends on: equal asks of two processes have equal keys."""
        plain = self.model_dump(mode="json", exclude={"answer_schema", "tools"})
        schema = self.answer_schema.model_json_schema() if self.answer_schema else None
        tools = [(tool.name, tool.about, tool.arguments.model_json_schema()) for tool in self.tools]
        return digest(plain, schema, tools)[:16]


class Usage(Record):
    """What answering cost, retries and failed rungs of the ladder included."""

    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    """Reasoning tokens included."""
    reasoning_tokens: int = Field(default=0, ge=0)
    requests: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)
    cost: float | None = Field(default=None, ge=0)
    """In the price table's currency; None where the model's price is unknown."""
    estimated: bool = False
    """The endpoint did not say how many tokens it took: these are our own conservative count."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def known_cost(self) -> float | None:
        """The cost; 0 where nothing was sent, which needs no price."""
        return self.cost if self.requests or self.tokens else 0.0


class Answer(Record):
    """What a model said."""

    text: str = ""
    """Thinking taken out; characters that no source file may hold (BOM, zero-width, lone surrogates) too."""
    parsed: dict[str, Any] | None = None
    """By the ask's schema; None where none was asked for or nothing fitting came back."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish
    """`truncated` answers are never evaluated, whatever they hold."""
    fault: str = ""
    """What was wrong with it, as one line that can be told to the model: empty, refused, cut, not by the schema."""
    usage: Usage = Field(default_factory=Usage)
    rung: Rung | None = None
    """How the schema was asked for; None without one."""
    model: str = ""
    """The model that the endpoint says has answered."""


class ChatModel(Protocol):
    """Answers asks. May be called from several threads at once. Raises the errors above and no others."""

    def ask(self, ask: Ask) -> Answer: ...
