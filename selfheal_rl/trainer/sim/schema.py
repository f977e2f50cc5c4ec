"""The world format: what can fail, how often, what repairs it, and where each figure is from."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from selfheal_rl.core.situation import MAX_CAUSES
from selfheal_rl.core.values import EFFECTS, Capabilities, FaultKind, Prices, RepairAction, Seam

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Source = Annotated[str, Field(min_length=3)]
"""Where a figure is from: a section of a report, a paper, or the word ``assumed``."""


class Part(BaseModel):
    """Base of all parts of a world: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Evidence(Part):
    """Counts behind a success probability: ``ok`` of ``n`` tries; a Beta posterior when drawn.

    ``n`` may be fractional: observational counts are down-weighted, an assumption weighs little.
    """

    ok: float = Field(ge=0.0)
    n: float = Field(gt=0.0)
    source: Source

    @model_validator(mode="after")
    def _ok_within_n(self) -> "Evidence":
        if self.ok > self.n:
            raise ValueError(f"ok = {self.ok} is above n = {self.n}; expected ok <= n")
        return self


class Chance(Part):
    """A fixed probability with its source."""

    p: Probability
    source: Source


class Duration(Part):
    """Log-normal time until a cause ends by itself, in seconds."""

    median_s: float = Field(gt=0.0)
    sigma: float = Field(ge=0.0, le=4.0)
    """Standard deviation of the logarithm."""
    source: Source


class Symptom(Part):
    """One way a cause shows itself; the real classifier reads it."""

    share: float = Field(gt=0.0)
    message: str
    error_type: str | None = None
    status: int | None = Field(None, ge=100, le=599)
    state: Literal["ok", "partial", "failed", "timed_out", "unknown"] = "failed"
    alarm: FaultKind | None = None
    """The detector that spoke up, for a soft failure."""
    retry_after: Literal["none", "truth"] | float = "none"
    """``truth`` is the time the cause still lasts; a figure is sent whatever the truth."""
    latency_s: float = Field(1.0, ge=0.0)
    """Seconds until the failing call fails."""
    context: Probability | None = None
    """Share of the context window in use; None for an ordinary, random share."""

    @model_validator(mode="after")
    def _soft_has_alarm(self) -> "Symptom":
        if (self.state in ("ok", "partial")) != (self.alarm is not None):
            raise ValueError(
                f"state = {self.state!r} with alarm = {self.alarm!r}; expected an alarm exactly "
                "where the call returned (state ok or partial)"
            )
        return self


class Cause(Part):
    """A root cause, latent to every policy but the clairvoyant."""

    share: float = Field(gt=0.0)
    """Relative weight among the failures of this world."""
    seam: Seam = Seam.TOOL
    symptoms: tuple[Symptom, ...] = Field(min_length=1)
    duration: Duration | None = None
    """None: it does not end by itself."""
    shared: bool = False
    """It belongs to the tool and to absolute time: later calls meet it until it ends."""
    writes_only: bool = False
    """Only calls that write can meet it; a read meets ``otherwise`` instead."""
    otherwise: str | None = None
    repair: dict[str, Evidence] = Field(default_factory=dict)
    """Action -> P(heals) at its first use, time apart. ``continue`` is the agent left alone."""
    after_end: dict[str, Probability] = Field(default_factory=dict)
    """Action -> P(heals) once the cause has ended; calls made again default to 1."""
    harm: dict[str, Chance] = Field(default_factory=dict)
    """Action -> P(it breaks the task, seen only later | it ends the incident)."""
    after_inspect: dict[str, Probability] = Field(default_factory=dict)
    """Action -> share of its remaining failures that an earlier inspection removes."""
    wear: Probability | None = None
    """Factor on success per earlier use of the same action; None for the world's."""
    source: Source

    @model_validator(mode="after")
    def _known_actions(self) -> "Cause":
        for table in ("repair", "after_end", "harm", "after_inspect"):
            for name in getattr(self, table):
                RepairAction.parse(name)
        for name in ("escalate", "degrade"):
            if name in self.repair:
                raise ValueError(f"repair.{name}: a terminal action heals nothing; remove it")
        if self.writes_only and not self.otherwise:
            raise ValueError("writes_only = true needs otherwise = '<cause met by a read>'")
        if self.after_end and self.duration is None:
            raise ValueError("after_end without duration: the cause never ends by itself")
        return self


