"""Real failures of real components: SQLite, a subprocess, an HTTP server."""

import http.server
import json
import sqlite3
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from selfheal_rl import Healer, incident
from selfheal_rl.core.values import FaultKind, Verdict, VirtualClock


class Service(http.server.BaseHTTPRequestHandler):
    """Answers as its script says: (status, headers, body), or None to hang up after the work."""

    script: list[tuple[int, dict[str, str], str] | None] = []
    orders: list[str] = []

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).orders.append(self.path)
        self._answer()

    def _answer(self) -> None:
        step = self.script.pop(0) if self.script else (200, {}, '{"ok": true}')
        if step is None:
            self.connection.close()
            return
        status, headers, body = step
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def service() -> Iterator[str]:
    Service.script, Service.orders = [], []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return json.loads(reply.read())


def test_an_http_outage_is_healed_and_retry_after_is_honoured(service: str) -> None:
    clock = VirtualClock()
    healer = Healer(clock=clock)
    fetch = healer.tool(get, effects="read")
    Service.script = [(503, {}, "down"), (503, {}, "down"), (429, {"Retry-After": "30"}, "slow")]
    assert fetch(f"{service}/price") == {"ok": True}
    found = healer.last_incident()
    assert found is not None
    kinds = [failure.diagnosis.kind for failure in found.failures]
    assert kinds == [FaultKind.SERVER_ERROR, FaultKind.SERVER_ERROR, FaultKind.RATE_LIMIT]
    assert clock.monotonic() >= 30


def test_an_order_whose_reply_is_lost_is_placed_once(service: str) -> None:
    healer = Healer(clock=VirtualClock(), permission=2)

    @healer.tool(effects="write")
    def order(path: str) -> Any:
        request = urllib.request.Request(service + path, data=b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.loads(reply.read())

    Service.script = [None]
    with pytest.raises((OSError, http.client.HTTPException)) as caught:
        order("/orders/1")
    assert Service.orders == ["/orders/1"]
    found = incident(caught.value)
    assert found is not None
    assert found.verdict is not Verdict.HEALED
    Service.script = [(429, {"Retry-After": "1"}, "slow")]
    assert order("/orders/2") == {"ok": True}  # refused before any work: safe to repeat


def test_a_missing_page_goes_back_to_the_agent(service: str) -> None:
    healer = Healer(clock=VirtualClock())
    Service.script = [(404, {}, "no such page")] * 5
    with pytest.raises(urllib.error.HTTPError) as caught:
        healer.tool(get, effects="read")(f"{service}/nope")
    found = incident(caught.value)
    assert found is not None
    assert found.verdict is Verdict.HANDED_BACK
    assert len(Service.script) == 4  # not repeated


def test_a_locked_database_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("create table t (x)")
    holder.execute("begin immediate")

    class Releasing(VirtualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            holder.execute("rollback") if holder.in_transaction else None

    healer = Healer(clock=Releasing())

    @healer.tool(effects="idempotent_write")
    def put(value: int) -> int:
        with sqlite3.connect(path, timeout=0) as db:
            db.execute("insert into t values (?)", (value,))
        return value

    assert put(3) == 3
    assert sqlite3.connect(path).execute("select x from t").fetchall() == [(3,)]
    holder.close()


def test_a_failing_program_is_reported_with_its_output() -> None:
    healer = Healer(clock=VirtualClock())

    @healer.tool(effects="unknown")
    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run("print(1)") == "1\n"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run("import sys; sys.exit('disk quota exceeded on volume')")
    found = incident(caught.value)
    assert found is not None
    assert "disk quota exceeded" in found.snapshot.message
    assert len(found.attempts) == 1
