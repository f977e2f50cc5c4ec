"""The components really fail, in the way and for as long as the plan says."""

import json
import sqlite3
import subprocess
import threading

import httpx
import pytest

from selfheal_rl.lab.faults import FAULTS, Target, plan_faults
from selfheal_rl.lab.service import serving
from selfheal_rl.lab.shop import opened

T = Target


def rows(world, table):
    with opened(world.shop_db) as db:
        return db.execute(f"SELECT * FROM {table}").fetchall()


def order(room, world, tool):
    task = world.task
    return room.tools[tool](
        ref=task.ref,
        sku=task.sku,
        units=task.units,
        unit_price=task.unit_price,
        customer_id=task.customer_id,
    )


def test_plans_depend_on_seed_and_task_alone():
    assert plan_faults(1, 2) == plan_faults(1, 2)
    plans = [plan_faults(seed, task) for seed in range(3) for task in range(300)]
    assert plan_faults(0, 1) != plan_faults(1, 1) or plan_faults(0, 2) != plan_faults(1, 2)
    drawn = [fault for plan in plans for fault in plan.values()]
    assert {fault.spec.name for fault in drawn} == set(FAULTS)
    assert all(fault.target in fault.spec.targets for fault in drawn)
    assert 0.15 < sum(not plan for plan in plans) / len(plans) < 0.35


def test_a_read_returns_the_truth_when_nothing_is_wrong(room):
    world = room.enter()
    assert room.tools["price"](sku=world.task.sku)["unit_price"] == world.task.unit_price
    assert world.injected == 0
    assert world.seconds == pytest.approx(0.6)


def test_rate_limit_ends_when_its_retry_after_says(room, make_fault):
    world = room.enter(make_fault("rate_limit", T.PRICE, seconds=17.3))
    with pytest.raises(httpx.HTTPStatusError) as raised:
        room.tools["price"](sku=world.task.sku)
    wait = int(raised.value.response.headers["Retry-After"])
    assert raised.value.response.status_code == 429
    assert 17 <= wait <= 19
    world.clock.sleep(wait - 3)
    with pytest.raises(httpx.HTTPStatusError):
        room.tools["price"](sku=world.task.sku)
    world.clock.sleep(3)
    assert room.tools["price"](sku=world.task.sku)
    assert world.injected == 1


def test_a_quota_never_ends(room, make_fault):
    world = room.enter(make_fault("quota", T.PRICE, variant=0.1))
    for _ in range(3):
        with pytest.raises(httpx.HTTPStatusError, match="quota exceeded") as raised:
            room.tools["price"](sku=world.task.sku)
        assert raised.value.response.headers["Retry-After"] == "1"  # and it is not true
        world.clock.sleep(100_000)


def test_an_outage_counts_calls_or_lasts(room, make_fault):
    world = room.enter(make_fault("outage_calls", T.STOCK, calls=2))
    for _ in range(2):
        with pytest.raises(httpx.HTTPStatusError, match="503"):
            room.tools["stock"](sku=world.task.sku)
    assert room.tools["stock"](sku=world.task.sku)

    world = room.enter(make_fault("outage_window", T.STOCK, seconds=50.0))
    assert room.tools["price"](sku=world.task.sku)  # it has not begun
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        room.tools["stock"](sku=world.task.sku)
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        room.tools["price"](sku=world.task.sku)  # shared by the whole service
    world.clock.sleep(50)
    assert room.tools["price"](sku=world.task.sku)


def test_replies_that_are_no_good(room, make_fault):
    world = room.enter(make_fault("truncated_json", T.PRICE, calls=1))
    with pytest.raises(json.JSONDecodeError):
        room.tools["price"](sku=world.task.sku)
    world = room.enter(make_fault("error_in_200", T.PRICE, calls=1))
    assert "unavailable" in room.tools["price"](sku=world.task.sku)["error"]
    price = world.task.unit_price
    for variant, expected in (
        (0.1, {"data": {"sku": world.task.sku, "unit_price": price}}),
        (0.5, {"sku": world.task.sku, "unit_price": str(price)}),
        (0.9, {"sku": world.task.sku, "unit_price_v2": price}),
    ):
        room.enter(make_fault("schema_drift", T.PRICE, variant=variant))
        assert room.tools["price"](sku=world.task.sku) == expected


