"""``fallback_tool``: a declared equivalent of the tool."""

from selfheal_rl.core.values import Effects, Outcome, RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair, judged
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Invoke, Steps
from selfheal_rl.runtime.heal.options import Fallback


def usable(call: Call) -> list[int]:
    """Indices of the fallbacks that cannot apply a side effect a second time."""
    fallbacks = call.spec.fallbacks
    if call.spec.effects is Effects.READ or not call.may_have_written:
        return list(range(len(fallbacks)))
    return [index for index, fallback in enumerate(fallbacks) if fallback.same_store]


def mark(call: Call, fallback: Fallback) -> None:
    """Say in the result's info what kind of equivalent made it."""
    call.info.equivalence = fallback.equivalence
    call.info.max_age_s = fallback.max_age_s


class FallbackToolExecutor:
    """Calls the next fallback; one that helps is used for its cool-down."""

    action = RepairAction.FALLBACK_TOOL

    def needs(self, call: Call) -> bool:
        """A fallback that may be used here."""
        return not call.tool.is_block and bool(usable(call))

    def run(self, call: Call) -> Steps[Repair]:
        """Call it with the same arguments."""
        candidates = usable(call)
        used = sum(a.decision.action is self.action for a in call.incident.attempts)
        index = candidates[used % len(candidates)]
        fallback = call.spec.fallbacks[index]
        reply = yield Invoke(fallback.call, call.args, call.kwargs, call.spec.timeout_s)
        variant = f"fallback_tool.{fallback.equivalence}"
        repair = judged(call, reply, variant=variant, note=_note(fallback))
        if repair.outcome is Outcome.HEALED:
            mark(call, fallback)
            if fallback.cooldown_s > 0:
                call.tool.sticky = index, call.clock.monotonic() + fallback.cooldown_s
        return repair


def _note(fallback: Fallback) -> str:
    name = getattr(fallback.call, "__name__", repr(fallback.call))
    age = f", at most {fallback.max_age_s:g} s old" if fallback.max_age_s is not None else ""
    return f"{name} ({fallback.equivalence}{age})"
