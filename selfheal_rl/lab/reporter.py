"""The report: rendered by a real subprocess that can exit with an error or miss its template."""

import json
import subprocess
import sys

from selfheal_rl.lab.faults import Target
from selfheal_rl.lab.world import OrderTask, TaskWorld

_TEMPLATE = "Order {order_id}: {units} x {sku} at {unit_price} cents, total {total} cents\n"
_SCRIPT = """import json, os, sys
if os.path.exists("report.lock"):
    sys.exit("report.lock is held by another job, try again later")
with open("template.txt") as source:
    text = source.read().format(**json.loads(sys.argv[1]))
with open("report.txt", "w") as target:
    target.write(text)
"""
_REAL_TIMEOUT_S = 30.0


class Reporter:
    """Renders the report of one task.

    Args:
        world: of the task.
    """

    def __init__(self, world: TaskWorld) -> None:
        self._world = world
        (world.folder / "render.py").write_text(_SCRIPT)
        if world.pending(Target.REPORT, "missing_file") is None:
            self._write_template()

    def render(
        self, order_id: int, sku: str, units: int, unit_price: int, total: int
    ) -> dict[str, object]:
        """Write ``report.txt``; doing it twice is the same as once.

        Raises:
            subprocess.CalledProcessError: the program exited with an error.
        """
        self._world.spend_call()
        self._meet_fault()
        fields = {"order_id": order_id, "sku": sku, "units": units}
        fields |= {"unit_price": unit_price, "total": total}
        subprocess.run(
            # Isolated and without site-packages: starts in milliseconds, reads no environment.
            [sys.executable, "-I", "-S", "render.py", json.dumps(fields)],
            cwd=self._world.folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=_REAL_TIMEOUT_S,
        )
        return {"path": str(self._world.report)}

    def restore_template(self) -> None:
        """Write the template if it is missing; harmless otherwise."""
        self._world.spend_call()
        self._write_template()
        if (fault := self._world.pending(Target.REPORT, "missing_file")) is not None:
            fault.cleared = fault.hits > 0

    def plain(self, total: int) -> dict[str, object]:
        """The best partial result: a note that the report is not complete."""
        self._world.report.write_text(f"Incomplete report: total {total} cents\n")
        return {"path": str(self._world.report)}

    def _write_template(self) -> None:
        (self._world.folder / "template.txt").write_text(_TEMPLATE)

    def _meet_fault(self) -> None:
        fault = self._world.strike(Target.REPORT)
        lock = self._world.folder / "report.lock"
        if fault is not None and fault.spec.name == "nonzero_exit":
            lock.touch()
        else:
            lock.unlink(missing_ok=True)


def expected_report(task: OrderTask, order_id: int) -> str:
    """The report a finished task leaves."""
    return _TEMPLATE.format(
        order_id=order_id,
        sku=task.sku,
        units=task.units,
        unit_price=task.unit_price,
        total=task.total,
    )
