"""Reads the weights of a small network out of an ONNX file, without the onnx package.

Only what is needed: the protobuf wire format, initialisers, and a chain of linear layers with tanh
that leads from ``observation`` to ``logits``. Plain numpy then answers one row several times
faster than a session. Any other graph gives None and is left to onnxruntime.
(Format: the protobuf encoding guide, and onnx.proto of the ONNX project.)
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Layer = tuple[Float, Float]
"""Weight (in, out) and bias (out,)."""

# Field numbers of onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_FLOAT, _ATTRIBUTE_INT = 1, 2, 3
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_FLOATS, _TENSOR_NAME, _TENSOR_RAW = 1, 2, 4, 8, 9
_FLOAT = 1
_MAX_LAYERS = 16


class _UnsupportedError(Exception):
    """The graph is not a chain this reader knows."""


@dataclass
class _Node:
    op: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attributes: dict[str, float] = field(default_factory=dict)


def layers_of(content: bytes) -> tuple[Layer, ...] | None:
    """The layers from ``observation`` to the logits, tanh between them; None for other graphs.

    Args:
        content: of the ONNX file.
    """
    try:
        nodes, tensors = _read_graph(content)
        return _chain(nodes, tensors)
    except (_UnsupportedError, IndexError, ValueError, KeyError, UnicodeDecodeError):
        return None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _UnsupportedError


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(field number, value): an int for varints, the bytes for all else."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire, -1)
        if size < 0 or at + size > len(data):
            raise _UnsupportedError
        yield tag >> 3, data[at : at + size]
        at += size


def _text(value: int | memoryview) -> str:
    return bytes(_bytes(value)).decode()


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise _UnsupportedError
    return value


def _read_graph(content: bytes) -> tuple[list[_Node], dict[str, Float]]:
    graph = next((v for n, v in _fields(memoryview(content)) if n == _MODEL_GRAPH), None)
    if graph is None:
        raise _UnsupportedError
    nodes: list[_Node] = []
    tensors: dict[str, Float] = {}
    for number, value in _fields(_bytes(graph)):
        if number == _GRAPH_NODE:
            nodes.append(_read_node(_bytes(value)))
        elif number == _GRAPH_INITIALIZER:
            name, tensor = _read_tensor(_bytes(value))
            if tensor is not None:
                tensors[name] = tensor
    return nodes, tensors


def _read_node(data: memoryview) -> _Node:
    node = _Node()
    for number, value in _fields(data):
        if number == _NODE_INPUT:
            node.inputs.append(_text(value))
        elif number == _NODE_OUTPUT:
            node.outputs.append(_text(value))
        elif number == _NODE_OP:
            node.op = _text(value)
        elif number == _NODE_ATTRIBUTE:
            name, figure = _read_attribute(_bytes(value))
            node.attributes[name] = figure
    return node


def _read_attribute(data: memoryview) -> tuple[str, float]:
    name, figure = "", 0.0
    for number, value in _fields(data):
        if number == _ATTRIBUTE_NAME:
            name = _text(value)
        elif number == _ATTRIBUTE_FLOAT:
            figure = float(np.frombuffer(_bytes(value), "<f4")[0])
        elif number == _ATTRIBUTE_INT and isinstance(value, int):
            figure = float(value)
    return name, figure


def _read_tensor(data: memoryview) -> tuple[str, Float | None]:
    dims: list[int] = []
    kind, name = 0, ""
    raw: memoryview | None = None
    for number, value in _fields(data):
        if number == _TENSOR_DIMS:
            dims += [value] if isinstance(value, int) else _packed(value)
        elif number == _TENSOR_TYPE and isinstance(value, int):
            kind = value
        elif number == _TENSOR_NAME:
            name = _text(value)
        elif number in (_TENSOR_RAW, _TENSOR_FLOATS):
            raw = _bytes(value)
    if kind != _FLOAT or raw is None:
        return name, None
    return name, np.frombuffer(raw, "<f4").reshape(dims).astype(np.float32)


def _packed(data: memoryview) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _chain(nodes: list[_Node], tensors: dict[str, Float]) -> tuple[Layer, ...]:
    by_output = {name: node for node in nodes for name in node.outputs}
    head = by_output["logits"]
    if head.op != "Where" or head.inputs[0] != "mask":
        raise _UnsupportedError
    at = head.inputs[1]
    found: list[Layer] = []
    while at != "observation":
        node = by_output[at]
        if found:
            if node.op != "Tanh":
                raise _UnsupportedError
            node = by_output[node.inputs[0]]
        layer, at = _linear(node, by_output, tensors)
        found.append(layer)
        if len(found) > _MAX_LAYERS:
            raise _UnsupportedError
    return tuple(reversed(found))


def _linear(
    node: _Node, by_output: dict[str, _Node], tensors: dict[str, Float]
) -> tuple[Layer, str]:
    """The layer a node computes, and the name of its input."""
    if node.op == "Gemm":
        odd = {k: v for k, v in node.attributes.items() if k in ("alpha", "beta") and v != 1.0}
        if odd or node.attributes.get("transA"):
            raise _UnsupportedError
        weight = tensors[node.inputs[1]]
        weight = weight.T if node.attributes.get("transB") else weight
        return _layer(weight, tensors[node.inputs[2]]), node.inputs[0]
    if node.op == "Add":
        product, bias = node.inputs
        if product in tensors:
            product, bias = bias, product
        multiply = by_output[product]
        if multiply.op == "MatMul":
            return _layer(tensors[multiply.inputs[1]], tensors[bias]), multiply.inputs[0]
    raise _UnsupportedError


def _layer(weight: Float, bias: Float) -> Layer:
    if weight.ndim != 2 or bias.shape != (weight.shape[1],):
        raise _UnsupportedError
    return np.ascontiguousarray(weight), np.ascontiguousarray(bias)
