"""An OpenAI-compatible server on loopback that says what a test tells it to, faults included.

It speaks the real protocol, so that the real client is tested. A script is a list of steps, one a request, or a
function from a request to a step; the last step of a list is repeated.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KEY = "sk-scripted-0123456789abcdef"
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True)
class Step:
    """One answer of the server."""

    status: int = 200
    body: Any = None
    """A dict is sent as JSON, text or bytes as they are."""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delay_s: float = 0.0
    drop: bool = False
    """Close the connection without a word."""
    trickle_s: float = 0.0
    """Pause between single bytes of the body."""
    half: bool = False
    """Send half of the body, then close."""


Body = dict[str, Any]
Script = Sequence[Step] | Callable[[Body], Step]


class ScriptedServer:
    """A context: `with ScriptedServer([say("hello")]) as server: ... server.url`."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lock = threading.Lock()
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer._answer(self, body)

            def do_GET(self) -> None:
                _send(self, Step(body={"object": "list", "data": [{"id": "scripted", "object": "model"}]}), 0)

            def log_message(self, format: str, *args: object) -> None:
                """Tests read what they need from `requests`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler, body: Body) -> None:
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.headers.append(dict(handler.headers.items()))
            script = self._script
            step = script(body) if callable(script) else script[min(number, len(script) - 1)]
        time.sleep(step.delay_s)
        _send(handler, step, number)


def _send(handler: BaseHTTPRequestHandler, step: Step, number: int) -> None:
    if step.drop:
        handler.close_connection = True
        handler.connection.close()
        return
    body = step.body
    if isinstance(body, dict):
        body = json.dumps(body)
    raw = body if isinstance(body, bytes) else str(body or "").encode("utf-8", "surrogatepass")
    try:
        handler.send_response(step.status)
        handler.send_header("Content-Type", step.content_type)
        handler.send_header("Content-Length", str(len(raw)))
        handler.send_header("x-request-id", f"request-{number}")
        for name, value in step.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        if step.half:
            handler.wfile.write(raw[: len(raw) // 2])
            handler.close_connection = True
        elif step.trickle_s:
            for byte in raw:
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
                time.sleep(step.trickle_s)
        else:
            handler.wfile.write(raw)
    except (BrokenPipeError, ConnectionResetError):
        handler.close_connection = True  # The client had enough.


def say(content: str | None, finish: str = "stop", **fields: Any) -> Step:
    """A completion. `usage` as the protocol has it, or None to leave it out; other fields go into the message."""
    length = len((content or "").encode("utf-8", "surrogatepass"))
    usage = fields.pop("usage", {"prompt_tokens": 30, "completion_tokens": -(-length // BYTES_PER_TOKEN) or 1})
    step = {name: fields.pop(name) for name in ("delay_s", "trickle_s", "half") if name in fields}
    return Step(body=completion({"role": "assistant", "content": content, **fields}, finish, usage), **step)


def call(name: str, arguments: Any, id: str = "call_a", content: str | None = None) -> Step:
    """A tool call; arguments that are text are sent as they are."""
    function = {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    calls = [{"id": id, "type": "function", "function": function}]
    return say(content, "tool_calls", tool_calls=calls, usage={"prompt_tokens": 30, "completion_tokens": 12})


def fail(status: int, code: str | None = None, message: str = "no", **fields: Any) -> Step:
    """An error as the protocol has it; `param` and `type` go into its body, `headers` beside it."""
    headers = fields.pop("headers", {})
    return Step(status=status, body={"error": {"message": message, "code": code, **fields}}, headers=headers)


def completion(message: Body, finish: str | None, usage: Body | None) -> Body:
    """The body of a completion."""
    body: Body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if usage is not None:
        counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
        total = sum(count for count in counts if isinstance(count, int))
        body["usage"] = {"total_tokens": total, **usage}
    return body


def counting(body: Body, content: str) -> Step:
    """A completion that keeps to the request's limit and counts its tokens honestly, `BYTES_PER_TOKEN` bytes each."""
    prompt = len(json.dumps(body["messages"])) // BYTES_PER_TOKEN
    limit = body.get("max_tokens") or body.get("max_completion_tokens")
    kept = content.encode()[: limit * BYTES_PER_TOKEN].decode(errors="ignore")
    tokens = -(-len(kept.encode()) // BYTES_PER_TOKEN)
    usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
    return say(kept, "length" if len(kept) < len(content) else "stop", usage=usage)
