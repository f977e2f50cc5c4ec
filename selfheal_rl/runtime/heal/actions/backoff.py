"""``backoff``: wait, then the same call."""

from selfheal_rl.core.situation import jittered_wait_s
from selfheal_rl.core.values import RepairAction
from selfheal_rl.runtime.decide.draws import keyed_uniform
from selfheal_rl.runtime.heal.actions.base import Repair, judged
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Sleep, Steps


class BackoffExecutor:
    """Waits exponentially longer, jittered, and never less than the server asked."""

    action = RepairAction.BACKOFF

    def needs(self, call: Call) -> bool:
        """Nothing."""
        return True

    def run(self, call: Call) -> Steps[Repair]:
        """Wait and send."""
        incident = call.incident
        retry_after = incident.failures[-1].snapshot.retry_after_s or 0.0
        draw = keyed_uniform(call.seed, *incident.key, len(incident.attempts), "jitter")
        # float32 may round a retry-after down; the server's figure is a floor.
        wait = max(float(jittered_wait_s(incident.n_backoffs, retry_after, draw)), retry_after)
        yield Sleep(wait)
        return judged(call, (yield from call.again()), note=f"waited {wait:.2f} s")
