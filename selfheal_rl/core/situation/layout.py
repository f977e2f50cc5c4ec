"""The table of facts: which row of the facts matrix holds what, and how it becomes a slot.

Facts are the pivot between runtime and simulator: a float32 matrix of shape (N_FACTS, N), one
column per incident. Rows lie in blocks by transform, so that encoding is a handful of array
operations whatever N is.
"""

from dataclasses import dataclass

from selfheal_rl.core.values import ACTIONS, CATEGORIES, EFFECT_STATES, EFFECTS, KINDS


@dataclass(frozen=True)
class Block:
    """Consecutive rows of the facts matrix under one transform.

    Attributes:
        name: prefix of the facts' names.
        members: what follows the prefix, one row each.
        transform: ``copy`` (clip to [-1, 1]), ``scale`` (times ``scale``, clipped) or ``log``
            (log1p(x) times ``scale``, clipped).
        scale: the factor.
    """

    name: str
    members: tuple[str, ...]
    transform: str = "copy"
    scale: float = 1.0


LOG_SCALE = 1.0 / 8.188967
"""1 / log1p(3600): an hour maps to 1."""
MAX_ATTEMPTS_INCIDENT = 8
MAX_ATTEMPTS_TASK = 24

BLOCKS: tuple[Block, ...] = (
    Block("kind", tuple(k.value for k in KINDS)),
    Block("effects", tuple(e.value for e in EFFECTS)),
    Block("available", tuple(a.slug for a in ACTIONS)),
    Block("run", tuple(c.value for c in CATEGORIES)),
    Block(
        "flag",
        (
            "has_key",
            "probed_not_started",
            "stream_started",
            "breaker_open",
            "same_message",
            "progress",
            "orphan",
        ),
    ),
    Block(
        "share",
        (
            "attempts_left",
            "task_attempts_left",
            "tokens_left",
            "money_left",
            "step",
            "failure_rate",
            "others_failing",
            "context",
            "drift",
            "evidence",
        ),
    ),
    Block("seen", tuple(k.value for k in KINDS)),
    Block("effect_state", tuple(s.value for s in EFFECT_STATES)),
    Block("sign", ("soft", "has_retry_after", "status_2xx", "status_4xx", "status_5xx")),
    Block("tries", tuple(a.slug for a in ACTIONS), "scale", 1.0 / 3.0),
    Block("count", ("task_failures", "tool_failures"), "scale", 1.0 / 8.0),
    Block(
        "seconds",
        ("incident", "task", "deadline_left", "retry_after", "next_wait", "latency", "since_ok"),
        "log",
        LOG_SCALE,
    ),
)

FACTS: dict[str, int] = {
    name: row
    for row, name in enumerate(
        f"{block.name}.{member}" for block in BLOCKS for member in block.members
    )
}
"""Name of each fact -> its row, e.g. ``FACTS["seconds.deadline_left"]``."""
N_FACTS = len(FACTS)


def rows(block: str) -> slice:
    """The rows of one block, e.g. ``F[rows("tries")]``."""
    names = [name for name in FACTS if name.split(".")[0] == block]
    return slice(FACTS[names[0]], FACTS[names[-1]] + 1)


KIND = rows("kind")
EFFECTS_ROWS = rows("effects")
AVAILABLE = rows("available")
RUN = rows("run")
SEEN = rows("seen")
EFFECT_STATE = rows("effect_state")
SIGN = rows("sign")
TRIES = rows("tries")
SECONDS = rows("seconds")

BELIEF_FEATURES = slice(SEEN.start, TRIES.stop)
"""Rows on which the root-cause belief is linear (in the log domain)."""
BELIEF_FEATURE_NAMES: tuple[str, ...] = tuple(FACTS)[BELIEF_FEATURES]
