"""``degrade``: the best partial result of the call's own type."""

from selfheal_rl.core.values import Outcome, RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Invoke, Steps


class DegradeExecutor:
    """Calls the registered builder; when it fails the original error is surfaced."""

    action = RepairAction.DEGRADE

    def needs(self, call: Call) -> bool:
        """A registered builder."""
        return call.spec.degrade is not None and not call.tool.is_block

    def run(self, call: Call) -> Steps[Repair]:
        """Build the partial result."""
        builder = call.spec.degrade
        if builder is None:
            return Repair(Outcome.STOPPED, note="no degrade builder is registered", ends=True)
        reply = yield Invoke(builder, call.args, call.kwargs)
        if reply.error is not None:
            note = f"the degrade builder failed: {reply.error!r}"
            return Repair(Outcome.STOPPED, note=note, ends=True)
        call.info.equivalence = "partial"
        return Repair(Outcome.STOPPED, reply.value, note="partial result", returns=True)
