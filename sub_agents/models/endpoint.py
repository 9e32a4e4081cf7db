"""One model at one endpoint: a request, sent until it is answered, refused for good, or out of tries."""

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from .budget import Hold, Ledger, TokenEstimate, most_tokens
from .failures import Failure, of_exception, pause_seconds
from .protocol import EndpointFault, Message, QuotaExhausted, Usage
from .settings import ModelSettings
from .wire import Reply, reply_of, to_langchain

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_openai import ChatOpenAI

LIMITS = ("max_tokens", "max_completion_tokens")
OVER_LIMIT = 1.02
STOP_CHECK_SECONDS = 0.2
Tell = Callable[..., None]
"""Called with an event's name and its fields."""


def _silent(_event: str, **_fields: object) -> None:
    """Tells nobody."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a model's endpoint has of the run around it."""

    tell: Tell = _silent
    stopping: threading.Event = field(default_factory=threading.Event)
    """Once it is set, calls and pauses end at once with KeyboardInterrupt."""
    pause: Callable[[float], object] | None = None
    """How to wait between tries; None: until `stopping`."""


class Request(NamedTuple):
    """What is sent, in the protocol's words. `tools` and `response_format` are as it writes them."""

    messages: tuple[Message, ...]
    prompt_count: int
    """Tokens of everything sent, counted from above."""
    text_count: int
    """Of that, the messages: an endpoint may ignore the rest."""
    output_tokens: int
    temperature: float
    response_format: dict[str, Any] | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | None = None


