"""What can go wrong, how long it lasts, and the seeded plan of what goes wrong in a task."""

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from selfheal_rl.lab.draws import log_uniform, rng_of


class Target(StrEnum):
    """A tool's dependency that a fault can hit; one per step of the task."""

    SESSION = "session"
    CUSTOMER = "customer"
    PRICE = "price"
    STOCK = "stock"
    SHIPPING = "shipping"
    RESERVE = "reserve"
    ORDER = "order"
    LEDGER = "ledger"
    REPORT = "report"
    NOTIFY = "notify"


T = Target
READS = (T.CUSTOMER, T.PRICE, T.STOCK, T.SHIPPING)
POSTS = (T.ORDER, T.NOTIFY)
BEHIND_SESSION = (*READS, T.RESERVE, *POSTS)
HTTP = (T.SESSION, *BEHIND_SESSION)


@dataclass(frozen=True)
class FaultSpec:
    """One way of failing.

    Attributes:
        name: as shown in results.
        targets: what it can hit.
        weight: how often it is drawn, relative to the others.
        calls: fewest and most calls it spoils, None when it does not count calls.
        seconds: shortest and longest virtual time it lasts from its first strike, log-uniform.
        forever: chance that it never ends by itself.
        shared: True when it spoils every HTTP call while it lasts.
        in_arguments: True when the scripted model makes the mistake, not the component.
    """

    name: str
    targets: tuple[Target, ...]
    weight: float
    calls: tuple[int, int] | None = None
    seconds: tuple[float, float] | None = None
    forever: float = 0.0
    shared: bool = False
    in_arguments: bool = False


FAULTS: dict[str, FaultSpec] = {
    spec.name: spec
    for spec in (
        FaultSpec("server_error", HTTP, 3.0, calls=(1, 1)),
        FaultSpec("outage_calls", HTTP, 2.0, calls=(2, 5)),
        FaultSpec("outage_window", HTTP, 3.0, seconds=(5.0, 600.0), shared=True),
        FaultSpec("rate_limit", HTTP, 3.0, seconds=(4.0, 120.0)),
        FaultSpec("quota", BEHIND_SESSION, 1.5, forever=1.0),
        FaultSpec("error_in_200", READS, 2.0, calls=(1, 2)),
        FaultSpec("truncated_json", READS, 2.0, calls=(1, 2), forever=0.3),
        FaultSpec("schema_drift", READS, 2.0, forever=1.0),
        FaultSpec("slow_reply", (*READS, T.RESERVE), 2.0, calls=(1, 3), forever=0.3),
        FaultSpec("session_expired", BEHIND_SESSION, 2.5, forever=1.0),
        FaultSpec("dropped", HTTP, 1.5, calls=(1, 2)),
        FaultSpec("wrong_type", (T.SHIPPING, T.RESERVE), 2.0, forever=1.0, in_arguments=True),
        FaultSpec("near_enum", (T.SHIPPING,), 1.5, forever=1.0, in_arguments=True),
        FaultSpec("wrong_key", (T.SHIPPING, T.RESERVE), 1.5, forever=1.0, in_arguments=True),
        FaultSpec("bad_value", (T.LEDGER,), 1.0, forever=1.0, in_arguments=True),
        FaultSpec("lost_reply", (T.RESERVE, *POSTS), 4.0, calls=(1, 1)),
        FaultSpec("slow_commit", (T.RESERVE, *POSTS), 2.0, calls=(1, 1)),
        FaultSpec("locked", (T.LEDGER,), 2.0, seconds=(2.0, 120.0)),
        FaultSpec("missing_table", (T.LEDGER,), 1.5, forever=1.0),
        FaultSpec("nonzero_exit", (T.REPORT,), 2.0, seconds=(2.0, 60.0)),
        FaultSpec("missing_file", (T.REPORT,), 1.5, forever=1.0),
    )
}
"""The catalogue. Shares and durations are assumed; the components' behaviour is their own."""

N_FAULTS_WEIGHTS = (0.25, 0.45, 0.22, 0.08)
"""Chance that a task has 0, 1, 2 or 3 faults (assumed)."""


@dataclass
class Fault:
    """One planned fault in one task, and what became of it.

    Attributes:
        spec: what it is.
        target: what it hits.
        calls: calls it spoils; None when it does not count.
        seconds: virtual time it lasts from its first strike; None when it does not end by time.
        variant: a number in [0, 1) that picks among the fault's forms.
        first_at: virtual time of its first strike; None until then.
        hits: calls it has spoiled.
        cleared: True once its cause was removed.
    """

    spec: FaultSpec
    target: Target
    calls: int | None = None
    seconds: float | None = None
    variant: float = 0.0
    first_at: float | None = field(default=None, compare=False)
    hits: int = field(default=0, compare=False)
    cleared: bool = field(default=False, compare=False)

    def strikes(self, now: float) -> bool:
        """Whether it spoils a call made at ``now`` (virtual seconds); counts the hit."""
        if self.cleared or (self.calls is not None and self.hits >= self.calls):
            return False
        if self.first_at is None:
            self.first_at = now
        if self.seconds is not None and now >= self.first_at + self.seconds:
            return False
        self.hits += 1
        return True

    def left_s(self, now: float) -> float:
        """Virtual seconds until it ends; 0 when it does not end by time."""
        if self.seconds is None or self.first_at is None:
            return 0.0
        return max(0.0, self.first_at + self.seconds - now)


def plan_faults(seed: int, task: int) -> dict[Target, Fault]:
    """The faults of one task, at most one per target; the same for every arm.

    Args:
        seed: of the run.
        task: number of the task.
    """
    rng = rng_of(seed, task, "faults")
    count = rng.choices(range(len(N_FAULTS_WEIGHTS)), N_FAULTS_WEIGHTS)[0]
    specs = rng.choices(list(FAULTS.values()), [s.weight for s in FAULTS.values()], k=count)
    plan: dict[Target, Fault] = {}
    for spec in specs:
        free = [target for target in spec.targets if target not in plan]
        if free:
            target = rng.choice(free)
            plan[target] = _instance(spec, target, rng)
    return plan


def _instance(spec: FaultSpec, target: Target, rng: Random) -> Fault:
    fault = Fault(spec, target, variant=rng.random())
    if rng.random() < spec.forever:
        return fault
    if spec.calls is not None:
        fault.calls = rng.randint(*spec.calls)
    if spec.seconds is not None:
        fault.seconds = log_uniform(rng, *spec.seconds)
    return fault
