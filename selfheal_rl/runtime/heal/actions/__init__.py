"""One file per action; the actions without an executor are masked."""

from selfheal_rl.core.values import RepairAction
from selfheal_rl.runtime.heal.actions.backoff import BackoffExecutor
from selfheal_rl.runtime.heal.actions.base import Executor, Repair
from selfheal_rl.runtime.heal.actions.continue_ import ContinueExecutor
from selfheal_rl.runtime.heal.actions.degrade import DegradeExecutor
from selfheal_rl.runtime.heal.actions.escalate import EscalateExecutor
from selfheal_rl.runtime.heal.actions.fallback_tool import FallbackToolExecutor
from selfheal_rl.runtime.heal.actions.fix_arguments import FixArgumentsExecutor
from selfheal_rl.runtime.heal.actions.repair_output import RepairOutputExecutor
from selfheal_rl.runtime.heal.actions.reset_component import ResetComponentExecutor
from selfheal_rl.runtime.heal.actions.retry import RetryExecutor

EXECUTORS: dict[RepairAction, Executor] = {
    executor.action: executor
    for executor in (
        ContinueExecutor(),
        RetryExecutor(),
        BackoffExecutor(),
        FixArgumentsExecutor(),
        RepairOutputExecutor(),
        FallbackToolExecutor(),
        ResetComponentExecutor(),
        EscalateExecutor(),
        DegradeExecutor(),
    )
}

__all__ = ["EXECUTORS", "Executor", "Repair"]
