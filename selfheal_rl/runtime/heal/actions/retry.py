"""``retry``: the same call, now."""

from selfheal_rl.core.values import RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair, judged
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Steps


class RetryExecutor:
    """Sends the call again at once."""

    action = RepairAction.RETRY

    def needs(self, call: Call) -> bool:
        """Nothing."""
        return True

    def run(self, call: Call) -> Steps[Repair]:
        """Send it."""
        return judged(call, (yield from call.again()))
