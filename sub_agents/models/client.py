"""LangChain's client, made to survive one more kind of answer. Imported on first use only: it costs a second."""

from typing import Any

from langchain_core.outputs import ChatResult
from langchain_openai import ChatOpenAI

from .wire import tidy_calls


class Client(ChatOpenAI):
    """ChatOpenAI whose answers may hold tool calls with any JSON for arguments."""

    def _create_chat_result(self, response: Any, generation_info: dict[str, Any] | None = None) -> ChatResult:
        tidy_calls(response)
        return super()._create_chat_result(response, generation_info)