def test_a_slow_reply_times_out_in_virtual_time_only(room, make_fault):
    world = room.enter(make_fault("slow_reply", T.PRICE, calls=1))
    before = world.seconds
    with pytest.raises(httpx.ReadTimeout):
        room.tools["price"](sku=world.task.sku)
    assert world.seconds - before == pytest.approx(10.3)


def test_an_expired_session_stays_expired_until_a_new_one(room, make_fault):
    world = room.enter(make_fault("session_expired", T.STOCK))
    for _ in range(2):
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            room.tools["stock"](sku=world.task.sku)
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        room.tools["price"](sku=world.task.sku)
    room.bench.tools()["stock"].reset()
    assert room.tools["stock"](sku=world.task.sku)


@pytest.mark.parametrize(
    ("name", "error"),
    [("lost_reply", httpx.RemoteProtocolError), ("slow_commit", httpx.ReadTimeout)],
)
def test_a_write_that_lost_its_reply_has_happened(room, make_fault, name, error):
    for tool, after_repeat in (("order", 2), ("order_keyed", 1)):
        world = room.enter(make_fault(name, T.ORDER, calls=1))
        with pytest.raises(error):
            order(room, world, tool)
        assert len(rows(world, "orders")) == 1
        order(room, world, tool)
        assert len(rows(world, "orders")) == after_repeat


def test_a_dropped_request_has_not_happened(room, make_fault):
    world = room.enter(make_fault("dropped", T.ORDER, calls=1))
    with pytest.raises(httpx.RemoteProtocolError):
        order(room, world, "order")
    assert rows(world, "orders") == []


def test_wrong_arguments_are_named(room):
    world = room.enter()
    ship = room.tools["shipping"]
    with pytest.raises(httpx.HTTPStatusError, match=r"422.*units"):
        ship(region=world.task.region, units="3 units")
    with pytest.raises(httpx.HTTPStatusError, match=r"422.*'europe', 'america', 'asia'"):
        ship(region="europ", units=3)
    with pytest.raises(TypeError, match="unit"):
        ship(region=world.task.region, unit=3)


def test_the_ledger_is_really_locked_missing_and_guarded(room, make_fault):
    world = room.enter(make_fault("locked", T.LEDGER, seconds=20.0))
    record = room.tools["ledger"]
    entry = {"ref": world.task.ref, "order_id": 1, "total": world.task.total}
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        record(**entry)
    with pytest.raises(sqlite3.OperationalError, match="locked"), opened(world.ledger_db) as db:
        db.execute("DELETE FROM ledger")  # locked for everybody
    world.clock.sleep(20)
    record(**entry)

    room.enter(make_fault("missing_table", T.LEDGER))
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        record(**entry)
    room.bench.tools()["ledger"].reset()
    record(**entry)
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        record(**{**entry, "total": "1200 cents"})


def test_the_report_program_really_exits_with_an_error(room, make_fault):
    world = room.enter(make_fault("nonzero_exit", T.REPORT, seconds=9.0))
    fields = {"order_id": 1, "sku": "lamp", "units": 2, "unit_price": 50, "total": 590}
    render = room.tools["report"]
    with pytest.raises(subprocess.CalledProcessError) as raised:
        render(**fields)
    assert "report.lock is held" in raised.value.stderr
    world.clock.sleep(9)
    render(**fields)
    assert world.report.read_text() == "Order 1: 2 x lamp at 50 cents, total 590 cents\n"

    room.enter(make_fault("missing_file", T.REPORT))
    with pytest.raises(subprocess.CalledProcessError) as raised:
        render(**fields)
    assert "FileNotFoundError" in raised.value.stderr
    room.bench.tools()["report"].reset()
    render(**fields)


def test_the_server_stops():
    before = threading.active_count()
    with serving() as running:
        assert running.running
        url = running.url
    assert not running.running
    assert threading.active_count() == before
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)
