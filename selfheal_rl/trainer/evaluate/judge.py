"""Every policy in every world on the same tasks, and the rows that come out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from selfheal_rl.core.values import ACTIONS, KINDS, ConfigError
from selfheal_rl.trainer.evaluate.cells import Cell, HeldOutSet, play
from selfheal_rl.trainer.evaluate.contenders import (
    ALONE,
    LADDERS,
    Contender,
    base_id,
    fingerprint,
    resolve,
    standard,
)
from selfheal_rl.trainer.evaluate.measures import Bootstrap, Figure, share, twins
from selfheal_rl.trainer.seeds import REPORT_SEED
from selfheal_rl.trainer.sim.compile import CompiledWorld, load_world

F64 = NDArray[np.float64]
DRAWS, TASKS_PER_DRAW = 32, 4096
MIN_TWINS = 20_000
"""Tasks below which r and d are too uncertain to be reported as final."""


class Watcher(Protocol):
    """Told how a long evaluation gets on."""

    def plan(self, tasks: int) -> None:
        """So many tasks will be played in all, those found again included."""
        ...

    def begin(self, world: str, policy: str, tasks: int) -> None:
        """A cell is about to be played."""
        ...

    def advance(self, tasks: int) -> None:
        """Tasks of it are finished."""
        ...


@dataclass(frozen=True)
class Judged:
    """One contender in one world."""

    world: str
    contender: Contender
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """Of the contender."""
        return self.contender.name

    def per_draw(self, field: str) -> F64:
        """Means per training seed and draw, shape (seeds, draws)."""
        return np.stack([getattr(c, field).mean(axis=1, dtype=np.float64) for c in self.cells])

    @property
    def utility(self) -> float:
        """Mean over seeds and draws."""
        return float(self.per_draw("utility").mean())


@dataclass(frozen=True)
class Report:
    """What an evaluation found.

    Attributes:
        rows: one per world and policy; see :func:`evaluate`.
        recovery: one per world, policy and kind or action.
        settings: draws, tasks and seed.
    """

    rows: list[dict[str, Any]]
    recovery: list[dict[str, Any]]
    settings: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"settings": self.settings, "rows": self.rows, "recovery": self.recovery}


def evaluate(
    worlds: Sequence[str | CompiledWorld],
    policies: Sequence[str | Contender],
    *,
    draws: int = DRAWS,
    tasks_per_draw: int = TASKS_PER_DRAW,
    seed: int = REPORT_SEED,
    yardsticks: bool = True,
    max_seeds: int | None = None,
    cache: Path | None = None,
    watcher: Watcher | None = None,
) -> Report:
    """Judge policies.

    Args:
        worlds: ids, paths or compiled worlds.
        policies: names, paths or contenders, judged beside the yardsticks.
        draws: held-out deployments per world.
        tasks_per_draw: tasks of each; the same for every policy.
        seed: of draws and luck; another one only for what is not reported.
        yardsticks: also play every yardstick that is there.
        max_seeds: training seeds per policy at most; all when None.
        cache: folder in which played cells are kept and found again.
        watcher: told about progress.

    Returns:
        Rows with ``world``, ``policy``, ``group``, ``seeds``, ``tasks`` and, as figures with a
        95 % interval: ``completion``, ``utility``, ``gap_closed``, ``worst_decile``, ``attempts``,
        ``seconds``, ``tokens``, ``escalated``, ``degraded``, ``harmed``, ``p``, ``r``, ``d``,
        ``break_even``, ``vs_rule`` (utility gained over the best rule), ``completion_vs_rule``.

    Raises:
        ConfigError: no world, or a name is given to two policies.
    """
    compiled = [w if isinstance(w, CompiledWorld) else load_world(w) for w in worlds]
    if not compiled:
        raise ConfigError("got no world; expected at least one, e.g. --world mcp-office")
    given = [p if isinstance(p, Contender) else resolve(p) for p in policies]
    field = _field(given, [w.world.id for w in compiled], yardsticks)
    plans = [(world, _in(field, world)) for world in compiled]
    if watcher is not None:
        cells = sum(len(c.members[:max_seeds]) for _, there in plans for c in there)
        watcher.plan(cells * draws * tasks_per_draw)
    rows: list[dict[str, Any]] = []
    recovery: list[dict[str, Any]] = []
    for world, there in plans:
        held = HeldOutSet.of(world, draws, tasks_per_draw, seed)
        judged = [_judge(held, c, max_seeds, cache, watcher) for c in there]
        boot = Bootstrap(draws, np.random.default_rng([seed, draws]))
        rows += world_rows(judged, boot)
        recovery += recovery_rows(judged)
    settings = {"draws": draws, "tasks_per_draw": tasks_per_draw, "seed": seed}
    return Report(rows, recovery, settings)


def _field(given: list[Contender], worlds: list[str], yardsticks: bool) -> list[Contender]:
    given = _distinct(given)
    names = [c.name for c in given]
    extra = standard(worlds) if yardsticks else [resolve(ALONE)]
    return [c for c in extra if c.name not in names] + given


def _in(field: Sequence[Contender], world: CompiledWorld) -> list[Contender]:
    return [c for c in field if c.world in (None, base_id(world.world.id))]


def _distinct(given: list[Contender]) -> list[Contender]:
    """A training run named like the policy made from it is shown as ``<name>-seeds``."""
    found: dict[str, Contender] = {}
    for contender in given:
        if contender.name in found and len(contender.members) > 1:
            contender = replace(contender, name=f"{contender.name}-seeds")
        if contender.name in found:
            raise ConfigError(
                f"the name {contender.name!r} stands for two policies; expected distinct names; "
                "rename one folder"
            )
        found[contender.name] = contender
    return list(found.values())


def _judge(
    held: HeldOutSet,
    contender: Contender,
    max_seeds: int | None,
    cache: Path | None,
    watcher: Watcher | None,
) -> Judged:
    world = held.world.world.id
    cells = []
    for i, member in enumerate(contender.members[:max_seeds]):
        settings = {
            "draws": len(held.deployments),
            "tasks": held.tasks_per_draw,
            "seed": held.seed,
        }
        name = fingerprint(held.world, member.identity, **settings)
        path = None if cache is None else cache / f"{world}-{contender.name}-{i}-{name}.npz"
        label = contender.name if len(contender.members) == 1 else f"{contender.name} seed {i}"
        if watcher is not None:
            watcher.begin(world, label, len(held))
        cell = None if path is None else Cell.load(path)
        if cell is None:
            advance = None if watcher is None else watcher.advance
            cell = play(held, member.make(held.world), advance)
            if path is not None:
                cell.save(path)
        elif watcher is not None:
            watcher.advance(len(held))
        cells.append(cell)
    return Judged(world, contender, tuple(cells))


def best_rule(judged: Sequence[Judged]) -> Judged | None:
    """The rule of the highest utility: a tuned ladder or the hand ladder."""
    rules = [j for j in judged if j.name in LADDERS]
    return max(rules, key=lambda j: j.utility, default=None)


def ceiling(judged: Sequence[Judged]) -> Judged | None:
    """The better of the clairvoyants, an estimate from below."""
    bounds = [j for j in judged if j.contender.group == "bound"]
    return max(bounds, key=lambda j: j.utility, default=None)


def world_rows(judged: Sequence[Judged], boot: Bootstrap) -> list[dict[str, Any]]:
    """The rows of one world, best utility first."""
    rule, top = best_rule(judged), ceiling(judged)
    alone = next((j for j in judged if j.name == ALONE), None)
    found = [_row(j, rule, top, alone, boot) for j in judged]
    return sorted(found, key=lambda row: -row["utility"]["mean"])


_MEANS: tuple[str, ...] = (
    *("completed", "utility", "attempts", "seconds", "tokens"),
    *("escalated", "degraded", "harmed"),
)
_SHOWN_AS = {"completed": "completion"}


def _row(
    j: Judged, rule: Judged | None, top: Judged | None, alone: Judged | None, boot: Bootstrap
) -> dict[str, Any]:
    utility = j.per_draw("utility")
    row: dict[str, Any] = {
        "world": j.world,
        "policy": j.name,
        "group": j.contender.group,
        "best_rule": rule is not None and j is rule,
        "seeds": len(j.cells),
        "tasks": int(j.cells[0].utility.size),
    }
    for field in _MEANS:
        row[_SHOWN_AS.get(field, field)] = boot.mean(j.per_draw(field)).to_json()
    row["worst_decile"] = boot.worst_decile(utility).to_json()
    row["gap_closed"] = row["vs_rule"] = row["completion_vs_rule"] = None
    if rule is not None:
        base = rule.per_draw("utility")
        row["vs_rule"] = boot.difference(utility, base).to_json()
        completed = (j.per_draw("completed"), rule.per_draw("completed"))
        row["completion_vs_rule"] = boot.difference(*completed).to_json()
        if top is not None:
            row["gap_closed"] = _json(boot.gap_closed(utility, base, top.per_draw("utility")))
    row |= _twin_columns(j, alone, boot)
    decisions = sum(c.decisions for c in j.cells)
    row["decide_us"] = 1e6 * sum(c.decide_s for c in j.cells) / max(decisions, 1)
    return row


def _twin_columns(j: Judged, alone: Judged | None, boot: Bootstrap) -> dict[str, Any]:
    if alone is None or j is alone:
        return dict.fromkeys(("p", "r", "d", "break_even"))
    found = twins([c.completed for c in j.cells], alone.cells[0].completed, boot)
    figures = {"p": found.p, "r": found.r, "d": found.d, "break_even": found.break_even}
    return {name: figure.to_json() for name, figure in figures.items()}


def _json(figure: Figure | None) -> dict[str, float] | None:
    return None if figure is None else figure.to_json()


def recovery_rows(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Shares of incidents recovered by the kind first seen, and of tries that healed by action."""
    rows = []
    for j in judged:
        opened = sum((c.opened for c in j.cells), np.zeros(len(KINDS), np.int64))
        recovered = sum((c.recovered for c in j.cells), np.zeros(len(KINDS), np.int64))
        tried = sum(c.tried.sum(axis=0) for c in j.cells)
        healed = sum(c.healed.sum(axis=0) for c in j.cells)
        for by, names, hits, n in (
            ("kind", [k.value for k in KINDS], recovered, opened),
            ("action", [a.slug for a in ACTIONS], healed, tried),
        ):
            for i, name in enumerate(names):
                if n[i]:
                    figure = share(int(hits[i]), int(n[i]))
                    row = {"world": j.world, "policy": j.name, "by": by, "name": name}
                    rows.append(row | {"n": int(n[i]), "recovered": _json(figure)})
    return rows
