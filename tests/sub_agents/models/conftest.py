"""Models of a run against the scripted server, through the real client."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from scripted_server.server import KEY, ScriptedServer

from warpsmith.sub_agents.models.endpoint import Surroundings
from warpsmith.sub_agents.models.protocol import Ask, Message
from warpsmith.sub_agents.models.settings import ModelSettings
from warpsmith.sub_agents.models.team import Team


class Desk:
    """A team with what it told and how long it paused."""

    def __init__(self, server: ScriptedServer, **settings: Any) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.pauses: list[float] = []
        settings = {"model": "scripted", "base_url": server.url, "answer_seconds": 5.0, **settings}
        self.stopping = threading.Event()
        around = Surroundings(tell=self._tell, pause=self.pauses.append, stopping=self.stopping)
        self.team = Team(ModelSettings.model_validate(settings), around)

    def _tell(self, event: str, **fields: Any) -> None:
        self.told.append((event, fields))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.told if event == name]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return KEY


@pytest.fixture
def desk() -> Callable[..., Desk]:
    return Desk


@pytest.fixture
def ask() -> Callable[..., Ask]:
    def make(text: str = "write a kernel", **fields: Any) -> Ask:
        fields = {"role": "triton_writer", "phase": "explore", "max_output_tokens": 2000, **fields}
        return Ask(messages=(Message(author="user", text=text),), **fields)

    return make
