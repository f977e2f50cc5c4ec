"""``fix_arguments``: what the argument schema alone makes certain; see ``argument_fixes``."""

from typing import Any

from selfheal_rl.core.values import Effects, Outcome, RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair, judged
from selfheal_rl.runtime.heal.argument_fixes import Change, propose
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Steps

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def repaired(call: Call) -> tuple[Arguments, tuple[Change, ...]]:
    """The call's arguments after repair, and the changes; none when nothing may be changed."""
    same: Arguments = call.args, call.kwargs
    schema = call.tool.arguments
    if schema is None or not schema.repairable:
        return same, ()
    bound = schema.bind(call.args, call.kwargs)
    read_only = call.spec.effects is Effects.READ
    fixed, changes = propose(bound, schema, read_only=read_only)
    if not changes:
        return same, ()
    args, kwargs = schema.unbind(fixed, len(call.args))
    # A key that changes with the arguments does not protect against the first call's effect.
    if call.may_have_written and _key(call, args, kwargs) != _key(call, *same):
        return same, ()
    return (args, kwargs), changes


def _key(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    return call.tool.idempotency_key(args, kwargs)


class FixArgumentsExecutor:
    """Sends the call with repaired arguments and reports what was changed."""

    action = RepairAction.FIX_ARGUMENTS

    def needs(self, call: Call) -> bool:
        """A schema under which something is certain to be wrong and how."""
        return bool(repaired(call)[1])

    def run(self, call: Call) -> Steps[Repair]:
        """Repair and send."""
        (args, kwargs), changes = repaired(call)
        if not changes:
            return Repair(Outcome.FAILED, note="nothing in the arguments is certain to be wrong")
        call.args, call.kwargs = args, kwargs
        call.info.changes += tuple(change.told() for change in changes)
        note = "; ".join(f"{change.field}: {change.what}" for change in changes)
        return judged(call, (yield from call.again()), note=note)
