"""Fault kinds: what is *seen* when a call fails. The cause behind it is latent (see worlds)."""

from enum import StrEnum


class Family(StrEnum):
    """Coarse grouping of fault kinds, by what usually helps."""

    TRANSIENT = "transient"
    STRUCTURAL = "structural"
    MODEL = "model"
    UNRECOVERABLE = "unrecoverable"


class FaultKind(StrEnum):
    """Visible kind of a failure. The order is part of every policy's observation: append only."""

    TIMEOUT = "timeout"
    NETWORK = "network"
    RATE_LIMIT = "rate_limit"
    SERVER_ERROR = "server_error"
    AUTH = "auth"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    BAD_ARGUMENTS = "bad_arguments"
    PRECONDITION = "precondition"
    MALFORMED_CALL = "malformed_call"
    UNKNOWN_TOOL = "unknown_tool"
    SCHEMA_MISMATCH = "schema_mismatch"
    PARSE_ERROR = "parse_error"
    EMPTY_OUTPUT = "empty_output"
    REFUSAL = "refusal"
    LOW_QUALITY = "low_quality"
    HALLUCINATION = "hallucination"
    CONTRADICTION = "contradiction"
    CONTEXT_LOST = "context_lost"
    AMBIGUOUS_REQUEST = "ambiguous_request"
    UNSAFE_OUTPUT = "unsafe_output"
    CONTEXT_OVERFLOW = "context_overflow"
    OUTPUT_TOO_LARGE = "output_too_large"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    MISSING_DEPENDENCY = "missing_dependency"
    SYNTAX_ERROR = "syntax_error"
    CODE_EXCEPTION = "code_exception"
    NONZERO_EXIT = "nonzero_exit"
    LOOP = "loop"
    DRIFT = "drift"
    UNKNOWN = "unknown"


KINDS: tuple[FaultKind, ...] = tuple(FaultKind)
N_KINDS = len(KINDS)
KIND_INDEX: dict[FaultKind, int] = {kind: i for i, kind in enumerate(KINDS)}

_TRANSIENT = {"timeout", "network", "rate_limit", "server_error", "resource_exhausted"}
_MODEL = {
    "malformed_call",
    "unknown_tool",
    "parse_error",
    "empty_output",
    "refusal",
    "low_quality",
    "hallucination",
    "contradiction",
    "context_lost",
    "context_overflow",
    "loop",
    "drift",
}
_UNRECOVERABLE = {"unsafe_output"}


def _family(kind: FaultKind) -> Family:
    if kind.value in _TRANSIENT:
        return Family.TRANSIENT
    if kind.value in _MODEL:
        return Family.MODEL
    if kind.value in _UNRECOVERABLE:
        return Family.UNRECOVERABLE
    return Family.STRUCTURAL


FAMILY: dict[FaultKind, Family] = {kind: _family(kind) for kind in KINDS}