class TaskShape(Part):
    """Length, tools and rhythm of a task."""

    steps_low: int = Field(ge=1, le=200)
    steps_high: int = Field(ge=1, le=200)
    failure_rate: Probability
    """P(a call fails or raises an alarm), average over tasks."""
    frailty_shape: float = Field(gt=0.0)
    """Shape of the gamma factor on a task's failure rate; small means a heavy tail."""
    deadline_s: float = Field(gt=0.0)
    step_seconds: float = Field(ge=0.0)
    step_tokens: float = Field(ge=0.0)
    token_budget: float = Field(gt=0.0)
    """Tokens that repairs may spend in one task."""
    tools: int = Field(ge=1, le=64)
    tool_effects: dict[str, Probability]
    """Share of tools per effect; sums to 1."""
    key_share: Probability
    """Share of writing tools that send an idempotency key."""
    max_failures: int = Field(64, ge=1)
    """Incidents a task can have at most (1 in tiny worlds that are solved exactly)."""
    source: Source

    @model_validator(mode="after")
    def _consistent(self) -> "TaskShape":
        if self.steps_high < self.steps_low:
            raise ValueError(f"steps_high {self.steps_high} < steps_low {self.steps_low}")
        known = {e.value for e in EFFECTS}
        if unknown := set(self.tool_effects) - known:
            raise ValueError(f"tool_effects has {sorted(unknown)}; expected {sorted(known)}")
        if abs(sum(self.tool_effects.values()) - 1.0) > 1e-6:
            raise ValueError(
                f"tool_effects sums to {sum(self.tool_effects.values()):.4f}; expected 1"
            )
        return self


class Host(Part):
    """A kind of host and its share among the tasks."""

    share: float = Field(gt=0.0)
    capabilities: Capabilities
    source: Source = "assumed"


class Cost(Part):
    """What one use of an action costs and what it leaves of the result's quality."""

    seconds: float = Field(0.0, ge=0.0)
    tokens: float = Field(0.0, ge=0.0)
    human_minutes: float = Field(0.0, ge=0.0)
    quality: Probability = 1.0
    source: Source = "assumed"


class Agent(Part):
    """How the agent reacts to a raw error when nothing heals it."""

    gives_up: Probability
    """P(the task is lost | the agent, left alone, fails to recover)."""
    source: Source


class World(Part):
    """A world: everything the simulator needs, with the source of every figure."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    description: str
    task: TaskShape
    agent: Agent
    prices: Prices
    hosts: tuple[Host, ...] = Field(min_length=1)
    costs: dict[str, Cost]
    causes: dict[str, Cause] = Field(min_length=1, max_length=MAX_CAUSES)
    share_n: float = Field(gt=0.0)
    """Failures' worth of evidence behind the causes' shares (Dirichlet concentration)."""
    wear: Probability = 0.7
    """Factor on an action's success per earlier use in the incident."""
    stay: Probability = 0.85
    """P(a failed attempt shows the same symptom again)."""
    degrade_quality: Probability = 0.3
    """Value of a partial result, as a share of a completed task."""
    exact: bool = False
    """True: no uncertainty over deployments; every draw is the mean (for tiny worlds)."""
    kind_mix: dict[str, Probability] = Field(default_factory=dict)
    """Kind -> share of failures in the cited figures; tests hold the simulator to it."""
    source: Source

    @model_validator(mode="after")
    def _references(self) -> "World":
        for name in self.costs:
            RepairAction.parse(name)
        for name, cause in self.causes.items():
            other = cause.otherwise
            if other is not None and (other not in self.causes or other == name):
                raise ValueError(
                    f"causes.{name}.otherwise = {other!r} names no other cause; "
                    f"known: {', '.join(self.causes)}"
                )
            if other is not None and self.causes[other].writes_only:
                raise ValueError(f"causes.{name}.otherwise = {other!r} is itself writes_only")
        known = {k.value for k in FaultKind}
        if unknown := set(self.kind_mix) - known:
            raise ValueError(f"kind_mix has {sorted(unknown)}; expected fault kinds")
        return self
