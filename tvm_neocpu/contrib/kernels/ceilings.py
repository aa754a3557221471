"""This machine's ceilings, measured with kernels that TVM compiles: FMA peak, latency, clock, fork.

Bandwidths have a file of their own: :mod:`tvm_neocpu.contrib.kernels.read_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS, DotProduct
from tvm_neocpu.core.types import BF16_PRODUCTS, INTEGER_PRODUCTS, Types, uniform
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.topi.math.bf16_products import bf16_dot
from tvm_neocpu.topi.math.dot_products import WORD_TYPE, dot, word
from tvm_neocpu.topi.math.half_precision import BITS as BF16_BITS
from tvm_neocpu.topi.tir.instructions.plant_bf16 import plant_bf16
from tvm_neocpu.topi.tir.instructions.plant_dots import plant_dots

# The peak kernel: reduction steps of a run, length of an operand (divides the steps), vectors.
STEPS, OPERANDS, VECTORS = 102_400, 128, 2
# What the clock's chain flips, and how many parallel regions are timed at once.
BITS, FORKS = 0x5A5A5A5A, 200
# One half in bf16: its bits, and two of it in a word.
HALVES = {BF16_BITS: 0x3F00, WORD_TYPE: 0x3F003F00}


@dataclass(frozen=True)
class Ceilings:
    """``peak`` in GFLOP/s and ``bandwidth`` of reads from memory in GB/s, all threads together."""

    peak: float
    bandwidth: float

    def bound(self, flops: float, moved: float) -> float:
        """The roofline: max GFLOP/s of a kernel of ``flops`` operations and ``moved`` bytes."""
        return min(self.peak, flops / moved * self.bandwidth)


class PeakKernel:
    """The register tile of a matrix product whose operands stay in L1: the ruler for all kernels.

        for k in range(STEPS):
            for row, vector in (rows, VECTORS):     # unrolled: 3/4 of the registers
                out[row, vector] += x[k % OPERANDS, vector] * y[k % OPERANDS, row]

    Each loaded operand serves several FMAs, so nothing but the FMA units limits it. The last
    quarter of the registers holds operands. All elements are of ``types``, a workload's or one
    type's name; of integers, and of bf16 on a CPU that multiplies it, x and y are words, multiplied
    by the CPU's own instruction for weights of so many bits.
    """

    def __init__(
        self, target: CompileTarget, types: str | Types, weight_bits: int = ANY_WEIGHTS
    ) -> None:
        types = uniform(types) if isinstance(types, str) else types
        unit, threads = target.cpu.unit(types.accumulator), target.cpu.cores
        lanes, rows = unit.lanes, unit.registers * 3 // 8
        k = te.reduce_axis((0, STEPS), name="k")
        x, y, product = _operands(target.cpu, types, weight_bits, rows, k)
        out = te.compute(
            (threads, rows, VECTORS, lanes),
            lambda t, i, j, v: te.sum(product(i, j, v), axis=[k]),
            name="fma",
        )
        sch = Schedule(te.create_prim_func([x, y, out]))
        block = sch.get_sblock("fma")
        write = sch.cache_write(block, 0, "local")
        thread, row, vector, lane, steps = sch.get_loops(block)
        sch.reorder(thread, steps, row, vector, lane)
        if threads > 1:
            sch.parallel(thread)
        sch.reverse_compute_at(write, thread)
        _unroll_tile(sch, block)
        _unroll_tile(sch, sch.decompose_reduction(block, steps))
        _unroll_tile(sch, write)
        tile = rows * VECTORS
        self.flops = 2.0 * threads * tile * lanes * STEPS
        self.flops *= _products_of_lane(target.cpu, types, weight_bits)
        values = HALVES if types in BF16_PRODUCTS else {}
        self.arguments = [
            tvm.runtime.tensor(
                np.full(
                    [int(extent) for extent in t.shape],
                    values.get(str(t.dtype), 1 if types in INTEGER_PRODUCTS else 0.5),
                    str(t.dtype),
                )
            )
            for t in (x, y, out)
        ]
        planted = plant_dots(sch.mod["main"], target.cpu)
        self._timer = _timer(plant_bf16(planted, target.cpu), target)

    def gflops(self) -> float:
        """The peak in GFLOP/s at this moment; the clock drifts, so ask beside every kernel."""
        return self.flops / float(median(self._timer(*self.arguments).results)) / 1e9


def _operands(
    cpu: Cpu, types: Types, weight_bits: int, rows: int, k: te.IterVar
) -> tuple[te.Tensor, te.Tensor, Callable[..., tirx.Expr]]:
    """x, y, and the product of an element of each: of numbers, or of words."""
    lanes = cpu.lanes(types.accumulator)
    if types in BF16_PRODUCTS and cpu.bf16 is not None:
        return _bf16_operands(cpu.bf16, lanes, rows, k)
    if types not in INTEGER_PRODUCTS:
        x = te.placeholder((OPERANDS, VECTORS, lanes), types.data, name="x")
        y = te.placeholder((OPERANDS, rows), types.data, name="y")
        return x, y, lambda i, j, v: x[k % OPERANDS, j, v] * y[k % OPERANDS, i]
    by = cpu.dot(types, weight_bits)
    x = te.placeholder((OPERANDS, by.words, VECTORS, lanes), WORD_TYPE, name="x")
    y = te.placeholder((OPERANDS, rows, by.words, by.elements), by.data, name="y")

    def product(i: tirx.Var, j: tirx.Var, v: tirx.Var) -> tirx.Expr:
        def pair(q: int) -> tuple[tirx.Expr, tirx.Expr]:
            elements = (y[k % OPERANDS, i, q, at] for at in range(by.elements))
            return word(*elements), x[k % OPERANDS, q, j, v]

        return dot(*map(pair, range(by.words)), weight_bits=weight_bits)

    return x, y, product


def _bf16_operands(
    by: DotProduct, lanes: int, rows: int, k: te.IterVar
) -> tuple[te.Tensor, te.Tensor, Callable[..., tirx.Expr]]:
    """The same of words of bf16."""
    x = te.placeholder((OPERANDS, VECTORS, lanes), WORD_TYPE, name="x")
    y = te.placeholder((OPERANDS, rows, by.elements), BF16_BITS, name="y")

    def product(i: tirx.Var, j: tirx.Var, v: tirx.Var) -> tirx.Expr:
        elements = (y[k % OPERANDS, i, at] for at in range(by.elements))
        return bf16_dot(word(*elements), x[k % OPERANDS, j, v])

    return x, y, product


def _products_of_lane(cpu: Cpu, types: Types, weight_bits: int) -> int:
    """Multiply-adds of a lane in one step."""
    if types in BF16_PRODUCTS and cpu.bf16 is not None:
        return cpu.bf16.elements
    if types not in INTEGER_PRODUCTS:
        return 1
    by = cpu.dot(types, weight_bits)
    return by.elements * by.words


class ChainKernel:
    """One vector to which products are added: each FMA waits for the one before.

    for k in range(STEPS):
        out[0:lanes] += x[k % OPERANDS, 0:lanes] * y[k % OPERANDS]
    """

    def __init__(self, target: CompileTarget, dtype: str) -> None:
        lanes = target.cpu.lanes(dtype)
        x = te.placeholder((OPERANDS, lanes), dtype, name="x")
        y = te.placeholder((OPERANDS,), dtype, name="y")
        k = te.reduce_axis((0, STEPS), name="k")
        out = te.compute(
            (lanes,), lambda v: te.sum(x[k % OPERANDS, v] * y[k % OPERANDS], axis=[k]), name="chain"
        )
        sch = Schedule(te.create_prim_func([x, y, out]))
        block = sch.get_sblock("chain")
        write = sch.cache_write(block, 0, "local")
        lane, steps = sch.get_loops(block)
        sch.reorder(steps, lane)
        sch.vectorize(lane)
        for each in (sch.decompose_reduction(block, steps), write):
            sch.vectorize(sch.get_loops(each)[-1])
        self.arguments = [
            tvm.runtime.tensor(np.full([int(extent) for extent in t.shape], 0.5, dtype))
            for t in (x, y, out)
        ]
        self._timer = _timer(sch.mod, target)

    def steps_per_second(self) -> float:
        """FMAs of the chain per second at this moment."""
        return STEPS / float(median(self._timer(*self.arguments).results))


class ClockKernel:
    """A chain of whole numbers: a step adds and flips bits, one cycle each on every CPU.

    for k in range(STEPS):
        out = (out + x[k % OPERANDS]) ^ BITS    # no compiler may reorder this
    """

    CYCLES = 2

    def __init__(self, target: CompileTarget) -> None:
        x = te.placeholder((OPERANDS,), "int32", name="x")
        k = te.reduce_axis((0, STEPS), name="k")
        zero = tvm.tirx.const(0, "int32")
        chain = te.comm_reducer(lambda a, b: (a + b) ^ BITS, lambda _: zero, name="chain")
        out = te.compute((1,), lambda _: chain(x[k % OPERANDS], axis=[k]), name="clock")
        sch = Schedule(te.create_prim_func([x, out]))
        block = sch.get_sblock("clock")
        sch.cache_write(block, 0, "local")
        sch.decompose_reduction(block, sch.get_loops(block)[-1])
        self.arguments = [
            tvm.runtime.tensor(np.arange(OPERANDS, dtype="int32")),
            tvm.runtime.tensor(np.zeros(1, "int32")),
        ]
        self._timer = _timer(sch.mod, target)

    def hertz(self) -> float:
        """Cycles per second at this moment."""
        return self.CYCLES * STEPS / float(median(self._timer(*self.arguments).results))


class ForkKernel:
    """A call that writes one number for each thread: with a parallel loop, and without."""

    def __init__(self, target: CompileTarget, fork: bool) -> None:
        count = target.cpu.cores
        x = te.placeholder((count, 1), "float32", name="x")
        out = te.compute((count, 1), lambda i, j: x[i, j] + 1.0, name="fork")
        sch = Schedule(te.create_prim_func([x, out]))
        if fork:
            sch.parallel(sch.get_loops(sch.get_sblock("fork"))[0])
        self.arguments = [tvm.runtime.tensor(np.zeros((count, 1), "float32")) for _ in range(2)]
        self._timer = _timer(sch.mod, target, number=FORKS)

    def calls_per_second(self) -> float:
        """Calls per second at this moment."""
        return 1 / float(median(self._timer(*self.arguments).results))


def _timer(
    mod: tvm.IRModule | tirx.PrimFunc, target: CompileTarget, number: int = 1
) -> Callable[..., Any]:
    module = tvm.compile(mod, target=target.target).jit()
    return module.time_evaluator("main", tvm.cpu(), number=number, repeat=3)


def _unroll_tile(sch: Schedule, block: SBlockRV) -> None:
    *_, row, vector, lane = sch.get_loops(block)
    sch.unroll(row)
    sch.unroll(vector)
    sch.vectorize(lane)
