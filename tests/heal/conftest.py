"""Errors as clients raise them, selectors that misbehave, and a tool that counts its effects."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from selfheal_rl.core.values import N_ACTIONS, RepairAction, VirtualClock


class HttpError(Exception):
    """Like the status errors of HTTP clients: the response hangs on the exception."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"Server answered HTTP {status}")
        self.response = SimpleNamespace(status_code=status, headers=headers or {}, text="")


class Chooser:
    """Chooses what a function says; for tests of everything but selectors."""

    name = "chooser"

    def __init__(self, *actions: RepairAction | Callable[[], Any]) -> None:
        self.actions = list(actions)
        self.asked = 0

    def probabilities(self, facts: Any, observation: Any, mask: Any) -> Any:
        action = self.actions[min(self.asked, len(self.actions) - 1)]
        self.asked += 1
        answer = np.zeros((1, N_ACTIONS))
        answer[0, action] = 1.0
        return answer


def call_either(function: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a sync or async function."""
    result = function(*args, **kwargs)
    return asyncio.run(_await(result)) if asyncio.iscoroutine(result) else result


async def _await(value: Any) -> Any:
    return await value


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def kit() -> Any:
    """The helpers above, since tests are imported without a package."""
    return SimpleNamespace(HttpError=HttpError, Chooser=Chooser, call=call_either)
