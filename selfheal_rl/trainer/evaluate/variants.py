"""Worlds changed on purpose: false alarms only, assumed figures halved, kinds left out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from selfheal_rl.core.catalog import find_world, list_worlds, load_toml, unknown_key
from selfheal_rl.core.values import KINDS, ConfigError, Effects, FaultKind
from selfheal_rl.runtime.diagnose import classify
from selfheal_rl.trainer.evaluate.contenders import MARK, MIXTURE
from selfheal_rl.trainer.sim.compile import CompiledWorld, compile_world, symptom_snapshot
from selfheal_rl.trainer.sim.schema import Cause, World

HARMLESS = 0.95
"""P(the agent goes on well if nothing is done) above which an alarm counts as false."""


def prepare(
    references: Sequence[str | Path] | None,
    *,
    all_false: bool = False,
    halve: bool = False,
    only_kind: str | None = None,
) -> list[CompiledWorld]:
    """Compiled worlds, changed as asked.

    Args:
        references: ids or paths; the bundled mixture when None.
        all_false: see :func:`all_false_alarms`; worlds without false alarms are left out.
        halve: see :func:`halve_assumed`.
        only_kind: keep causes that show mainly as this kind; worlds without them are left out.

    Raises:
        ConfigError: nothing is left, or no such kind.
    """
    names = list(references or [w for w in MIXTURE if w in list_worlds()])
    worlds = [load_toml(find_world(str(name)), World) for name in names]
    changes: list[Callable[[World], World | None]] = []
    if all_false:
        changes.append(all_false_alarms)
    if only_kind is not None:
        kind = _kind(only_kind)
        changes.append(lambda world: keep_kind(world, kind))
    if halve:
        changes.append(halve_assumed)
    for change in changes:
        worlds = [changed for world in worlds if (changed := change(world)) is not None]
    if not worlds:
        raise ConfigError(f"nothing is left of {', '.join(map(str, names))}; name another world")
    return [compile_world(world) for world in worlds]


def all_false_alarms(world: World) -> World | None:
    """The world with its false alarms only; None when it has none."""
    kept = {
        name: cause
        for name, cause in world.causes.items()
        if all(s.alarm is not None for s in cause.symptoms)
        and (e := cause.repair.get("continue")) is not None
        and e.ok / e.n >= HARMLESS
    }
    return _with(world, kept, "false-alarms")


def halve_assumed(world: World) -> World:
    """The world with every assumed success count and probability halved.

    Evidence keeps its weight ``n``; half of its successes go. Durations, costs and shares stay.
    """
    body = world.model_dump(mode="json", by_alias=True)
    for cause in body["causes"].values():
        for figure in cause["repair"].values():
            _halve(figure, "ok")
        for figure in cause["harm"].values():
            _halve(figure, "p")
    return World.model_validate(body).model_copy(update={"id": f"{world.id}{MARK}halved"})


def _halve(figure: dict[str, Any], key: str) -> None:
    if str(figure["source"]).lower().startswith("assumed"):
        figure[key] = figure[key] / 2.0


def keep_kind(world: World, kind: FaultKind) -> World | None:
    """Only the causes whose most frequent symptom is of ``kind``; None when there are none."""
    kept = {n: c for n, c in world.causes.items() if main_kind(c) is kind}
    return _with(world, kept, f"only-{kind.value}")


def main_kind(cause: Cause) -> FaultKind:
    """The kind under which the classifier sees a cause's most frequent symptom."""
    symptom = max(cause.symptoms, key=lambda s: s.share)
    return classify(symptom_snapshot(cause, symptom, Effects.READ)).kind


def kinds_of(world: World) -> tuple[FaultKind, ...]:
    """The main kinds of a world's causes: what can be left out and tested one by one."""
    found = {main_kind(cause) for cause in world.causes.values()}
    return tuple(kind for kind in KINDS if kind in found)


def _with(world: World, causes: dict[str, Cause], what: str) -> World | None:
    if not causes:
        return None
    # A write-only cause needs the cause that reads meet in its place.
    for cause in list(causes.values()):
        if cause.otherwise is not None:
            causes.setdefault(cause.otherwise, world.causes[cause.otherwise])
    update = {"causes": causes, "kind_mix": {}, "id": f"{world.id}{MARK}{what}"}
    return world.model_copy(update=update)


def _kind(name: str) -> FaultKind:
    known = [k.value for k in KINDS]
    if name not in known:
        raise ConfigError(unknown_key(name, known))
    return FaultKind(name)
