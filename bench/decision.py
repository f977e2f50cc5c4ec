"""From facts to an action, and the policy alone, beside ``MaskablePPO.predict`` in the same run.

The figures depend on the network's shape, not on its weights: the shipped policy is measured when
there is one, else a network of the same shape as it comes from initialisation.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from sb3_contrib import MaskablePPO

from selfheal_rl.core.catalog import Golden, Manifest, list_policies, write_artifact
from selfheal_rl.core.situation import (
    N_SLOTS,
    SPEC_HASH,
    BeliefTables,
    encode,
    legal_mask,
    uninformed_tables,
)
from selfheal_rl.core.values import (
    N_ACTIONS,
    FailedCall,
    Failure,
    Incident,
    VirtualClock,
)
from selfheal_rl.runtime.decide.abstain import AbstainingSelector
from selfheal_rl.runtime.decide.decider import Decider
from selfheal_rl.runtime.decide.ladder_artifact import golden_states
from selfheal_rl.runtime.decide.onnx_policy import OnnxPolicy
from selfheal_rl.runtime.decide.rules import LadderSelector
from selfheal_rl.runtime.diagnose import capture, classify

N_CALLS = 5_000
HIDDEN = 64


class _Env(gymnasium.Env[Any, Any]):
    """Only spaces: what a MaskablePPO needs to be made."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (N_SLOTS,), np.float32)
    action_space = gymnasium.spaces.Discrete(N_ACTIONS)

    def reset(self, **kwargs: Any) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, True, False, {}

    def action_masks(self) -> Any:
        return np.ones(N_ACTIONS, np.bool_)


def _median_us(function: Callable[[], Any], n: int = N_CALLS) -> float:
    for _ in range(n // 10):
        function()
    times = []
    for _ in range(n):
        started = time.perf_counter_ns()
        function()
        times.append(time.perf_counter_ns() - started)
    return statistics.median(times) / 1e3


def _stock() -> MaskablePPO:
    return MaskablePPO("MlpPolicy", _Env(), device="cpu", policy_kwargs={"net_arch": [HIDDEN] * 2})


def _exported(model: MaskablePPO, folder: Path) -> Path:
    """The model's actor as an artifact, written with the onnx package."""
    from onnx import TensorProto, helper, numpy_helper

    layers = [*model.policy.mlp_extractor.policy_net[::2], model.policy.action_net]
    nodes, tensors, at = [], [numpy_helper.from_array(np.float32(-1e8), "closed")], "observation"
    for i, layer in enumerate(layers):
        tensors.append(numpy_helper.from_array(layer.weight.detach().numpy(), f"w{i}"))
        tensors.append(numpy_helper.from_array(layer.bias.detach().numpy(), f"b{i}"))
        nodes.append(helper.make_node("Gemm", [at, f"w{i}", f"b{i}"], [f"h{i}"], transB=1))
        at = f"h{i}"
        if i < len(layers) - 1:
            nodes.append(helper.make_node("Tanh", [at], [f"t{i}"]))
            at = f"t{i}"
    nodes.append(helper.make_node("Where", ["mask", at, "closed"], ["logits"]))
    shapes = {"observation": (TensorProto.FLOAT, N_SLOTS), "mask": (TensorProto.BOOL, N_ACTIONS)}
    inputs = [helper.make_tensor_value_info(k, t, ["N", w]) for k, (t, w) in shapes.items()]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", N_ACTIONS])
    graph = helper.make_graph(nodes, "policy", inputs, [logits], tensors)
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx_model.ir_version = 9
    return _written(onnx_model.SerializeToString(), folder)


def _written(content: bytes, folder: Path) -> Path:
    import onnxruntime

    tables = uninformed_tables().canonical()
    facts, mask = golden_states()
    observation = np.ascontiguousarray(encode(facts, tables))
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"observation": observation, "mask": mask})
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    golden = Golden(facts, observation, mask, weights / weights.sum(axis=1, keepdims=True))
    manifest = Manifest(name="fresh", kind="onnx", spec_hash=SPEC_HASH, belief=tables.to_dict())
    files = {"policy.onnx": content, "golden.jsonl": golden.to_jsonl(), "card.md": b"# fresh\n"}
    write_artifact(folder, manifest, files)
    return folder


def _incident() -> Incident:
    error = TimeoutError("timed out")
    call = FailedCall(tool="search", arguments={"query": "tea"})
    snapshot = capture.snapshot_of(error, call=call, now=1.0, task_id="t", task_started=0.0)
    return Incident(id="i", failures=(Failure(snapshot=snapshot, diagnosis=classify(snapshot)),))


def _row(name: str, value: float, against: str, other: float) -> dict[str, Any]:
    return {
        "name": name,
        "value": round(value, 2),
        "unit": "us p50",
        "against": f"{against}: {other:.1f} us",
        "ratio": round(value / other, 4) if other else None,
    }


def run() -> list[dict[str, Any]]:
    """Median times of one decision."""
    model = _stock()
    with tempfile.TemporaryDirectory() as folder:
        shipped = list_policies().get("default")
        policy = OnnxPolicy.load(shipped or _exported(model, Path(folder) / "fresh"))
    which = "default" if shipped else "fresh network of the same shape"
    facts, _ = golden_states()
    facts = np.ascontiguousarray(facts[:, :1])
    tables: BeliefTables = policy.tables
    observation, mask = encode(facts, tables), legal_mask(facts)
    row, flat = observation[0].copy(), mask[0].copy()
    predict = _median_us(
        lambda: model.predict(row, action_masks=flat, deterministic=True), N_CALLS // 5
    )
    against = "MaskablePPO.predict"
    alone = _median_us(lambda: policy.action(observation, mask))
    whole = _median_us(lambda: policy.action(encode(facts, tables), legal_mask(facts)))
    rules = LadderSelector.load("hand-ladder")
    guarded = AbstainingSelector(policy, rules)
    abstaining = _median_us(lambda: guarded.action(facts))
    decider, incident = Decider(guarded, rules), _incident()
    decided = _median_us(lambda: decider.decide(incident, ("t", 0), False), N_CALLS // 5)
    return [
        _row(f"policy alone ({which})", alone, against, predict),
        _row("facts to action: encode, mask, policy", whole, against, predict),
        _row("facts to action, with abstention", abstaining, against, predict),
        _row("incident to logged decision, whole selector", decided, against, predict),
        _row("diagnosis: capture with redaction, classify", _capture_us(), against, predict),
    ]


def _capture_us() -> float:
    clock = VirtualClock()
    call = FailedCall(tool="search", arguments={"query": "tea"})

    def once() -> None:
        error = TimeoutError(f"request to api.example timed out after {time.perf_counter_ns()} ns")
        classify(capture.snapshot_of(error, call=call, now=clock.now()))

    return _median_us(once, N_CALLS // 5)


if __name__ == "__main__":
    for found in run():
        print(found)
