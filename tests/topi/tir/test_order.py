"""The order of the rewrites: what each needs is there when its turn comes."""

from __future__ import annotations

import pytest
from nests import SKYLAKE
from prefetches import asked_for
from tvm import te, tirx, topi
from tvm.s_tir import Schedule

from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_direct.template import compute, packed_shape
from tvm_neocpu.topi.schedule_function import schedule_blocks, schedule_function
from tvm_neocpu.topi.tir.functions.cut_loops import narrow_indices
from tvm_neocpu.topi.tir.functions.group_trips import group_trips
from tvm_neocpu.topi.tir.functions.outline_chunks import outline_chunks, outline_parallel
from tvm_neocpu.topi.tir.instructions.plant_look_ups import plant_look_ups
from tvm_neocpu.topi.tir.instructions.round_and_saturate import round_and_saturate
from tvm_neocpu.topi.tir.instructions.scalar_calls import scalar_calls
from tvm_neocpu.topi.tir.instructions.transpose_tiles import transpose_tiles
from tvm_neocpu.topi.tir.instructions.widest_vectors import widest_vectors
from tvm_neocpu.topi.tir.order import GENERIC_REWRITES, TEMPLATE_REWRITES
from tvm_neocpu.topi.tir.prefetch.prefetch_epilogue import prefetch_epilogues
from tvm_neocpu.topi.tir.prefetch.prefetch_pixels import PIXELS_KEY, plant_pixel_requests
from tvm_neocpu.topi.tir.prefetch.prefetch_weights import PREFETCH_KEY, plant_prefetches
from tvm_neocpu.topi.tir.tiles.forget_locals import COMPACTED, forget_locals
from tvm_neocpu.topi.tir.tiles.parts_by_address import parts_by_address
from tvm_neocpu.topi.tir.tiles.whole_vectors import whole_vectors

# Large enough for requests of all three kinds.
CONV = ConvWorkload(1, 256, 28, 28, 256, (1, 1))
CONFIG = ConvConfig(64, 32, 14, oh_bn=7)


def with_residual() -> tirx.PrimFunc:
    """relu(conv + residual), as ``FuseTIR`` leaves it."""
    x = te.placeholder((1, 4, 28, 28, 64), name="x")
    w = te.placeholder(packed_shape(CONV, CONFIG), name="w")
    y = compute(x, w, CONV, CONFIG)
    other = te.placeholder(y.shape, name="other")
    return te.create_prim_func([x, w, other, topi.nn.relu(topi.add(y, other))])


def test_every_prefetch_finds_its_mark() -> None:
    func = schedule_blocks(with_residual(), SKYLAKE)
    assert asked_for(func, "other"), "the epilogue's rewrite came after the marks were removed"
    assert asked_for(func, "x")
    assert asked_for(func, "w")


def test_no_mark_is_left() -> None:
    script = schedule_blocks(with_residual(), SKYLAKE).script()
    assert PREFETCH_KEY not in script and PIXELS_KEY not in script
    scheduled = schedule_function(with_residual(), SKYLAKE)
    assert "neocpu" not in scheduled.without_attr(COMPACTED).script()


def test_the_last_rewrites_are_those_that_no_schedule_reads() -> None:
    last = (forget_locals, parts_by_address, widest_vectors, narrow_indices)
    assert TEMPLATE_REWRITES[-4:] == last
    assert GENERIC_REWRITES[-1] is forget_locals
    for rewrites in (TEMPLATE_REWRITES, GENERIC_REWRITES):
        assert rewrites.count(forget_locals) == 1
    sch = Schedule(schedule_blocks(with_residual(), SKYLAKE))
    assert sch.get_loops(sch.get_sblock("conv2d_acc_update"))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (prefetch_epilogues, plant_prefetches),
        (prefetch_epilogues, plant_pixel_requests),
        (plant_prefetches, outline_chunks),
        (plant_pixel_requests, outline_chunks),
        (transpose_tiles, outline_chunks),
        (outline_chunks, forget_locals),
    ],
)
def test_order(earlier: object, later: object) -> None:
    assert TEMPLATE_REWRITES.index(earlier) < TEMPLATE_REWRITES.index(later)


def test_what_the_general_rule_scheduled_has_no_marks_to_look_for() -> None:
    found = (
        round_and_saturate,
        plant_look_ups,
        transpose_tiles,
        whole_vectors,
        scalar_calls,
        group_trips,
        outline_parallel,
        forget_locals,
    )
    assert found == GENERIC_REWRITES
