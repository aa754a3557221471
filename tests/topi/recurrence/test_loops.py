"""The sums of a tile stay in registers while R goes by."""

from __future__ import annotations

import pytest
import tvm
from assembly import innermost_loops
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.topi.recurrence.cell import Tensors
from tvm_neocpu.topi.recurrence.layer import Activation, RecurrentLayer
from tvm_neocpu.topi.recurrence.loops import write_loops
from tvm_neocpu.topi.recurrence.tiles import course_of

ZEN3 = Cpu("znver3", AVX2, cores=1)


def function(layer: RecurrentLayer) -> tirx.PrimFunc:
    """The layer without what it may leave out, as one function."""
    course = course_of(layer, ZEN3)
    columns = layer.directions * layer.gates * layer.hidden
    shapes = [(layer.steps, layer.batch, columns)]
    for gates, tile in zip(layer.phases, course.tiles, strict=True):
        parts, blocks = len(gates) // tile.gates, tile.blocks(layer.hidden)
        shapes.append((layer.directions, blocks, parts, layer.hidden, tile.gates, tile.units))
    operands = [te.placeholder(shape, layer.dtype) for shape in shapes]

    def written(ins: list[tirx.Buffer], outs: list[tirx.Buffer]) -> tirx.Stmt:
        projection, *weights = ins
        with IRBuilder() as lines:
            with T.seq_scope():
                write_loops(layer, course, Tensors(projection, weights, {}, outs))
            return lines.get().body

    types = [layer.dtype] * len(layer.outputs)
    results = te.extern(list(layer.outputs), operands, written, dtype=types)
    return te.create_prim_func([*operands, *results])


@pytest.mark.parametrize(("kind", "batch"), [("LSTM", 4), ("GRU", 4), ("LSTM", 1)])
def test_no_sum_of_a_tile_is_spilled(kind: str, batch: int) -> None:
    """LLVM unrolled the products of four rows, and one of its copies had sums on the stack."""
    functions = (Activation("sigmoid"), Activation("tanh"), Activation("tanh"))
    activations = (functions[: 3 if kind == "LSTM" else 2],) * 2
    layer = RecurrentLayer(kind, 16, batch, 96, (False, True), activations, resets_after=True)
    target = Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver3"})
    asm = tvm.compile(function(layer), target=target).mod.inspect_source("asm")
    products = [
        loop
        for loop in innermost_loops(asm)
        # An activation multiplies its coefficients, not what it broadcasts from memory by rows.
        if loop.count("vfmadd") >= 8 and loop.count("(%rip)") == 0
    ]
    assert products
    assert all("(%rsp)" not in loop for loop in products)
