"""Cheap detectors of soft failures: the call returned, but what it returned is no good.

Each answers an alarm's name, the value of a fault kind, or None. None needs a model.
"""

import re
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from selfheal_rl.core.values import ErrorSnapshot, FailedCall, FaultKind
from selfheal_rl.runtime.diagnose.classifier import classify
from selfheal_rl.runtime.diagnose.results import error_in_result, read_json

MAX_PERIOD = 8
REPEATS = 3
_REFUSAL_HEAD = 240
_REFUSAL_CHARS = 1500
"""A refusal is short; a long answer that holds such words is an answer."""

_NOTHING = frozenset({"", "null", "none", "{}", "[]", '""', "''", "undefined", "n/a"})
_REFUSAL = re.compile(
    r"\b(?:i(?:'|’)?m|i am) (?:\w+ ){0,2}(?:sorry|unable|not able)\b[^.\n]{0,60}"
    r"\b(?:can(?:'|’)?t|cannot|can not|unable|won(?:'|’)?t|not able|assist|help|comply|"
    r"provide|fulfil)"
    r"|\bi (?:can(?:'|’)?t|cannot|can not|won(?:'|’)?t|must decline to|am unable to|decline to)"
    r" (?:\w+ ){0,2}(?:help|assist|comply|provide|fulfil|support|engage|participate|generate|"
    r"create|write|share|do that|continue with)"
    r"|\bas an ai (?:language )?(?:model|assistant)\b[^.\n]{0,80}"
    r"\b(?:can(?:'|’)?t|cannot|not able|unable)"
    r"|\bagainst (?:my|our|openai(?:'|’)s) (?:\w+ )?(?:guidelines|policy|policies|programming)"
    r"|\bviolates? (?:our|the) (?:\w+ )?(?:policy|policies|guidelines)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"\A```[a-z]*\s*")
_LIKE_JSON = ('{"', "{'", "{\n", "{ ", "{}", '["', "[{", "[\n", "[[")


def empty_output(value: Any) -> str | None:
    """``empty_output`` when there is nothing in ``value``: none, blank, ``{}``, ``[]``."""
    if value is None:
        return FaultKind.EMPTY_OUTPUT.value
    if isinstance(value, str):
        blank = (len(value) < 64 and value.strip().lower() in _NOTHING) or value.isspace()
        return FaultKind.EMPTY_OUTPUT.value if blank else None
    if isinstance(value, (dict, list, tuple, set, frozenset, bytes)) and not value:
        return FaultKind.EMPTY_OUTPUT.value
    return None


def truncated_json(text: str) -> str | None:
    """``parse_error`` when ``text`` begins as JSON and ends before its brackets close."""
    body = text.strip()
    if body.startswith("```"):
        body = _FENCE.sub("", body).removesuffix("```").rstrip()
    if not body.startswith(_LIKE_JSON):
        return None
    return FaultKind.PARSE_ERROR.value if read_json(body)[1] else None


def refusal(text: str) -> str | None:
    """``refusal`` when a short text begins by declining the request."""
    if len(text) > _REFUSAL_CHARS:
        return None
    return FaultKind.REFUSAL.value if _REFUSAL.search(text[:_REFUSAL_HEAD]) else None


def error_inside(value: Any) -> str | None:
    """The kind of the error that a returned value reports, or None when it reports none."""
    words = error_in_result(value)
    if words is None:
        return None
    plain = words.encode("utf-8", "replace").decode("utf-8")
    return classify(ErrorSnapshot(time=0.0, message=plain, call=FailedCall())).kind.value


def loop_period(keys: Sequence[Hashable], repeats: int = REPEATS) -> int:
    """Period of the loop that ``keys`` end with, 0 when they end with none.

    Args:
        keys: one key per call, oldest first.
        repeats: rounds that must be equal, at least 2.
    """
    for period in range(1, MAX_PERIOD + 1):
        span = period * (repeats - 1)
        if len(keys) < span + period:
            return 0
        if all(keys[-i] == keys[-i - period] for i in range(1, span + 1)):
            return period
    return 0


class LoopDetector:
    """Sees the agent go in a circle: the same calls, with the same results, again and again."""

    def __init__(self, repeats: int = REPEATS) -> None:
        """
        Args:
            repeats: equal rounds that make a loop, at least 2.

        Raises:
            ValueError: ``repeats`` is below 2.
        """
        if repeats < 2:
            raise ValueError(f"repeats is {repeats!r}; expected at least 2: one round is no loop")
        self._repeats = repeats
        self._keys: deque[Hashable] = deque(maxlen=MAX_PERIOD * repeats)

    def observe(self, key: Hashable) -> str | None:
        """``loop`` when the call with this key closes a loop.

        Args:
            key: equal for calls of the same tool, arguments and result, e.g. a tuple of hashes;
                leave the result in, or a poll that waits for a change counts as a loop.
        """
        self._keys.append(key)
        return FaultKind.LOOP.value if loop_period(tuple(self._keys), self._repeats) else None

    def reset(self) -> None:
        """Forget what was seen, e.g. after a repair that changes the course."""
        self._keys.clear()


def detect(value: Any, *, is_model_output: bool = False) -> str | None:
    """The first alarm that a returned value raises, or None.

    Args:
        value: what the call returned.
        is_model_output: True for a model's text, which alone can refuse.
    """
    alarm = empty_output(value) or error_inside(value)
    if alarm is not None or not isinstance(value, str):
        return alarm
    return truncated_json(value) or (refusal(value) if is_model_output else None)
