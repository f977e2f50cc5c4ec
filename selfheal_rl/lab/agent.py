"""The scripted agent: ten steps from an order to its report, and what it does about raw errors.

It stands for a language model that follows a plan, makes the planned mistakes in arguments, and on
a raw error either tries the call once more or gives the task up. Its reactions are drawn by seed,
task, step and turn, so that every arm has the same agent. The shares follow public traces in
direction (modern agents mend a named argument mostly, repeat a failing call in about half of the
cases, and hardly ever wait); their exact values are assumed.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from selfheal_rl.lab.draws import rng_of
from selfheal_rl.lab.faults import Fault, Target
from selfheal_rl.lab.world import TURN_S, TaskWorld

P_MEND_ARGUMENT = 0.7
"""Chance of mending an argument that the error names."""
P_REPEAT = (0.6, 0.4, 0.2)
"""Chance of calling once more, at the first, second and third raw error of a step."""
P_READ_DRIFTED = 0.5
"""Chance of finding a value in a reply whose shape has changed."""

N_STEPS = 10


class AgentHands(Protocol):
    """What the agent works with: the tools as an arm wraps them."""

    @property
    def tools(self) -> Mapping[str, Callable[..., Any]]:
        """Tools by name."""
        ...

    def step(self, number: int) -> None:
        """Told when the agent begins a step, from 1."""
        ...

    def stops(self, error: Exception) -> bool:
        """Whether an error means that the arm stopped the task."""
        ...


class TaskAbandoned(Exception):  # noqa: N818  (an end of the task, not a failure of the lab)
    """The agent gave the task up."""


class TaskStopped(Exception):  # noqa: N818  (an end of the task, not a failure of the lab)
    """The arm stopped the task and called for a person."""


class Agent:
    """One run of the script.

    Args:
        world: of the task.
        hands: the tools as the arm wraps them.
    """

    def __init__(self, world: TaskWorld, hands: AgentHands) -> None:
        self._world = world
        self._hands = hands

    def run(self) -> None:
        """Do the task.

        Raises:
            TaskAbandoned: the agent gave up, or its time was up.
            TaskStopped: the arm stopped it.
        """
        task = self._world.task
        self._step(Target.SESSION)
        region = self._value(Target.CUSTOMER, "region", str, customer_id=task.customer_id)
        price = self._value(Target.PRICE, "unit_price", int, sku=task.sku)
        self._value(Target.STOCK, "available", int, sku=task.sku)
        parcel: dict[str, Any] = {"region": region, "units": task.units}
        shipping = self._value(Target.SHIPPING, "cost", int, **parcel)
        goods: dict[str, Any] = {"sku": task.sku, "units": task.units}
        self._step(Target.RESERVE, ref=task.ref, **goods)
        bill: dict[str, Any] = {"unit_price": price, "customer_id": task.customer_id}
        tool = "order_keyed" if task.keyed else "order"
        placed = self._step(Target.ORDER, tool, ref=task.ref, **goods, **bill)
        order_id = placed["order_id"]
        total = task.units * price + shipping
        self._step(Target.LEDGER, ref=task.ref, order_id=order_id, total=total)
        fields: dict[str, Any] = {"order_id": order_id, "unit_price": price, "total": total}
        self._step(Target.REPORT, **goods, **fields)
        text = f"Your order {order_id} is on its way"
        self._step(Target.NOTIFY, customer_id=task.customer_id, text=text)

    def _value(self, target: Target, name: str, kind: type, **arguments: Any) -> Any:
        """A step that reads one value; a reply of another shape counts as a raw error."""
        for turn in range(len(P_REPEAT) + 1):
            reply = self._step(target, **arguments)
            if isinstance(reply, dict) and isinstance(reply.get(name), kind):
                return reply[name]
            found = _search(reply, name, kind)
            if found is not None and self._luck(target, "read", 0) < P_READ_DRIFTED:
                return found
            if not self._repeats(target, turn):
                break
        raise TaskAbandoned(f"{target}: no {name} in the reply")

    def _step(self, target: Target, tool: str = "", **arguments: Any) -> Any:
        self._hands.step(tuple(Target).index(target) + 1)
        fault = self._mistake(target)
        for turn in range(len(P_REPEAT) + 1):
            if self._world.time_is_up:
                raise TaskAbandoned(f"{target}: the time is up")
            self._world.clock.sleep(TURN_S)
            given = arguments if fault is None else _mistaken(fault, arguments)
            try:
                if fault is not None:
                    fault.hits += 1
                return self._hands.tools[tool or target.value](**given)
            except Exception as error:
                if self._hands.stops(error):
                    raise TaskStopped(f"{target}: {error}") from error
                if fault is not None and self._mends(fault, target, turn, error):
                    fault = None
                elif not self._repeats(target, turn):
                    raise TaskAbandoned(f"{target}: {error}") from error
        raise TaskAbandoned(f"{target}: too many errors")

    def _mistake(self, target: Target) -> Fault | None:
        fault = self._world.faults.get(target)
        return fault if fault is not None and fault.spec.in_arguments else None

    def _mends(self, fault: Fault, target: Target, turn: int, error: Exception) -> bool:
        text = str(error)
        named = any(name in text for name in ("units", "region", "total", "keyword"))
        if named and self._luck(target, "mend", turn) < P_MEND_ARGUMENT:
            fault.cleared = True
            return True
        return False

    def _repeats(self, target: Target, turn: int) -> bool:
        return turn < len(P_REPEAT) and self._luck(target, "repeat", turn) < P_REPEAT[turn]

    def _luck(self, target: Target, what: str, turn: int) -> float:
        task = self._world.task
        return rng_of(task.seed, task.index, target, what, turn).random()


def _mistaken(fault: Fault, right: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the scripted model gets them wrong."""
    given = dict(right)
    match fault.spec.name:
        case "wrong_type":
            unit = "" if fault.variant < 0.5 else " units"
            given["units"] = f"{right['units']}{unit}"
        case "near_enum":
            region = right["region"]
            given["region"] = region[:-1] if fault.variant < 0.5 else region.capitalize()
        case "wrong_key":
            given["unit"] = given.pop("units")
        case "bad_value":
            given["total"] = f"{right['total']} cents"
    return given


def _search(reply: Any, name: str, kind: type) -> Any:
    """The value a careful reader finds in a reply of another shape; None when there is none."""
    if not isinstance(reply, dict):
        return None
    for key, value in reply.items():
        if isinstance(value, dict) and (found := _search(value, name, kind)) is not None:
            return found
        if key.startswith(name):
            if isinstance(value, kind):
                return value
            if kind is int and isinstance(value, str) and value.isdecimal():
                return int(value)
    return None
