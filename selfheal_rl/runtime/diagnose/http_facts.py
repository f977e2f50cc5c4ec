"""HTTP status, headers, body and retry hints, taken from any client's exception by duck typing.

No client library is imported and nothing is read from the network: a body that has not been
read yet stays unread, because the agent may still want it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

_KEPT_HEADERS = (
    "retry-after",
    "retry-after-ms",
    "x-ratelimit",
    "ratelimit",
    "x-rate-limit",
    "anthropic-ratelimit",
    "content-type",
    "content-length",
    "www-authenticate",
    "x-request-id",
    "request-id",
    "x-should-retry",
    "date",
    "server",
)
_MAX_HEADERS = 32
_MAX_WAIT_S = 366 * 86_400.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|s|m|h|d)", re.IGNORECASE)
_SAID = re.compile(
    r"\b(?:try again|retry(?:ing)?|wait|available|resets?|estimated_time)\b[^\d\n]{0,24}"
    r"((?:\d{1,9}(?:\.\d{1,9})? ?"
    r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b ?){1,3})",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class HttpFacts:
    """What an exception tells of the HTTP exchange behind it."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """Lower-case names; only those that bear on the failure, none that carries a secret."""
    body: Any = None
    """Parsed body or text, when the client had read it."""


def attribute(value: Any, name: str) -> Any:
    """``value.name``, or None when it is absent or its property raises."""
    try:
        return getattr(value, name, None)
    except Exception:  # properties of client libraries raise all kinds (e.g. response not read)
        return None


def _as_status(value: Any) -> int | None:
    try:
        number = int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else 0
    except ValueError:
        return None
    return number if 100 <= number <= 599 else None


def _first_status(*values: Any) -> int | None:
    return next((s for s in map(_as_status, values) if s is not None), None)


def _kept(headers: Any) -> dict[str, str]:
    try:
        pairs = list(headers.items())[:200]
    except Exception:
        return {}
    kept: dict[str, str] = {}
    for name, value in pairs:
        lowered = str(name).lower()
        if lowered.startswith(_KEPT_HEADERS) and len(kept) < _MAX_HEADERS:
            kept[lowered] = str(value)[:200]
    return kept


def _body(exc: BaseException, response: Any) -> Any:
    body = attribute(exc, "body")
    if body is not None:
        return body
    # requests and httpx keep a body that was read in ``_content``; ``.text`` could block.
    content = attribute(response, "_content")
    if isinstance(content, (bytes, bytearray)):
        return bytes(content[:8000]).decode("utf-8", "replace")
    return attribute(exc, "message") if isinstance(response, Mapping) else None


def http_facts(exc: BaseException) -> HttpFacts:
    """HTTP facts of an exception of httpx, requests, openai, anthropic, urllib, aiohttp, botocore.

    Args:
        exc: any exception; one without HTTP facts gives an empty answer.
    """
    response = attribute(exc, "response")
    if isinstance(response, Mapping):  # botocore keeps the parsed reply as a dictionary
        meta = response.get("ResponseMetadata")
        meta = meta if isinstance(meta, Mapping) else {}
        status = _first_status(meta.get("HTTPStatusCode"))
        return HttpFacts(status, _kept(meta.get("HTTPHeaders")), response.get("Error"))
    status = _first_status(
        attribute(exc, "status_code"),
        attribute(exc, "http_status"),
        attribute(response, "status_code"),
        attribute(response, "status"),
        attribute(exc, "status"),
        attribute(exc, "code"),
    )
    headers = _kept(attribute(response, "headers")) or _kept(attribute(exc, "headers"))
    return HttpFacts(status, headers, _body(exc, response))


def _span_s(text: str) -> float | None:
    parts = _SPAN.findall(text)
    if not parts:
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def _bounded(seconds: float | None) -> float | None:
    if seconds is None or not math.isfinite(seconds) or seconds > _MAX_WAIT_S:
        return None
    return max(0.0, seconds)


def _header_seconds(value: str, now: float) -> float | None:
    """Seconds, an epoch, a span like ``6m0s`` or an HTTP date, as seconds from ``now``."""
    text = value.strip()
    try:
        number = float(text)
        return number - now if number > 1e9 else number
    except ValueError:
        pass
    if _SPAN.match(text):
        return _span_s(text)
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def retry_after_s(
    headers: Mapping[str, str], text: str, now: float, hint: Any = None
) -> float | None:
    """Seconds the server asked to wait, from headers, an attribute, or its own words.

    Args:
        headers: lower-case header names.
        text: the error's message; "try again in 7.67s" counts when no header speaks.
        now: seconds since the epoch, for dates.
        hint: an exception's ``retry_after`` attribute in seconds, if it has one.
    """
    millis = headers.get("retry-after-ms")
    if millis is not None:
        seconds = _header_seconds(millis, now)
        if seconds is not None:
            return _bounded(seconds / 1000.0)
    if "retry-after" in headers:
        return _bounded(_header_seconds(headers["retry-after"], now))
    if isinstance(hint, (int, float)) and not isinstance(hint, bool):
        return _bounded(float(hint))
    for name, value in headers.items():
        if "reset" in name and headers.get(name.replace("reset", "remaining"), "").strip() == "0":
            return _bounded(_header_seconds(value, now))
    said = _SAID.search(text[:4000])
    return _bounded(_span_s(said.group(1))) if said else None
