"""Which models a run talks to, how patiently, and what it may spend. Keys stay in the environment."""

import importlib.util
import os
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ...state.base import Record
from ...state.errors import InvalidInput
from .protocol import Role

KEY_VARIABLE = "OPENAI_API_KEY"
BASE_URL_VARIABLE = "OPENAI_BASE_URL"


def need_client() -> None:
    """Raises InvalidInput where the package that talks to endpoints is not installed."""
    if importlib.util.find_spec("langchain_openai") is None:
        raise InvalidInput(
            "models need the package langchain-openai: install Warpsmith's extra llm, pip install '.[llm]'"
        )


class Price(Record):
    """What a model costs, per million tokens, in a currency that is the same for all prices of a run."""

    prompt: float = Field(ge=0, allow_inf_nan=False)
    completion: float = Field(ge=0, allow_inf_nan=False)

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1e6


class ModelSettings(Record):
    """One endpoint, a model for each role, patience and budgets."""

    model: str = Field(min_length=1)
    """Asked by every role that `models` does not name."""
    models: dict[Role, str] = Field(default_factory=dict)
    base_url: str | None = None
    """Address of an OpenAI-compatible endpoint; empty: the environment's `OPENAI_BASE_URL`, else the client's own."""
    answer_seconds: float = Field(default=300.0, gt=0, le=7200, allow_inf_nan=False)
    """Longest wait for one answer, from first byte sent to last byte read."""
    attempts: int = Field(default=5, ge=1, le=20)
    """Most tries of one request while the endpoint is busy, down or garbled."""
    most_wait_seconds: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """Cap of a pause between tries, also where the endpoint asks for a longer one."""
    token_budget: int | None = Field(default=None, ge=1)
    """Most tokens of a run, prompts and completions of all roles together."""
    money_budget: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    prices: dict[str, Price] = Field(default_factory=dict)
    """By model name. A model without a price has no cost figure."""

    @model_validator(mode="after")
    def _money_needs_prices(self) -> Self:
        unpriced = sorted({self.model, *self.models.values()} - set(self.prices))
        if self.money_budget is not None and unpriced:
            raise ValueError(f"a money budget needs the price of {', '.join(unpriced)}; add it or use a token budget")
        return self

    @field_validator("base_url")
    @classmethod
    def _address_without_secrets(cls, address: str | None) -> str | None:
        """Settings are written into reports, so that an address may hold no secret."""
        parts = urlsplit(address or "")
        if address and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("the base URL must begin with http:// or https:// and name a host")
        if "@" in parts.netloc or parts.query:
            raise ValueError(f"the base URL holds credentials or a query; put the key into {KEY_VARIABLE}")
        return address

    def model_for(self, role: Role) -> str:
        return self.models.get(role, self.model)

    @property
    def address(self) -> str | None:
        """Where requests go; None leaves it to the client."""
        return self.base_url or os.environ.get(BASE_URL_VARIABLE) or None

    def key(self) -> str:
        """The key from the environment. Raises InvalidInput where an endpoint that needs one has none.

        Servers of one's own often want none, so that one named by address is asked with a placeholder.
        """
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key and self.address is None:
            raise InvalidInput(f"{KEY_VARIABLE} is not set: set it, or name your own endpoint with --base-url")
        return key or "unused"
