"""A trained policy from its artifact: verified, replayed, and without any learning library."""

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from selfheal_rl.core.catalog import Golden, Manifest, read_golden, verify_artifact
from selfheal_rl.core.situation import N_SLOTS, SPEC_HASH, BeliefTables, encode, legal_mask
from selfheal_rl.core.values import N_ACTIONS, ArtifactError, ConfigError
from selfheal_rl.runtime.decide.onnx_graph import Layer, layers_of
from selfheal_rl.runtime.decide.selector import BoolMatrix, FloatMatrix, one_hot

MODEL, GOLDEN = "policy.onnx", "golden.jsonl"
_INPUTS = {"observation", "mask"}
_TOLERANCE = 1e-4
_CLOSED = np.float32(-1e8)
_tanh = np.tanh
_REMAKE = "restore the file from its source or export the policy again"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the network says of N rows.

    Attributes:
        logits: float32, shape (N, 17); -1e8 where the mask is False.
        value: float32, shape (N,), expected utility still to come; None when it has no value head.
        disagreement: float32, shape (N,), of the ensemble; None without one.
    """

    logits: FloatMatrix
    value: NDArray[np.float32] | None
    disagreement: NDArray[np.float32] | None


class OnnxPolicy:
    """The network of an artifact as a selector; greedy unless a temperature is given.

    Args:
        session: of onnxruntime.
        manifest: verified.
        tables: belief tables to encode observations with.
        layers: the same network as plain arrays, for single rows; None when its graph is another.
        temperature: 0 takes the best action; above, actions are drawn from softmax(logits / t).
    """

    def __init__(
        self,
        session: Any,
        manifest: Manifest,
        tables: BeliefTables,
        layers: tuple[Layer, ...] | None,
        temperature: float = 0.0,
    ) -> None:
        if not temperature >= 0.0:
            raise ConfigError(f"temperature is {temperature!r}; expected a figure >= 0")
        self.name, self.hash = manifest.name, manifest.manifest_hash
        self.manifest, self.tables, self.temperature = manifest, tables, temperature
        self._session = session
        self._outputs = [output.name for output in session.get_outputs()]
        self._hidden: tuple[Layer, ...] = layers[:-1] if layers else ()
        self._head: Layer | None = layers[-1] if layers else None

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike[str],
        *,
        temperature: float = 0.0,
        width: int = N_SLOTS,
    ) -> "OnnxPolicy":
        """Verify an artifact, load it, and replay its golden decisions.

        Args:
            directory: the artifact's folder.
            temperature: see the class.
            width: of the observation; another figure only for yardsticks with further inputs.

        Raises:
            ArtifactError: damaged, tampered with, made for another spec, or decides otherwise
                here than where it was exported.
        """
        folder = Path(directory)
        manifest = verify_artifact(folder, specs={SPEC_HASH})
        if manifest.kind != "onnx":
            raise ArtifactError(
                f"{folder}: holds a policy of kind {manifest.kind!r}; expected 'onnx'; "
                "load a rule table with LadderSelector.load"
            )
        content = (folder / MODEL).read_bytes()
        session = _session(folder / MODEL, content)
        _check_signature(folder / MODEL, session, width)
        try:
            tables = BeliefTables.from_dict(manifest.belief)
        except ConfigError as error:
            raise ArtifactError(f"{folder}: {error}; {_REMAKE}") from error
        policy = cls(session, manifest, tables, layers_of(content), temperature)
        golden = read_golden(folder / GOLDEN)
        _replay(folder, policy, golden, check_encoding=width == N_SLOTS)
        return policy

    def answer(self, observation: FloatMatrix, mask: BoolMatrix) -> Answer:
        """Everything the network says, by onnxruntime.

        Args:
            observation: float32, shape (N, width).
            mask: bool, shape (N, 17).
        """
        feed = {
            "observation": np.ascontiguousarray(observation),
            "mask": np.ascontiguousarray(mask),
        }
        found = dict(zip(self._outputs, self._session.run(None, feed), strict=True))
        extra = (found.get(name) for name in ("value", "disagreement"))
        value, disagreement = (x if x is None else x.reshape(-1) for x in extra)
        return Answer(found["logits"], value, disagreement)

    def logits(self, observation: FloatMatrix, mask: BoolMatrix) -> FloatMatrix:
        """Masked logits, float32 (N, 17); a single row by plain arrays where that is possible."""
        if self._head is not None and len(observation) == 1:
            return np.where(mask, self._row(self._head, observation), _CLOSED)
        feed = {
            "observation": np.ascontiguousarray(observation),
            "mask": np.ascontiguousarray(mask),
        }
        found: FloatMatrix = self._session.run(["logits"], feed)[0]
        return found

    def _row(self, head: Layer, observation: FloatMatrix) -> NDArray[np.float32]:
        """Unmasked logits (17,) of one row. Vectors, not matrices of one row: half the time."""
        x: NDArray[np.float32] = observation[0]
        for weight, bias in self._hidden:
            x = x.dot(weight)
            x += bias
            _tanh(x, x)
        weight, bias = head
        x = x.dot(weight)
        x += bias
        return x

    def actions(self, observation: FloatMatrix, mask: BoolMatrix) -> NDArray[np.int64]:
        """The best legal action of each row, int64 (N,)."""
        return np.asarray(self.logits(observation, mask).argmax(axis=1), np.int64)

    @property
    def reads_rows(self) -> bool:
        """Whether single rows are decided by plain arrays."""
        return self._head is not None

    def holding(self, slots: NDArray[np.intp], values: NDArray[np.float32]) -> "OnnxPolicy":
        """A copy that reads ``values`` in ``slots`` whatever the observation holds there.

        Only single rows are decided so; a batch is left as it is.

        Args:
            slots: indices into the observation, shape (K,).
            values: what is read there, float32, shape (K,).
        """
        held = copy.copy(self)
        layers = [*self._hidden, self._head] if self._head is not None else []
        if not layers:
            return held
        weight, bias = layers[0]
        folded = weight.copy()
        folded[slots] = 0.0
        layers[0] = folded, bias + values @ weight[slots]
        held._hidden, held._head = tuple(layers[:-1]), layers[-1]
        return held

    def action(self, observation: FloatMatrix, mask: BoolMatrix) -> int:
        """The best legal action of a single row, (1, width) and (1, 17): the fast path."""
        if self._head is None:
            return int(self.logits(observation, mask).argmax())

        x = self._row(self._head, observation)
        x[~mask[0]] = _CLOSED
        return int(x.argmax())

    def probabilities(
        self, facts: FloatMatrix, observation: FloatMatrix, mask: BoolMatrix
    ) -> FloatMatrix:
        """See :class:`~selfheal_rl.runtime.decide.selector.Selector`."""
        return self.distribution(self.logits(observation, mask), mask)

    def distribution(self, logits: FloatMatrix, mask: BoolMatrix) -> FloatMatrix:
        """Probabilities that belong to masked logits: one-hot, or softmax at the temperature."""
        if self.temperature == 0.0:
            return one_hot(logits.argmax(axis=1), N_ACTIONS)
        scaled = (logits - logits.max(axis=1, keepdims=True)) / np.float32(self.temperature)
        weights = np.where(mask, np.exp(scaled), np.float32(0.0))
        probabilities: FloatMatrix = weights / weights.sum(axis=1, keepdims=True)
        return probabilities


def _session(path: Path, content: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ArtifactError(
            f"{path}: onnxruntime {onnxruntime.__version__} cannot load it "
            f"({str(error).splitlines()[0][:200]}); {_REMAKE}"
        ) from error


def _check_signature(path: Path, session: Any, width: int) -> None:
    inputs = {i.name: i.shape for i in session.get_inputs()}
    outputs = {o.name: o.shape for o in session.get_outputs()}
    if set(inputs) != _INPUTS or "logits" not in outputs:
        raise ArtifactError(
            f"{path}: has inputs {sorted(inputs)} and outputs {sorted(outputs)}; expected inputs "
            f"{sorted(_INPUTS)} and an output 'logits'; export the policy with this release"
        )
    found = (inputs["observation"][-1], inputs["mask"][-1])
    if found != (width, N_ACTIONS):
        raise ArtifactError(
            f"{path}: reads observations of width {found[0]} and masks of width {found[1]}; "
            f"expected {width} and {N_ACTIONS}; export the policy with this release"
        )


def _replay(folder: Path, policy: OnnxPolicy, golden: Golden, *, check_encoding: bool) -> None:
    """Decide the golden states again, in a batch and row by row.

    Raises:
        ArtifactError: an observation, a mask or a decision differs from the recorded one.
    """
    if check_encoding:
        seen = encode(golden.facts, policy.tables)
        if seen.shape != golden.observation.shape:
            raise ArtifactError(
                f"{folder}: golden observations have shape {golden.observation.shape}; this "
                f"release encodes {seen.shape}; export the policy with this release"
            )
        apart = float(np.abs(seen - golden.observation).max())
        if apart > _TOLERANCE or (legal_mask(golden.facts) != golden.mask).any():
            raise ArtifactError(
                f"{folder}: golden states are encoded otherwise here (observations differ by up to "
                f"{apart:.2g}, or the masks do); export the policy with this release"
            )
    batch = policy.answer(golden.observation, golden.mask).logits
    rows = [
        policy.logits(golden.observation[i : i + 1], golden.mask[i : i + 1])[0].copy()
        for i in range(len(golden.mask))
    ]
    for name, logits in (("batch", batch), ("single rows", np.stack(rows))):
        best = logits.max(axis=1)
        chosen = logits[np.arange(len(logits)), golden.actions]
        wrong = int((best - chosen > _TOLERANCE).sum())
        if wrong:
            raise ArtifactError(
                f"{folder}: {wrong} of {len(logits)} golden decisions come out otherwise here "
                f"({name}); expected none; {_REMAKE}, or check the versions in its manifest"
            )
    if not np.allclose(np.stack(rows), batch, atol=_TOLERANCE, rtol=_TOLERANCE):
        policy._head = None  # the arrays are not the network after all: leave it to onnxruntime
