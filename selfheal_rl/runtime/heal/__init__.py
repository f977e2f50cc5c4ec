"""The healer and what a user declares to it."""

from selfheal_rl.runtime.heal.call import ResultInfo
from selfheal_rl.runtime.heal.healer import Healer
from selfheal_rl.runtime.heal.notes import incident
from selfheal_rl.runtime.heal.options import Budget, Fallback, ToolSpec
from selfheal_rl.runtime.heal.switches import is_active, set_active, set_testing, while_testing
from selfheal_rl.runtime.heal.task import Task

__all__ = [
    "Budget",
    "Fallback",
    "Healer",
    "ResultInfo",
    "Task",
    "ToolSpec",
    "incident",
    "is_active",
    "set_active",
    "set_testing",
    "while_testing",
]
