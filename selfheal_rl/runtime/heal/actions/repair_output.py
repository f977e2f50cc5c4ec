"""``repair_output``: make a refused result fit without inventing anything; see ``output_fixes``."""

from selfheal_rl.core.values import Outcome, RepairAction
from selfheal_rl.runtime.heal.actions.base import Repair
from selfheal_rl.runtime.heal.call import Call
from selfheal_rl.runtime.heal.effects import Steps
from selfheal_rl.runtime.heal.output_fixes import Fixed, repair


def repaired(call: Call) -> Fixed | None:
    """The latest result after repair; None when there is none or it cannot be repaired."""
    validator = call.tool.checks.validator
    if validator is None or call.latest.objection is None:
        return None
    value = call.latest.value
    return repair(value, validator.schema, lambda v: validator.objection(v) is None)


class RepairOutputExecutor:
    """Sends nothing again: works on the result that is there."""

    action = RepairAction.REPAIR_OUTPUT

    def needs(self, call: Call) -> bool:
        """A validator, and a repair that it accepts."""
        return repaired(call) is not None

    def run(self, call: Call) -> Steps[Repair]:
        """Repair."""
        yield from ()
        fixed = repaired(call)
        if fixed is None:
            return Repair(Outcome.FAILED, note="the result cannot be repaired without inventing")
        call.info.repaired_fields = fixed.fields
        return Repair(
            Outcome.HEALED,
            fixed.value,
            variant=f"repair_output.{fixed.variant}",
            note=f"repaired {', '.join(fixed.fields)}",
            verified=True,
        )
