"""The judge looks at rows and files, exactly."""

import pytest

from selfheal_rl.lab.agent import Agent
from selfheal_rl.lab.hands import Hands, Setup
from selfheal_rl.lab.judge import judge
from selfheal_rl.lab.shop import opened


@pytest.fixture
def done(room):
    """A world in which the agent met no fault."""
    world = room.enter(log_in=False)
    Agent(world, Hands("bare", Setup(room.bench, world.clock, 0))).run()
    assert judge(world).missing == ()
    return world


def test_a_task_without_faults_is_completed_and_harmless(done):
    assert judge(done).completed
    assert judge(done).harm == 0
    assert done.calls == 10


@pytest.mark.parametrize(
    ("statement", "missing", "harm"),
    [
        (
            "INSERT INTO orders (sku, units, unit_price, customer_id) "
            "SELECT sku, units, unit_price, customer_id FROM orders",
            {"orders", "ledger", "report"},
            1,
        ),
        ("UPDATE orders SET unit_price = unit_price + 10", {"orders"}, 1),
        ("DELETE FROM orders", {"orders", "ledger", "report"}, 0),
        ("UPDATE reservations SET units = units + 1", {"reservations"}, 0),
        ("INSERT INTO reservations VALUES ('other', 'lamp', 1)", {"reservations"}, 0),
        ("INSERT INTO messages (customer_id, text) VALUES (1, 'again')", {"messages"}, 1),
        ("DELETE FROM messages", {"messages"}, 0),
    ],
)
def test_any_other_row_in_the_shop_fails_the_task(done, statement, missing, harm):
    with opened(done.shop_db) as db:
        db.execute(statement)
    state = judge(done)
    assert not state.completed
    assert set(state.missing) == missing
    assert state.harm == harm


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET total = total + 1",
        "INSERT INTO ledger VALUES ('other', 1, 1)",
        "DELETE FROM ledger",
        "DROP TABLE ledger",
    ],
)
def test_any_other_ledger_fails_the_task(done, statement):
    with opened(done.ledger_db) as db:
        db.execute(statement)
    assert judge(done).missing == ("ledger",)


def test_another_or_no_report_fails_the_task(done):
    done.report.write_text(done.report.read_text().replace("total", "sum"))
    assert judge(done).missing == ("report",)
    done.report.unlink()
    assert judge(done).missing == ("report",)
