"""The loops of a recurrent layer, statement by statement.

for step:
  for direction, block of units, tile of rows:       parallel, or the directions outside of steps
    sums[r, g, u] = sum over k of h[r, k] * R[k, g, u]      in registers
    for r: for each vector of units:
      c, h' = cell(sums + projection, c, h)
      Y[step] = h'

A state has two places, which the steps read and write in turn. Units behind the last one are
computed in the states, where R has zeros for them, and never leave these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import ceil

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.recurrence.cell import At, Cell, States, Tensors
from tvm_neocpu.topi.recurrence.layer import RecurrentLayer, Tile
from tvm_neocpu.topi.recurrence.tiles import Course, Sharing
from tvm_neocpu.topi.tir.functions.keep_rolled import fake_uses


def write_loops(layer: RecurrentLayer, course: Course, tensors: Tensors) -> None:
    """The statements, into the builder that is open."""
    _Loops(layer, course, tensors).write()


class _Loops:
    def __init__(self, layer: RecurrentLayer, course: Course, tensors: Tensors) -> None:
        self.layer, self.course, self.tensors = layer, course, tensors
        padded = max(tile.blocks(layer.hidden) * tile.units for tile in course.tiles)
        state = (layer.directions, layer.batch, padded)
        resets_first = len(layer.phases) == 2

        def some(needed: bool) -> tirx.Buffer | None:
            return T.alloc_buffer(state, layer.dtype) if needed else None

        self.states = States(
            T.alloc_buffer((2, *state), layer.dtype),
            memory=some(layer.kind == "LSTM"),
            update=some(resets_first),
            taken=some(resets_first or layer.rounds),
        )

    def write(self) -> None:
        layer, states = self.layer, self.states
        self._begin("h", states.hidden, lambda *at: (0, *at))
        if states.memory is not None:
            self._begin("c", states.memory, lambda *at: at)
        stripes = ceil(layer.batch / self.course.tiles[0].rows)
        if self.course.sharing is Sharing.BLOCKS:
            with T.serial(0, layer.steps) as step:
                self._step_of_blocks(step, stripes)
        else:
            loop = T.parallel if self.course.sharing is Sharing.PIECES else T.serial
            groups = self.course.groups
            with loop(0, layer.directions * groups) as piece:
                direction, group = tirx.indexdiv(piece, groups), tirx.indexmod(piece, groups)
                some = (group * stripes // groups, (group + 1) * stripes // groups)
                with T.serial(0, layer.steps) as step:
                    self._step_of_piece(step, direction, *some)
        self._end(self.tensors.outputs[1], lambda *at: states.before(layer.steps, at))
        if (memory := states.memory) is not None:
            self._end(self.tensors.outputs[2], lambda *at: memory[at])

    # The states before the first step and behind the last one.

    def _begin(self, name: str, state: tirx.Buffer, place: Callable[..., tuple[Expr, ...]]) -> None:
        given, zero = self.tensors.optional.get(name), tirx.const(0, self.layer.dtype)
        with self._units() as at:
            T.buffer_store(state, zero if given is None else given[at], place(*at))
        # Units that do not exist would begin with any value, and slow ones: denormals.
        with self._units(self.layer.hidden, int(state.shape[-1])) as at:
            T.buffer_store(state, zero, place(*at))

    def _end(self, output: tirx.Buffer, value: Callable[..., Expr]) -> None:
        """A sequence without steps has zeros, as in ONNX Runtime."""
        lengths, zero = self.tensors.optional.get("lengths"), tirx.const(0, self.layer.dtype)
        with self._units() as at:
            last = value(*at)
            if lengths is not None:
                last = tirx.Select(lengths[at[1]] > 0, last, zero)
            T.buffer_store(output, last, at)

    @contextmanager
    def _units(self, first: int = 0, end: int | None = None) -> Iterator[tuple[Expr, ...]]:
        layer = self.layer
        end = layer.hidden if end is None else end
        with (
            T.serial(0, layer.directions) as d,
            T.serial(0, layer.batch) as row,
            T.serial(first, end) as unit,
        ):
            yield d, row, unit

    # A step.

    def _step_of_blocks(self, step: Expr, stripes: int) -> None:
        layer = self.layer
        if layer.rounds:
            with T.serial(0, layer.directions) as direction:
                self._round(step, direction)
        for phase, tile in enumerate(self.course.tiles):
            blocks = tile.blocks(layer.hidden)
            with T.parallel(0, layer.directions * blocks) as at:
                direction, block = tirx.indexdiv(at, blocks), tirx.indexmod(at, blocks)
                with T.serial(0, stripes) as stripe:
                    self._block(phase, step, direction, block, stripe)

    def _step_of_piece(self, step: Expr, direction: Expr, first: Expr, end: Expr) -> None:
        if self.layer.rounds:
            self._round(step, direction)
        for phase, tile in enumerate(self.course.tiles):
            with (
                T.serial(0, tile.blocks(self.layer.hidden)) as block,
                T.serial(first, end) as stripe,
            ):
                self._block(phase, step, direction, block, stripe)

    def _block(self, phase: int, step: Expr, direction: Expr, block: Expr, stripe: Expr) -> None:
        """One block for one tile of rows; what overhangs has statements of its own."""
        layer, tile = self.layer, self.course.tiles[phase]
        blocks, stripes = tile.blocks(layer.hidden), ceil(layer.batch / tile.rows)
        last_units = layer.hidden - (blocks - 1) * tile.units
        last_rows = layer.batch - (stripes - 1) * tile.rows
        rules = range(layer.directions) if len(set(layer.activations)) > 1 else (None,)
        all_units, all_rows = sorted({tile.units, last_units}), sorted({tile.rows, last_rows})
        for rule, units, rows in product(rules, all_units, all_rows):
            tests = [] if rule is None else [direction == rule]
            if len(all_units) == 2:
                is_last = block == blocks - 1
                tests.append(is_last if units == last_units else tirx.Not(is_last))
            if len(all_rows) == 2:
                is_last = stripe == stripes - 1
                tests.append(is_last if rows == last_rows else tirx.Not(is_last))
            first = stripe * tile.rows
            at = At(phase, tile, step, direction, block, first, rows, units, rule or 0)
            with _where(tests):
                self._tile(at)

    # A tile: its sums, then its cells.

    def _tile(self, at: At) -> None:
        tile, gates = self.course.tiles[at.phase], self.layer.phases[at.phase]
        shape = (at.rows, len(gates), tile.vectors, tile.lanes)
        found = T.alloc_buffer(shape, self.layer.dtype, scope="local")
        self._sums(at, tile, found)
        whole, rest = divmod(at.units, tile.lanes)
        cell = Cell(self.layer, self.tensors, self.states, at, found)
        with T.serial(0, at.rows) as row:
            if whole:
                with T.serial(0, whole) as vector:
                    cell.write(row, vector, tile.lanes)
            if rest:
                cell.write(row, tirx.const(whole, "int32"), rest)

    def _sums(self, at: At, tile: Tile, found: tirx.Buffer) -> None:
        """``found[r, g, v, l]``: the sum over k of the state times R, in registers."""
        for first in range(0, int(found.shape[1]), tile.gates):
            self._sums_of_gates(at, tile, first, found)

    def _sums_of_gates(self, at: At, tile: Tile, first: int, found: tirx.Buffer) -> None:
        layer, weight = self.layer, self.tensors.weights[at.phase]
        part = first // tile.gates
        shape = (at.rows, tile.gates, tile.vectors, tile.lanes)
        sums = T.alloc_buffer(shape, layer.dtype, scope="local")
        # Rows innermost: each vector of R is loaded once.
        places = [
            (row, gate, vector)
            for gate, vector, row in product(range(tile.gates), range(tile.vectors), range(at.rows))
        ]
        for place in places:
            with T.vectorized(0, tile.lanes) as lane:
                T.buffer_store(sums, tirx.const(0, layer.dtype), (*place, lane))
        with T.serial(0, layer.hidden) as k:
            if at.rows > 1:
                _keep_rolled(layer.hidden)
            for row, gate, vector in places:
                with T.vectorized(0, tile.lanes) as lane:
                    unit = vector * tile.lanes + lane
                    factor = weight[at.direction, at.block, part, k, gate, unit]
                    index = (row, gate, vector, lane)
                    T.buffer_store(sums, sums[index] + self._factor(at, row, k) * factor, index)
        for row, gate, vector in places:
            with T.vectorized(0, tile.lanes) as lane:
                value = sums[row, gate, vector, lane]
                T.buffer_store(found, value, (row, first + gate, vector, lane))

    def _factor(self, at: At, row: int, k: Expr) -> Expr:
        """What R multiplies: the state, or what became of it."""
        place = (at.direction, at.first_row + row, k)
        if self.states.taken is not None and (at.phase == 1 or self.layer.rounds):
            return self.states.taken[place]
        return self.states.before(at.step, place)

    def _round(self, step: Expr, direction: Expr) -> None:
        """The state of all rows as the codes 0 to 255 say it, with the range of its values."""
        layer, zero = self.layer, tirx.const(0, self.layer.dtype)
        ends = T.alloc_buffer((2,), layer.dtype, scope="local")

        def each(write: Callable[[Expr, tuple[Expr, ...]], None]) -> None:
            with T.serial(0, layer.batch) as row, T.serial(0, layer.hidden) as unit:
                place = (direction, row, unit)
                write(self.states.before(step, place), place)

        def widen(value: Expr, _: tuple[Expr, ...]) -> None:
            T.buffer_store(ends, tirx.min(ends[0], value), (0,))
            T.buffer_store(ends, tirx.max(ends[1], value), (1,))

        def coded(value: Expr, place: tuple[Expr, ...]) -> None:
            span = (ends[1] - ends[0]) / tirx.const(255, layer.dtype)
            scale = tirx.Select(span > zero, span, tirx.const(1, layer.dtype))
            top = tirx.const(255, layer.dtype)
            middle: Expr = vector_math.clip(tirx.nearbyint((zero - ends[0]) / scale), zero, top)
            code: Expr = vector_math.clip(tirx.nearbyint(value / scale) + middle, zero, top)
            T.buffer_store(self.states.taken, (code - middle) * scale, place)

        for end in range(2):
            T.buffer_store(ends, zero, (end,))
        each(widen)
        each(coded)


def _keep_rolled(extent: int) -> None:
    """LLVM would unroll the products of several rows, load for all of them and spill their sums.

    Zen 3, one thread: LSTM 16 steps of 4x256->256, both directions, 2210 -> 1650 us.
    """
    for use in fake_uses(extent):
        T.evaluate(use)


@contextmanager
def _where(tests: Sequence[Expr]) -> Iterator[None]:
    """Statements that run where all tests hold."""
    if not tests:
        yield
        return
    with T.If(tirx.all(*tests)), T.Then():
        yield
