"""The service's database: a real SQLite file with stock, orders and messages."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfheal_rl.lab.world import SHIPPING_CENTS, OrderTask

_SCHEMA = """
CREATE TABLE prices (sku TEXT PRIMARY KEY, unit_price INTEGER NOT NULL);
CREATE TABLE stock (sku TEXT PRIMARY KEY, units INTEGER NOT NULL);
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, region TEXT NOT NULL);
CREATE TABLE reservations (ref TEXT PRIMARY KEY, sku TEXT NOT NULL, units INTEGER NOT NULL);
CREATE TABLE orders (
    order_id INTEGER PRIMARY KEY, key TEXT, sku TEXT NOT NULL, units INTEGER NOT NULL,
    unit_price INTEGER NOT NULL, customer_id INTEGER NOT NULL
);
CREATE TABLE messages (message_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL, text TEXT);
"""


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that commits at the end and is closed whatever happens.

    The lab measures repairs, not disks: it does not wait for the disk.
    """
    connection = sqlite3.connect(path, timeout=0.0)
    try:
        connection.execute("PRAGMA synchronous=OFF")
        with connection:
            yield connection
    finally:
        connection.close()


def make_shop(path: Path, task: OrderTask) -> None:
    """Create the database as it stands before the task."""
    with opened(path) as db:
        db.executescript(_SCHEMA)
        db.execute("INSERT INTO prices VALUES (?, ?)", (task.sku, task.unit_price))
        db.execute("INSERT INTO stock VALUES (?, ?)", (task.sku, task.stock))
        db.execute("INSERT INTO customers VALUES (?, ?)", (task.customer_id, task.region))


class NotThere(Exception):  # noqa: N818  (a reply of the service, not a failure of the lab)
    """The thing asked for does not exist: HTTP 404."""


def _one(db: sqlite3.Connection, query: str, value: object, what: str) -> Any:
    row = db.execute(query, (value,)).fetchone()
    if row is None:
        raise NotThere(f"{what} {value!r} not found")
    return row[0]


def customer(path: Path, customer_id: int) -> dict[str, Any]:
    """Where a customer lives."""
    with opened(path) as db:
        query = "SELECT region FROM customers WHERE customer_id = ?"
        return {"customer_id": customer_id, "region": _one(db, query, customer_id, "customer")}


def price(path: Path, sku: str) -> dict[str, Any]:
    """The price of an article, in cents."""
    with opened(path) as db:
        query = "SELECT unit_price FROM prices WHERE sku = ?"
        return {"sku": sku, "unit_price": _one(db, query, sku, "article")}


def stock(path: Path, sku: str) -> dict[str, Any]:
    """Units in stock."""
    with opened(path) as db:
        return {
            "sku": sku,
            "available": _one(db, "SELECT units FROM stock WHERE sku=?", sku, "sku"),
        }


def shipping(region: str) -> dict[str, Any]:
    """What shipping costs, in cents."""
    return {"region": region, "cost": SHIPPING_CENTS[region]}


def reserve(path: Path, ref: str, sku: str, units: int) -> dict[str, Any]:
    """Set a reservation; doing it twice is the same as once."""
    with opened(path) as db:
        db.execute("INSERT OR REPLACE INTO reservations VALUES (?, ?, ?)", (ref, sku, units))
    return {"ref": ref, "units": units}


def order(path: Path, key: str | None, body: dict[str, Any]) -> dict[str, Any]:
    """Place an order; a second one with the same key returns the first."""
    values = (key, body["sku"], body["units"], body["unit_price"], body["customer_id"])
    with opened(path) as db:
        known = db.execute("SELECT order_id FROM orders WHERE key = ?", (key,)).fetchone()
        if known is not None:
            return {"order_id": known[0]}
        statement = (
            "INSERT INTO orders (key, sku, units, unit_price, customer_id) VALUES (?, ?, ?, ?, ?)"
        )
        return {"order_id": db.execute(statement, values).lastrowid}


def notify(path: Path, customer_id: int, text: str) -> dict[str, Any]:
    """Send a message; doing it twice sends two."""
    with opened(path) as db:
        statement = "INSERT INTO messages (customer_id, text) VALUES (?, ?)"
        return {"message_id": db.execute(statement, (customer_id, text)).lastrowid}
