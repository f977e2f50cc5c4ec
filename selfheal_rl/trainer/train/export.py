"""From a run to an artifact: choose a seed, write ONNX, check it against torch, write it whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from selfheal_rl.core.catalog import Golden, Manifest, Training, write_artifact
from selfheal_rl.core.situation import SPEC_HASH
from selfheal_rl.core.values import ArtifactError
from selfheal_rl.trainer.seeds import VALIDATE_SEED
from selfheal_rl.trainer.train.distill import DistillOptions, distill
from selfheal_rl.trainer.train.network import MeanNetwork, Network, NetworkPolicy
from selfheal_rl.trainer.train.onnx_file import OPSET, MaskedPolicy, to_onnx
from selfheal_rl.trainer.train.recipe import training_worlds
from selfheal_rl.trainer.train.rundir import RunDirectory, Trained, privileged_inputs, versions
from selfheal_rl.trainer.train.states import States, visit
from selfheal_rl.trainer.train.support import Seen
from selfheal_rl.trainer.train.validate import Score, Validator

Members = Literal["best", "distilled", "all"]
PARITY_STATES = 10_000
PARITY = 1e-4
N_GOLDEN = 64
_MARGIN = 1e-2
"""Golden states have at least this between the best and the second logit: no near ties."""
_DRAWS, _TASKS = 32, 128


@dataclass(frozen=True)
class Candidate:
    """One seed with its score on validation draws that no checkpoint was chosen on."""

    trained: Trained
    network: Network
    score: Score


def export_run(
    run: RunDirectory, out: Path, *, command: str, members: Members = "best"
) -> Manifest:
    """Write a run's policy as an artifact; an earlier artifact stays when anything fails.

    Args:
        run: trained, or stopped after a validation.
        out: the artifact's folder; its name becomes the policy's.
        command: the exact export command, for the card.
        members: ``best`` ships the best seed; ``all`` the mean of all seeds with their
            disagreement, at several times the decision time; ``distilled`` one network that
            learned to decide as that mean does, or the best seed where that scores higher.

    Raises:
        RunError: the run has no validated seed or is for another observation.
        ArtifactError: the ONNX file decides otherwise than torch, or the disk refused.
    """
    run.check_spec()
    candidates = rank(run)
    chosen = candidates[:1] if members == "best" else candidates
    networks = [c.network for c in chosen]
    score = chosen[0].score if len(chosen) == 1 else _scorer(run)(MeanNetwork(tuple(networks)))
    if members == "distilled":
        student, reached = _student(run, candidates)
        if reached.utility >= candidates[0].score.utility:
            networks, score = [student], reached
        else:
            chosen, networks, score = candidates[:1], networks[:1], candidates[0].score
    content = to_onnx(networks)
    states = visit(run.recipe, run.tables, networks[0], PARITY_STATES, np.random.default_rng(0))
    check_parity(networks, content, states)
    manifest = _manifest(run, out.absolute().name, candidates, chosen, networks, states, score)
    files = {
        "policy.onnx": content,
        "golden.jsonl": golden_of(networks, states).to_jsonl(),
        "card.md": card(run, manifest, candidates, command).encode(),
    }
    return write_artifact(out, manifest, files)


def _student(run: RunDirectory, candidates: Sequence[Candidate]) -> tuple[Network, Score]:
    """One network that decides as all seeds together, and its score."""
    members, options = tuple(c.network for c in candidates), DistillOptions()
    rng = np.random.default_rng(1)
    states = visit(run.recipe, run.tables, MeanNetwork(members), options.states, rng)
    seen = _seen(candidates)
    student = seen.close(distill(members, states, options, seed=0))
    return student, _scorer(run)(student)


def rank(run: RunDirectory) -> list[Candidate]:
    """Every seed, best first, scored on validation draws other than those of its checkpoints."""
    score = _scorer(run)
    found = []
    for trained in run.all_trained():
        network = trained.seen.close(trained.network)
        found.append(Candidate(trained, network, score(network)))
    return sorted(found, key=lambda c: -c.score.utility)


def _scorer(run: RunDirectory) -> Callable[[Network | MeanNetwork], Score]:
    validator = Validator(training_worlds(run.recipe), _DRAWS, _TASKS, VALIDATE_SEED + 1)
    tables = run.tables
    extra = privileged_inputs() if run.recipe.privileged else None
    return lambda network: validator.score(NetworkPolicy(network, tables, "ppo", extra))


def check_parity(members: Sequence[Network], content: bytes, states: States) -> float:
    """Compare the ONNX file with torch on ``states``.

    Returns:
        The largest difference of any output.

    Raises:
        ArtifactError: they differ by more than ``PARITY``, or choose another action.
    """
    with torch.no_grad():
        reference = MaskedPolicy(members)(
            torch.from_numpy(states.observation), torch.from_numpy(states.mask)
        )
    names = ("logits", "value") + (("disagreement",) if len(members) > 1 else ())
    found = session(content).run(
        list(names), {"observation": states.observation, "mask": states.mask}
    )
    wanted = [tensor.numpy() for tensor in reference[: len(names)]]
    apart = max(float(np.abs(w - f).max()) for w, f in zip(wanted, found, strict=True))
    logits = wanted[0]
    chosen = np.take_along_axis(logits, found[0].argmax(axis=1)[:, None], axis=1)[:, 0]
    other = int((logits.max(axis=1) - chosen > PARITY).sum())
    if apart > PARITY or other:
        raise ArtifactError(
            f"the exported network differs from the trained one by {apart:.2g} and chooses "
            f"otherwise in {other} of {len(logits)} states; expected at most {PARITY} and 0; "
            "nothing was written; check the versions of onnx and onnxruntime"
        )
    return apart


def session(content: bytes) -> Any:
    """An onnxruntime session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def golden_of(members: Sequence[Network], states: States) -> Golden:
    """Decisions to replay: clear ones, spread over actions as far as they occur."""
    with torch.no_grad():
        logits = MaskedPolicy(members)(
            torch.from_numpy(states.observation), torch.from_numpy(states.mask)
        )[0]
        probabilities = torch.softmax(logits, dim=1).numpy()
    at = _spread(logits.numpy())
    return Golden(
        np.ascontiguousarray(states.facts[:, at]),
        np.ascontiguousarray(states.observation[at]),
        np.ascontiguousarray(states.mask[at]),
        np.ascontiguousarray(probabilities[at]),
    )


