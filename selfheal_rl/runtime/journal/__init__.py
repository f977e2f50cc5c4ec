"""The journal of failures, decisions and outcomes: what learning and operators read."""

from selfheal_rl.runtime.journal.journal import Journal
from selfheal_rl.runtime.journal.protocol import JournalProtocol, NullJournal
from selfheal_rl.runtime.journal.rows import IncidentSummary, LoggedAttempt, redact_snapshot
from selfheal_rl.runtime.journal.schema import SCHEMA_VERSION

__all__ = [
    "SCHEMA_VERSION",
    "IncidentSummary",
    "Journal",
    "JournalProtocol",
    "LoggedAttempt",
    "NullJournal",
    "redact_snapshot",
]
