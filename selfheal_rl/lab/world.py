"""One task's world: what is asked, the faults in store, the clock, and the folder it works in."""

from dataclasses import dataclass, field
from pathlib import Path

from selfheal_rl.core.values import Clock
from selfheal_rl.lab.draws import rng_of
from selfheal_rl.lab.faults import HTTP, Fault, Target, plan_faults

REGIONS = ("europe", "america", "asia")
SHIPPING_CENTS = {"europe": 490, "america": 990, "asia": 1290}
DEADLINE_S = 900.0
"""Virtual seconds a task may take."""
CALL_S = 0.3
"""Virtual seconds of one call."""
TURN_S = 2.0
"""Virtual seconds the scripted model thinks before a call (assumed)."""
CLIENT_TIMEOUT_S = 10.0
SLOW_REPLY_S = 45.0


@dataclass(frozen=True)
class OrderTask:
    """What the agent is asked: buy ``units`` of ``sku`` for a customer and account for it.

    Attributes:
        seed: of the run.
        index: number of the task.
        ref: the order's reference, unique within the run.
        sku: article.
        units: how many, >= 1.
        customer_id: for whom.
        region: where to ship, one of ``REGIONS``.
        unit_price: the true price in cents.
        cached_price: what a stale cache says, in cents.
        stock: units in stock before.
        keyed: True when orders travel with an idempotency key.
    """

    seed: int
    index: int
    ref: str
    sku: str
    units: int
    customer_id: int
    region: str
    unit_price: int
    cached_price: int
    stock: int
    keyed: bool

    @property
    def total(self) -> int:
        """Cents to pay, shipping included."""
        return self.units * self.unit_price + SHIPPING_CENTS[self.region]

    @classmethod
    def draw(cls, seed: int, index: int) -> "OrderTask":
        """The task of that number; the same for every arm."""
        rng = rng_of(seed, index, "task")
        price = rng.randint(5, 200) * 10
        stale = price if rng.random() < 2 / 3 else price + rng.choice((-20, 30, 50))
        return cls(
            seed=seed,
            index=index,
            ref=f"ref-{seed}-{index}",
            sku=rng.choice(("lamp", "chair", "desk", "shelf")),
            units=rng.randint(2, 9),
            customer_id=rng.randint(1, 40),
            region=rng.choice(REGIONS),
            unit_price=price,
            cached_price=stale,
            stock=rng.randint(20, 90),
            keyed=rng.random() < 0.5,
        )


@dataclass
class TaskWorld:
    """The state of one task in play.

    Attributes:
        task: what is asked.
        folder: where its databases and files live.
        clock: virtual time, shared by agent, service and healer.
        faults: what is in store, by target.
        started: virtual time at which the task began.
        token: the session's token; empty before there is one.
        calls: calls to components so far.
        sessions: tokens the service accepts.
    """

    task: OrderTask
    folder: Path
    clock: Clock
    faults: dict[Target, Fault]
    started: float = 0.0
    token: str = ""
    calls: int = 0
    sessions: set[str] = field(default_factory=set)

    @classmethod
    def make(cls, seed: int, index: int, folder: Path, clock: Clock) -> "TaskWorld":
        """The world of one task, before its components are set up."""
        faults = plan_faults(seed, index)
        return cls(OrderTask.draw(seed, index), folder, clock, faults, started=clock.monotonic())

    @property
    def shop_db(self) -> Path:
        """The service's database."""
        return self.folder / "shop.db"

    @property
    def ledger_db(self) -> Path:
        """The agent's own ledger."""
        return self.folder / "ledger.db"

    @property
    def report(self) -> Path:
        """The report the task must leave."""
        return self.folder / "report.txt"

    @property
    def seconds(self) -> float:
        """Virtual seconds since the task began."""
        return self.clock.monotonic() - self.started

    @property
    def time_is_up(self) -> bool:
        """True once the deadline has passed."""
        return self.seconds >= DEADLINE_S

    def spend_call(self) -> None:
        """Count one call to a component and the virtual time it takes at least."""
        self.calls += 1
        self.clock.sleep(CALL_S)

    def strike(self, target: Target) -> Fault | None:
        """The fault that spoils a call to ``target`` now, if any; counts the hit.

        A shared outage that has begun spoils calls to every HTTP target while it lasts.
        """
        now = self.clock.monotonic()
        if target in HTTP and (outage := self._outage_elsewhere(target, now)) is not None:
            return outage
        fault = self.faults.get(target)
        if fault is None or fault.spec.in_arguments:
            return None
        return fault if fault.strikes(now) else None

    def _outage_elsewhere(self, target: Target, now: float) -> Fault | None:
        for fault in self.faults.values():
            begun = fault.spec.shared and fault.first_at is not None
            if begun and fault.target is not target and fault.strikes(now):
                return fault
        return None

    def pending(self, target: Target, name: str) -> Fault | None:
        """The planned fault of that name on ``target``, if any; counts nothing."""
        fault = self.faults.get(target)
        return fault if fault is not None and fault.spec.name == name else None

    @property
    def injected(self) -> int:
        """Faults that have struck at least once."""
        return sum(fault.hits > 0 for fault in self.faults.values())