class Refused(Exception):
    """The endpoint does not take this form of request; `failure` says more."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Spending:
    """Usage of one ask, summed over its requests."""

    def __init__(self) -> None:
        self.usage = Usage()

    def add(self, **counts: Any) -> None:
        """Adds counts; a cost is known only while that of every request is."""
        old = self.usage.model_dump()
        cost = counts.pop("cost", None)
        first = self.usage.requests == 0
        known = cost is not None and (first or old["cost"] is not None)
        summed = {name: old[name] + value for name, value in counts.items() if name != "estimated"}
        estimated = old["estimated"] or counts.get("estimated", False)
        total = (old["cost"] or 0.0) + cost if known else None
        self.usage = Usage.model_validate({**old, **summed, "estimated": estimated, "cost": total})


class Endpoint:
    """Sends requests to one model. Remembers which parameters it does not take. Safe to use from several threads."""

    def __init__(self, settings: ModelSettings, model: str, ledger: Ledger, around: Surroundings) -> None:
        self.model = model
        self.settings = settings
        self.ledger = ledger
        self.price = settings.prices.get(model)
        self.estimate = TokenEstimate()
        self.tell = around.tell
        self._around = around
        self._key = settings.key()
        # Servers of one's own know the older name, the client's own endpoint is sure to know the newer one.
        self.limit_name = self._first_limit = LIMITS[0] if settings.address else LIMITS[1]
        self.takes_temperature = True
        self.counts_tokens: bool | None = None
        self._failing = False
        """The last request failed after every try: until one succeeds, the next ones get a single try."""
        self._client: ChatOpenAI | None = None
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """Where requests go, without credentials."""
        parts = urlsplit(self.settings.address or "the default endpoint")
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def send(self, request: Request, spending: Spending) -> Reply:
        """The answer. Raises Refused for a form it does not take, and the errors of `protocol`."""
        failure = Failure("again", "not tried")
        adapted = 0
        attempt = 0
        most = 1 if self._failing else self.settings.attempts
        while attempt < most:
            attempt += 1
            try:
                reply = self._try_once(request, spending)
            except Failure as found:
                failure = found
            else:
                self._failing = False
                return reply
            if failure.kind == "parameter" and adapted < len(LIMITS) and self._adapt(failure.parameter):
                adapted += 1
                attempt -= 1
            elif failure.kind != "again":
                break
            elif attempt < most:
                seconds = pause_seconds(attempt, failure, self.settings.most_wait_seconds)
                self.tell("model_retry", model=self.model, why=failure.text, attempt=attempt, wait_seconds=seconds)
                self._wait(seconds)
        self._failing = failure.kind == "again"
        raise self._final(failure, request, attempt)

    def _wait(self, seconds: float) -> None:
        (self._around.pause or self._around.stopping.wait)(seconds)
        if self._around.stopping.is_set():
            raise KeyboardInterrupt

    def _final(self, failure: Failure, request: Request, attempts: int) -> Exception:
        where = f"{self.model} at {self.address}"
        if failure.kind == "quota":
            return QuotaExhausted(f"{where}: the account has no credit left ({failure.text})")
        if failure.form and (request.response_format or request.tools):
            return Refused(failure)
        tried = f" after {attempts} tries" if attempts > 1 else ""
        return EndpointFault(f"{where}: {failure.text}{tried}")

    def _adapt(self, parameter: str) -> bool:
        """Does without a parameter that the endpoint names as unsupported; False where there is no other way."""
        if parameter in LIMITS:
            self.limit_name = LIMITS[1 - LIMITS.index(parameter)]
        elif parameter == "temperature" and self.takes_temperature:
            self.takes_temperature = False
        else:
            return False
        self.tell("model_parameter", model=self.model, not_taken=parameter)
        return True

    def _try_once(self, request: Request, spending: Spending) -> Reply:
        """One request within the budget. What a lost answer may have cost is booked in full."""
        prompt = self.estimate.tokens(request.prompt_count, len(request.messages))
        held = self.ledger.hold(prompt, request.output_tokens, self.price)
        self._opened()  # Importing the client is no part of an answer's time.
        started = time.monotonic()
        try:
            reply = reply_of(self._call(request, held.output_tokens))
        except Failure as failure:
            tokens = (held.prompt_tokens, held.output_tokens) if failure.spent else (0, 0)
            self._settle(held, spending, tokens, time.monotonic() - started, estimated=failure.spent)
            raise
        except BaseException:  # An interrupted request may be answered, and billed, all the same.
            self._settle(held, spending, (held.prompt_tokens, held.output_tokens), 0.0, estimated=True)
            raise
        self._book(reply, request, held, spending, time.monotonic() - started)
        # A server that stops at the limit and says `stop` has cut the answer all the same.
        return reply._replace(finish="length") if reply.completion_tokens == held.output_tokens else reply

    def _book(self, reply: Reply, request: Request, held: Hold, spending: Spending, seconds: float) -> None:
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        self.counts_tokens = prompt is not None and completion is not None
        if prompt is not None:
            self.estimate.learn(request.text_count, prompt)
        if completion is not None and completion > held.output_tokens * OVER_LIMIT:
            self.tell("model_over_limit", model=self.model, asked=held.output_tokens, given=completion)
            if self.limit_name == self._first_limit:
                self._adapt(self._first_limit)
        said = sum(map(most_tokens, (reply.text, reply.refusal, str(reply.calls))))
        guessed = min(held.output_tokens, self.estimate.tokens(said, 0))
        tokens = (held.prompt_tokens if prompt is None else prompt, guessed if completion is None else completion)
        self._settle(held, spending, tokens, seconds, not self.counts_tokens)
        spending.add(reasoning_tokens=min(reply.reasoning_tokens, tokens[1]), cost=0.0 if self.price else None)

    def _settle(
        self, held: Hold, spending: Spending, tokens: tuple[int, int], seconds: float, estimated: bool = False
    ) -> None:
        cost = self.price.cost(*tokens) if self.price else None
        self.ledger.settle(held, sum(tokens), cost or 0.0)
        counts = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        spending.add(**counts, requests=1, seconds=seconds, cost=cost, estimated=estimated)

    def _call(self, request: Request, output_tokens: int) -> "AIMessage":
        """One call of the client within the time for an answer. Raises Failure."""
        if self._around.stopping.is_set():
            raise KeyboardInterrupt
        future: Future[AIMessage] = Future()
        arguments = self._arguments(request, output_tokens)
        client, context, messages = self._opened(), contextvars.copy_context(), to_langchain(request.messages)

        def call() -> None:
            try:
                future.set_result(context.run(client.invoke, messages, **arguments))
            except Exception as error:  # noqa: BLE001 - handed over whole to the thread that waits
                future.set_exception(error)

        # The client's own limit starts anew with every byte that trickles in; a thread can be left behind.
        threading.Thread(target=call, daemon=True, name="model-call").start()
        try:
            return self._result(future)
        except OutOfTime as error:
            raise Failure("again", f"no answer within {self.settings.answer_seconds:.4g} s", spent=True) from error
        except Exception as error:
            raise of_exception(error, self._key) from error

    def _result(self, future: "Future[AIMessage]") -> "AIMessage":
        """What the call gives, in time and unless the run is stopped."""
        deadline = time.monotonic() + self.settings.answer_seconds
        while not self._around.stopping.is_set():
            left = deadline - time.monotonic()
            try:
                return future.result(max(0.0, min(left, STOP_CHECK_SECONDS)))
            except OutOfTime:
                if future.done() or left <= 0:
                    raise
        raise KeyboardInterrupt

    def _arguments(self, request: Request, output_tokens: int) -> dict[str, Any]:
        # Not as `response_format`: the client would then raise for cut answers and lose their usage.
        body: dict[str, Any] = {self.limit_name: output_tokens}
        if request.response_format is not None:
            body["response_format"] = request.response_format
        arguments: dict[str, Any] = {"extra_body": body}
        if self.takes_temperature:
            arguments["temperature"] = request.temperature
        if request.tools:
            arguments["tools"] = list(request.tools)
            if request.tool_choice is not None:
                arguments["tool_choice"] = request.tool_choice
        return arguments

    def _opened(self) -> "ChatOpenAI":
        """The client, made on first use: importing it takes a second."""
        with self._lock:
            if self._client is None:
                from pydantic import SecretStr

                from .client import Client

                self._client = Client(
                    model=self.model,
                    api_key=SecretStr(self._key),
                    base_url=self.settings.address,
                    timeout=self.settings.answer_seconds,
                    max_retries=0,
                    use_responses_api=False,
                    streaming=False,
                )
            return self._client
