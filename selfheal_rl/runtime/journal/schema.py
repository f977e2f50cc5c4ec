"""The journal's tables, version 1. Types are the plain ones every SQL database has."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION = 1
metadata = MetaData()

meta = Table("meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text))

tasks = Table(
    "tasks",
    metadata,
    Column("tenant", String(200), primary_key=True),
    Column("task_id", String(200), primary_key=True),
    Column("goal", Text, nullable=False, default=""),
    Column("started", Float(53)),
    Column("deadline_s", Float(53)),
    Column("ended", Float(53)),
    Column("success", SmallInteger),
    Column("quality", Float(53)),
)
"""``success`` is NULL until somebody reports it: unknown, not false."""

incidents = Table(
    "incidents",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("tenant", String(200), nullable=False),
    Column("task_id", String(200)),
    Column("tool", Text, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("opened", Float(53), nullable=False),
    Column("closed", Float(53)),
    Column("verdict", String(40), nullable=False),
    Column("censored", SmallInteger, nullable=False),
    Column("next_wait_s", Float(53), nullable=False),
    Column("capabilities", Text, nullable=False),
    Index("ix_incidents_opened", "opened"),
    Index("ix_incidents_task", "tenant", "task_id"),
)

failures = Table(
    "failures",
    metadata,
    Column("incident_id", ForeignKey("incidents.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("time", Float(53), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("snapshot", Text, nullable=False),
    Column("diagnosis", Text, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("incident_id", ForeignKey("incidents.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("action", SmallInteger, nullable=False),
    Column("intended", SmallInteger),
    Column("variant", Text, nullable=False),
    Column("propensity", Float(53), nullable=False),
    Column("probabilities", LargeBinary, nullable=False),
    Column("mask", Text, nullable=False),
    Column("observation", LargeBinary, nullable=False),
    Column("selector", Text, nullable=False),
    Column("policy_hash", Text, nullable=False),
    Column("spec_hash", Text, nullable=False),
    Column("randomisation_unit", Text, nullable=False),
    Column("override", Text, nullable=False),
    Column("reasons", Text, nullable=False),
    Column("outcome", String(40), nullable=False),
    Column("started", Float(53), nullable=False),
    Column("seconds", Float(53), nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("verified", SmallInteger, nullable=False),
    Column("censored", SmallInteger, nullable=False),
    Column("note", Text, nullable=False),
    UniqueConstraint("incident_id", "seq", name="uq_attempts_incident_seq"),
)
"""``action`` is the executed one; ``mask`` is one 0/1 digit per action; ``probabilities`` are
little-endian float64, ``observation`` little-endian float32."""
