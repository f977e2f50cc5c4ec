"""What is exported decides as what was trained, and an earlier artifact outlives any failure."""

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from selfheal_rl.core.catalog import read_golden, verify_artifact
from selfheal_rl.core.situation import N_SLOTS, SLOT_INDEX
from selfheal_rl.core.values import N_ACTIONS, ArtifactError
from selfheal_rl.runtime.decide.onnx_policy import OnnxPolicy
from selfheal_rl.trainer.train import export as export_module
from selfheal_rl.trainer.train.distill import DistillOptions, distill
from selfheal_rl.trainer.train.export import check_parity, export_run, session
from selfheal_rl.trainer.train.network import MeanNetwork, Network
from selfheal_rl.trainer.train.onnx_file import OPSET, network_of, to_onnx
from selfheal_rl.trainer.train.rundir import RunDirectory
from selfheal_rl.trainer.train.seed_run import SeedRun
from selfheal_rl.trainer.train.states import States
from selfheal_rl.trainer.train.storage import RunError
from selfheal_rl.trainer.train.support import Seen


def random_network(seed: int, width: int = N_SLOTS) -> Network:
    rng = np.random.default_rng(seed)

    def tower(out: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        sizes = [width, 24, 12, out]
        return tuple(
            (
                rng.normal(0, a**-0.5, (b, a)).astype(np.float32),
                rng.normal(0, 0.1, b).astype(np.float32),
            )
            for a, b in itertools.pairwise(sizes)
        )

    return Network(tower(N_ACTIONS), tower(1))


def random_states(n: int = 500, seed: int = 0) -> States:
    rng = np.random.default_rng(seed)
    mask = rng.random((n, N_ACTIONS)) < 0.5
    mask[:, 15] = True
    observation = rng.uniform(-1, 1, (n, N_SLOTS)).astype(np.float32)
    return States(np.zeros((1, n), np.float32), observation, mask)


@pytest.fixture(scope="module")
def exported(
    finished: RunDirectory, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunDirectory, Path]:
    out = tmp_path_factory.mktemp("policies") / "tiny"
    export_run(finished, out, command="selfheal export here")
    return finished, out


def test_numpy_network_says_what_the_sb3_policy_says(finished: RunDirectory) -> None:
    run = SeedRun(finished, 3)
    observation = random_states().observation
    network = Network.of(run.learner.policy)
    with torch.no_grad():
        features = torch.from_numpy(observation)
        policy = run.learner.policy
        hidden, _ = policy.mlp_extractor(features)
        logits = policy.action_net(hidden).numpy()
        values = policy.predict_values(features)[:, 0].numpy()
    np.testing.assert_allclose(network.logits(observation), logits, atol=1e-5)
    np.testing.assert_allclose(network.values(observation), values, atol=1e-5)
    assert Network.from_arrays(network.arrays()).hash == network.hash


@pytest.mark.parametrize("members", [1, 3])
def test_onnx_agrees_with_torch(members: int) -> None:
    networks = [random_network(i) for i in range(members)]
    content = to_onnx(networks)
    assert content == to_onnx(networks), "the same weights give the same bytes"
    assert check_parity(networks, content, random_states(2000)) < 1e-4
    model = onnx.load_from_string(content)
    assert model.opset_import[0].version == OPSET
    outputs = [o.name for o in model.graph.output]
    assert outputs == ["logits", "value"] + (["disagreement"] if members > 1 else [])
    batch = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert batch.dim_param == "N"


def test_closed_actions_get_the_masked_logit() -> None:
    states = random_states()
    logits = session(to_onnx([random_network(0)])).run(
        ["logits"], {"observation": states.observation, "mask": states.mask}
    )[0]
    np.testing.assert_array_equal(logits < -1e7, ~states.mask)


def test_parity_notices_other_weights() -> None:
    with pytest.raises(ArtifactError, match="differs from the trained one"):
        check_parity([random_network(0)], to_onnx([random_network(1)]), random_states())


def test_network_is_read_back_from_its_file() -> None:
    network = random_network(0)
    assert network_of(to_onnx([network])).hash == network.hash


def test_artifact_is_whole_and_runs_in_the_healer(exported: tuple[RunDirectory, Path]) -> None:
    run, out = exported
    manifest = verify_artifact(out)
    assert manifest.training.command == "selfheal train tiny"
    assert manifest.training.seeds
    assert set(manifest.training.seeds) == {3, 4}
    assert manifest.training.decisions == 2 * 4096
    assert set(manifest.scores["seeds"]) == {"3", "4"}
    assert len(read_golden(out / "golden.jsonl").actions) >= 64
    text = (out / "card.md").read_text()
    for needed in ("selfheal train tiny", "selfheal export here", "| 3 |", "| 4 |", "toy-exact"):
        assert needed in text
    policy = OnnxPolicy.load(out)
    best = manifest.scores["shipped_seeds"][0]
    trained = run.trained(best)
    assert trained is not None
    network = trained.seen.close(trained.network)
    states = random_states()
    np.testing.assert_allclose(
        policy.answer(states.observation, states.mask).value,
        network.values(states.observation),
        atol=1e-4,
    )
    assert policy.tables.hash == run.tables.hash


def test_exporting_twice_gives_the_same_artifact(
    exported: tuple[RunDirectory, Path], tmp_path: Path
) -> None:
    run, out = exported
    again = export_run(run, tmp_path / "tiny", command="selfheal export here")
    assert again == verify_artifact(out)


def test_ensemble_ships_its_disagreement(finished: RunDirectory, tmp_path: Path) -> None:
    manifest = export_run(finished, tmp_path / "both", command="x", members="all")
    assert set(manifest.scores["shipped_seeds"]) == {3, 4}
    assert manifest.support["disagreement"] > 0
    states = random_states()
    answer = OnnxPolicy.load(tmp_path / "both").answer(states.observation, states.mask)
    assert answer.disagreement is not None
    assert answer.disagreement.std() > 0


@pytest.mark.parametrize("where", ["check_parity", "golden_of", "card"])
def test_an_interrupted_export_leaves_the_earlier_artifact(
    exported: tuple[RunDirectory, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
) -> None:
    run, _ = exported
    out = tmp_path / "tiny"
    before = export_run(run, out, command="first")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(export_module, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_run(run, out, command="second")
    assert verify_artifact(out) == before
    assert [p.name for p in tmp_path.iterdir()] == ["tiny"]


def test_a_run_without_a_validated_seed_is_refused(finished: RunDirectory, tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "new", finished.recipe, name="x", command="y")
    with pytest.raises(RunError, match="no seed has been validated yet"):
        export_run(run, tmp_path / "policy", command="x")
    assert not (tmp_path / "policy").exists()


def test_what_never_varied_in_training_cannot_sway_the_network() -> None:
    network, states = random_network(0), random_states()
    seen = Seen.nothing(N_SLOTS)
    fixed = np.arange(N_SLOTS) % 3 == 0
    observation = np.where(fixed, np.float32(0.5), states.observation)
    mask = states.mask.copy()
    mask[:, 7] = False
    seen.add(torch.from_numpy(observation), torch.from_numpy(mask))
    closed = seen.close(network)
    # Where training was, nothing changes.
    trained = np.arange(N_ACTIONS) != 7
    np.testing.assert_allclose(
        closed.logits(observation)[:, trained], network.logits(observation)[:, trained], atol=1e-5
    )
    np.testing.assert_allclose(closed.values(observation), network.values(observation), atol=1e-5)
    # Elsewhere the slots have no effect, and the untrained action comes last.
    np.testing.assert_allclose(
        closed.logits(states.observation), closed.logits(observation), atol=1e-5
    )
    assert (closed.logits(observation).argmin(axis=1) == 7).all()


def test_support_marks_what_was_fixed_and_bounds_the_rest() -> None:
    seen = Seen.nothing(N_SLOTS)
    states = np.zeros((2, N_SLOTS), np.float32)
    latency, drift, kind = (SLOT_INDEX[n] for n in ("seconds.latency", "share.drift", "kind.drift"))
    states[:, latency] = (0.1, 0.4)
    seen.add(torch.from_numpy(states), torch.ones(2, N_ACTIONS, dtype=torch.bool))
    bounds = seen.bounds()
    low, high = np.array(bounds["low"]), np.array(bounds["high"])
    assert low[latency] < 0.1 < 0.4 < high[latency] < 1.0
    assert low[drift] == high[drift] == 0.0
    assert 0.4 < high[kind] < 0.6, "a kind never seen makes the policy abstain once it leads"
    assert (low >= -1).all()
    assert (high <= 1).all()


def test_a_distilled_student_decides_as_the_mean_of_its_teachers_does() -> None:
    rng = np.random.default_rng(0)

    def network() -> Network:
        def layer(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
            return rng.normal(0, k**-0.5, (n, k)).astype(np.float32), np.zeros(n, np.float32)

        return Network((layer(16, 6), layer(N_ACTIONS, 16)), (layer(16, 6), layer(1, 16)))

    teachers = [network(), network(), network()]
    observation = rng.normal(0, 1, (8192, 6)).astype(np.float32)
    mask = rng.random((8192, N_ACTIONS)) < 0.7
    mask[:, 15] = True
    states = States(np.zeros((1, 8192), np.float32), observation, mask)
    options = DistillOptions(epochs=40, batch=512, learning_rate=(1e-2, 1e-3))

    def agreement(student: Network) -> float:
        def best(n: Network | MeanNetwork) -> np.ndarray:
            return np.where(mask, n.logits(observation), -np.inf).argmax(axis=1)

        return float((best(student) == best(MeanNetwork(tuple(teachers)))).mean())

    student = distill(teachers, states, options, seed=0)
    assert agreement(student) > 0.85 > agreement(teachers[0]) + 0.1
    assert distill(teachers, states, options, seed=0).hash == student.hash
