"""The multiply-add peak of a workload's types: of vectors, or of a matrix unit that has them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import tirx
from tvm.tirx import ForKind, SeqStmt, Stmt

from tvm_neocpu.contrib.kernels.ceilings import PeakKernel
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS, word_elements
from tvm_neocpu.core.machine.matrix_unit import LANES, ROW_BYTES, ROWS, products_of_tiles
from tvm_neocpu.core.types import Types
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.topi.math import matrix_tiles
from tvm_neocpu.topi.math.matrix_tiles import MAX_SUMS, Cut
from tvm_neocpu.topi.tir.instructions.plant_tiles import with_permission, with_registers
from tvm_neocpu.topi.tir.loops.rewrite_loops import counted_loop, opaque

# Steps of a run, of four products each.
STEPS = 5_000


class TilePeakKernel:
    """Four tiles of sums to which products of four tiles are added, which stay in registers.

    for k in range(STEPS):
        sums[p, f] += data[p] * weights[f]    # for p, f in (2, 2)

    Of ``types``, whose words the target's matrix unit multiplies. All bytes of operands are zero:
    the unit takes as long for any others.
    """

    def __init__(self, target: CompileTarget, types: Types) -> None:
        threads = target.cpu.cores
        func = _peak(types, threads)
        self.flops = 2.0 * threads * MAX_SUMS * products_of_tiles(types) * STEPS
        self.arguments = [
            tvm.runtime.tensor(np.zeros([int(n) for n in each.shape], str(each.dtype)))
            for each in func.params
        ]
        module = tvm.compile(func, target=target.target).jit()
        self._timer: Callable[..., Any] = module.time_evaluator("main", tvm.cpu(), repeat=3)

    def gflops(self) -> float:
        """The peak in GFLOP/s at this moment; the clock drifts, so ask beside every kernel."""
        return self.flops / float(median(self._timer(*self.arguments).results)) / 1e9


# What kernels are measured against.
Ruler: TypeAlias = PeakKernel | TilePeakKernel


def peak_kernel(target: CompileTarget, types: Types, weight_bits: int = ANY_WEIGHTS) -> Ruler:
    """The ruler for kernels of such types on this CPU."""
    unit = target.cpu.matrix
    if unit is not None and not unit.is_plain and types in unit.types:
        return TilePeakKernel(target, types)
    return PeakKernel(target, types, weight_bits)


def _peak(types: Types, threads: int) -> tirx.PrimFunc:
    operands = tirx.decl_buffer((ROWS, ROW_BYTES), "uint8", "operands")
    out = tirx.decl_buffer((threads, MAX_SUMS, ROWS, LANES), types.accumulator, "out")
    thread, step = (tirx.Var(name, "int64") for name in ("thread", "step"))
    cut = Cut(starts=((0, 0), (0, ROWS)), pixels=ROWS, filters=2, words=ROWS)
    tiles = list(product(range(2), range(2)))
    operand = tirx.address_of(operands[0, 0])
    read = [*map(cut.data, range(2)), *map(cut.weights, range(2))]
    chunk = [
        *(matrix_tiles.zeroed(cut.sums(p, f)) for p, f in tiles),
        *(matrix_tiles.loaded(each, operand, ROW_BYTES) for each in read),
        counted_loop(step, STEPS, opaque("products", SeqStmt(_products(cut, types)))),
        *(
            matrix_tiles.stored(at, tirx.address_of(out[thread, at, 0, 0]), ROW_BYTES)
            for at in (cut.sums(p, f) for p, f in tiles)
        ),
    ]
    inside = with_registers(opaque("tiles", SeqStmt(chunk)), cut)
    kind = ForKind.PARALLEL if threads > 1 else ForKind.SERIAL
    loop = counted_loop(thread, threads, opaque("chunk", inside), kind)
    func = tirx.PrimFunc([operands, out], opaque("root", with_permission(loop)))
    return func.with_attrs({"global_symbol": "main", "s_tir": True})


def _products(cut: Cut, types: Types) -> list[Stmt]:
    return [
        matrix_tiles.multiplied(cut.sums(p, f), cut.data(p), cut.weights(f), word_elements(types))
        for p, f in product(range(2), range(2))
    ]
