"""``escalate``: stop and surface the original error."""

from selfheal_rl.core.values import Outcome, RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Steps


class EscalateExecutor:
    """Stops; the loop raises the agent's own exception object."""

    action = RepairAction.ESCALATE

    def needs(self, call: Call) -> bool:
        """Nothing."""
        return True

    def run(self, call: Call) -> Steps[Repair]:
        """Stop."""
        yield from ()
        return Repair(Outcome.STOPPED, ends=True)
