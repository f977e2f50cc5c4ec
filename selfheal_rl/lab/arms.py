"""The arms: the same agent and tools, wrapped by one way of handling errors each.

An arm's library is imported when the arm starts, so a run needs only what it plays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from selfheal_rl.core.catalog import list_policies
from selfheal_rl.core.values import UnknownIdError
from selfheal_rl.lab.hands import Hands, Setup
from selfheal_rl.lab.rivals import RIVALS

TUNED_LADDER = "ladder-tuned"
HAND_LADDER = "hand-ladder"


@dataclass(frozen=True)
class Arm:
    """One way of handling errors.

    Attributes:
        name: as given on the command line.
        summary: one line for people.
        start: wraps the tools for one seed.
    """

    name: str
    summary: str
    start: Callable[[Setup], Hands]


def _rival_arm(name: str, summary: str) -> Arm:
    def start(setup: Setup) -> Hands:
        from selfheal_rl.lab.rival_hands import RivalHands

        return RivalHands(name, setup)

    return Arm(name, summary, start)


def tuned_ladder() -> str:
    """Id of the rules behind the arm ``ladder-tuned``: the hand ladder where none is bundled."""
    return TUNED_LADDER if TUNED_LADDER in list_policies() else HAND_LADDER


def _ladder_arm(setup: Setup) -> Hands:
    from selfheal_rl.lab.healer_hands import HealerHands

    return HealerHands("ladder-tuned", setup, policy=None, rules=tuned_ladder())


def _policy_arm(setup: Setup) -> Hands:
    from selfheal_rl.lab.healer_hands import HealerHands

    return HealerHands("policy", setup, policy=setup.policy, rules=HAND_LADDER)


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("bare", "the agent alone", lambda setup: Hands("bare", setup)),
        *(_rival_arm(name, f"{name} with its defaults") for name in RIVALS),
        Arm("ladder-tuned", "the healer with the best table of rules", _ladder_arm),
        Arm("policy", "the healer with the learned policy", _policy_arm),
    )
}
"""Every arm by name."""


def find_arm(name: str) -> Arm:
    """The arm of that name.

    Raises:
        UnknownIdError: there is none; the message names the nearest.
    """
    if name in ARMS:
        return ARMS[name]
    near = get_close_matches(name, ARMS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownIdError(f"unknown arm {name!r}: {hint}expected one of {', '.join(ARMS)}")
