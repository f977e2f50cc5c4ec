"""From an incident to facts, mask, belief and observation: one code for one row and for N."""

from selfheal_rl.core.situation.belief import (
    MAX_CAUSES,
    SHORT_S,
    TIME_EDGES,
    BeliefTables,
    root_cause_belief,
    time_cell,
    uninformed_tables,
)
from selfheal_rl.core.situation.encoder import (
    N_SLOTS,
    SLOT_INDEX,
    SLOTS,
    SPEC_HASH,
    Slot,
    check_observation,
    encode,
)
from selfheal_rl.core.situation.facts import FactMatrix, available_actions, category_run, facts_of
from selfheal_rl.core.situation.layout import (
    BELIEF_FEATURE_NAMES,
    BELIEF_FEATURES,
    FACTS,
    MAX_ATTEMPTS_INCIDENT,
    MAX_ATTEMPTS_TASK,
    N_FACTS,
    rows,
)
from selfheal_rl.core.situation.legality import (
    MAX_DECISIONS_INCIDENT,
    check_mask,
    closed_because,
    legal_mask,
    repeat_unsafe,
)
from selfheal_rl.core.situation.waits import jittered_wait_s, planned_wait_s

__all__ = [
    "BELIEF_FEATURES",
    "BELIEF_FEATURE_NAMES",
    "FACTS",
    "MAX_ATTEMPTS_INCIDENT",
    "MAX_ATTEMPTS_TASK",
    "MAX_CAUSES",
    "MAX_DECISIONS_INCIDENT",
    "N_FACTS",
    "N_SLOTS",
    "SHORT_S",
    "SLOTS",
    "SLOT_INDEX",
    "SPEC_HASH",
    "TIME_EDGES",
    "BeliefTables",
    "FactMatrix",
    "Slot",
    "available_actions",
    "category_run",
    "check_mask",
    "check_observation",
    "closed_because",
    "encode",
    "facts_of",
    "jittered_wait_s",
    "legal_mask",
    "planned_wait_s",
    "repeat_unsafe",
    "root_cause_belief",
    "rows",
    "time_cell",
    "uninformed_tables",
]
