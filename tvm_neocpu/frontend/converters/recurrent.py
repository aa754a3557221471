"""LSTM, GRU and RNN: both directions, both layouts, any initial state.

    for each direction:
      P = X @ W^T + b        (steps * batch, gates * hidden): one matmul for all steps
      for each step:         unrolled
        h = cell(P[step], h @ R^T, ...)

Constant W and R are transposed here, so that each matmul is a dense layer with a constant matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Array, Node
from tvm_neocpu.frontend.converters.recurrent_activations import Function, functions_of

# Hidden state, and the cell's state of an LSTM.
State = tuple[relax.Expr, ...]
# What a matmul multiplies in place of its data: inputs or hidden states.
Factor = Callable[[Node, relax.Expr], relax.Expr]
# All steps are unrolled.
MAX_STEPS = 1024

_DIRECTIONS: Mapping[str, tuple[bool, ...]] = MappingProxyType(
    {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
)


def lstm(node: Node, factor: Factor = lambda node, data: data) -> relax.Expr:
    """LSTM with peepholes and ``input_forget``; gates are i, o, f, c."""
    return _recurrent(node, 4, ("Sigmoid", "Tanh", "Tanh"), _LstmCell, factor)


def gru(node: Node) -> relax.Expr:
    """GRU with both orders of its reset; gates are z, r, h."""
    return _recurrent(node, 3, ("Sigmoid", "Tanh"), _GruCell)


def rnn(node: Node) -> relax.Expr:
    """The plain recurrence, ``h = f(x W^T + h R^T + b)``."""
    return _recurrent(node, 1, ("Tanh",), _RnnCell)


@dataclass(frozen=True)
class _Layer:
    """One direction of a node: sizes, places of its weights, activations."""

    node: Node
    direction: int
    gates: int
    hidden: int
    batch: int
    functions: tuple[Function, ...]
    factor: Factor

    def emit(self, expr: relax.Expr) -> relax.Var:
        return self.node.emit(expr)

    def add(self, left: relax.Expr, right: relax.Expr) -> relax.Var:
        return self.emit(relax.op.add(left, right))

    def multiply(self, left: relax.Expr, right: relax.Expr) -> relax.Var:
        return self.emit(relax.op.multiply(left, right))

    def one_minus(self, value: relax.Expr) -> relax.Var:
        return self.emit(relax.op.subtract(relax.const(1, self.node.dtype), value))

    def activate(self, number: int, value: relax.Expr) -> relax.Var:
        """The value through the layer's activation of this number, clipped before."""
        clip = self.node.attributes.get("clip")
        if clip:
            value = self.emit(relax.op.clip(value, -clip, clip))
        return self.function(number, value)

    def function(self, number: int, value: relax.Expr) -> relax.Var:
        """The value through the layer's activation of this number."""
        return self.emit(self.functions[number](self.node, value))

    def matmul(self, data: relax.Expr, matrix: relax.Expr) -> relax.Var:
        """The data, or what stands for it, times a matrix."""
        return self.emit(relax.op.matmul(self.factor(self.node, data), matrix))

    def gate(self, value: relax.Expr, number: int) -> relax.Var:
        """The columns of one gate: ``(batch, gates * hidden)`` -> ``(batch, hidden)``."""
        if value.ty.shape[1] == self.hidden:
            return value
        start = number * self.hidden
        return self.emit(relax.op.strided_slice(value, [1], [start], [start + self.hidden]))

    def matrix(self, place: int, first: int, last: int) -> relax.Expr:
        """Gates ``first`` to ``last`` of W or R, transposed: ``(columns, gates * hidden)``."""
        rows = slice(first * self.hidden, last * self.hidden)
        values = _known(self.node, place)
        if values is not None:
            part = np.ascontiguousarray(values[self.direction, rows].T)
            return relax.const(part, self.node.dtype)
        return self.emit(relax.op.permute_dims(self._part(place, rows.start, rows.stop)))

    def vector(self, place: int, number: int, count: int = 1) -> relax.Expr | None:
        """``count`` vectors of an input ``(directions, n * hidden)``, as ``(1, count * hidden)``.

        ``None`` where the node omits the input.
        """
        if self.node.input(place) is None:
            return None
        start, stop = number * self.hidden, (number + count) * self.hidden
        values = _known(self.node, place)
        if values is not None:
            return relax.const(values[self.direction, start:stop][None], self.node.dtype)
        return self.emit(relax.op.expand_dims(self._part(place, start, stop), 0))

    def initial(self, place: int) -> relax.Expr:
        """The state before the first step, ``(batch, hidden)``; zeros where it is omitted."""
        given = self.node.input(place)
        if given is None:
            return relax.const(np.zeros((self.batch, self.hidden)), self.node.dtype)
        axis = int(self.node.attributes.get("layout", 0))
        start = self.direction
        part = self.emit(relax.op.strided_slice(given, [axis], [start], [start + 1]))
        return self.emit(relax.op.squeeze(part, [axis]))

    def _part(self, place: int, start: int, stop: int) -> relax.Var:
        """Rows of this direction's part of an input that is no constant."""
        own = [self.direction, start], [self.direction + 1, stop]
        part = self.emit(relax.op.strided_slice(self.node.required(place), [0, 1], *own))
        return self.emit(relax.op.squeeze(part, [0]))


