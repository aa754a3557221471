"""Regions as dataflow blocks: a MatchCast stays between them."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_neocpu.relay_passes.ir.dataflow import regions_to_dataflow


@I.ir_module(s_tir=True)
class Before:
    @R.function
    def main(x: R.Tensor((4,), "float32"), s: R.Shape(ndim=1)) -> R.Tensor(ndim=1):
        n = T.int64()
        with R.dataflow():
            one = R.exp(x)
            two = R.abs(one)
            cast = R.match_cast(s, R.Shape([n]))  # noqa: F841
            three = R.full(R.shape([n]), R.const(1.0, "float32"), "float32")
            four = R.exp(three)
            result = (two, four)
            R.output(result)
        return result[1]


def test_a_match_cast_bounds_a_block() -> None:
    mod = regions_to_dataflow(tvm.IRModule({"main": Before["main"]}))
    blocks = mod["main"].body.blocks
    kinds = [isinstance(block, relax.DataflowBlock) for block in blocks]
    assert kinds == [True, False, True]
    assert isinstance(blocks[1].bindings[0], relax.MatchCast)
    inner = [type(binding.var) is relax.DataflowVar for binding in blocks[0].bindings]
    assert inner == [True, False]  # what the block behind reads is an output
    relax.analysis.well_formed(mod)
