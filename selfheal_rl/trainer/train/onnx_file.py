"""Networks as ONNX: ``(observation, mask) -> logits, value[, disagreement]``.

The graph is written node by node, so that the same weights give the same bytes and no exporter
stands between. Opset and IR version are fixed; the batch dimension is called ``N``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from selfheal_rl.core.values import N_ACTIONS, ConfigError
from selfheal_rl.trainer.train.network import Layer, Network

OPSET, IR_VERSION = 17, 8
MASKED = np.float32(-1e8)


class MaskedPolicy(nn.Module):
    """What is exported, in torch: the reference the ONNX file is compared with.

    Args:
        members: one network, or the seeds of an ensemble, whose logits and values are averaged.
    """

    def __init__(self, members: Sequence[Network]) -> None:
        super().__init__()
        self.actors = nn.ModuleList(_module(m.actor) for m in members)
        self.critics = nn.ModuleList(_module(m.critic) for m in members)

    def forward(self, observation: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Masked logits (N, 17), values (N,) and their standard deviation over members (N,)."""
        logits = torch.stack([actor(observation) for actor in self.actors]).mean(0)
        values = torch.stack([critic(observation) for critic in self.critics])[..., 0]
        masked = torch.where(mask, logits, float(MASKED))
        return masked, values.mean(0), values.std(0, unbiased=False)


def _module(layers: tuple[Layer, ...]) -> nn.Sequential:
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight))
            linear.bias.copy_(torch.from_numpy(bias))
        modules += [linear, nn.Tanh()]
    return nn.Sequential(*modules[:-1])


class _Graph:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def tower(self, prefix: str, layers: tuple[Layer, ...]) -> str:
        x = "observation"
        for i, (weight, bias) in enumerate(layers):
            names = [
                self.constant(f"{prefix}.{i}.weight", weight),
                self.constant(f"{prefix}.{i}.bias", bias),
            ]
            x = self.add("Gemm", [x, *names], f"{prefix}.{i}", transB=1)
            if i < len(layers) - 1:
                x = self.add("Tanh", [x], f"{prefix}.{i}.tanh")
        return x


def to_onnx(members: Sequence[Network]) -> bytes:
    """The ONNX file of one network, or of an ensemble with its disagreement.

    Raises:
        ConfigError: no member, or members of different widths.
    """
    widths = {member.width for member in members}
    if len(widths) != 1:
        raise ConfigError(f"got networks of widths {sorted(widths)}; expected one width")
    graph = _Graph()
    prefixes = [""] if len(members) == 1 else [f"member.{i}." for i in range(len(members))]
    logits, values = zip(
        *(
            (graph.tower(p + "actor", m.actor), graph.tower(p + "critic", m.critic))
            for p, m in zip(prefixes, members, strict=True)
        ),
        strict=True,
    )
    mean = logits[0] if len(members) == 1 else graph.add("Mean", logits, "actor.mean")
    closed = graph.constant("closed", np.array(MASKED))
    graph.add("Where", ["mask", mean, closed], "logits")
    outputs = [_output("logits", ["N", N_ACTIONS]), _output("value", ["N"])]
    axis = graph.constant("axis", np.array([1], np.int64))
    if len(members) == 1:
        graph.add("Squeeze", [values[0], axis], "value")
    else:
        _ensemble(graph, values)
        outputs.append(_output("disagreement", ["N"]))
    inputs = [
        helper.make_tensor_value_info("observation", TensorProto.FLOAT, ["N", widths.pop()]),
        helper.make_tensor_value_info("mask", TensorProto.BOOL, ["N", N_ACTIONS]),
    ]
    body = helper.make_graph(graph.nodes, "policy", inputs, outputs, graph.tensors)
    model = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="selfheal-rl",
    )
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _ensemble(graph: _Graph, values: Sequence[str]) -> None:
    every = graph.add("Concat", values, "critic.members", axis=1)
    mean = graph.add("ReduceMean", [every], "critic.mean", axes=[1], keepdims=1)
    graph.add("Squeeze", [mean, "axis"], "value")
    apart = graph.add("Sub", [every, mean], "critic.apart")
    square = graph.add("Mul", [apart, apart], "critic.square")
    variance = graph.add("ReduceMean", [square], "critic.variance", axes=[1], keepdims=0)
    graph.add("Sqrt", [variance], "disagreement")


def _output(name: str, shape: list[str | int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def network_of(content: bytes) -> Network:
    """The network of a file that :func:`to_onnx` wrote for a single member.

    Raises:
        ConfigError: it holds another graph.
    """
    model = onnx.load_from_string(content)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return Network.from_arrays(arrays)
