"""Simulator against runtime on 10,000 sampled states of each world."""

from selfheal_rl.core.catalog import list_worlds
from selfheal_rl.trainer.sim import load_world
from selfheal_rl.trainer.sim.agreement import compare

STATES = 10_000


def run() -> list[dict[str, object]]:
    """Rows ``{name, value, unit, against, ratio}``; ratio is value over what is allowed."""
    rows: list[dict[str, object]] = []
    for world in list_worlds():
        found = compare(load_world(world), STATES, seed=11)
        rows.append(
            {
                "name": f"agreement {world}: largest difference over {found.states} states",
                "value": found.worst,
                "unit": "of a slot",
                "against": "1e-6 allowed",
                "ratio": found.worst / 1e-6,
            }
        )
        rows.append(
            {
                "name": f"agreement {world}: masks that differ",
                "value": found.masks_differ,
                "unit": "states",
                "against": "0 allowed",
                "ratio": None,
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
