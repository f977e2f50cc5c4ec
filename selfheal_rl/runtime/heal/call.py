"""One call in flight: what was asked, what went wrong, and what repairs have changed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from selfheal_rl.core.values import Clock, Effects, EffectState, FailedCall, Seam
from selfheal_rl.runtime.heal.effects import Invoke, Reply, Steps
from selfheal_rl.runtime.heal.open_incident import OpenIncident
from selfheal_rl.runtime.heal.options import ToolSpec
from selfheal_rl.runtime.heal.task import Task, ToolRecord
from selfheal_rl.runtime.heal.trouble import Checks, Trouble

if TYPE_CHECKING:
    from selfheal_rl.runtime.heal.arguments import ArgumentSchema


@dataclass(slots=True)
class Tool:
    """A registered tool.

    Attributes:
        function: the user's own.
        spec: what its owner declared.
        checks: of its replies.
        arguments: schema by which arguments may be repaired; None when unknown.
        is_async: whether the function is a coroutine function.
        record: outside tasks.
        sticky: index of the fallback that calls go to, and the monotonic second until when.
        is_block: True for a ``with`` block, which takes no arguments and returns nothing.
    """

    function: Callable[..., Any]
    spec: ToolSpec
    checks: Checks
    arguments: "ArgumentSchema | None"
    is_async: bool
    record: ToolRecord
    sticky: tuple[int, float] | None = None
    is_block: bool = False

    def idempotency_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """The key that travels with a call of these arguments, if any."""
        build = self.spec.idempotency_key
        return (build(*args, **kwargs) or None) if build is not None else None


@dataclass(slots=True)
class ResultInfo:
    """What was done to a result on its way to the agent.

    Attributes:
        incident_id: of the incident, as in the journal.
        action: slug of the repair that healed it; empty when it went straight to a fallback.
        equivalence: of the fallback that made it: ``same``, ``stale`` or ``partial``.
        max_age_s: largest age of stale data in seconds; None when unknown.
        repaired_fields: fields of the output that were repaired.
        changes: changes of arguments, in words.
        verified: True when a validator confirmed the result.
    """

    incident_id: str = ""
    action: str = ""
    equivalence: str = "same"
    max_age_s: float | None = None
    repaired_fields: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    verified: bool = False
    value: Any = field(default=None, repr=False)


@dataclass(slots=True)
class Call:
    """A call that is being healed.

    Attributes:
        args, kwargs: as they stand after repairs.
        first: what went wrong first; its exception is the one the agent sees.
        latest: what went wrong last.
        info: of the result, filled by executors.
    """

    tool: Tool
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    record: ToolRecord
    task: Task | None
    first: Trouble
    latest: Trouble
    clock: Clock
    seed: int
    incident: OpenIncident
    info: ResultInfo = field(default_factory=ResultInfo)

    @property
    def spec(self) -> ToolSpec:
        """What the tool's owner declared."""
        return self.tool.spec

    @property
    def may_have_written(self) -> bool:
        """True when the tool writes and the latest failure may have taken effect."""
        snapshot = self.incident.failures[-1]
        started = snapshot.diagnosis.effect_state is not EffectState.NOT_STARTED
        return self.spec.effects is not Effects.READ and started

    def failed_call(self, seam: Seam) -> FailedCall:
        """As the snapshot describes this call."""
        named = self.tool.arguments
        bound = named.bind(self.args, self.kwargs) if named is not None else dict(self.kwargs)
        return FailedCall.model_construct(
            tool=self.spec.name,
            arguments=bound,
            effects=Effects(self.spec.effects),
            has_idempotency_key=self.tool.idempotency_key(self.args, self.kwargs) is not None,
            is_model_call=seam is Seam.MODEL,
            stream_started=False,
        )

    def again(
        self, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None
    ) -> Steps[Reply]:
        """Send the call again, with other arguments where given."""
        reply = yield Invoke(
            self.tool.function,
            self.args if args is None else args,
            self.kwargs if kwargs is None else kwargs,
            self.spec.timeout_s,
        )
        return reply
