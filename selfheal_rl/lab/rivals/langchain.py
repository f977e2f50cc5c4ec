"""LangChain: ``ToolRetryMiddleware()``: two retries, then the error's text goes to the model."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import langchain.agents.middleware._retry
import langchain.agents.middleware.tool_retry
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

ENDS_THE_RUN = False


class ToolErrorText(Exception):  # noqa: N818  (a tool message, not a class of errors)
    """The error as the model gets it: text in a tool message."""


def attempt(call: Callable[[], Any]) -> Any:
    """Run ``call`` as a tool under the middleware.

    Raises:
        ToolErrorText: the middleware handed the error's text to the model.
    """
    request = ToolCallRequest(
        tool_call={"name": "tool", "args": {}, "id": "call", "type": "tool_call"},
        tool=None,
        state={},
        runtime=None,  # type: ignore[arg-type]
    )
    result: Any = ToolRetryMiddleware().wrap_tool_call(request, lambda _request: call())
    if isinstance(result, ToolMessage) and result.status == "error":
        raise ToolErrorText(str(result.content))
    return result


def modules() -> tuple[ModuleType, ...]:
    """Modules whose time is lent."""
    return (
        langchain.agents.middleware.tool_retry,
        langchain.agents.middleware._retry,
    )
