"""What a user says about a healer and its tools: frozen, validated, units in the names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Required, TypedDict

from pydantic import Field

from selfheal_rl.core.situation import MAX_ATTEMPTS_INCIDENT, MAX_ATTEMPTS_TASK
from selfheal_rl.core.values import ConfigError, Effects, Frozen, Seam

EffectsName = Literal["read", "idempotent_write", "write", "unknown"]
EQUIVALENCES = ("same", "stale", "partial")
DEADLINE_S = 3600.0
"""Deadline seen by the policy where none was set."""


class Budget(Frozen):
    """How much healing may cost. What is not given is not limited beyond the fixed bounds."""

    attempts: int = Field(MAX_ATTEMPTS_INCIDENT, ge=0, le=MAX_ATTEMPTS_INCIDENT)
    """Repair attempts per incident; 0 to 8."""
    task_attempts: int = Field(MAX_ATTEMPTS_TASK, ge=0, le=MAX_ATTEMPTS_TASK)
    """Repair attempts per task; 0 to 24."""
    seconds: float = Field(DEADLINE_S, gt=0.0)
    """Seconds of one incident's healing at most, waiting included."""
    tokens: int | None = Field(None, gt=0)
    """Tokens per task; spent through ``task.spend``."""
    money: float | None = Field(None, gt=0.0)
    """Money per task in the user's currency; spent through ``task.spend``."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A declared equivalent of a tool.

    Attributes:
        call: a function of the tool's own signature.
        equivalence: ``same``, ``stale`` (older data) or ``partial`` (less of it).
        max_age_s: largest age of stale data in seconds; None when unknown.
        cooldown_s: seconds for which calls go straight to this fallback after it has helped;
            then one call tries the tool itself again. 0 turns it off.
        same_store: True when a second write would be recognised as the same one (same store and
            identity, or the idempotency key is honoured). Without it the fallback of a tool that
            writes is not used once the failed call may have taken effect.
    """

    call: Callable[..., Any]
    equivalence: str = "same"
    max_age_s: float | None = None
    cooldown_s: float = 30.0
    same_store: bool = False

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise ConfigError(f"Fallback got {self.call!r}; expected a function of the tool's form")
        if self.equivalence not in EQUIVALENCES:
            raise ConfigError(
                f"Fallback got equivalence {self.equivalence!r}; expected one of "
                f"{', '.join(EQUIVALENCES)}"
            )
        for name in ("max_age_s", "cooldown_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ConfigError(f"Fallback got {name} {value!r}; expected seconds >= 0")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the owner of a tool declares about it.

    Attributes:
        effects: what a call does to the world; there is no default.
        name: as shown to people and in journals; the function's by default.
        fallbacks: declared equivalents, best first.
        idempotency_key: called with the call's arguments, gives the key that travels with this
            call, or None; the tool itself sends it.
        arguments: pydantic model or JSON schema of the arguments; derived from the type hints
            when None; False when arguments must never be repaired.
        returns: pydantic model or type, JSON schema, or a function that raises ValueError; every
            result is checked with it, and output can be repaired.
        reset: called without arguments to reconnect, refresh credentials or open a new session.
        degrade: builds the best partial result; called with the tool's arguments.
        seam: ``tool``, or ``model`` for a call of a language model.
        timeout_s: seconds after which an async call is cancelled; not for sync calls.
        error_in_result: True to treat a returned value that reports an error as a failure, or a
            function from the value to the error's words or None.
        detectors: True to check results with the cheap output detectors, or a function from the
            value to an alarm's name or None.
    """

    effects: Effects | EffectsName
    name: str = ""
    fallbacks: tuple[Fallback, ...] = ()
    idempotency_key: Callable[..., str | None] | None = None
    arguments: Any = None
    returns: Any = None
    reset: Callable[[], Any] | None = None
    degrade: Callable[..., Any] | None = None
    seam: Seam = Seam.TOOL
    timeout_s: float | None = None
    error_in_result: bool | Callable[[Any], str | None] = False
    detectors: bool | Callable[[Any], str | None] = False


class ToolOptions(TypedDict, total=False):
    """The fields of :class:`ToolSpec` as keywords, for type checkers."""

    effects: Required[Effects | EffectsName]
    name: str
    fallbacks: Sequence[Fallback | Callable[..., Any]]
    idempotency_key: Callable[..., str | None] | None
    arguments: Any
    returns: Any
    reset: Callable[[], Any] | None
    degrade: Callable[..., Any] | None
    seam: Seam | Literal["tool", "model"]
    timeout_s: float | None
    error_in_result: bool | Callable[[Any], str | None]
    detectors: bool | Callable[[Any], str | None]


_FIELDS = tuple(ToolSpec.__dataclass_fields__)


def make_spec(name: str, options: dict[str, Any], *, is_async: bool) -> ToolSpec:
    """Check what was declared for the tool ``name``.

    Raises:
        ConfigError: effects are missing, or an option is unknown or wrong.
    """
    from selfheal_rl.core.catalog import unknown_key

    for key in options:
        if key not in _FIELDS:
            raise ConfigError(f"tool {name!r}: {unknown_key(key, _FIELDS)}")
    known = ", ".join(repr(e.value) for e in Effects)
    if options.get("effects") is None:
        raise ConfigError(
            f"tool {name!r}: effects are not declared; expected effects= one of {known}. There is "
            "no default: a wrong guess could repeat a payment. Say 'unknown' when in doubt"
        )
    try:
        effects = Effects(options["effects"])
    except ValueError:
        raise ConfigError(
            f"tool {name!r}: effects is {options['effects']!r}; expected one of {known}"
        ) from None
    fallbacks = options.get("fallbacks", ())
    values = options | {
        "effects": effects,
        "name": options.get("name") or name,
        "fallbacks": tuple(f if isinstance(f, Fallback) else Fallback(f) for f in fallbacks),
    }
    seam = values.get("seam", Seam.TOOL)
    if seam not in (Seam.TOOL, Seam.MODEL):
        raise ConfigError(f"tool {name!r}: seam is {seam!r}; expected 'tool' or 'model'")
    spec = ToolSpec(**(values | {"seam": Seam(seam)}))
    _check_callables(spec)
    if spec.timeout_s is not None and (not is_async or not spec.timeout_s > 0):
        raise ConfigError(
            f"tool {name!r}: timeout_s is {spec.timeout_s!r}; expected seconds > 0 on an async "
            "tool: a sync call cannot be stopped from outside; use the client's own timeout"
        )
    return spec


def _check_callables(spec: ToolSpec) -> None:
    for option in ("idempotency_key", "reset", "degrade"):
        value = getattr(spec, option)
        if value is not None and not callable(value):
            raise ConfigError(f"tool {spec.name!r}: {option} is {value!r}; expected a function")
