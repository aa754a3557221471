"""The predicted time of a recurrent layer: products and R's bytes of its steps, gates, forks."""

from __future__ import annotations

from math import ceil

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.topi.recurrence.layer import RecurrentLayer
from tvm_neocpu.topi.recurrence.tiles import Course, Sharing, course_of, cycles_of_step

# What computes a recurrent layer, for people.
ALGORITHM = "recurrence"
# An activation and its share of the cell, in vector instructions: each waits for the one before it
# (Zen 3, one thread: 26 cycles for each of an LSTM's, a GRU's and an RNN's, which is 52 at two a
# cycle).
ACTIVATION_INSTRUCTIONS = 52


def predict_seconds(layer: RecurrentLayer, cpu: Cpu) -> float:
    """Seconds of all steps of all directions, on the course that a build takes."""
    course = course_of(layer, cpu)
    cycles = cycles_of_step(layer, course, cpu) + _cycles_of_gates(layer, course, cpu)
    return layer.steps * cycles / (cpu.ghz * 1e9)


def _cycles_of_gates(layer: RecurrentLayer, course: Course, cpu: Cpu) -> float:
    """Cycles of a step's activations, as they are shared between the cores."""
    activations = layer.gates + (layer.kind == "LSTM")  # whose cell's state has one, too
    vectors = _vectors_of_core(layer, course, cpu)
    return vectors * activations * ACTIVATION_INSTRUCTIONS / cpu.fma_per_cycle


def _vectors_of_core(layer: RecurrentLayer, course: Course, cpu: Cpu) -> int:
    """Vectors of units of all its rows that the busiest core writes in a step."""
    tile = course.tiles[-1]
    blocks = tile.blocks(layer.hidden)
    if course.sharing is Sharing.BLOCKS:
        blocks = ceil(layer.directions * blocks / cpu.cores)
        return blocks * tile.vectors * layer.batch
    stripes = ceil(ceil(layer.batch / tile.rows) / course.groups)
    rows = min(layer.batch, stripes * tile.rows)
    pieces = layer.directions * course.groups
    passes = ceil(pieces / cpu.cores) if course.sharing is Sharing.PIECES else pieces
    return passes * rows * blocks * tile.vectors
