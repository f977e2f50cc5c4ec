"""``continue``: accept as is, or hand the raw error to the agent, which may recover itself."""

from selfheal_rl.core.values import Outcome, RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Steps


class ContinueExecutor:
    """Leaves everything as it is."""

    action = RepairAction.CONTINUE

    def needs(self, call: Call) -> bool:
        """Nothing."""
        return True

    def run(self, call: Call) -> Steps[Repair]:
        """Hand the matter back."""
        yield from ()
        if call.latest.is_soft:
            value = call.latest.value
            return Repair(Outcome.FAILED, value, note="accepted as is", returns=True)
        return Repair(Outcome.FAILED, note="handed back to the agent", ends=True)
