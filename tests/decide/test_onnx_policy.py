"""Loading a network: parity, damage, abstention."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfheal_rl import Healer
from selfheal_rl.core.catalog import json_hash, read_manifest, write_artifact
from selfheal_rl.core.situation import N_SLOTS, SLOT_INDEX, facts_of, legal_mask
from selfheal_rl.core.values import ArtifactError, ConfigError, RepairAction, VirtualClock
from selfheal_rl.runtime.decide.abstain import AbstainingSelector
from selfheal_rl.runtime.decide.load import load_selector
from selfheal_rl.runtime.decide.onnx_graph import layers_of
from selfheal_rl.runtime.decide.onnx_policy import OnnxPolicy
from selfheal_rl.runtime.decide.rules import LadderSelector


def rules() -> LadderSelector:
    return LadderSelector.load("hand-ladder")


@pytest.mark.parametrize("style", ["gemm", "matmul", "relu"])
def test_single_rows_agree_with_onnxruntime(kit: Any, tmp_path: Path, style: str) -> None:
    content = kit.network(3, style=style)
    assert (layers_of(content) is None) == (style == "relu")
    policy = OnnxPolicy.load(kit.write_policy(tmp_path / "p", content))
    _, observation, mask = kit.situations(200, 7)
    batch = policy.answer(observation, mask)
    rows = np.concatenate(
        [policy.logits(observation[[n]], mask[[n]]).copy() for n in range(len(mask))]
    )
    np.testing.assert_allclose(rows, batch.logits, atol=1e-4)
    assert (batch.logits[~mask] == np.float32(-1e8)).all()
    single = [policy.action(observation[[n]], mask[[n]]) for n in range(len(mask))]
    assert single == policy.actions(observation, mask).tolist()
    assert mask[np.arange(len(mask)), single].all()
    assert batch.value is not None
    assert batch.value.shape == (200,)
    assert batch.disagreement is None


def test_greedy_and_sampled_probabilities(kit: Any, policy_folder: Path) -> None:
    facts, observation, mask = kit.situations(50, 2)
    greedy = OnnxPolicy.load(policy_folder).probabilities(facts, observation, mask)
    warm = OnnxPolicy.load(policy_folder, temperature=1.0).probabilities(facts, observation, mask)
    assert (greedy.max(axis=1) == 1.0).all()
    np.testing.assert_allclose(warm.sum(axis=1), 1.0, atol=1e-5)
    assert (warm[~mask] == 0.0).all()
    assert (warm.argmax(axis=1) == greedy.argmax(axis=1)).all()
    logits = OnnxPolicy.load(policy_folder).logits(observation, mask)
    expected = np.where(mask, np.exp(logits - logits.max(axis=1, keepdims=True)), 0.0)
    np.testing.assert_allclose(warm, expected / expected.sum(axis=1, keepdims=True), atol=1e-5)
    with pytest.raises(ConfigError, match="temperature"):
        OnnxPolicy.load(policy_folder, temperature=-1.0)


def _truncate(folder: Path) -> None:
    path = folder / "policy.onnx"
    path.write_bytes(path.read_bytes()[:-100])


def _flip(folder: Path) -> None:
    path = folder / "policy.onnx"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def _golden(folder: Path) -> None:
    path = folder / "golden.jsonl"
    path.write_text(path.read_text().replace("1", "2", 1))


def _belief(folder: Path) -> None:
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    data["belief"]["log_prior"]["values"][0] += 1.0
    path.write_text(json.dumps(data))


def _gone(folder: Path) -> None:
    (folder / "policy.onnx").unlink()


@pytest.mark.parametrize("damage", [_truncate, _flip, _golden, _belief, _gone])
def test_a_damaged_artifact_is_refused_and_the_healer_goes_on(
    policy_folder: Path, damage: Any
) -> None:
    damage(policy_folder)
    with pytest.raises(ArtifactError, match=r"expected|cannot be read"):
        OnnxPolicy.load(policy_folder)
    calls: list[int] = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise TimeoutError
        return "ok"

    healer = Healer(policy_folder, clock=VirtualClock())
    assert healer.health()["status"] == "degraded"
    assert healer.health()["selector"] == "hand-ladder"
    assert healer.tool(flaky, effects="read")() == "ok"


def test_truncated_content_with_right_hashes_is_refused(kit: Any, tmp_path: Path) -> None:
    # As if it had been exported broken: the hashes hold, the file is no network.
    good = kit.write_policy(tmp_path / "good", kit.network())
    manifest = read_manifest(good)
    files = {name: (good / name).read_bytes() for name in manifest.files}
    files["policy.onnx"] = files["policy.onnx"][:-300]
    write_artifact(tmp_path / "bad", manifest.model_copy(update={"name": "bad"}), files)
    with pytest.raises(ArtifactError, match="cannot load it"):
        OnnxPolicy.load(tmp_path / "bad")


def test_another_spec_is_refused(kit: Any, tmp_path: Path) -> None:
    folder = kit.write_policy(tmp_path / "old", kit.network(), spec="0123456789abcdef")
    with pytest.raises(ArtifactError, match="made for observation spec '0123456789abcdef'"):
        OnnxPolicy.load(folder)
    assert Healer(folder).health()["status"] == "degraded"


def test_another_width_is_refused(kit: Any, policy_folder: Path) -> None:
    with pytest.raises(ArtifactError, match=f"expected {N_SLOTS + 1}"):
        OnnxPolicy.load(policy_folder, width=N_SLOTS + 1)


def test_a_network_that_decides_otherwise_than_its_golden_file_is_refused(
    kit: Any, tmp_path: Path
) -> None:
    good = kit.write_policy(tmp_path / "good", kit.network(0))
    manifest = read_manifest(good)
    files = {name: (good / name).read_bytes() for name in manifest.files}
    files["policy.onnx"] = kit.network(1)
    write_artifact(tmp_path / "swapped", manifest, files)
    with pytest.raises(ArtifactError, match="golden decisions come out otherwise"):
        OnnxPolicy.load(tmp_path / "swapped")


def test_rules_are_no_network_and_the_other_way_round(policy_folder: Path) -> None:
    from selfheal_rl.core.catalog import find_policy

    with pytest.raises(ArtifactError, match="expected 'onnx'"):
        OnnxPolicy.load(find_policy("hand-ladder"))
    with pytest.raises(ArtifactError, match="expected 'rules'"):
        LadderSelector.load(policy_folder)
    assert isinstance(load_selector("hand-ladder", rules()), LadderSelector)
    assert isinstance(load_selector(policy_folder, rules()), AbstainingSelector)


def bounds(kit: Any, seed: int = 2) -> dict[str, Any]:
    _, observation, _ = kit.situations(300, seed)
    low, high = observation.min(axis=0), observation.max(axis=0)
    return {"low": low.tolist(), "high": high.tolist()}


def test_outside_the_support_the_rules_decide(kit: Any, tmp_path: Path) -> None:
    folder = kit.write_policy(tmp_path / "p", kit.network(), support=bounds(kit))
    selector = AbstainingSelector(OnnxPolicy.load(folder), rules())
    facts, observation, mask = kit.situations(60, 2)
    inside = selector.probabilities(facts, observation, mask)
    own = selector.policy.probabilities(facts, observation, mask)
    assert (inside == own).all()
    slot = SLOT_INDEX["tries.retry"]
    odd = observation.copy()
    odd[::2, slot] = 1.0 + observation[:, slot].max()
    mixed = selector.probabilities(facts, odd, mask)
    other = selector.rules.probabilities(facts, odd, mask)
    assert (mixed[::2] == other[::2]).all()
    assert (mixed[1::2] == own[1::2]).all()


def test_a_slot_that_never_varied_is_held_not_feared(kit: Any, tmp_path: Path) -> None:
    folder = kit.write_policy(tmp_path / "p", kit.network(), support=bounds(kit))
    selector = AbstainingSelector(OnnxPolicy.load(folder), rules())
    facts, observation, mask = kit.situations(60, 2)
    slot = SLOT_INDEX["share.others_failing"]
    assert selector.support.fixed[slot]
    odd = observation.copy()
    odd[:, slot] = 0.7
    assert (
        selector.probabilities(facts, odd, mask) == selector.probabilities(facts, observation, mask)
    ).all()


@pytest.mark.parametrize("style", ["gemm", "relu"])
def test_the_fast_path_is_the_selector(kit: Any, tmp_path: Path, style: str) -> None:
    support = bounds(kit)
    slot = SLOT_INDEX["tries.retry"]
    support["high"][slot] /= 2.0
    folder = kit.write_policy(tmp_path / "p", kit.network(style=style), support=support)
    selector = AbstainingSelector(OnnxPolicy.load(folder), rules())
    facts, _, _ = kit.situations(80, 2)
    # A slot that never varied in training varies here; some rows lie outside the bounds.
    facts[kit.FACTS["share.others_failing"]] = np.linspace(0.0, 1.0, 80)
    observation, mask = np.ascontiguousarray(_encode(kit, facts)), legal_mask(facts)
    whole = selector.probabilities(facts, observation, mask).argmax(axis=1)
    _, abstains = selector.decided(observation, mask)
    assert 0 < abstains.sum() < 80
    single = [selector.action(np.ascontiguousarray(facts[:, [n]])) for n in range(80)]
    assert single == whole.tolist()


def test_disagreement_makes_it_abstain(kit: Any, tmp_path: Path) -> None:
    content = kit.network(disagreement=True)
    _, observation, mask = kit.situations(80, 4)
    plain = OnnxPolicy.load(kit.write_policy(tmp_path / "plain", content))
    disagreement = plain.answer(observation, mask).disagreement
    assert disagreement is not None
    limit = float(np.median(disagreement))
    folder = kit.write_policy(tmp_path / "p", content, support={"disagreement": limit})
    selector = AbstainingSelector(OnnxPolicy.load(folder), rules())
    _, abstains = selector.decided(observation, mask)
    assert (abstains == (disagreement > limit)).all()
    assert 0 < abstains.sum() < 80


def test_the_reason_says_that_and_why_it_abstained(kit: Any, tmp_path: Path) -> None:
    support = bounds(kit)
    slot = SLOT_INDEX["kind.timeout"]
    support["low"][slot], support["high"][slot] = 0.0, 0.2
    folder = kit.write_policy(tmp_path / "tiny", kit.network(), support=support)
    selector = AbstainingSelector(OnnxPolicy.load(folder), rules())
    facts = facts_of(kit.incident())
    _, abstains = selector.decided(np.ascontiguousarray(_encode(kit, facts)), legal_mask(facts))
    assert abstains[0]
    reason = selector.reason(facts, RepairAction.RETRY)
    assert "tiny abstained" in reason
    assert "outside what training has shown" in reason
    assert "hand-ladder decided" in reason


def _encode(kit: Any, facts: Any) -> Any:
    from selfheal_rl.core.situation import encode

    return encode(facts, kit.TABLES)


def test_wrong_support_is_refused(kit: Any, tmp_path: Path) -> None:
    folder = kit.write_policy(tmp_path / "p", kit.network(), support={"low": [0.0]})
    with pytest.raises(ArtifactError, match="bounds of shapes"):
        AbstainingSelector(OnnxPolicy.load(folder), rules())
    assert Healer(folder).health()["status"] == "degraded"


@pytest.mark.parametrize("size", [0, 1, 10, 200])
def test_the_graph_reader_never_raises(kit: Any, size: int) -> None:
    content = kit.network()
    rng = np.random.default_rng(size)
    for _ in range(200):
        broken = bytearray(content[: rng.integers(0, len(content))] if size else b"")
        for _ in range(size):
            if broken:
                broken[rng.integers(0, min(len(broken), 4000))] = rng.integers(0, 256)
        layers_of(bytes(broken))


def test_a_policy_heals_without_any_learning_library(policy_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(policy_folder, copy)
    code = (
        "import sys\n"
        "for name in ('torch', 'gymnasium', 'stable_baselines3', 'onnx', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "from selfheal_rl import Healer\n"
        f"healer = Healer({str(copy)!r})\n"
        "assert healer.health()['status'] == 'ok', healer.health()\n"
        "assert healer.health()['selector'] == 'tiny'\n"
        "calls = []\n"
        "@healer.tool(effects='read')\n"
        "def f():\n"
        "    calls.append(1)\n"
        "    raise ValueError('x')\n"
        "try:\n"
        "    f()\n"
        "except ValueError as error:\n"
        "    print(error.__notes__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "selfheal" in done.stdout
    assert json_hash({})  # the catalogue's hash needs nothing else either
