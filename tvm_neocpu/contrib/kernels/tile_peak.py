"""The multiply-add peak of a workload's types: of vectors, or of a matrix unit that has them."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import tirx
from tvm.tirx import ForKind, SeqStmt

from tvm_neocpu.contrib.kernels.ceilings import PeakKernel
from tvm_neocpu.core.dot import ANY_WEIGHTS, WORD_BITS
from tvm_neocpu.core.matrix_unit import LANES, ROW_BYTES, ROWS
from tvm_neocpu.core.types import Types, item_bytes
from tvm_neocpu.targets import CompileTarget
from tvm_neocpu.topi.math import matrix_tiles
from tvm_neocpu.topi.math.matrix_tiles import FIRST_DATA, FIRST_WEIGHTS, MAX_SUMS, Cut
from tvm_neocpu.topi.schedule.steps import LOCAL
from tvm_neocpu.topi.tir.rewrite_loops import counted_loop, opaque

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
        elements = WORD_BITS // 8 // item_bytes(types.weight)
        threads = target.cpu.cores
        func = _peak(types, elements, threads)
        tile = ROWS * LANES * ROWS * elements
        self.flops = 2.0 * threads * MAX_SUMS * tile * STEPS
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


def peak_kernel(target: CompileTarget, types: str | Types, weight_bits: int = ANY_WEIGHTS) -> Ruler:
    """The ruler for kernels of such types on this CPU."""
    unit = target.cpu.matrix
    if unit is not None and not unit.is_plain and isinstance(types, Types) and types in unit.types:
        return TilePeakKernel(target, types)
    return PeakKernel(target, types, weight_bits)


def _peak(types: Types, elements: int, threads: int) -> tirx.PrimFunc:
    operands = tirx.decl_buffer((ROWS, ROW_BYTES), "uint8", "operands")
    out = tirx.decl_buffer((threads, MAX_SUMS, ROWS, LANES), types.accumulator, "out")
    shape = Cut(((0, 0), (0, ROWS)), ROWS, filters=2, words=ROWS)
    room = tirx.decl_buffer((matrix_tiles.CONFIGURATION[1],), "int32", "shapes", scope=LOCAL)
    thread, step = (tirx.Var(name, "int64") for name in ("thread", "step"))
    read = (*range(FIRST_DATA, FIRST_DATA + 2), *range(FIRST_WEIGHTS, FIRST_WEIGHTS + 2))
    tiles = [(p, f) for p in range(2) for f in range(2)]
    products = [
        matrix_tiles.multiplied(2 * p + f, FIRST_DATA + p, FIRST_WEIGHTS + f, elements)
        for p, f in tiles
    ]
    chunk = SeqStmt(
        [
            *matrix_tiles.configured(room, shape),
            *map(matrix_tiles.zeroed, range(MAX_SUMS)),
            *(
                matrix_tiles.loaded(each, tirx.address_of(operands[0, 0]), ROW_BYTES)
                for each in read
            ),
            counted_loop(step, STEPS, opaque("products", SeqStmt(products))),
            *(
                matrix_tiles.stored(each, tirx.address_of(out[thread, each, 0, 0]), ROW_BYTES)
                for each in range(MAX_SUMS)
            ),
            matrix_tiles.released(),
        ]
    )
    kind = ForKind.PARALLEL if threads > 1 else ForKind.SERIAL
    loop = counted_loop(thread, threads, opaque("tiles", chunk, [room]), kind)
    asked = opaque("permission", SeqStmt(matrix_tiles.permission()))
    func = tirx.PrimFunc([operands, out], opaque("root", SeqStmt([asked, loop])))
    return func.with_attrs({"global_symbol": "main", "s_tir": True})