class _RnnCell:
    """``bias`` is what the projection of the inputs adds, for all steps at once."""

    def __init__(self, layer: _Layer) -> None:
        self.layer = layer
        self.recurrence = layer.matrix(2, 0, layer.gates)
        self.bias = _sum_of_biases(layer, layer.gates)

    def start(self) -> State:
        return (self.layer.initial(5),)

    def step(self, projected: relax.Expr, state: State) -> State:
        layer = self.layer
        return (layer.activate(0, layer.add(projected, self.recurred(state))),)

    def recurred(self, state: State) -> relax.Var:
        return self.layer.matmul(state[0], self.recurrence)


class _LstmCell(_RnnCell):
    def __init__(self, layer: _Layer) -> None:
        super().__init__(layer)
        # Peepholes of the gates i, o, f.
        self.peepholes = [layer.vector(7, number) for number in range(3)]

    def start(self) -> State:
        return self.layer.initial(5), self.layer.initial(6)

    def step(self, projected: relax.Expr, state: State) -> State:
        layer, memory = self.layer, state[1]
        summed = layer.add(projected, self.recurred(state))
        taken = layer.activate(0, self._gate(summed, 0, memory))
        if layer.node.attributes.get("input_forget"):
            kept = layer.one_minus(taken)
        else:
            kept = layer.activate(0, self._gate(summed, 2, memory))
        new = layer.activate(1, layer.gate(summed, 3))
        memory = layer.add(layer.multiply(kept, memory), layer.multiply(taken, new))
        shown = layer.activate(0, self._gate(summed, 1, memory))
        # As in ONNX Runtime, `clip` does not bound the memory.
        return layer.multiply(shown, layer.function(2, memory)), memory

    def _gate(self, summed: relax.Expr, number: int, memory: relax.Expr) -> relax.Expr:
        gate, peephole = self.layer.gate(summed, number), self.peepholes[number]
        if peephole is None:
            return gate
        return self.layer.add(gate, self.layer.multiply(peephole, memory))


class _GruCell(_RnnCell):
    """``h' = (1 - z) * n + z * h``; the reset is applied before or after the matmul of n."""

    def __init__(self, layer: _Layer) -> None:
        self.layer = layer
        self.resets_after = bool(layer.node.attributes.get("linear_before_reset"))
        self.recurrence = layer.matrix(2, 0, 3 if self.resets_after else 2)
        self.candidate = None if self.resets_after else layer.matrix(2, 2, 3)
        self.bias = layer.vector(3, 0, 3) if self.resets_after else _sum_of_biases(layer, 3)
        self.recurrent_bias = layer.vector(3, 3, 3) if self.resets_after else None

    def step(self, projected: relax.Expr, state: State) -> State:
        layer, hidden = self.layer, state[0]
        recurred = self.recurred(state)
        if self.recurrent_bias is not None:
            recurred = layer.add(recurred, self.recurrent_bias)
        update, reset = (
            layer.activate(
                0, layer.add(layer.gate(projected, number), layer.gate(recurred, number))
            )
            for number in (0, 1)
        )
        if self.candidate is None:
            part = layer.multiply(reset, layer.gate(recurred, 2))
        else:
            part = layer.matmul(layer.multiply(reset, hidden), self.candidate)
        new = layer.activate(1, layer.add(layer.gate(projected, 2), part))
        kept = layer.multiply(update, hidden)
        return (layer.add(layer.multiply(layer.one_minus(update), new), kept),)


