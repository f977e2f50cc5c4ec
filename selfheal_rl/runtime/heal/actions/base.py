"""The one shape of every executor."""

from dataclasses import dataclass
from typing import Any, Protocol

from selfheal_rl.core.values import Outcome, RepairAction
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Reply, Steps
from selfheal_rl.runtime.heal.trouble import Trouble


@dataclass(slots=True)
class Repair:
    """What an executor reached.

    Attributes:
        outcome: healed, failed, or stopped by a terminal action.
        value: the result when healed or degraded.
        trouble: the new failure when the call was sent again and failed; None when it was not
            sent, so that the old one stands.
        variant: of the action, for the journal.
        note: in words, for people.
        verified: True when a validator confirmed the value.
        returns: True when ``value`` goes to the agent.
        ends: True when the agent gets the matter back now.
    """

    outcome: Outcome
    value: Any = None
    trouble: Trouble | None = None
    variant: str = ""
    note: str = ""
    verified: bool = False
    ends: bool = False
    returns: bool = False


class Executor(Protocol):
    """Carries out one action.

    Attributes:
        action: which.
    """

    action: RepairAction

    def needs(self, call: Call) -> bool:
        """Whether the host offers here what the action needs."""
        ...

    def run(self, call: Call) -> Steps[Repair]:
        """Do it; a failing call is a value, never an exception."""
        ...


def judged(call: Call, reply: Reply, *, variant: str = "", note: str = "") -> Repair:
    """The repair that a repeated call came to."""
    checks = call.tool.checks
    trouble = checks.trouble_of(reply)
    if trouble is None:
        verified = checks.validator is not None
        return Repair(Outcome.HEALED, reply.value, None, variant, note, verified)
    return Repair(Outcome.FAILED, None, trouble, variant, note)
