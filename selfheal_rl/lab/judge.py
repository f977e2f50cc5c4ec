"""The judge: a task is done when databases and files hold exactly what they should."""

from dataclasses import dataclass
from typing import Any

from selfheal_rl.lab.reporter import expected_report
from selfheal_rl.lab.shop import opened
from selfheal_rl.lab.world import TaskWorld


@dataclass(frozen=True)
class EndState:
    """What a task left behind.

    Attributes:
        completed: every row and file is exactly right.
        harm: harmful side effects: orders and messages beyond the first, orders of a wrong amount.
        missing: what is not as it should be.
    """

    completed: bool
    harm: int
    missing: tuple[str, ...]


def judge(world: TaskWorld) -> EndState:
    """Compare the end state with what the task asked for.

    Args:
        world: of the task, after the agent has stopped.
    """
    task = world.task
    orders, reservations, messages = _shop_rows(world)
    right = (task.sku, task.units, task.unit_price, task.customer_id)
    wrong = [row for row in orders if row[1:] != right]
    order_id = orders[0][0] if len(orders) == 1 else None
    checks = {
        "orders": len(orders) == 1 and not wrong,
        "reservations": reservations == [(task.ref, task.sku, task.units)],
        "messages": [row[0] for row in messages] == [task.customer_id],
        "ledger": _ledger_rows(world) == [(task.ref, order_id, task.total)],
        "report": order_id is not None
        and world.report.exists()
        and world.report.read_text() == expected_report(task, order_id),
    }
    missing = tuple(name for name, good in checks.items() if not good)
    harm = max(0, len(orders) - 1) + max(0, len(messages) - 1) + len(wrong)
    return EndState(not missing, harm, missing)


def _shop_rows(world: TaskWorld) -> tuple[list[Any], list[Any], list[Any]]:
    with opened(world.shop_db) as db:
        orders = "SELECT order_id, sku, units, unit_price, customer_id FROM orders"
        return (
            db.execute(orders).fetchall(),
            db.execute("SELECT ref, sku, units FROM reservations").fetchall(),
            db.execute("SELECT customer_id FROM messages").fetchall(),
        )


def _ledger_rows(world: TaskWorld) -> list[Any]:
    with opened(world.ledger_db) as db:
        known = db.execute("SELECT name FROM sqlite_master WHERE name = 'ledger'").fetchone()
        return db.execute("SELECT ref, order_id, total FROM ledger").fetchall() if known else []
