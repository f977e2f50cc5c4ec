"""Errors that come back as results: a call that returned, with an error inside."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_HEAD = re.compile(
    r"\s{0,20}[\[<*#\"'`]{0,3}(?:error|exception|traceback|fatal|failed to|failure|tool error|"
    r"mcp error|[\w.]{1,60}(?:error|exception))\b(?: [\w .'/-]{0,60})?[:\[(\]>]",
    re.IGNORECASE,
)
_HEAD_CHARS = 200
_CUT_LITERAL = re.compile(r"t|tr|tru|f|fa|fal|fals|n|nu|nul|-|\\.{0,5}")
_JSON_CHARS = 65_536
_JSON_HINTS = (
    '"error',
    "'error",
    '"iserror"',
    '"is_error"',
    '"ok"',
    '"success"',
    '"status',
    '"code"',
)
_FAILED_WORDS = frozenset({"error", "failed", "failure", "fail", "exception", "errored"})
_NO_ERROR = frozenset({"", "none", "null", "no error", "no errors", "ok", "success", "false", "0"})
_TEXT_KEYS = (
    "message",
    "error",
    "error_message",
    "errorMessage",
    "detail",
    "details",
    "description",
    "error_description",
    "msg",
    "reason",
    "text",
    "content",
    "title",
    "errors",
    "exception",
    "stderr",
    "type",
    "code",
)
_STATUS_KEYS = ("status_code", "statusCode", "http_status", "httpStatus", "status", "code")
_PLAIN = (str, bytes, int, float, bool, list, tuple, set, frozenset, type(None))
_MAX_DEPTH = 5


def _said(value: Any) -> bool:
    """True when an error field's value reports an error rather than its absence."""
    if isinstance(value, str):
        return value.strip().lower() not in _NO_ERROR
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return False
    return bool(value)


def http_status_in(value: Any) -> int | None:
    """An HTTP error status (400-599) that a result's own fields name, or None."""
    return _status(value, _MAX_DEPTH)


def _status(value: Any, depth: int) -> int | None:
    if not isinstance(value, Mapping) or depth == 0:
        return None
    for key in _STATUS_KEYS:
        found = value.get(key)
        if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) == 3:
            found = int(found)
        if isinstance(found, int) and not isinstance(found, bool) and 400 <= found <= 599:
            return found
    return _status(value.get("error"), depth - 1)


def error_text(value: Any, limit: int = 4000) -> str:
    """The words of an error result: its message-like fields, nested ones too.

    Args:
        value: a mapping, sequence, string or anything else; only its text is used.
        limit: length of the text at most, in characters.
    """
    parts: list[str] = []
    _collect(value, parts, _MAX_DEPTH)
    text = ": ".join(dict.fromkeys(part for part in parts if part.strip()))
    return text[:limit] if text else _as_json(value)[:limit]


def _collect(value: Any, parts: list[str], depth: int) -> None:
    if depth == 0 or len(parts) >= 12:
        return
    if isinstance(value, str):
        parts.append(value[:4000])
    elif isinstance(value, Mapping):
        for key in _TEXT_KEYS:
            if key in value:
                _collect(value[key], parts, depth - 1)
    elif isinstance(value, (list, tuple)):
        for item in value[:4]:
            _collect(item, parts, depth - 1)
    elif isinstance(value, int) and not isinstance(value, bool):
        parts.append(str(value) if abs(value) < 1 << 63 else "")
    elif not isinstance(value, _PLAIN):
        for name in ("content", "text", "message"):
            _collect(_attribute(value, name), parts, depth - 1)


def _as_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=_safe_repr)
    except Exception:  # a hostile mapping, a cycle, or nesting beyond the interpreter's limit
        return _safe_repr(value)


def _safe_repr(value: Any) -> str:
    try:
        return repr(value)[:2000]
    except Exception:
        return f"<{type(value).__name__}>"


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # a property of a stranger's class may do anything
        return None


def error_in_result(value: Any) -> str | None:
    """The error's words when a returned value reports an error, else None.

    Knows ``{"error": ...}``, ``{"isError": true}``, ``{"ok": false}``, ``{"status": "error"}``,
    JSON-RPC and GraphQL errors, result objects with ``isError``, ``is_error`` or
    ``status == "error"``, and text that starts like an error. Costs a few dictionary look-ups
    on a healthy value.

    Args:
        value: what the call returned.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return None
    if isinstance(value, (str, bytes)):
        return _error_in_text(value)
    try:
        if isinstance(value, Mapping):
            return error_text(value) if _is_error_mapping(value) else None
        if isinstance(value, (list, tuple, set, frozenset)):
            return None
        return error_text(value) if _is_error_object(value) else None
    except Exception:  # a stranger's mapping or object may raise from any access
        return None


def _is_error_mapping(value: Mapping[Any, Any]) -> bool:
    if value.get("isError") is True or value.get("is_error") is True:
        return True
    if _said(value.get("error")):
        return True
    if value.get("ok") is False or value.get("success") is False:
        return True
    if _said(value.get("errors")) and not value.get("data"):
        return True
    status = value.get("status")
    if isinstance(status, str) and status.lower() in _FAILED_WORDS:
        return True
    if "message" in value or "detail" in value or "title" in value or "msg" in value:
        return len(value) <= 8 and http_status_in(value) is not None
    return False


def _is_error_object(value: Any) -> bool:
    if _attribute(value, "isError") is True or _attribute(value, "is_error") is True:
        return True
    return bool(_attribute(value, "status") == "error")


def _error_in_text(value: str | bytes) -> str | None:
    if isinstance(value, bytes):
        value = value[:_JSON_CHARS].decode("utf-8", "replace")
    head = value[:_HEAD_CHARS].lstrip()
    if not head:
        return None
    if head[0] != "{":
        return value[:4000] if _HEAD.match(head) else None
    if len(value) > _JSON_CHARS or not any(hint in value[:2000].lower() for hint in _JSON_HINTS):
        return None
    parsed, _ = read_json(value)
    return error_text(parsed) if isinstance(parsed, dict) and _is_error_mapping(parsed) else None


@lru_cache(maxsize=4)
def read_json(text: str) -> tuple[Any, bool]:
    """The value that ``text`` holds (None when it is no JSON), and whether the text breaks off.

    Two detectors ask this of the same text in turn, so the last answers are kept. The value is
    shared: do not change it.
    """
    try:
        return json.loads(text), False
    except json.JSONDecodeError as exc:
        rest = text[exc.pos :].strip()
        cut = exc.msg.startswith("Unterminated string") or not rest or _CUT_LITERAL.fullmatch(rest)
        return None, bool(cut)
    except (ValueError, RecursionError):
        return None, False
