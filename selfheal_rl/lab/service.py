"""The HTTP service: a real server on 127.0.0.1 that fails on the task's schedule."""

import json
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from selfheal_rl.lab import shop
from selfheal_rl.lab.faults import Fault, Target
from selfheal_rl.lab.world import REGIONS, SLOW_REPLY_S, TaskWorld

VIRTUAL_SECONDS = "X-Virtual-Seconds"
"""Header of a reply: virtual seconds it took, so that nobody waits for real."""


class Reply(Exception):  # noqa: N818  (control flow: the reply is decided)
    """An HTTP reply.

    Args:
        status: HTTP status.
        body: JSON value.
        headers: further headers.
    """

    def __init__(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


class Service:
    """The server, with the world of the task it is serving.

    Attributes:
        world: of the present task; None between tasks.
        url: base URL.
    """

    def __init__(self) -> None:
        self.world: TaskWorld | None = None
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        # A short poll: shutdown waits for one, and tests start many servers.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the server and its thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def running(self) -> bool:
        """True while the server's thread lives."""
        return self._thread.is_alive()


@contextmanager
def serving() -> Iterator[Service]:
    """A service that is stopped at the end, whatever happens."""
    service = Service()
    try:
        yield service
    finally:
        service.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, service: Service) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = service


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    # One packet a reply: two would meet Nagle's algorithm and wait for real.
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: every failure here is meant."""

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(self._read())

    def do_PUT(self) -> None:
        self._answer(self._read())

    def _read(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _answer(self, body: dict[str, Any]) -> None:
        world = self.server.service.world
        if world is None:
            self._send(Reply(503, {"error": "no task in play"}))
            return
        target, argument = _route(self.path)
        fault = world.strike(target)
        if fault is not None and fault.spec.name == "dropped":
            self._hang_up()
            return
        try:
            self._check_session(world, target)
            _refuse(fault, world)
            reply = Reply(200, self._work(world, target, argument, body))
        except Reply as refused:
            reply = refused
        if fault is not None and reply.status == 200:
            if fault.spec.name == "lost_reply":
                self._hang_up()
                return
            reply = _spoil(fault, reply)
        self._send(reply, truncate=_truncates(fault, reply))

    def _check_session(self, world: TaskWorld, target: Target) -> None:
        if target is not Target.SESSION and self.headers["X-Session"] not in world.sessions:
            raise Reply(401, {"error": "invalid or missing session token"})

    def _work(
        self, world: TaskWorld, target: Target, argument: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            match target:
                case Target.SESSION:
                    return _open_session(world)
                case Target.CUSTOMER:
                    return shop.customer(world.shop_db, int(argument))
                case Target.PRICE:
                    return shop.price(world.shop_db, argument)
                case Target.STOCK:
                    return shop.stock(world.shop_db, argument)
                case Target.SHIPPING:
                    return _shipping(urlsplit(self.path).query)
                case Target.RESERVE:
                    _check_units(body.get("units"), "body")
                    return shop.reserve(world.shop_db, argument, body["sku"], body["units"])
                case Target.ORDER:
                    return shop.order(world.shop_db, self.headers["Idempotency-Key"], body)
                case _:
                    return shop.notify(world.shop_db, body["customer_id"], body["text"])
        except shop.NotThere as missing:
            raise Reply(404, {"error": str(missing)}) from missing

    def _send(self, reply: Reply, *, truncate: bool = False) -> None:
        data = json.dumps(reply.body).encode()
        if truncate:
            data = data[: len(data) * 3 // 5]
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _hang_up(self) -> None:
        """Close the connection without a word, as a proxy or a dying process does."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _route(path: str) -> tuple[Target, str]:
    parts = [part for part in urlsplit(path).path.split("/") if part]
    return Target(parts[0]), parts[1] if len(parts) > 1 else ""


def _open_session(world: TaskWorld) -> dict[str, Any]:
    token = secrets.token_hex(8)
    world.sessions.add(token)
    for fault in world.faults.values():
        # Only a session that expired can be refreshed: one that is still good changes nothing.
        if fault.spec.name == "session_expired" and fault.hits:
            fault.cleared = True
    return {"token": token}


def _shipping(query: str) -> dict[str, Any]:
    given = {name: values[0] for name, values in parse_qs(query).items()}
    region = given.get("region", "")
    if region not in REGIONS:
        options = ", ".join(repr(name) for name in REGIONS)
        raise _invalid("query", "region", f"Input should be one of {options}", region)
    units = given.get("units", "")
    _check_units(int(units) if units.isdecimal() else units, "query")
    return shop.shipping(region)


def _check_units(units: object, where: str) -> None:
    if not isinstance(units, int) or units < 1:
        raise _invalid(where, "units", "Input should be a valid integer greater than 0", units)


def _invalid(where: str, name: str, message: str, value: object) -> Reply:
    detail = {"loc": [where, name], "msg": message, "input": value}
    return Reply(422, {"detail": [detail]})


def _refuse(fault: Fault | None, world: TaskWorld) -> None:
    """Answer with an error before any work is done, where the fault says so."""
    if fault is None:
        return
    match fault.spec.name:
        case "server_error":
            raise Reply(500, {"error": "internal server error"})
        case "outage_calls" | "outage_window":
            raise Reply(503, {"error": "service unavailable: upstream is down"})
        case "rate_limit":
            wait = max(1, round(fault.left_s(world.clock.monotonic()) + 0.5))
            text = f"too many requests, retry after {wait} s"
            raise Reply(429, {"error": text}, {"Retry-After": str(wait)})
        case "quota":
            # Half of the quota replies carry a Retry-After that is not true.
            headers = {"Retry-After": "1"} if fault.variant < 0.5 else {}
            raise Reply(429, {"error": "monthly quota exceeded, upgrade your plan"}, headers)
        case "session_expired":
            world.sessions.clear()
            raise Reply(401, {"error": "session expired, log in again"})
        case "slow_reply":
            raise Reply(200, {}, {VIRTUAL_SECONDS: str(SLOW_REPLY_S)})


def _spoil(fault: Fault, reply: Reply) -> Reply:
    """What is left of a good reply."""
    match fault.spec.name:
        case "error_in_200":
            return Reply(200, {"error": "backend temporarily unavailable, please try again"})
        case "schema_drift":
            return Reply(200, _drifted(reply.body, fault.variant))
        case "slow_commit":
            return Reply(200, reply.body, {VIRTUAL_SECONDS: str(SLOW_REPLY_S)})
    return reply


def _truncates(fault: Fault | None, reply: Reply) -> bool:
    return fault is not None and fault.spec.name == "truncated_json" and reply.status == 200


def _drifted(body: dict[str, Any], variant: float) -> dict[str, Any]:
    """The reply of a newer version: wrapped, with other types, or with other names."""
    if variant < 1 / 3:
        return {"data": body}
    if variant < 2 / 3:
        return {name: str(value) for name, value in body.items()}
    *others, last = body
    return {name: body[name] for name in others} | {f"{last}_v2": body[last]}
