"""Learned repair for LLM agents. The public names; each is imported when it is first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfheal_rl.core.values import HealingFailed as HealingFailed
    from selfheal_rl.core.values import Prices as Prices
    from selfheal_rl.core.values import SelfHealError as SelfHealError
    from selfheal_rl.runtime.heal import Budget as Budget
    from selfheal_rl.runtime.heal import Fallback as Fallback
    from selfheal_rl.runtime.heal import Healer as Healer
    from selfheal_rl.runtime.heal import ResultInfo as ResultInfo
    from selfheal_rl.runtime.heal import ToolSpec as ToolSpec
    from selfheal_rl.runtime.heal import incident as incident
    from selfheal_rl.runtime.heal import set_active as set_active
    from selfheal_rl.runtime.heal import set_testing as set_testing

_HOMES = {
    "Budget": "selfheal_rl.runtime.heal",
    "Fallback": "selfheal_rl.runtime.heal",
    "Healer": "selfheal_rl.runtime.heal",
    "HealingFailed": "selfheal_rl.core.values",
    "Prices": "selfheal_rl.core.values",
    "ResultInfo": "selfheal_rl.runtime.heal",
    "SelfHealError": "selfheal_rl.core.values",
    "ToolSpec": "selfheal_rl.runtime.heal",
    "incident": "selfheal_rl.runtime.heal",
    "set_active": "selfheal_rl.runtime.heal",
    "set_testing": "selfheal_rl.runtime.heal",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'selfheal_rl' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
