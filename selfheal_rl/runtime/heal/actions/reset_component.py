"""``reset_component``: reconnect or renew the session, then the same call."""

from selfheal_rl.core.values import Outcome, RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair, judged
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Invoke, Steps


class ResetComponentExecutor:
    """Calls the registered hook, which keeps the agent's context, then sends the call again."""

    action = RepairAction.RESET_COMPONENT

    def needs(self, call: Call) -> bool:
        """A registered hook."""
        return call.spec.reset is not None

    def run(self, call: Call) -> Steps[Repair]:
        """Reset and send."""
        hook = call.spec.reset
        if hook is None:
            return Repair(Outcome.FAILED, note="no reset hook is registered")
        reset = yield Invoke(hook)
        if reset.error is not None:
            return Repair(Outcome.FAILED, note=f"the reset hook failed: {reset.error!r}")
        return judged(call, (yield from call.again()))
