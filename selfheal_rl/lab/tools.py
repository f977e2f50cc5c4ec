"""The agent's tools, each with what its owner declares about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from selfheal_rl.core.values import Effects
from selfheal_rl.lab.client import call
from selfheal_rl.lab.ledger import Ledger
from selfheal_rl.lab.reporter import Reporter
from selfheal_rl.lab.world import SHIPPING_CENTS, TaskWorld

_Part = TypeVar("_Part")
Function = Callable[..., Any]
CACHE_AGE_S = 6 * 3600.0
"""Largest age of what the stale cache holds, in seconds."""


class _Strict(BaseModel):
    # A reply whose number became a text is another reply: nothing is coerced in silence.
    model_config = ConfigDict(strict=True, extra="forbid")


class CustomerReply(_Strict):
    """Reply of the customer endpoint."""

    customer_id: int
    region: str


class PriceReply(_Strict):
    """Reply of the price endpoint; cents."""

    sku: str
    unit_price: int = Field(gt=0)


class StockReply(_Strict):
    """Reply of the stock endpoint; units."""

    sku: str
    available: int


class ShippingReply(_Strict):
    """Reply of the shipping endpoint; cents."""

    region: str
    cost: int


class ShippingArguments(_Strict):
    """What the shipping tool takes."""

    region: Literal["europe", "america", "asia"]
    units: int = Field(ge=1)


class ReserveArguments(_Strict):
    """What the reservation tool takes."""

    ref: str
    sku: str
    units: int = Field(ge=1)


class RecordArguments(_Strict):
    """What the ledger tool takes; cents."""

    ref: str
    order_id: int
    total: int = Field(gt=0)


@dataclass(frozen=True)
class Tool:
    """A tool and what its owner declares about it; every arm gets the same.

    Attributes:
        name: of the tool.
        function: the tool, called with keyword arguments.
        effects: what a call does to the world.
        arguments: schema of the arguments.
        returns: schema of the reply.
        fallback: a read that can stand in for it.
        stale: True when the fallback may be out of date, False when it is the same.
        key: gives the idempotency key that travels with a call.
        reset: repairs the dependency.
        degrade: builds the best partial result.
        error_in_result: True when a reply may report an error inside a success.
    """

    name: str
    function: Function
    effects: Effects
    arguments: type[BaseModel] | None = None
    returns: type[BaseModel] | None = None
    fallback: Function | None = None
    stale: bool = False
    key: Callable[..., str] | None = None
    reset: Callable[[], None] | None = None
    degrade: Function | None = None
    error_in_result: bool = False


class Bench:
    """The components and tools of an arm; one task's world after another is put on it.

    Args:
        url: of the service.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._world: TaskWorld | None = None
        self._ledger: Ledger | None = None
        self._reporter: Reporter | None = None

    def mount(self, world: TaskWorld) -> None:
        """Set up the components of a task's world."""
        self._world, self._ledger, self._reporter = world, Ledger(world), Reporter(world)

    def unmount(self) -> None:
        """Let go of what the task held."""
        if self._ledger is not None:
            self._ledger.close()

    @property
    def world(self) -> TaskWorld:
        """Of the task in play.

        Raises:
            RuntimeError: no task is in play.
        """
        if self._world is None:
            raise RuntimeError("no task is in play: expected mount() before a tool is called")
        return self._world

    def tools(self) -> dict[str, Tool]:
        """The tools, by name."""
        log_in = self._log_in
        listed = (
            Tool("session", log_in, Effects.IDEMPOTENT_WRITE),
            Tool(
                "customer",
                self._customer,
                Effects.READ,
                returns=CustomerReply,
                fallback=self._customer_directory,
                reset=log_in,
                error_in_result=True,
            ),
            Tool(
                "price",
                self._price,
                Effects.READ,
                returns=PriceReply,
                fallback=self._price_cache,
                stale=True,
                reset=log_in,
                error_in_result=True,
            ),
            Tool(
                "stock",
                self._stock,
                Effects.READ,
                returns=StockReply,
                reset=log_in,
                error_in_result=True,
            ),
            Tool(
                "shipping",
                self._shipping,
                Effects.READ,
                arguments=ShippingArguments,
                returns=ShippingReply,
                fallback=self._shipping_table,
                reset=log_in,
                error_in_result=True,
            ),
            Tool(
                "reserve",
                self._reserve,
                Effects.IDEMPOTENT_WRITE,
                arguments=ReserveArguments,
                reset=log_in,
            ),
            Tool("order", self._order, Effects.WRITE, reset=log_in),
            Tool("order_keyed", self._order_keyed, Effects.WRITE, key=_ref_of, reset=log_in),
            Tool(
                "ledger",
                self._record,
                Effects.IDEMPOTENT_WRITE,
                arguments=RecordArguments,
                reset=self._migrate,
            ),
            Tool(
                "report",
                self._render,
                Effects.IDEMPOTENT_WRITE,
                reset=self._restore_template,
                degrade=self._plain_report,
            ),
            Tool("notify", self._notify, Effects.WRITE, reset=log_in),
        )
        return {tool.name: tool for tool in listed}

    def _call(self, *path: object, **options: Any) -> Any:
        return call(self.world, self._url, *path, **options)

    def _log_in(self) -> None:
        self.world.token = self._call("session", method="POST", body={})["token"]

    def _customer(self, customer_id: int) -> Any:
        return self._call("customer", customer_id)

    def _customer_directory(self, customer_id: int) -> Any:
        """A second source with the same content."""
        self.world.spend_call()
        return {"customer_id": customer_id, "region": self.world.task.region}

    def _price(self, sku: str) -> Any:
        return self._call("price", sku)

    def _price_cache(self, sku: str) -> Any:
        """Yesterday's price: wrong in one task of three."""
        self.world.spend_call()
        return {"sku": sku, "unit_price": self.world.task.cached_price}

    def _stock(self, sku: str) -> Any:
        return self._call("stock", sku)

    def _shipping(self, region: str, units: int) -> Any:
        return self._call("shipping", query={"region": region, "units": units})

    def _shipping_table(self, region: str, units: int) -> Any:
        """The printed table: the same cost, where the arguments make sense."""
        self.world.spend_call()
        if not isinstance(units, int):
            raise TypeError(f"units must be a whole number, got {units!r}")
        return {"region": region, "cost": SHIPPING_CENTS[region]}

    def _reserve(self, ref: str, sku: str, units: int) -> Any:
        body = {"sku": sku, "units": units}
        return self._call("reserve", ref, method="PUT", body=body)

    def _order(self, ref: str, sku: str, units: int, unit_price: int, customer_id: int) -> Any:
        return self._post_order(None, sku, units, unit_price, customer_id)

    def _order_keyed(
        self, ref: str, sku: str, units: int, unit_price: int, customer_id: int
    ) -> Any:
        return self._post_order(ref, sku, units, unit_price, customer_id)

    def _post_order(
        self, key: str | None, sku: str, units: int, unit_price: int, customer_id: int
    ) -> Any:
        body = {"sku": sku, "units": units, "unit_price": unit_price, "customer_id": customer_id}
        return self._call("order", method="POST", body=body, key=key)

    def _notify(self, customer_id: int, text: str) -> Any:
        body = {"customer_id": customer_id, "text": text}
        return self._call("notify", method="POST", body=body)

    def _record(self, ref: str, order_id: int, total: int) -> Any:
        return _mounted(self._ledger).record(ref, order_id, total)

    def _migrate(self) -> None:
        _mounted(self._ledger).migrate()

    def _render(self, order_id: int, sku: str, units: int, unit_price: int, total: int) -> Any:
        return _mounted(self._reporter).render(order_id, sku, units, unit_price, total)

    def _restore_template(self) -> None:
        _mounted(self._reporter).restore_template()

    def _plain_report(self, *_args: Any, **arguments: Any) -> Any:
        return _mounted(self._reporter).plain(int(arguments.get("total", 0)))


def _mounted(part: _Part | None) -> _Part:
    if part is None:
        raise RuntimeError("no task is in play: expected mount() before a tool is called")
    return part


def _ref_of(*_args: Any, ref: str, **_others: Any) -> str:
    return ref
