"""Indices of 32 bits: loops of 64 lose the hints that TVM cuts them by."""

from __future__ import annotations

import tvm
from nests import SKYLAKE
from samples import HOST
from tvm import te, tirx

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct import template
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.tir.narrow_indices import narrow_indices


def copy_of(*extents: tirx.Expr | int) -> tirx.PrimFunc:
    x = te.placeholder(extents, "float32", "x")
    return te.create_prim_func([x, te.compute(extents, lambda *at: x(*at) + 1, name="y")])


def wide(extent: int) -> tirx.IntImm:
    return tirx.IntImm("int64", extent)


def test_loops_are_of_32_bits() -> None:
    func = copy_of(wide(3), wide(5))
    assert "T.int64" in func.script() and "T.int64" not in narrow_indices(func).script()
    assert narrow_indices(func).attrs == func.attrs


def test_unknown_and_huge_extents_stay() -> None:
    for func in (copy_of(tirx.Var("n", "int64"), 5), copy_of(wide(2**16), wide(2**15))):
        assert narrow_indices(func).same_as(func)


def test_the_border_of_a_padded_image_is_cut_off_in_networks_too() -> None:
    """A network's shapes are of 64 bits: its copy of rows tested every column for the border."""
    conv = ConvWorkload(1, 3, 8, 40, 16, (3, 3), padding=(1, 1, 1, 1))
    config = ConvConfig(ic_bn=0, oc_bn=16, reg_n=8)

    def code(data_shape: list[tirx.Expr | int]) -> str:
        x = te.placeholder(data_shape, "float32", "x")
        w = te.placeholder(template.packed_shape(conv, config), "float32", "w")
        func = te.create_prim_func([x, w, template.compute(x, w, conv, config)])
        built = tvm.compile(schedule_function(func, SKYLAKE), target=HOST.target)
        return str(built.mod.inspect_source("ll"))

    narrow, broad = (code(list(map(kind, conv.in_shape))) for kind in (int, wide))
    assert narrow.count(" select ") == broad.count(" select ")
    assert narrow.count(" br ") == broad.count(" br ")
