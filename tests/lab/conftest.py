import pytest

from selfheal_rl.core.values import VirtualClock
from selfheal_rl.lab.faults import FAULTS, Fault
from selfheal_rl.lab.service import serving
from selfheal_rl.lab.shop import make_shop
from selfheal_rl.lab.tools import Bench
from selfheal_rl.lab.world import OrderTask, TaskWorld


class Room:
    """One task's components, mounted on a real server, with the faults a test asks for."""

    def __init__(self, service, folder):
        self.service, self.folder, self._n = service, folder, 0
        self.bench = Bench(service.url)

    def enter(self, *faults, index=0, log_in=True):
        self._n += 1
        place = self.folder / str(self._n)
        place.mkdir()
        world = TaskWorld(
            OrderTask.draw(0, index), place, VirtualClock(), {f.target: f for f in faults}
        )
        make_shop(world.shop_db, world.task)
        self.bench.mount(world)
        self.service.world = world
        self.tools = {name: tool.function for name, tool in self.bench.tools().items()}
        if log_in:
            self.tools["session"]()
        return world


def fault(name, target, **values):
    return Fault(FAULTS[name], target, **values)


@pytest.fixture(scope="module")
def service():
    with serving() as running:
        yield running
    assert not running.running


@pytest.fixture
def room(service, tmp_path):
    made = Room(service, tmp_path)
    yield made
    made.bench.unmount()
    service.world = None


@pytest.fixture
def make_fault():
    return fault
