"""What kind of failure an endpoint's error is, by its structure: status, code and parameter, never its text."""

import email.utils
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

Kind = Literal["again", "quota", "parameter", "too_long", "refused"]
QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
AGAIN_STATUSES = frozenset({408, 409, 425, 429})
PAYMENT_REQUIRED = 402
SHAPE_STATUSES = frozenset({400, 404, 405, 415, 422, 501})
"""How endpoints refuse a request whose form they do not know."""
UNRELATED_CODES = frozenset({"model_not_found", "invalid_api_key"})
MOST_TEXT = 200


class Failure(Exception):
    """One request failed. `spent`: the endpoint may have produced, and billed, an answer that never arrived."""

    def __init__(self, kind: Kind, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.status: int | None = facts.get("status")
        self.parameter: str = facts.get("parameter") or ""
        self.retry_after_seconds: float | None = facts.get("retry_after_seconds")
        self.spent: bool = facts.get("spent", False)
        self.form: bool = facts.get("form", False)
        """The endpoint may not know this form of request; a plainer one may pass."""


class ErrorBody(NamedTuple):
    """The facts in an error's body."""

    codes: frozenset[str]
    parameter: str
    message: str


def of_exception(error: Exception, key: str) -> Failure:
    """The failure behind an exception of the client. `key` is blotted out wherever it shows up."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return Failure("again", "no answer in time", spent=True)
    if isinstance(error, openai.APIStatusError):
        return of_status(error.status_code, error.body, error.response.headers, key)
    if isinstance(error, openai.APIConnectionError):
        names = [type(cause).__name__ for cause in _causes(error)]
        return Failure("again", f"cannot be reached ({names[-1]})", spent="ConnectError" not in names)
    embedded = error.args[0] if error.args and isinstance(error.args[0], dict) else None
    if embedded is not None:  # Some gateways report a failure in the body of a 200.
        code = embedded.get("code")
        status = code if isinstance(code, int) and 400 <= code <= 599 else 502
        return of_status(status, embedded, {}, key)
    return Failure("again", f"the answer is not of the protocol ({type(error).__name__})", spent=True)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and what it was raised from, outermost first."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def of_status(status: int, body: object, headers: Mapping[str, str], key: str) -> Failure:
    """The failure that a status with its body and headers stands for."""
    found = error_body(body)
    text = f"status {status}"
    if found.message:
        text += f": {found.message.replace(key, '[key]')[:MOST_TEXT]}"
    facts: dict[str, Any] = {"status": status, "parameter": found.parameter}
    if status == PAYMENT_REQUIRED or found.codes & QUOTA_CODES:
        return Failure("quota", text, **facts)
    if "context_length_exceeded" in found.codes or status == 413:
        return Failure("too_long", text, **facts)
    if status in AGAIN_STATUSES or (status >= 500 and status != 501):
        return Failure("again", text, retry_after_seconds=retry_after(headers), **facts)
    form = status in SHAPE_STATUSES and not found.codes & UNRELATED_CODES
    return Failure("parameter" if form and found.parameter else "refused", text, form=form, **facts)


def error_body(body: object) -> ErrorBody:
    """Code, type, parameter and message of an error's body, as far as it has them."""
    inner = body.get("error", body) if isinstance(body, dict) else {}
    fields = inner if isinstance(inner, dict) else {"message": inner}
    codes = frozenset(str(fields[name]) for name in ("code", "type") if fields.get(name) is not None)
    parameter, message = fields.get("param"), fields.get("message")
    return ErrorBody(codes, parameter if isinstance(parameter, str) else "", " ".join(str(message or "").split()))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks to wait: a number or a date; None where it says nothing sensible."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    stated = headers.get("retry-after")
    seconds = _number(stated)
    if seconds is not None or not stated:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(stated).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def pause_seconds(attempt: int, failure: Failure, most: float) -> float:
    """How long to wait before another try: as asked, else 1, 2, 4 ... seconds; never above `most`."""
    asked = failure.retry_after_seconds
    return min(most, asked if asked is not None else 2.0 ** (attempt - 1))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
