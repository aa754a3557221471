"""The cells of a recurrent layer: what becomes of the sums of a vector of units of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.recurrence.activations import activated
from tvm_neocpu.topi.recurrence.layer import RecurrentLayer, Tile

# An element of a buffer at one lane of a vector.
Lane = Callable[[Expr], Expr]


@dataclass(frozen=True)
class Tensors:
    """What a layer reads and writes, D directions, ``units`` those of the blocks.

    ``projection``: (steps, batch, D * gates * hidden), biases in it. ``weights``: for each phase
    R as (D, blocks, parts, hidden, gates of a part, units of a block). ``optional``, by name:
    ``h``, ``c`` (D, batch, hidden), ``lengths`` (batch,), ``peepholes`` (D, 3, units), ``bias``
    (D, units) of the product that a GRU resets. ``outputs``: Y (steps, D, batch, hidden) and the
    last states.
    """

    projection: tirx.Buffer
    weights: Sequence[tirx.Buffer]
    optional: Mapping[str, tirx.Buffer]
    outputs: Sequence[tirx.Buffer]


@dataclass(frozen=True)
class States:
    """The states, ``units`` those of the blocks.

    ``hidden``: (2, D, batch, units), a step reads one half and writes the other. ``memory``: an
    LSTM's, (D, batch, units). ``update`` and ``taken``: a GRU's update gate and its state behind
    the reset, for its second phase; ``taken`` is a rounded state, too.
    """

    hidden: tirx.Buffer
    memory: tirx.Buffer | None
    update: tirx.Buffer | None
    taken: tirx.Buffer | None

    def before(self, step: Expr | int, place: tuple[Expr, ...]) -> Expr:
        """The hidden state that a step reads, at (direction, row, unit)."""
        index = (step % 2, *place)
        return self.hidden[index]


@dataclass(frozen=True)
class At:
    """Where the loops are: a block of units of a phase, and a tile of rows."""

    phase: int
    tile: Tile
    step: Expr
    direction: Expr
    block: Expr
    first_row: Expr
    rows: int
    # Units of the block that exist.
    units: int
    # The direction whose activations count.
    rule: int


class Cell:
    """One vector of units of one row: from the sums to the new state."""

    def __init__(
        self,
        layer: RecurrentLayer,
        tensors: Tensors,
        states: States,
        at: At,
        found: tirx.Buffer,
    ) -> None:
        """``found``: the sums of a tile, (rows, gates of the phase, vectors, lanes)."""
        self.layer, self.tensors, self.states = layer, tensors, states
        self.at, self.found, self.width = at, found, at.tile.lanes
        self.scratch = T.alloc_buffer((3, self.width), layer.dtype, scope="local")

    def write(self, row: Expr, vector: Expr, lanes: int) -> None:
        """The statements for a row and a vector of the tile, of which ``lanes`` units exist."""
        at, layer = self.at, self.layer
        self.local_row, self.row = row, at.first_row + row
        self.vector, self.lanes = vector, lanes
        self.unit = at.block * at.tile.units + vector * at.tile.lanes
        turned = layer.steps - 1 - at.step
        self.time = turned if layer.reverses[0] else at.step
        if len(set(layer.reverses)) == 2:
            self.time = tirx.Select(at.direction == int(layer.reverses[1]), turned, at.step)
        for number, gate in enumerate(self.layer.phases[self.at.phase]):
            if not (self.layer.kind == "GRU" and gate == 2 and self.layer.resets_after):
                self._add_projection(gate, lambda lane, n=number: (n, lane))
        kind = {"LSTM": self._lstm, "RNN": self._rnn, "GRU": self._gru}[self.layer.kind]
        kind()

    # Vectors: gates are places in `found`, others in the scratch.

    def _sum(self, gate: int) -> Lane:
        return lambda lane: self.found[self.local_row, gate, self.vector, lane]

    def _in_scratch(self, place: int) -> Lane:
        return lambda lane: self.scratch[place, lane]

    def _set(self, gate: int, value: Lane) -> None:
        with T.vectorized(0, self.width) as lane:
            index = (self.local_row, gate, self.vector, lane)
            T.buffer_store(self.found, value(lane), index)

    def _keep(self, place: int, value: Lane) -> None:
        with T.vectorized(0, self.width) as lane:
            T.buffer_store(self.scratch, value(lane), (place, lane))

    def _activate(self, number: int, x: Expr) -> Expr:
        return activated(self.layer.activations[self.at.rule][number], x)

    def _clipped(self, x: Expr) -> Expr:
        clip = self.layer.clip
        if not clip:
            return x
        low, high = (tirx.const(bound, self.layer.dtype) for bound in (-clip, clip))
        return vector_math.clip(x, low, high)

    def _activate_gate(self, number: int, gate: int) -> None:
        if self.layer.clip:
            self._set(gate, lambda lane: self._clipped(self._sum(gate)(lane)))
        self._set(gate, lambda lane: self._activate(number, self._sum(gate)(lane)))

    def _state(self, buffer: tirx.Buffer, lane: Expr) -> Expr:
        return buffer[self.at.direction, self.row, self.unit + lane]

    def _before(self, lane: Expr) -> Expr:
        place = (self.at.direction, self.row, self.unit + lane)
        return self.states.before(self.at.step, place)

    def _add_projection(self, gate: int, place: Callable[..., tuple[Expr, ...]]) -> None:
        """The projection of one gate, added to its sum; lanes behind the last unit get nothing."""
        layer, tensors = self.layer, self.tensors
        column = (self.at.direction * layer.gates + gate) * layer.hidden + self.unit

        def add(lane: Expr) -> None:
            number, at = place(lane)
            index = (self.local_row, number, self.vector, at)
            value = self.found[index] + tensors.projection[self.time, self.row, column + lane]
            T.buffer_store(self.found, value, index)

        self._over_units(add)

    def _over_units(self, write: Callable[[Expr], None]) -> None:
        """For each unit that exists: as a vector if all lanes do."""
        if self.lanes == self.width:
            with T.vectorized(0, self.width) as lane:
                write(lane)
            return
        for lane in range(self.lanes):
            write(tirx.const(lane, "int32"))

    # Cells; `found` has the gates of the phase in order.

    def _rnn(self) -> None:
        self._activate_gate(0, 0)
        self._show(self._sum(0))

    def _lstm(self) -> None:
        memory = self.states.memory
        self._look(0, 0, memory)
        self._activate_gate(0, 0)
        if self.layer.couples:
            one = tirx.const(1, self.layer.dtype)
            self._set(2, lambda lane: one - self._sum(0)(lane))
        else:
            self._look(2, 2, memory)
            self._activate_gate(0, 2)
        self._activate_gate(1, 3)
        self._keep(
            0,
            lambda lane: (
                self._sum(2)(lane) * self._state(memory, lane)
                + self._sum(0)(lane) * self._sum(3)(lane)
            ),
        )
        new = self._in_scratch(0)
        self._store_state(memory, new, lambda lane: self._state(memory, lane))
        self._look(1, 1, self.scratch)
        self._activate_gate(0, 1)
        # As in ONNX Runtime, `clip` does not bound the memory.
        self._keep(1, lambda lane: self._activate(2, new(lane)))
        self._keep(2, lambda lane: self._sum(1)(lane) * self._in_scratch(1)(lane))
        self._show(self._in_scratch(2))

    def _look(self, gate: int, peephole: int, memory: tirx.Buffer) -> None:
        """A gate looks at the memory: the old one, or the new one in the scratch."""
        given = self.tensors.optional.get("peepholes")
        if given is None:
            return

        def value(lane: Expr) -> Expr:
            if memory is self.scratch:
                seen = self._in_scratch(0)(lane)
            else:
                seen = self._state(memory, lane)
            return (
                self._sum(gate)(lane) + given[self.at.direction, peephole, self.unit + lane] * seen
            )

        self._set(gate, value)

    def _gru(self) -> None:
        states, at = self.states, self.at
        if at.phase == 1:
            self._activate_gate(1, 0)
            self._mix(self._sum(0), lambda lane: self._state(states.update, lane))
            return
        self._activate_gate(0, 0)
        self._activate_gate(0, 1)
        if len(self.layer.phases) == 2:
            self._store(states.update, self._sum(0))
            self._store(states.taken, lambda lane: self._sum(1)(lane) * self._before(lane))
            return
        bias = self.tensors.optional.get("bias")
        if bias is not None:
            self._set(2, lambda lane: self._sum(2)(lane) + bias[at.direction, self.unit + lane])
        self._set(2, lambda lane: self._sum(1)(lane) * self._sum(2)(lane))
        self._add_projection(2, lambda lane: (2, lane))
        self._activate_gate(1, 2)
        self._mix(self._sum(2), self._sum(0))

    def _mix(self, new: Lane, update: Lane) -> None:
        """``h' = (1 - z) * n + z * h``."""
        one = tirx.const(1, self.layer.dtype)
        self._keep(
            0,
            lambda lane: (one - update(lane)) * new(lane) + update(lane) * self._before(lane),
        )
        self._show(self._in_scratch(0))

    # Results.

    def _store(self, buffer: tirx.Buffer, value: Lane) -> None:
        with T.vectorized(0, self.width) as lane:
            place = (self.at.direction, self.row, self.unit + lane)
            T.buffer_store(buffer, value(lane), place)

    def _store_state(self, buffer: tirx.Buffer, new: Lane, old: Lane) -> None:
        """The new state; a sequence that has ended keeps the old one."""
        self._store(buffer, lambda lane: self._while_it_goes_on(new(lane), old(lane)))

    def _while_it_goes_on(self, value: Expr, otherwise: Expr) -> Expr:
        lengths = self.tensors.optional.get("lengths")
        if lengths is None:
            return value
        return tirx.Select(self.time < lengths[self.row], value, otherwise)

    def _show(self, new: Lane) -> None:
        """The new hidden state, and its row of Y: zeros behind a sequence's end."""
        at, output = self.at, self.tensors.outputs[0]
        turn = 1 - at.step % 2
        with T.vectorized(0, self.width) as lane:
            place = (turn, at.direction, self.row, self.unit + lane)
            T.buffer_store(
                self.states.hidden, self._while_it_goes_on(new(lane), self._before(lane)), place
            )
        zero = tirx.const(0, self.layer.dtype)

        def shown(lane: Expr) -> None:
            place = (self.time, at.direction, self.row, self.unit + lane)
            T.buffer_store(output, self._while_it_goes_on(new(lane), zero), place)

        self._over_units(shown)
