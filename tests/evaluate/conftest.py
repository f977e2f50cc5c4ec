"""Tiny worlds made for one question each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from selfheal_rl.core.values import RepairAction
from selfheal_rl.trainer.sim import CompiledWorld, View, compile_world, load_world
from selfheal_rl.trainer.sim.schema import World

SYMPTOM = {
    "share": 1.0,
    "message": "Request timed out after 30 seconds",
    "error_type": "TimeoutError",
    "state": "timed_out",
    "latency_s": 1.0,
}


def _cause(share: float = 1.0, **repair: float) -> dict[str, Any]:
    evidence = {name: {"ok": 100 * p, "n": 100, "source": "assumed"} for name, p in repair.items()}
    return {"share": share, "source": "assumed", "symptoms": [SYMPTOM], "repair": evidence}


def _toy(causes: dict[str, Any], **changes: Any) -> CompiledWorld:
    body = load_world("toy-exact").world.model_dump(mode="json")
    body |= {"causes": causes, "kind_mix": {}}
    for key, value in changes.items():
        body[key] = body[key] | value if isinstance(value, dict) else value
    return compile_world(World.model_validate(body))


@pytest.fixture
def cause() -> Callable[..., dict[str, Any]]:
    """A root cause with one symptom: ``cause(share, retry=0.5, ...)``."""
    return _cause


@pytest.fixture
def toy() -> Callable[..., CompiledWorld]:
    """The toy world with other causes; keywords replace top-level keys or parts of them."""
    return _toy


class Always:
    """One action wherever it is legal, else escalate."""

    def __init__(self, action: RepairAction) -> None:
        self.action, self.name, self.asked = action, f"always-{action.slug}", 0

    def choose(self, view: View) -> np.ndarray:
        self.asked += 1
        legal = view.mask[:, self.action]
        return np.where(legal, int(self.action), int(RepairAction.ESCALATE))


@pytest.fixture
def always() -> type[Always]:
    """A policy that knows one answer."""
    return Always
