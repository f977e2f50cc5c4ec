"""What can be wrong with a reply: raised, an error inside a result, or an objection to it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from selfheal_rl.core.values import ErrorSnapshot, FaultKind
from selfheal_rl.runtime.diagnose import capture, detectors, results
from selfheal_rl.runtime.heal.effects import Reply
from selfheal_rl.runtime.heal.options import ToolSpec
from selfheal_rl.runtime.heal.validation import Validator

_BINDING = re.compile(
    r"\(\) (?:got an unexpected keyword argument|missing \d+ required|takes |got multiple values"
    r"|got some positional)"
)
"""How Python words a call that does not fit the function's parameters."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failure or alarm of one call.

    Attributes:
        error: the agent's own exception; None when the call returned.
        value: what it returned.
        alarm: name of the fault kind a check objects with; None for hard failures.
        objection: the validator's exception; None when another detector objects.
        seconds: the call took.
    """

    error: Exception | None = None
    value: Any = None
    alarm: str | None = None
    objection: Exception | None = None
    seconds: float = 0.0

    @property
    def is_soft(self) -> bool:
        """True when the call returned and only a check objects."""
        return self.alarm is not None

    def snapshot(self, **fields: Any) -> ErrorSnapshot:
        """The snapshot; ``fields`` as for ``snapshot_of``."""
        if self.error is not None:
            shown = capture.snapshot_of(self.error, **fields)
            if _never_entered(self.error):
                # Known here and to nobody later: no line of the tool has run.
                refused = {
                    "error_type": "InvalidArgumentsError",
                    "error_chain": (shown.error_type or "TypeError",),
                    "message": f"invalid arguments: {shown.message}",
                }
                return shown.model_copy(update=refused)
            return shown
        if self.objection is not None:
            shown = capture.snapshot_of(self.objection, **fields)
            return shown.model_copy(update={"status": "partial", "alarm": self.alarm})
        return capture.snapshot_of_result(self.value, alarm=self.alarm, **fields)


def _never_entered(error: Exception) -> bool:
    """True when the function refused the call's arguments before its first line ran."""
    trace = error.__traceback__
    if not isinstance(error, TypeError) or (trace is not None and trace.tb_next is not None):
        return False
    return bool(_BINDING.search(str(error)))


class Checks:
    """The checks a tool's replies go through, in order; empty for a plain tool."""

    def __init__(self, spec: ToolSpec, validator: Validator | None) -> None:
        self.validator = validator
        self._error_in: Callable[[Any], str | None] | None = (
            results.error_in_result
            if spec.error_in_result is True
            else spec.error_in_result or None
        )
        self._detect: Callable[[Any], str | None] | None = (
            detectors.detect if spec.detectors is True else spec.detectors or None
        )

    def __bool__(self) -> bool:
        return bool(self._error_in or self._detect or self.validator)

    def trouble_of(self, reply: Reply) -> Trouble | None:
        """What is wrong with ``reply``; None when nothing is."""
        if reply.error is not None:
            return Trouble(error=reply.error, seconds=reply.seconds)
        value = reply.value
        if self._error_in is not None and self._error_in(value) is not None:
            return Trouble(value=value, seconds=reply.seconds)
        if self.validator is not None:
            objection = self.validator.objection(value)
            if objection is not None:
                alarm = self.validator.alarm(value)
                return Trouble(
                    value=value, alarm=alarm.value, objection=objection, seconds=reply.seconds
                )
        alarm_name = self._detect(value) if self._detect is not None else None
        if alarm_name is not None:
            kind = FaultKind(alarm_name).value
            return Trouble(value=value, alarm=kind, seconds=reply.seconds)
        return None