def _recurrent(
    node: Node,
    gates: int,
    defaults: Sequence[str],
    cell: Callable[[_Layer], _RnnCell],
    factor: Factor = lambda node, data: data,
) -> relax.Expr:
    """Y ``(steps, directions, batch, hidden)`` and the last states ``(directions, batch, hidden)``.

    With ``layout`` 1 the batch comes first in X, Y and the states.
    """
    layout = int(node.attributes.get("layout", 0))
    steps, batch = node.extent(layout), node.extent(1 - layout)
    reverses = _checked_directions(node, steps)
    hidden = _hidden(node, gates)
    functions = functions_of(node, defaults, len(reverses))
    data = node.emit(relax.op.permute_dims(node.data, [1, 0, 2])) if layout else node.data
    rows = node.emit(relax.op.reshape(data, [steps * batch, node.extent(2)]))
    sequences, states = [], []
    for direction, is_reverse in enumerate(reverses):
        layer = _Layer(node, direction, gates, hidden, batch, functions[direction], factor)
        outputs, state = _run(layer, cell(layer), rows, steps, is_reverse)
        sequences.append(node.emit(relax.op.stack(outputs, 0)))
        states.append(state)
    # Layout 0: (steps, directions, batch, hidden); 1: (batch, steps, directions, hidden).
    everything = node.emit(relax.op.stack(sequences, 1))
    if layout:
        everything = node.emit(relax.op.permute_dims(everything, [2, 0, 1, 3]))
    if node.outputs == 1:
        return everything
    last = [node.emit(relax.op.stack(list(parts), layout)) for parts in zip(*states, strict=True)]
    return relax.Tuple([everything, *last][: node.outputs])


def _run(
    layer: _Layer, cell: _RnnCell, rows: relax.Expr, steps: int, is_reverse: bool
) -> tuple[list[relax.Expr], State]:
    """The hidden state after each step, in the order of the input, and the last state."""
    projected = layer.matmul(rows, layer.matrix(1, 0, layer.gates))
    if cell.bias is not None:
        projected = layer.add(projected, cell.bias)
    lengths = _lengths(layer, steps)
    none = relax.const(0, layer.node.dtype)
    state, outputs = cell.start(), {}
    for step in reversed(range(steps)) if is_reverse else range(steps):
        start = step * layer.batch
        part = relax.op.strided_slice(projected, [0], [start], [start + layer.batch])
        new = cell.step(layer.emit(part), state)
        if lengths is None:
            state, outputs[step] = new, new[0]
            continue
        # A sequence that has ended keeps its state and shows zeros.
        goes_on = layer.emit(relax.op.greater(lengths, relax.const(step, "int32")))
        state = tuple(
            layer.emit(relax.op.where(goes_on, after, before))
            for after, before in zip(new, state, strict=True)
        )
        outputs[step] = layer.emit(relax.op.where(goes_on, new[0], none))
    return [outputs[step] for step in range(steps)], state


def _lengths(layer: _Layer, steps: int) -> relax.Var | None:
    """How many steps each sequence has, ``(batch, 1)``; ``None`` where all have all of them."""
    given, values = layer.node.input(4), _known(layer.node, 4)
    if given is None or (values is not None and (values == steps).all()):
        return None
    return layer.emit(relax.op.expand_dims(given, 1))


def _checked_directions(node: Node, steps: int) -> tuple[bool, ...]:
    direction = node.attributes["direction"]
    if direction not in _DIRECTIONS:
        raise UnsupportedOperatorError(f"direction {direction!r} is not supported")
    if steps > MAX_STEPS:
        raise UnsupportedOperatorError(f"{steps} steps; {MAX_STEPS} are supported")
    return _DIRECTIONS[direction]


def _hidden(node: Node, gates: int) -> int:
    dims = node.required(2).ty.shape
    hidden = int(dims[2])
    if int(dims[1]) != gates * hidden or node.attributes.get("hidden_size", hidden) != hidden:
        raise UnsupportedOperatorError("hidden_size does not fit its weights")
    return hidden


def _sum_of_biases(layer: _Layer, gates: int) -> relax.Expr | None:
    """The biases of input and recurrence, which only ever come added."""
    own, recurrent = layer.vector(3, 0, gates), layer.vector(3, gates, gates)
    values = _known(layer.node, 3)
    if values is not None:
        both = values[layer.direction].reshape(2, 1, -1)
        return relax.const(both[0] + both[1], layer.node.dtype)
    return None if own is None or recurrent is None else layer.add(own, recurrent)


def _known(node: Node, place: int) -> Array | None:
    """The values of an input if they are constant."""
    try:
        return node.constant(place)
    except UnsupportedOperatorError:
        return None
