"""From a name or a path to something that can be judged."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from selfheal_rl.core.catalog import find_policy, list_policies, list_worlds, read_manifest
from selfheal_rl.core.catalog.locate import names_file
from selfheal_rl.core.situation import BeliefTables
from selfheal_rl.core.values import ConfigError
from selfheal_rl.core.values.errors import UnknownIdError
from selfheal_rl.runtime.decide.rivals import RIVALS
from selfheal_rl.runtime.decide.rules import HAND_LADDER, LadderSelector
from selfheal_rl.trainer.evaluate.yardsticks.clairvoyant import Clairvoyant, ClairvoyantNetwork
from selfheal_rl.trainer.evaluate.yardsticks.lookahead import Lookahead
from selfheal_rl.trainer.evaluate.yardsticks.selector import SelectorPolicy
from selfheal_rl.trainer.sim.belief_tables import belief_tables
from selfheal_rl.trainer.sim.compile import CompiledWorld, load_world
from selfheal_rl.trainer.sim.episodes import SimPolicy

Make = Callable[[CompiledWorld], SimPolicy]
ALONE, GIVE_UP, CLAIRVOYANT = "agent-alone", "give-up", "clairvoyant"
CLAIRVOYANT_NET = "clairvoyant-ppo"
TUNED, PER_WORLD = "ladder-tuned", "ladder-world"
LADDERS = (HAND_LADDER, TUNED, PER_WORLD)
"""The rules; the best of them in a world is the one a learned policy must beat there."""
PLANNERS = ("lookahead-1", "lookahead-2")
MIXTURE = ("mcp-office", "code-shell", "web-api", "llm-output")
MARK = "+"
"""Stands between the id of a world and what was changed in it."""
_VERSION = 5
"""Counts changes to the planners, so that cells played by an older one are not reused."""


@dataclass(frozen=True)
class Member:
    """One playable policy: one training seed of a contender.

    Attributes:
        identity: names weights, table or code; a cached result is reused while it is the same.
        make: the policy for a world.
    """

    identity: str
    make: Make


@dataclass(frozen=True)
class Contender:
    """A row of the report.

    Attributes:
        name: as shown.
        group: ``policy``, ``rule``, ``library``, ``baseline``, ``planner`` or ``bound``.
        members: one per training seed.
        world: the only world it is judged in; None for all.
    """

    name: str
    group: str
    members: tuple[Member, ...] = field(repr=False)
    world: str | None = None


def base_id(world: str) -> str:
    """The id of the world that a changed one was made from."""
    return world.partition(MARK)[0]


def mixture_tables(world: CompiledWorld) -> BeliefTables:
    """Belief tables of the bundled mixture when it knows the world's causes, else the world's."""
    bundled = list_worlds()
    worlds = [load_world(name) for name in MIXTURE if name in bundled]
    known = {cause for w in worlds for cause in w.cause_names}
    if worlds and set(world.cause_names) <= known:
        return belief_tables(worlds)
    return belief_tables([world])


def standard(worlds: Sequence[str], tables: BeliefTables | None = None) -> list[Contender]:
    """Every yardstick that is there: libraries, ladders, planners, bandit, clairvoyant.

    Args:
        worlds: ids, for the ladders tuned to one of them.
        tables: for the planners; those of the bundled mixture when None.
    """
    found = [resolve(name, tables) for name in RIVALS]
    bundled = list_policies()
    found += [resolve(name) for name in (HAND_LADDER, TUNED) if name in bundled]
    own = dict.fromkeys(base_id(world) for world in worlds)
    found += [_ladder_of(world) for world in own if f"ladder-{world}" in bundled]
    if "bandit" in bundled:
        found.append(resolve("bandit"))
    found += [resolve(name, tables) for name in PLANNERS]
    found.append(resolve(CLAIRVOYANT))
    if CLAIRVOYANT in bundled:
        found.append(clairvoyant_network(CLAIRVOYANT))
    return found


def resolve(reference: str, tables: BeliefTables | None = None) -> Contender:
    """A contender by name or path.

    Args:
        reference: a yardstick (``lookahead-2``, ``tenacity``, ...), the id of a bundled policy,
            the folder of an artifact, of a training run, or of several artifacts (one per seed),
            or a ``rules.toml``.
        tables: for the planners; those of the bundled mixture when None.

    Raises:
        UnknownIdError: nothing of that name.
        ArtifactError: the artifact is damaged.
    """
    if reference in RIVALS:
        rival = SelectorPolicy(RIVALS[reference])
        group = "library" if rival.ignores_mask else "baseline"
        return Contender(reference, group, (Member(f"rival:{reference}", lambda _: rival),))
    if reference in PLANNERS:
        return _planner(reference, tables)
    if reference == CLAIRVOYANT:
        return Contender(reference, "bound", (Member(f"{reference}:{_VERSION}", Clairvoyant),))
    if names_file(reference):
        return _from_path(Path(reference).expanduser())
    try:
        folder = find_policy(reference)
    except UnknownIdError as error:
        yardsticks = ", ".join((*RIVALS, *PLANNERS, CLAIRVOYANT))
        raise UnknownIdError(f"{error}; or a yardstick: {yardsticks}") from None
    return _artifacts(reference, [folder])


def clairvoyant_network(reference: str) -> Contender:
    """A network that sees what the clairvoyant sees, from its artifact or training run.

    Raises:
        ArtifactError: the artifact is damaged or reads other inputs.
    """
    if names_file(reference) and (Path(reference) / "run.json").is_file():
        return Contender(CLAIRVOYANT_NET, "bound", _run(Path(reference)).members)
    folder = find_policy(reference)
    member = Member(read_manifest(folder).manifest_hash, _always(ClairvoyantNetwork.load(folder)))
    return Contender(CLAIRVOYANT_NET, "bound", (member,))


def _planner(name: str, tables: BeliefTables | None) -> Contender:
    depth = int(name.rpartition("-")[2])
    mark = "mixture" if tables is None else tables.hash[:16]

    def make(world: CompiledWorld) -> SimPolicy:
        return Lookahead(world, tables or mixture_tables(world), depth)

    return Contender(name, "planner", (Member(f"{name}:{_VERSION}:{mark}", make),))


def _ladder_of(world: str) -> Contender:
    made = _artifacts(PER_WORLD, [find_policy(f"ladder-{world}")])
    return Contender(PER_WORLD, "rule", made.members, world)


def _from_path(path: Path) -> Contender:
    if path.suffix == ".toml":
        return _constant(path.stem, "rule", SelectorPolicy(LadderSelector.load(path)), path)
    if (path / "run.json").is_file():
        return _run(path)
    if (path / "manifest.json").is_file():
        return _artifacts(path.name, [path])
    several = sorted(p.parent for p in path.glob("*/manifest.json"))
    if several:
        return _artifacts(path.name, several)
    raise UnknownIdError(
        f"{path}: holds neither manifest.json nor run.json, nor folders that do; expected the "
        "folder of a policy, of a training run or of several policies, one per seed"
    )


def _constant(name: str, group: str, policy: SimPolicy, source: Path) -> Contender:
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return Contender(name, group, (Member(digest, lambda _: policy),))


def _run(path: Path) -> Contender:
    from selfheal_rl.trainer.train.rundir import RunDirectory

    run = RunDirectory.open(path)
    policies = run.policies()
    members = []
    for policy, trained in zip(policies, run.all_trained(), strict=True):
        mark = f"run:{trained.network.hash}:{policy.tables.hash}"
        members.append(Member(mark, _always(policy)))
    return Contender(path.name, "policy", tuple(members))


def _always(policy: SimPolicy) -> Make:
    return lambda _: policy


def _artifacts(name: str, folders: Sequence[Path]) -> Contender:
    members, kinds = [], set()
    for folder in folders:
        manifest = read_manifest(folder)
        kinds.add(manifest.kind)
        members.append(Member(manifest.manifest_hash, _always(_load(folder, manifest.kind))))
    if len(kinds) > 1:
        raise ConfigError(f"{name}: mixes rules and networks; expected seeds of one policy")
    group = "rule" if kinds == {"rules"} else "policy"
    return Contender(name, group, tuple(members))


def _load(folder: Path, kind: str) -> SimPolicy:
    if kind == "rules":
        return SelectorPolicy(LadderSelector.load(folder))
    from selfheal_rl.runtime.decide.onnx_policy import OnnxPolicy

    return SelectorPolicy(OnnxPolicy.load(folder))


def fingerprint(world: CompiledWorld, identity: str, **settings: int) -> str:
    """Names a cell: the world's figures, the policy and the settings of the judgement."""
    body = [world.world.model_dump_json(), identity, sorted(settings.items())]
    text = json.dumps(body, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
