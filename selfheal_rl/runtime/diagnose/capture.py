"""From a raised exception, or a returned error, to a redacted error snapshot."""

import importlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from selfheal_rl.core.values import ErrorSnapshot, FailedCall, Seam
from selfheal_rl.runtime.diagnose.http_facts import HttpFacts, attribute, http_facts, retry_after_s
from selfheal_rl.runtime.diagnose.results import error_in_result, error_text, http_status_in

Redact = Callable[[str], str]

MESSAGE_CHARS = 6000
BODY_CHARS = 4000
MAX_CHAIN = 8
MAX_FRAMES = 8
_CAUSES_TOLD = 3
_DATABASE_CODES = (("sqlstate", "SQLSTATE "), ("pgcode", "SQLSTATE "), ("sqlite_errorname", ""))
_MARGIN = 1024
_EDGE = 256
"""A word cut in half at an edge is dropped whole, up to this length: it may be half a secret."""


@lru_cache(maxsize=1)
def _default_redact() -> Redact:
    module = importlib.import_module("selfheal_rl.core.values.redaction")
    redact: Redact = module.redact_text
    return redact


def _plain(text: str) -> str:
    """``text`` without lone surrogates, which no encoder accepts."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _cut_at_words(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2], text[-(limit // 2) :]
    shorter = head[-_EDGE:].rpartition(" ")
    head = head[: len(head) - len(shorter[2])] if shorter[1] else head[:-_EDGE]
    longer = tail[:_EDGE].partition(" ")
    tail = tail[len(longer[0]) :] if longer[1] else tail[_EDGE:]
    return f"{head}\n[cut]\n{tail}"


def _clean(text: str, limit: int, redact: Redact) -> str:
    return _cut_at_words(redact(_plain(_cut_at_words(text, limit + _MARGIN))), limit)


def _text_of(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:  # __str__ of a stranger's exception may raise
        return f"<{type(exc).__name__} without a printable message>"


def _type_name(exc: BaseException) -> str:
    cls = type(exc)
    module = getattr(cls, "__module__", "")
    name = getattr(cls, "__qualname__", cls.__name__)
    full = name if module in ("builtins", "__main__", "") else f"{module}.{name}"
    return _plain(full)[:200]


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """Causes, contexts and grouped exceptions below ``exc``; bounded and cycle-safe."""
    seen = {id(exc)}
    queue = [exc]
    while queue and len(seen) <= MAX_CHAIN:
        current = queue.pop(0)
        below: list[Any] = [current.__cause__ or attribute(current, "orig")]
        if below[0] is None and not current.__suppress_context__:
            below = [current.__context__]
        members = attribute(current, "exceptions")
        if isinstance(members, (list, tuple)):
            below.extend(members[:4])
        for cause in below:
            if isinstance(cause, BaseException) and id(cause) not in seen:
                seen.add(id(cause))
                queue.append(cause)
                yield cause


def _decoded(value: Any) -> str:
    if isinstance(value, bytes):
        return value[-2 * BODY_CHARS :].decode("utf-8", "replace")
    return value[-2 * BODY_CHARS :] if isinstance(value, str) else ""


def _process_facts(exc: BaseException) -> str:
    """Exit code and error output of a subprocess error."""
    lines: list[str] = []
    code = attribute(exc, "returncode")
    if isinstance(code, int):
        lines.append(f"exit code {code}")
    for name in ("stderr", "stdout"):
        text = _decoded(attribute(exc, name)).strip()
        if text:
            lines.append(text)
            break
    return "\n".join(lines)


def _database_facts(exc: BaseException) -> str:
    """The database's own code: SQLSTATE or SQLite's error name."""
    for name, label in _DATABASE_CODES:
        code = attribute(exc, name)
        if isinstance(code, str) and code:
            return f"{label}{code[:40]}"
    return ""


def _message(exc: BaseException, causes: list[BaseException]) -> str:
    parts = [_text_of(exc), _process_facts(exc), _database_facts(exc)]
    for cause in causes[:_CAUSES_TOLD]:
        said = _text_of(cause)
        code = _database_facts(cause)
        if said and not any(said in part for part in parts):
            parts.append(f"caused by {type(cause).__name__}: {said}")
        if code and code not in parts:
            parts.append(code)
    return "\n".join(part for part in parts if part)


def _frames(exc: BaseException) -> str:
    """The innermost frames as ``file:line in function``; no source text, no directories."""
    lines: list[str] = []
    trace = exc.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        file = code.co_filename.replace("\\", "/").rpartition("/")[2]
        lines.append(f"{file}:{trace.tb_lineno} in {code.co_name}")
        if len(lines) > MAX_FRAMES:
            del lines[0]
        trace = trace.tb_next
    return _plain("\n".join(lines))


def _first_http(exc: BaseException, causes: list[BaseException]) -> HttpFacts:
    for one in (exc, *causes):
        facts = http_facts(one)
        if facts.status is not None or facts.headers:
            return facts
    return HttpFacts()


def _response_text(exc: BaseException, facts: HttpFacts) -> str:
    body = facts.body
    if body is None:
        doc = attribute(exc, "doc")  # the text a JSON decoder stumbled over
        return doc if isinstance(doc, str) else ""
    return body if isinstance(body, str) else error_text(body, BODY_CHARS)


def _timed_out(exc: BaseException) -> bool:
    if isinstance(exc, TimeoutError):
        return True
    return any("timeout" in cls.__name__.lower() for cls in type(exc).__mro__)


def snapshot_of(
    exc: BaseException,
    *,
    call: FailedCall,
    now: float,
    seam: Seam = Seam.TOOL,
    redact: Redact | None = None,
    **fields: Any,
) -> ErrorSnapshot:
    """The snapshot of a raised exception.

    Reads the type and its causes, status, headers, retry hints and body of the usual HTTP
    clients, exit code and output of subprocess errors, and database codes, by duck typing.

    Args:
        exc: the exception; it is only read.
        call: the call that raised it.
        now: seconds since the epoch.
        seam: where it was caught.
        redact: applied to every text taken from the exception; the package's own by default.
        fields: further fields of ``ErrorSnapshot``; they win over what was found.
    """
    clean = redact or _default_redact()
    causes = list(_causes(exc))
    facts = _first_http(exc, causes)
    message = _message(exc, causes)
    known: dict[str, Any] = {
        "time": now,
        "seam": seam,
        "call": call,
        "status": "timed_out" if _timed_out(exc) else "failed",
        "error_type": _type_name(exc),
        "error_chain": tuple(_type_name(cause) for cause in causes),
        "message": _clean(message, MESSAGE_CHARS, clean),
        "stack_trace": _frames(exc),
        "http_status": facts.status,
        "retry_after_s": retry_after_s(facts.headers, message, now, attribute(exc, "retry_after")),
        "headers": {_plain(k): clean(_plain(v)) for k, v in facts.headers.items()},
        "response": _clean(_response_text(exc, facts), BODY_CHARS, clean),
    }
    return ErrorSnapshot(**{**known, **fields})


def snapshot_of_result(
    result: Any,
    *,
    call: FailedCall,
    now: float,
    seam: Seam = Seam.TOOL,
    alarm: str | None = None,
    redact: Redact | None = None,
    **fields: Any,
) -> ErrorSnapshot:
    """The snapshot of a returned value that reports an error, or that a detector objects to.

    A value that ``error_in_result`` recognises gives status ``failed``; any other is a soft
    failure, status ``ok`` with the alarm.

    Args:
        result: what the call returned; it is only read.
        call: the call that returned it.
        now: seconds since the epoch.
        seam: where it was seen.
        alarm: name of the detector that objects, a fault kind's value; None when the result
            itself reports the error.
        redact: applied to every text taken from the result; the package's own by default.
        fields: further fields of ``ErrorSnapshot``; they win over what was found.
    """
    clean = redact or _default_redact()
    found = error_in_result(result)
    status = http_status_in(result)
    words = found if found is not None else ""
    body = "" if words else error_text(result, 2 * BODY_CHARS)
    known: dict[str, Any] = {
        "time": now,
        "seam": seam,
        "call": call,
        "status": "ok" if found is None else "failed",
        "alarm": alarm,
        "message": _clean(words, MESSAGE_CHARS, clean),
        "http_status": status,
        "retry_after_s": retry_after_s({}, words, now, _retry_field(result)),
        "response": _clean(body, BODY_CHARS, clean),
    }
    return ErrorSnapshot(**{**known, **fields})


def _retry_field(result: Any) -> Any:
    return result.get("retry_after") if isinstance(result, dict) else None
