"""Worlds to Gymnasium environments. Importing this registers ``selfheal_rl/Repair-v0``."""

from selfheal_rl.trainer.sim.batch import RepairBatch
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.sim.compile import CompiledWorld, compile_world, load_world
from selfheal_rl.trainer.sim.deployments import Deployments, draw_deployments
from selfheal_rl.trainer.sim.dynamics import RepairCore
from selfheal_rl.trainer.sim.env import ENV_ID, RepairEnv, RepairVectorEnv, register
from selfheal_rl.trainer.sim.episodes import SimPolicy, TaskResults, View, run_tasks
from selfheal_rl.trainer.sim.render import incident_of_row, snapshot_of_row
from selfheal_rl.trainer.sim.schema import World
from selfheal_rl.trainer.sim.state import Ended

register()

__all__ = [
    "ENV_ID",
    "CompiledWorld",
    "Deployments",
    "Ended",
    "RepairBatch",
    "RepairCore",
    "RepairEnv",
    "RepairVectorEnv",
    "SimPolicy",
    "TaskResults",
    "View",
    "World",
    "belief_tables",
    "compile_world",
    "draw_deployments",
    "incident_of_row",
    "load_world",
    "register",
    "run_tasks",
    "snapshot_of_row",
]
