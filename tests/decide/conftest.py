"""Small policies made on the spot, and incidents to decide."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from selfheal_rl.core.catalog import Golden, Manifest, write_artifact
from selfheal_rl.core.situation import (
    FACTS,
    N_SLOTS,
    SPEC_HASH,
    encode,
    facts_of,
    legal_mask,
    uninformed_tables,
)
from selfheal_rl.core.values import (
    KIND_INDEX,
    N_ACTIONS,
    N_KINDS,
    Attempt,
    Capabilities,
    Decision,
    Diagnosis,
    Effects,
    EffectState,
    ErrorSnapshot,
    FailedCall,
    Failure,
    FaultKind,
    Incident,
    Outcome,
    RepairAction,
)

TABLES = uninformed_tables().canonical()


def incident(
    kind: FaultKind = FaultKind.TIMEOUT,
    tried: tuple[RepairAction, ...] = (),
    *,
    effects: Effects = Effects.READ,
    state: EffectState = EffectState.MAYBE,
    permission: int = 1,
    **snapshot: Any,
) -> Incident:
    """An incident of one kind after the given attempts."""
    posterior = [0.1 / (N_KINDS - 1)] * N_KINDS
    posterior[KIND_INDEX[kind]] = 0.9
    failure = Failure(
        snapshot=ErrorSnapshot(
            time=100.0, task_id="t", task_started=50.0, call=FailedCall(effects=effects), **snapshot
        ),
        diagnosis=Diagnosis(posterior=tuple(posterior), effect_state=state),
    )
    attempts = tuple(
        Attempt(decision=Decision(action=a), outcome=Outcome.FAILED, started=99.0) for a in tried
    )
    return Incident(
        id="i",
        failures=(failure,) * (len(tried) + 1),
        attempts=attempts,
        capabilities=Capabilities(permission=permission),
    )


def situations(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(facts, observation, mask)`` of n random incidents."""
    rng = np.random.default_rng(seed)
    kinds = list(FaultKind)
    columns = []
    for _ in range(n):
        tried = tuple(RepairAction(int(a)) for a in rng.integers(0, 3, rng.integers(0, 5)))
        columns.append(
            facts_of(
                incident(
                    kinds[rng.integers(len(kinds))],
                    tried,
                    effects=list(Effects)[rng.integers(4)],
                    state=list(EffectState)[rng.integers(3)],
                    permission=int(rng.integers(1, 4)),
                )
            )
        )
    facts = np.concatenate(columns, axis=1)
    return facts, np.ascontiguousarray(encode(facts, TABLES)), legal_mask(facts)


def network(seed: int = 0, *, style: str = "gemm", disagreement: bool = False) -> bytes:
    """A random network as ONNX: two tanh layers, as ``Gemm`` or as ``MatMul`` and ``Add``."""
    onnx = pytest.importorskip("onnx", reason="policies are made with the onnx package")
    helper, make = onnx.helper, onnx.numpy_helper.from_array
    rng = np.random.default_rng(seed)
    nodes, tensors = [], []

    def linear(source: str, rows: int, columns: int, name: str) -> str:
        weight = (rng.normal(size=(rows, columns)) / np.sqrt(rows)).astype(np.float32)
        bias = rng.normal(size=columns).astype(np.float32)
        tensors.append(make(bias, f"{name}.b"))
        if style == "matmul":
            tensors.append(make(weight, f"{name}.w"))
            nodes.append(helper.make_node("MatMul", [source, f"{name}.w"], [f"{name}.p"]))
            nodes.append(helper.make_node("Add", [f"{name}.p", f"{name}.b"], [name]))
        else:
            tensors.append(make(np.ascontiguousarray(weight.T), f"{name}.w"))
            nodes.append(
                helper.make_node("Gemm", [source, f"{name}.w", f"{name}.b"], [name], transB=1)
            )
        return name

    def tower(name: str, outputs: int) -> str:
        at, width = "observation", N_SLOTS
        for layer in range(2):
            raw = linear(at, width, 16, f"{name}{layer}")
            squash = "Relu" if style == "relu" else "Tanh"
            nodes.append(helper.make_node(squash, [raw], [f"{raw}.t"]))
            at, width = f"{raw}.t", 16
        return linear(at, width, outputs, f"{name}.out")

    tensors.append(make(np.float32(-1e8), "closed"))
    nodes.append(
        helper.make_node("Where", ["mask", tower("actor", N_ACTIONS), "closed"], ["logits"])
    )
    tensors.append(make(np.array([1], np.int64), "axis"))
    nodes.append(helper.make_node("Squeeze", [tower("critic", 1), "axis"], ["value"]))
    names = [("logits", ["N", N_ACTIONS]), ("value", ["N"])]
    if disagreement:
        nodes.append(helper.make_node("Abs", ["value"], ["disagreement"]))
        names.append(("disagreement", ["N"]))
    types = onnx.TensorProto
    graph = helper.make_graph(
        nodes,
        "policy",
        [
            helper.make_tensor_value_info("observation", types.FLOAT, ["N", N_SLOTS]),
            helper.make_tensor_value_info("mask", types.BOOL, ["N", N_ACTIONS]),
        ],
        [helper.make_tensor_value_info(name, types.FLOAT, shape) for name, shape in names],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    content: bytes = model.SerializeToString()
    return content


def write_policy(
    folder: Path, content: bytes, *, spec: str = SPEC_HASH, support: dict[str, Any] | None = None
) -> Path:
    """An artifact around ``content`` whose golden decisions are its own."""
    import onnxruntime

    facts, observation, mask = situations(24)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"observation": observation, "mask": mask})
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    manifest = Manifest(
        name=folder.name,
        kind="onnx",
        spec_hash=spec,
        belief=TABLES.to_dict(),
        support=support or {},
    )
    golden = Golden(facts, observation, mask, probabilities)
    files = {"policy.onnx": content, "golden.jsonl": golden.to_jsonl(), "card.md": b"# card\n"}
    write_artifact(folder, manifest, files)
    return folder


@pytest.fixture
def kit() -> Any:
    """The helpers above, since tests are imported without a package."""
    return SimpleNamespace(
        FACTS=FACTS,
        TABLES=TABLES,
        incident=incident,
        network=network,
        situations=situations,
        write_policy=write_policy,
    )


@pytest.fixture
def policy_folder(kit: Any, tmp_path: Path) -> Path:
    folder: Path = kit.write_policy(tmp_path / "tiny", kit.network())
    return folder


Maker = Callable[..., Any]
