"""The tools' HTTP client: httpx, with the time a reply took read from the reply itself."""

from functools import cache
from typing import Any
from urllib.parse import quote

import httpx

from selfheal_rl.lab.service import VIRTUAL_SECONDS
from selfheal_rl.lab.world import CLIENT_TIMEOUT_S, TaskWorld

_REAL_TIMEOUT_S = 20.0


@cache
def _client() -> httpx.Client:
    # No proxy of the environment stands between the agent and a server on 127.0.0.1.
    return httpx.Client(trust_env=False, verify=False, timeout=_REAL_TIMEOUT_S)


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
        httpx.HTTPStatusError: a status of 400 and more; its message ends with the reply's text.
        httpx.ReadTimeout: the reply took longer than the client waits.
        httpx.RemoteProtocolError: the connection was closed without a reply.
        json.JSONDecodeError: the reply is no JSON.
    """
    where = "/".join([url, *(quote(str(part), safe="") for part in path)])
    headers = {"X-Session": world.token}
    if key is not None:
        headers["Idempotency-Key"] = key
    world.spend_call()
    reply = _client().request(method, where, params=query, json=body, headers=headers)
    _spend(world, float(reply.headers.get(VIRTUAL_SECONDS, 0.0)), reply.request)
    if reply.is_error:
        # The text goes into the message, so that an agent can read what was wrong.
        text = f"{reply.status_code} {reply.reason_phrase} for {reply.url.path}: {reply.text}"
        raise httpx.HTTPStatusError(text, request=reply.request, response=reply)
    return reply.json()


def _spend(world: TaskWorld, seconds: float, request: httpx.Request) -> None:
    if seconds > CLIENT_TIMEOUT_S:
        world.clock.sleep(CLIENT_TIMEOUT_S)
        raise httpx.ReadTimeout("The read operation timed out", request=request)
    world.clock.sleep(seconds)
