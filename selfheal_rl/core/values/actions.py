"""The discrete action space: seventeen repairs, their levels, categories and seams."""

from enum import IntEnum, StrEnum


class Seam(StrEnum):
    """Where in the agent a repair can take hold, from the innermost to the outermost."""

    TOOL = "tool"
    MODEL = "model"
    STEP = "step"
    TASK = "task"


SEAMS: tuple[Seam, ...] = tuple(Seam)


class RepairAction(IntEnum):
    """A repair. The number is the index in the policy's output: append only."""

    CONTINUE = 0
    RETRY = 1
    BACKOFF = 2
    FIX_ARGUMENTS = 3
    REPAIR_OUTPUT = 4
    REPROMPT = 5
    INSPECT = 6
    FALLBACK_MODEL = 7
    FALLBACK_TOOL = 8
    REFRESH_CONTEXT = 9
    RESET_COMPONENT = 10
    APPLY_FIX = 11
    ROLLBACK = 12
    REPLAN = 13
    ASK_USER = 14
    ESCALATE = 15
    DEGRADE = 16

    @property
    def slug(self) -> str:
        """The name as written in files, tables and logs, e.g. ``fix_arguments``."""
        return self.name.lower()

    @classmethod
    def parse(cls, name: str) -> "RepairAction":
        """The action of that slug.

        Raises:
            ValueError: the name is no action; the message lists the known ones.
        """
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(a.slug for a in cls)
            raise ValueError(f"unknown action {name!r}; known actions: {known}") from None


A = RepairAction
ACTIONS: tuple[RepairAction, ...] = tuple(RepairAction)
N_ACTIONS = len(ACTIONS)
TERMINAL: frozenset[RepairAction] = frozenset({A.ESCALATE, A.DEGRADE})


class Category(StrEnum):
    """Actions of one category may not be tried three times in a row (waiting is exempt)."""

    REPEAT = "repeat"
    WAIT = "wait"
    ARGUMENTS = "arguments"
    OUTPUT = "output"
    MODEL = "model"
    EVIDENCE = "evidence"
    SUBSTITUTE = "substitute"
    CONTEXT = "context"
    STATE = "state"
    FIX = "fix"
    PERSON = "person"


CATEGORIES: tuple[Category, ...] = tuple(Category)

CATEGORY: dict[RepairAction, Category | None] = {
    A.CONTINUE: None,
    A.RETRY: Category.REPEAT,
    A.BACKOFF: Category.WAIT,
    A.FIX_ARGUMENTS: Category.ARGUMENTS,
    A.REPAIR_OUTPUT: Category.OUTPUT,
    A.REPROMPT: Category.MODEL,
    A.INSPECT: Category.EVIDENCE,
    A.FALLBACK_MODEL: Category.MODEL,
    A.FALLBACK_TOOL: Category.SUBSTITUTE,
    A.REFRESH_CONTEXT: Category.CONTEXT,
    A.RESET_COMPONENT: Category.STATE,
    A.APPLY_FIX: Category.FIX,
    A.ROLLBACK: Category.STATE,
    A.REPLAN: Category.SUBSTITUTE,
    A.ASK_USER: Category.PERSON,
    A.ESCALATE: None,
    A.DEGRADE: None,
}

LEVEL: dict[RepairAction, int] = {
    A.CONTINUE: 1,
    A.RETRY: 1,
    A.BACKOFF: 1,
    A.FIX_ARGUMENTS: 2,
    A.REPAIR_OUTPUT: 2,
    A.REPROMPT: 2,
    A.INSPECT: 1,
    A.FALLBACK_MODEL: 2,
    A.FALLBACK_TOOL: 2,
    A.REFRESH_CONTEXT: 2,
    A.RESET_COMPONENT: 2,
    A.APPLY_FIX: 2,
    A.ROLLBACK: 2,
    A.REPLAN: 3,
    A.ASK_USER: 1,
    A.ESCALATE: 1,
    A.DEGRADE: 1,
}
"""Permission level an action needs at least; an executor may raise it, never lower it."""

SEAMS_OF: dict[RepairAction, frozenset[Seam]] = {
    A.CONTINUE: frozenset(SEAMS),
    A.RETRY: frozenset({Seam.TOOL, Seam.MODEL, Seam.STEP}),
    A.BACKOFF: frozenset({Seam.TOOL, Seam.MODEL, Seam.STEP}),
    A.FIX_ARGUMENTS: frozenset({Seam.TOOL}),
    A.REPAIR_OUTPUT: frozenset({Seam.TOOL, Seam.MODEL}),
    A.REPROMPT: frozenset({Seam.MODEL, Seam.STEP}),
    A.INSPECT: frozenset({Seam.TOOL, Seam.STEP}),
    A.FALLBACK_MODEL: frozenset({Seam.MODEL, Seam.STEP}),
    A.FALLBACK_TOOL: frozenset({Seam.TOOL}),
    A.REFRESH_CONTEXT: frozenset({Seam.MODEL, Seam.STEP}),
    A.RESET_COMPONENT: frozenset({Seam.TOOL, Seam.MODEL, Seam.STEP}),
    A.APPLY_FIX: frozenset({Seam.TOOL, Seam.STEP}),
    A.ROLLBACK: frozenset({Seam.STEP, Seam.TASK}),
    A.REPLAN: frozenset({Seam.STEP, Seam.TASK}),
    A.ASK_USER: frozenset({Seam.STEP, Seam.TASK}),
    A.ESCALATE: frozenset(SEAMS),
    A.DEGRADE: frozenset(SEAMS),
}

REPEATS: frozenset[RepairAction] = frozenset(
    {
        A.RETRY,
        A.BACKOFF,
        A.FIX_ARGUMENTS,
        A.FALLBACK_TOOL,
        A.RESET_COMPONENT,
        A.APPLY_FIX,
        A.ROLLBACK,
    }
)
"""Actions that send the call again without first finding out whether it already took effect.

``inspect`` needs a registered probe and redoes the call only when the probe shows that nothing
happened, so it stays open: it is how a possible side effect is found out.
"""
