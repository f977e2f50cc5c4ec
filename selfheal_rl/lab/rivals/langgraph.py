"""LangGraph: a node with ``RetryPolicy()``; what it does not retry ends the graph's run."""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, TypedDict

import langgraph.pregel._retry
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

ENDS_THE_RUN = True


class _State(TypedDict, total=False):
    call: Callable[[], Any]
    result: Any


def attempt(call: Callable[[], Any]) -> Any:
    """Run ``call`` as the only node of a graph."""
    return _graph().invoke({"call": call})["result"]


def modules() -> tuple[ModuleType, ...]:
    """Modules whose time is lent."""
    return (langgraph.pregel._retry,)


@cache
def _graph() -> Any:
    graph = StateGraph(_State)
    graph.add_node("tool", _node, retry_policy=RetryPolicy())
    graph.add_edge(START, "tool")
    graph.add_edge("tool", END)
    return graph.compile()


def _node(state: _State) -> _State:
    return {"result": state["call"]()}
