"""The agent's own ledger: a real SQLite file that can be locked or lose its table."""

import sqlite3

from selfheal_rl.lab.faults import Target
from selfheal_rl.lab.shop import opened
from selfheal_rl.lab.world import TaskWorld

_TABLE = """CREATE TABLE IF NOT EXISTS ledger (
    ref TEXT PRIMARY KEY, order_id INTEGER NOT NULL,
    total INTEGER NOT NULL CHECK (typeof(total) = 'integer' AND total > 0)
)"""


class Ledger:
    """The ledger of one task, with the lock that another program may hold on it.

    Args:
        world: of the task.
    """

    def __init__(self, world: TaskWorld) -> None:
        self._world = world
        self._locker: sqlite3.Connection | None = None
        missing = world.pending(Target.LEDGER, "missing_table") is not None
        with opened(world.ledger_db) as db:
            db.execute("CREATE TABLE meta (version INTEGER)" if missing else _TABLE)

    def record(self, ref: str, order_id: int, total: int) -> dict[str, object]:
        """Set the entry of an order; doing it twice is the same as once.

        Raises:
            sqlite3.OperationalError: the database is locked, or has no table.
            sqlite3.IntegrityError: the total is no positive whole number.
        """
        self._world.spend_call()
        self._meet_fault()
        with opened(self._world.ledger_db) as db:
            db.execute("INSERT OR REPLACE INTO ledger VALUES (?, ?, ?)", (ref, order_id, total))
        return {"ref": ref, "total": total}

    def migrate(self) -> None:
        """Create the table if it is missing; harmless otherwise."""
        self._world.spend_call()
        if self._locker is not None:
            return
        with opened(self._world.ledger_db) as db:
            db.execute(_TABLE)
        if (fault := self._world.pending(Target.LEDGER, "missing_table")) is not None:
            fault.cleared = fault.hits > 0

    def close(self) -> None:
        """Let go of the lock, if one is held."""
        if self._locker is not None:
            self._locker.close()
            self._locker = None

    def _meet_fault(self) -> None:
        fault = self._world.strike(Target.LEDGER)
        if fault is None or fault.spec.name != "locked":
            self.close()
        elif self._locker is None:
            self._locker = sqlite3.connect(self._world.ledger_db, isolation_level=None)
            self._locker.execute("BEGIN EXCLUSIVE")
