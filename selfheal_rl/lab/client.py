"""The tools' HTTP client: urllib, with the time a reply took read from the reply itself."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

from selfheal_rl.lab.service import VIRTUAL_SECONDS
from selfheal_rl.lab.world import CLIENT_TIMEOUT_S, TaskWorld

_REAL_TIMEOUT_S = 20.0
# No proxy of the environment stands between the agent and a server on 127.0.0.1.
_OPENER = build_opener(ProxyHandler({}))


def call(
    world: TaskWorld,
    url: str,
    *path: object,
    method: str = "GET",
    query: dict[str, Any] | None = None,
    body: dict[str, Any] | None = None,
    key: str | None = None,
) -> Any:
    """One request of the task's session; the reply's JSON.

    Args:
        world: of the task; its clock advances by the time the call takes.
        url: base URL.
        path: parts of the path.
        method: of HTTP.
        query: query parameters.
        body: JSON body.
        key: idempotency key.

    Raises:
        urllib.error.HTTPError: a status of 400 and more, its message the body's text.
        TimeoutError: the reply took longer than the client waits.
        http.client.RemoteDisconnected: the connection was closed without a reply.
        json.JSONDecodeError: the reply is no JSON.
    """
    where = "/".join([url, *(quote(str(part), safe="") for part in path)])
    if query:
        where = f"{where}?{urlencode(query)}"
    headers = {"X-Session": world.token, "Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = key
    data = None if body is None else json.dumps(body).encode()
    request = Request(where, data=data, headers=headers, method=method)
    world.spend_call()
    try:
        with _OPENER.open(request, timeout=_REAL_TIMEOUT_S) as reply:
            _spend(world, float(reply.headers.get(VIRTUAL_SECONDS, 0.0)))
            return json.loads(reply.read())
    except HTTPError as error:
        raise _with_text(error) from None


def _spend(world: TaskWorld, seconds: float) -> None:
    if seconds > CLIENT_TIMEOUT_S:
        world.clock.sleep(CLIENT_TIMEOUT_S)
        raise TimeoutError(f"the read operation timed out after {CLIENT_TIMEOUT_S:g} s")
    world.clock.sleep(seconds)


def _with_text(error: HTTPError) -> HTTPError:
    """The same error with the body in its message, so that an agent can read it."""
    with error:
        text = error.read().decode("utf-8", "replace")
    return HTTPError(error.url, error.code, f"{error.msg}: {text}", error.headers, None)
