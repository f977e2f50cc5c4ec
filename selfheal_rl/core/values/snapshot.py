"""The error snapshot: everything known at the moment of a failure, frozen and redacted."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from selfheal_rl.core.values.actions import Seam
from selfheal_rl.core.values.effects import Effects


class Frozen(BaseModel):
    """Base of the vocabulary's values: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FailedCall(Frozen):
    """The call that failed."""

    tool: str = "unknown"
    arguments: dict[str, Any] = Field(default_factory=dict)
    effects: Effects = Effects.UNKNOWN
    has_idempotency_key: bool = False
    is_model_call: bool = False
    stream_started: bool = False
    """True once the first item of a stream has left for the caller."""


class ToolHealth(Frozen):
    """How the failing call's dependency, and the others, have done lately."""

    failure_rate: float = Field(0.0, ge=0.0, le=1.0)
    """Exponentially weighted share of this dependency's calls that failed."""
    consecutive_failures: int = Field(0, ge=0)
    """Failures of this tool since its last success, the present one included."""
    since_ok_s: float = Field(0.0, ge=0.0)
    """Seconds since the tool last succeeded (since the task began, if it never did)."""
    others_failing: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the task's other tools whose last call failed."""
    breaker_open: bool = False


class BudgetLeft(Frozen):
    """What is left to spend, as seen at the failure."""

    attempts: int = Field(8, ge=0)
    """Repair attempts left in this incident."""
    task_attempts: int = Field(24, ge=0)
    """Repair attempts left in this task."""
    deadline_s: float = Field(3600.0, ge=0.0)
    """Seconds until the task's deadline."""
    tokens: float = Field(1.0, ge=0.0, le=1.0)
    """Share of the token budget left."""
    money: float = Field(1.0, ge=0.0, le=1.0)
    """Share of the money budget left."""


class Telemetry(Frozen):
    """Measurements of the failing call."""

    latency_s: float = Field(0.0, ge=0.0)
    tokens_used: int = Field(0, ge=0)
    context_limit: int = Field(0, ge=0)
    """Context window in tokens; 0 when unknown."""
    drift: float = Field(0.0, ge=0.0, le=1.0)
    """Score of the drift detectors, 0 when none runs."""
    model: str | None = None


class Evidence(Frozen):
    """What the knowledge base says about this exact signature."""

    confirmed: int = Field(0, ge=0)
    confidence: float = Field(0.0, ge=0.0, le=1.0)


class ErrorSnapshot(Frozen):
    """One failure as the runtime saw it, or as a simulated state shows it."""

    time: float
    """Seconds since the epoch."""
    tenant: str = "default"
    task_id: str | None = None
    """None for a call outside any task: the incident is an orphan."""
    goal: str = ""
    task_type: str = ""
    step: int = Field(1, ge=1)
    n_steps: int | None = Field(None, ge=1)
    status: str = Field("failed", pattern="^(ok|partial|failed|timed_out|unknown)$")
    """``ok`` or ``partial`` with an alarm is a soft failure: the call returned."""
    error_type: str | None = None
    """Qualified name of the exception's type."""
    error_chain: tuple[str, ...] = ()
    """Qualified type names of the causes, outermost first."""
    message: str = ""
    stack_trace: str = ""
    http_status: int | None = Field(None, ge=100, le=599)
    retry_after_s: float | None = Field(None, ge=0.0)
    headers: dict[str, str] = Field(default_factory=dict)
    request: str = ""
    response: str = ""
    sampling: dict[str, float] = Field(default_factory=dict)
    thoughts: tuple[str, ...] = Field((), max_length=5)
    actions: tuple[str, ...] = Field((), max_length=5)
    observations: tuple[str, ...] = Field((), max_length=5)
    seam: Seam = Seam.TOOL
    call: FailedCall = FailedCall()
    agent_state: dict[str, Any] = Field(default_factory=dict)
    telemetry: Telemetry = Telemetry()
    health: ToolHealth = ToolHealth()
    budget: BudgetLeft = BudgetLeft()
    evidence: Evidence = Evidence()
    task_started: float | None = None
    """Seconds since the epoch at which the task began."""
    task_failures: int = Field(0, ge=0)
    """Incidents the task has had before this one."""
    alarm: str | None = None
    """Name of the detector that raised a soft failure, e.g. ``low_quality``."""
    probed_not_started: bool = False
    """True when a registered probe showed that the failed call took no effect."""

    @property
    def is_soft(self) -> bool:
        """True when the call returned and only a detector objects."""
        return self.status in ("ok", "partial")
