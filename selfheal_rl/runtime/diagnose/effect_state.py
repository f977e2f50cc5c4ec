"""How far a failed call may have got, from the same evidence that names its kind."""

from collections.abc import Sequence

from selfheal_rl.core.values import KIND_INDEX, KINDS, EffectState, ErrorSnapshot, FaultKind

_K = FaultKind
NOT_STARTED_KINDS: frozenset[FaultKind] = frozenset(
    {
        _K.RATE_LIMIT,
        _K.AUTH,
        _K.DENIED,
        _K.NOT_FOUND,
        _K.BAD_ARGUMENTS,
        _K.PRECONDITION,
        _K.MALFORMED_CALL,
        _K.UNKNOWN_TOOL,
        _K.MISSING_DEPENDENCY,
        _K.SYNTAX_ERROR,
        _K.CONTEXT_OVERFLOW,
        _K.SCHEMA_MISMATCH,
        _K.REFUSAL,
        _K.AMBIGUOUS_REQUEST,
    }
)
"""Kinds whose error is given before any work is done."""

DONE_KINDS: frozenset[FaultKind] = frozenset(
    {
        _K.OUTPUT_TOO_LARGE,
        _K.EMPTY_OUTPUT,
        _K.LOW_QUALITY,
        _K.HALLUCINATION,
        _K.CONTRADICTION,
        _K.UNSAFE_OUTPUT,
        _K.LOOP,
        _K.DRIFT,
    }
)
"""Kinds that are seen on a reply, so the call itself ran to its end."""

_NEVER_SENT = (
    "refused",
    "name or service not known",
    "name resolution",
    "getaddrinfo",
    "enotfound",
    "could not resolve",
    "no such host",
    "nodename nor servname",
    "name_not_resolved",
    "unreachable",
    "no route to host",
    "failed to establish a new connection",
    "certificate",
    "handshake",
    "cannot connect to host",
    "failed to connect",
    "couldn't connect",
    "could not connect",
    "unable to connect",
    "connect timeout",
    "connecttimeout",
    "connecterror",
    "clientconnectorerror",
    "pooltimeout",
    "connection pool",
    "queuepool",
)
"""Wordings of a connection that never came to be: the request cannot have left."""

_RAN_PARTLY = ("traceback (most recent call last)", "exit code", "exit status", "exited with")
_PROGRAM_TOOLS = (
    "shell",
    "bash",
    "terminal",
    "exec",
    "python",
    "code",
    "run_",
    "script",
    "command",
)
_CONFIDENT = 0.55
_EITHER_SIDE = frozenset({_K.BAD_ARGUMENTS, _K.SCHEMA_MISMATCH})
_REQUEST_WORDS = (
    "argument",
    "call[",
    "parameter",
    "params",
    "input validation",
    "tool input",
    "tool call",
    "request",
    "-32602",
)


def runs_program(tool: str) -> bool:
    """True when the tool's name says that it runs commands or code."""
    lowered = tool.lower()
    return any(word in lowered for word in _PROGRAM_TOOLS)


def _of_the_request(status: int | None, lowered: str, type_name: str) -> bool:
    """True unless the thing found invalid may be the reply: a check that comes after the work."""
    if status is not None and 400 <= status < 500:
        return True
    if not ("validation" in type_name or "zod" in type_name or "validation error" in lowered):
        return "response" not in lowered and "output" not in lowered
    return any(words in lowered for words in _REQUEST_WORDS)


def _mass(posterior: Sequence[float], kinds: frozenset[FaultKind]) -> float:
    return sum(posterior[KIND_INDEX[kind]] for kind in kinds)


def effect_state(
    snapshot: ErrorSnapshot, posterior: Sequence[float], lowered: str, type_name: str
) -> EffectState:
    """Whether the failed call's effect may be in place; in doubt, ``maybe``.

    Args:
        snapshot: the failure.
        posterior: probability of each kind, shape (N_KINDS,).
        lowered: the error's text in lower case.
        type_name: last component of the exception's type, lower case.
    """
    if snapshot.is_soft:
        return EffectState.DONE
    status = snapshot.http_status
    if snapshot.call.stream_started or (status is not None and status >= 500):
        return EffectState.MAYBE
    best = KINDS[max(range(len(posterior)), key=posterior.__getitem__)]
    if best in (_K.TIMEOUT, _K.NETWORK):
        never_sent = any(words in lowered or words in type_name for words in _NEVER_SENT)
        return EffectState.NOT_STARTED if never_sent else EffectState.MAYBE
    if snapshot.status in ("timed_out", "unknown"):
        return EffectState.MAYBE
    if best in DONE_KINDS or (best is _K.PARSE_ERROR and status is not None):
        return EffectState.DONE
    if _mass(posterior, NOT_STARTED_KINDS) < _CONFIDENT:
        return EffectState.MAYBE
    if best in _EITHER_SIDE and not _of_the_request(status, lowered, type_name):
        return EffectState.MAYBE
    # A command or script that fails on its third line has done its first two.
    ran = runs_program(snapshot.call.tool) or any(words in lowered for words in _RAN_PARTLY)
    if ran and best not in (_K.SYNTAX_ERROR, _K.UNKNOWN_TOOL, _K.MALFORMED_CALL):
        return EffectState.MAYBE
    return EffectState.NOT_STARTED
