"""Prices, host capabilities, and the record of what was decided, tried and reached."""

from enum import StrEnum

from pydantic import Field, field_serializer

from selfheal_rl.core.values.actions import RepairAction, Seam
from selfheal_rl.core.values.effects import EffectState
from selfheal_rl.core.values.kinds import FaultKind
from selfheal_rl.core.values.snapshot import ErrorSnapshot, Frozen


class Prices(Frozen):
    """What things cost, in units of the value of one completed task."""

    task: float = Field(1.0, gt=0.0)
    second: float = Field(0.0003, ge=0.0)
    kilotoken: float = Field(0.004, ge=0.0)
    human_minute: float = Field(0.03, ge=0.0)
    harm: float = Field(0.5, ge=0.0)
    """Price of one harmful side effect (a duplicate order, lost data)."""


class Capabilities(Frozen):
    """What the host offers at the failing call; an absent capability masks its actions."""

    seams: frozenset[Seam] = frozenset({Seam.TOOL})
    """Seams the adapter publishes."""
    permission: int = Field(1, ge=1, le=3)
    fallback_tool: bool = False
    fallback_model: bool = False
    probe: bool = False
    checkpointer: bool = False
    reset_hook: bool = False
    user: bool = False
    degrade_builder: bool = False
    argument_schema: bool = False
    """The tool's own argument schema is known, so arguments can be repaired."""
    output_validator: bool = False
    """The output's type or schema is known, so output can be repaired and checked."""
    context_editor: bool = False
    knowledge: bool = False
    dependency_graph: bool = False

    @field_serializer("seams", when_used="json")
    def _in_order(self, seams: frozenset[Seam]) -> list[Seam]:
        # A set's order differs between processes; hashes over the JSON must not.
        return [seam for seam in Seam if seam in seams]


class Diagnosis(Frozen):
    """The classifier's answer for one snapshot."""

    posterior: tuple[float, ...]
    """Probability of each fault kind, in the order of ``KINDS``; sums to 1."""
    effect_state: EffectState
    signature: str = ""
    """Normalised text of the error, equal for failures that differ only in names and numbers."""

    @property
    def kind(self) -> FaultKind:
        """The most probable kind."""
        best = max(range(len(self.posterior)), key=self.posterior.__getitem__)
        return tuple(FaultKind)[best]


class Outcome(StrEnum):
    """How an attempt ended."""

    HEALED = "healed"
    FAILED = "failed"
    STOPPED = "stopped"
    """The action was terminal."""


class Decision(Frozen):
    """What a selector chose, and why."""

    action: RepairAction
    variant: str = ""
    """The executor's variant, e.g. ``fix_arguments.narrow``."""
    probabilities: tuple[float, ...] = ()
    """Of each action under the whole selector, in action order."""
    propensity: float = Field(1.0, ge=0.0, le=1.0)
    """Probability with which the whole selector chooses this action here."""
    mask: tuple[bool, ...] = ()
    selector: str = ""
    policy_hash: str = ""
    spec_hash: str = ""
    reasons: tuple[str, ...] = ()
    intended: RepairAction | None = None
    """The action before an override; None when nothing was overridden."""
    override: str = ""
    randomisation_unit: str = ""
    observation: tuple[float, ...] = ()


class Attempt(Frozen):
    """One decision, carried out, with its outcome and cost."""

    decision: Decision
    outcome: Outcome
    started: float
    """Seconds since the epoch."""
    seconds: float = Field(0.0, ge=0.0)
    tokens: int = Field(0, ge=0)
    verified: bool = False
    """True when a validator confirmed the repaired result."""
    note: str = ""


class Failure(Frozen):
    """A snapshot with its diagnosis."""

    snapshot: ErrorSnapshot
    diagnosis: Diagnosis


class Verdict(StrEnum):
    """How an incident ended."""

    OPEN = "open"
    HEALED = "healed"
    ESCALATED = "escalated"
    DEGRADED = "degraded"
    HANDED_BACK = "handed_back"
    """Continued on a hard error: the agent got it raw."""
    EXHAUSTED = "exhausted"
    ABANDONED = "abandoned"


class Incident(Frozen):
    """One trouble of one tool, from its first failure to its end."""

    id: str
    failures: tuple[Failure, ...] = Field(min_length=1)
    attempts: tuple[Attempt, ...] = ()
    capabilities: Capabilities = Capabilities()
    verdict: Verdict = Verdict.OPEN
    next_wait_s: float = Field(1.0, ge=0.0)
    """Seconds that ``backoff`` would wait at most, if chosen now."""
    censored: bool = False
    """True when the end was not observed."""

    @property
    def snapshot(self) -> ErrorSnapshot:
        """The latest failure's snapshot."""
        return self.failures[-1].snapshot

    @property
    def diagnosis(self) -> Diagnosis:
        """The latest failure's diagnosis."""
        return self.failures[-1].diagnosis