def _spread(logits: NDArray[np.float32]) -> NDArray[np.int64]:
    top = np.sort(logits, axis=1)
    clear = np.flatnonzero(top[:, -1] - top[:, -2] > _MARGIN)
    action = logits[clear].argmax(axis=1)
    # The first of each action, then the second of each, and so on.
    nth = np.zeros(len(clear), np.int64)
    for a in np.unique(action):
        nth[action == a] = np.arange((action == a).sum())
    return np.sort(clear[np.lexsort((clear, nth))[:N_GOLDEN]])


def _manifest(
    run: RunDirectory,
    name: str,
    candidates: Sequence[Candidate],
    chosen: Sequence[Candidate],
    networks: Sequence[Network],
    states: States,
    score: Score,
) -> Manifest:
    support = {} if run.recipe.privileged else _seen(chosen).bounds()
    if len(networks) > 1:
        support["disagreement"] = _usual_disagreement(networks, states)
    return Manifest(
        name=name,
        kind="onnx",
        spec_hash=SPEC_HASH,
        belief=run.tables.to_dict(),
        versions=dict(run.about["versions"]) | {"onnx opset": str(OPSET)} | _onnx_version(),
        training=Training(
            recipe=run.about["recipe"],
            command=run.about["command"],
            seeds=tuple(c.trained.seed for c in candidates),
            decisions=sum(c.trained.decisions for c in candidates),
            seconds=round(sum(c.trained.seconds for c in candidates), 1),
        ),
        scores={
            "measure": "mean utility of a failing task, validation draws, worlds averaged",
            "utility": round(score.utility, 5),
            "worlds": {world: round(utility, 5) for world, utility in score.worlds.items()},
            "seeds": {str(c.trained.seed): round(c.score.utility, 5) for c in candidates},
            "shipped_seeds": [c.trained.seed for c in chosen],
            "distilled": len(networks) < len(chosen),
        },
        support=support,
        created=run.about["created"],
    )


def _seen(candidates: Sequence[Candidate]) -> Seen:
    seen = candidates[0].trained.seen
    for other in candidates[1:]:
        seen = seen.join(other.trained.seen)
    return seen


def _onnx_version() -> dict[str, str]:
    return {"onnxruntime": onnxruntime.__version__} | {
        k: v for k, v in versions().items() if k == "selfheal-rl"
    }


def _usual_disagreement(members: Sequence[Network], states: States) -> float:
    """What all but 1 % of the training states stay below."""
    with torch.no_grad():
        spread = MaskedPolicy(members)(
            torch.from_numpy(states.observation), torch.from_numpy(states.mask)
        )[2]
    return round(float(np.quantile(spread.numpy(), 0.99)), 6)


def card(
    run: RunDirectory, manifest: Manifest, candidates: Sequence[Candidate], command: str
) -> str:
    """The policy's card in Markdown: what it is, how it was made, what it scored, its limits."""
    recipe, scores = run.recipe, manifest.scores
    shipped = ", ".join(str(s) for s in scores["shipped_seeds"])
    what = "one network distilled from seeds" if scores["distilled"] else "seed"
    rows = [
        f"| {c.trained.seed} | {c.score.utility:.4f} | {c.score.completion:.1%} "
        f"| {c.trained.decisions:,} | {c.trained.seconds:.0f} |"
        for c in candidates
    ]
    worlds = [f"| {world} | {utility:.4f} |" for world, utility in scores["worlds"].items()]
    limits = (
        "It sees what no deployed policy can (root cause, remaining time, true success rates): a "
        "yardstick, not a policy to run."
        if recipe.privileged
        else "Trained in simulation only. Outside the bounds in `manifest.json` (`support`) the "
        "healer abstains to its rules."
    )
    return "\n".join(
        [
            f"# {manifest.name}",
            "",
            f"{recipe.title or 'A repair policy trained with PPO.'} "
            f"Worlds: {', '.join(recipe.worlds)}. Shipped: {what} {shipped}.",
            "",
            "```",
            run.about["command"],
            command,
            "```",
            "",
            f"Validation ({_DRAWS} held-out deployments per world, {_TASKS} failing tasks each; "
            "checkpoints were chosen on others):",
            "",
            "| seed | utility | completion | decisions | seconds |",
            "|---:|---:|---:|---:|---:|",
            *rows,
            "",
            "| world | utility of what ships |",
            "|---|---:|",
            *worlds,
            "",
            limits,
            "",
        ]
    )
