"""The lab: a scripted agent on real components that really fail, healed by one arm after another.

An HTTP service, two SQLite databases and a subprocess run for real; faults are injected on a seeded
schedule that is the same for every arm; time is virtual, so waits cost nothing. Success is the end
state of databases and files, never the absence of an exception.
"""

from selfheal_rl.lab.arms import ARMS, Arm
from selfheal_rl.lab.results import TaskResult, summarise
from selfheal_rl.lab.run import LabConfig, run_arms, run_lab

__all__ = ["ARMS", "Arm", "LabConfig", "TaskResult", "run_arms", "run_lab", "summarise"]
