"""LSTM, GRU and RNN: both directions, both layouts, any initial state.

P = X @ [W, W of the other direction]^T + b   (steps, batch, D * gates * hidden): one dense layer
Y, states = recurrence(P, R, ...)             all steps and directions in one call
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.recurrences.recurrent_activations import activations_of
from tvm_neocpu.relay_passes.operators.new.recurrence import recurrence
from tvm_neocpu.topi.recurrence.layer import GATES, RecurrentLayer

# What W multiplies in place of the inputs.
Factor = Callable[[Node, relax.Expr], relax.Expr]

_DIRECTIONS: Mapping[str, tuple[bool, ...]] = MappingProxyType(
    {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
)
_ACTIVATIONS: Mapping[str, Sequence[str]] = MappingProxyType(
    {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
)
_FLOATS = ("float32", "float64")


def lstm(node: Node, rounded: Factor | None = None) -> relax.Expr:
    """LSTM with peepholes and ``input_forget``; gates are i, o, f, c.

    ``rounded``: the inputs as 8-bit codes say them; the states are rounded alike then.
    """
    return _recurrent(node, "LSTM", rounded)


def gru(node: Node) -> relax.Expr:
    """GRU with both orders of its reset; gates are z, r, h."""
    return _recurrent(node, "GRU")


def rnn(node: Node) -> relax.Expr:
    """The plain recurrence, ``h = f(x W^T + h R^T + b)``."""
    return _recurrent(node, "RNN")


def _recurrent(node: Node, kind: str, rounded: Factor | None = None) -> relax.Expr:
    """Y ``(steps, directions, batch, hidden)`` and the last states ``(directions, batch, hidden)``.

    With ``layout`` 1 the batch comes first in X, Y and the states.
    """
    by_batch = bool(node.attributes.get("layout", 0))
    layer = _layer(node, kind, by_batch, rounded is not None)
    data = node.emit(relax.op.permute_dims(node.data, [1, 0, 2])) if by_batch else node.data
    factor = data if rounded is None else rounded(node, data)
    projected = node.emit(relax.op.matmul(factor, _projection(node, layer)))
    bias, recurrent_bias = _biases(node, layer)
    if bias is not None:
        projected = node.emit(relax.op.add(projected, bias))
    optional = _states(node, layer, by_batch)
    if node.input(4) is not None and not _are_whole(node, layer):
        optional["lengths"] = node.required(4)
    if kind == "LSTM" and node.input(7) is not None:
        shape = [layer.directions, 3, layer.hidden]
        optional["peepholes"] = _reshaped(node, node.required(7), shape)
    if recurrent_bias is not None:
        optional["bias"] = recurrent_bias
    made = node.emit(recurrence(layer, projected, node.required(2), optional))
    parts = [node.emit(relax.TupleGetItem(made, at)) for at in range(len(layer.outputs))]
    if by_batch:
        axes = [[2, 0, 1, 3], *[[1, 0, 2]] * (len(parts) - 1)]
        parts = [
            node.emit(relax.op.permute_dims(part, order))
            for part, order in zip(parts, axes, strict=True)
        ]
    return parts[0] if node.outputs == 1 else relax.Tuple(parts[: node.outputs])


def _layer(node: Node, kind: str, by_batch: bool, rounds: bool) -> RecurrentLayer:
    """Raises UnsupportedOperatorError for attributes that no layer has."""
    attributes = node.attributes
    direction = attributes["direction"]
    if direction not in _DIRECTIONS:
        raise UnsupportedOperatorError(f"direction {direction!r} is not supported")
    if node.dtype not in _FLOATS:
        raise UnsupportedOperatorError(f"inputs of type {node.dtype}")
    reverses, dims = _DIRECTIONS[direction], node.required(2).ty.shape
    hidden = int(dims[2])
    if int(dims[1]) != GATES[kind] * hidden or attributes.get("hidden_size", hidden) != hidden:
        raise UnsupportedOperatorError("hidden_size does not fit its weights")
    return RecurrentLayer(
        kind,
        node.extent(int(by_batch)),
        node.extent(1 - int(by_batch)),
        hidden,
        reverses,
        activations_of(node, _ACTIVATIONS[kind], len(reverses)),
        attributes.get("clip"),
        couples=bool(attributes.get("input_forget")),
        resets_after=bool(attributes.get("linear_before_reset")),
        rounds=rounds,
        dtype=node.dtype,
    )


def _projection(node: Node, layer: RecurrentLayer) -> relax.Expr:
    """W of all directions as ``(inputs, D * gates * hidden)``."""
    columns = layer.directions * layer.gates * layer.hidden
    values = node.known(1)
    if values is not None:
        return relax.const(np.ascontiguousarray(values.reshape(columns, -1).T), layer.dtype)
    rows = _reshaped(node, node.required(1), [columns, node.extent(2)])
    return node.emit(relax.op.permute_dims(rows))


def _biases(node: Node, layer: RecurrentLayer) -> tuple[relax.Expr | None, relax.Expr | None]:
    """What the projection adds, ``(D * gates * hidden,)``, and what a product adds that a GRU
    resets, ``(D, hidden)``: all other biases of inputs and states only ever come added.
    """
    if node.input(3) is None:
        return None, None
    apart = layer.kind == "GRU" and layer.resets_after
    both = [layer.directions, 2, layer.gates, layer.hidden]
    flat = [layer.directions * layer.gates * layer.hidden]
    values = node.known(3)
    if values is not None:
        own, recurrent = np.moveaxis(values.reshape(both), 1, 0)
        shared = own + recurrent
        if apart:
            shared[:, 2] = own[:, 2]
        reset = relax.const(recurrent[:, 2], layer.dtype) if apart else None
        return relax.const(shared.reshape(flat), layer.dtype), reset
    parts = _reshaped(node, node.required(3), both)
    own, recurrent = (_sliced(node, parts, 1, at, at + 1) for at in (0, 1))
    reset = None
    if apart:
        last = _sliced(node, recurrent, 2, 2, 3)
        reset = _reshaped(node, last, [layer.directions, layer.hidden])
        zeros = relax.const(np.zeros([layer.directions, 1, 1, layer.hidden]), layer.dtype)
        others = _sliced(node, recurrent, 2, 0, 2)
        recurrent = node.emit(relax.op.concat([others, zeros], 2))
    return _reshaped(node, node.emit(relax.op.add(own, recurrent)), flat), reset


def _states(node: Node, layer: RecurrentLayer, by_batch: bool) -> dict[str, relax.Expr]:
    """The states before the first step; what is omitted is zero.

    A constant of equal rows, which an exporter repeated for its batch, says nothing of the batch.
    """
    states = {}
    for name, place in (("h", 5), ("c", 6)):
        given = node.input(place) if name == "h" or layer.kind == "LSTM" else None
        if given is None:
            continue
        values = node.known(place)
        if values is not None and not values.any():
            continue
        if values is not None:
            rows = values.swapaxes(0, 1) if by_batch else values
            if (rows == rows[:, :1]).all():
                one = relax.const(np.ascontiguousarray(rows[:, :1]), layer.dtype)
                states[name] = node.emit(relax.op.broadcast_to(one, rows.shape))
                continue
        by_steps = relax.op.permute_dims(given, [1, 0, 2]) if by_batch else None
        states[name] = given if by_steps is None else node.emit(by_steps)
    return states


def _are_whole(node: Node, layer: RecurrentLayer) -> bool:
    """Whether each sequence is known to have all steps."""
    lengths = node.known(4)
    return lengths is not None and bool((lengths == layer.steps).all())


def _reshaped(node: Node, value: relax.Expr, shape: Sequence[int]) -> relax.Var:
    return node.emit(relax.op.reshape(value, list(shape)))


def _sliced(node: Node, value: relax.Expr, axis: int, start: int, stop: int) -> relax.Var:
    return node.emit(relax.op.strided_slice(value, [axis], [start], [stop]))
