"""A group's function computes what its layers compute one after the other, epilogues included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from samples import compiled
from tvm import te, tirx

from tvm_neocpu.core.network.layer_group import Bands
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.conv2d_direct.template import compute
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, is_band, misfit
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.template import Layer, fused_function, layers_of
from tvm_neocpu.topi.kernel import kernel, unscheduled

TARGET = parse_target("llvm")
ROUND = (1, 1, 1, 1)


@dataclass(frozen=True)
class Case:
    """``inputs`` -> ``channels`` -> ``outputs``; 0 inputs or outputs: no such layer."""

    inputs: int
    channels: int
    outputs: int
    image: tuple[int, int]
    rows: int
    run: int = 1
    batch: int = 1
    kernel: int = 3
    stride: int = 1
    padding: tuple[int, int, int, int] = ROUND

    def block(self) -> FusedBlock:
        expand = ConvWorkload(self.batch, self.inputs or 8, *self.image, self.channels, (1, 1))
        kernel, stride = (self.kernel,) * 2, (self.stride,) * 2
        shape = self.batch, self.channels, *self.image, self.channels
        deep = ConvWorkload(*shape, kernel, stride, self.padding, groups=self.channels)
        out = deep.out_height, deep.out_width
        project = ConvWorkload(self.batch, self.channels, *out, self.outputs or 8, (1, 1))
        members = [Member(deep, DepthwiseConfig(8, 8, reg_n=2))]
        if self.inputs:
            members.insert(0, Member(expand, ConvConfig(8, 8, self.image[1])))
        if self.outputs:
            members.append(Member(project, ConvConfig(8, 8, deep.out_width)))
        return FusedBlock(tuple(members), Bands(self.rows, self.run))


CASES = [
    # Without an expansion.
    Case(0, 16, 24, (12, 12), 4),
    Case(0, 16, 8, (9, 7), 3, batch=3),
    Case(0, 32, 16, (13, 10), 7, batch=2, stride=2, padding=(0, 1, 2, 1)),
    Case(0, 8, 8, (7, 7), 7),
    Case(0, 24, 40, (11, 5), 1, stride=2, padding=(2, 2, 2, 2)),
    # With one: a halo for each band, rings in runs, runs of unequal length.
    Case(8, 16, 24, (12, 12), 4),
    Case(8, 16, 24, (12, 12), 2, run=6),
    Case(8, 16, 24, (12, 12), 2, run=4, batch=2),
    Case(16, 24, 8, (13, 9), 1, run=5),
    Case(16, 24, 8, (14, 14), 1, run=7, stride=2),
    Case(16, 24, 8, (15, 14), 2, run=3, stride=2, padding=(0, 1, 2, 1)),
    Case(8, 16, 8, (17, 11), 3, run=5, kernel=5, padding=(1, 2, 1, 2)),
    Case(8, 16, 8, (12, 6), 2, run=2, stride=3, padding=(0, 0, 1, 1)),
    # A squeeze-excite gate ends the group.
    Case(8, 24, 0, (10, 8), 5),
    Case(8, 24, 0, (10, 8), 2, run=3, batch=2),
    Case(8, 24, 0, (11, 8), 3, run=2, stride=2),
]


def tensors(params: Sequence[tirx.Var], rng: np.random.Generator) -> list[tvm.runtime.Tensor]:
    shapes = [[int(extent) for extent in param.shape] for param in params]
    return [tvm.runtime.tensor(rng.random(shape, "float32") - 0.5) for shape in shapes]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_group_computes_what_its_layers_do(case: Case) -> None:
    block = case.block()
    assert misfit(block.members) is None and is_band(block.members, block.bands)
    apart = [unscheduled(m.workload, m.config) for m in block.members]
    layers = [Layer(func, reads=0 if at else None) for at, func in enumerate(apart)]
    func = fused_function(block, layers, TARGET.cpu)
    assert func is not None
    assert layers_of(func) is not None
    rng = np.random.default_rng(0)
    given: list[tvm.runtime.Tensor] = []
    expected: list[tvm.runtime.Tensor] = []
    for member, layer in zip(block.members, apart, strict=True):
        others = tensors(layer.params[len(expected[:1]) : -1], rng)
        result = tensors(layer.params[-1:], rng)
        run = compiled(kernel(member.workload, member.config, TARGET.cpu))
        run(*expected, *others, *result)
        given, expected = [*given, *others], result
    (found,) = tensors(apart[-1].params[-1:], rng)
    compiled(func)(*given, found)
    np.testing.assert_allclose(found.numpy(), expected[0].numpy(), rtol=0, atol=1e-6)


def test_a_layer_of_two_loop_nests_is_left_apart() -> None:
    """A stage that computes the input for all chunks at once has a loop nest of its own."""
    block = CASES[0].block()
    conv, config = block.members[1].workload, block.members[1].config
    data = te.placeholder((1, 2, 12, 12, 8), "float32", "data")
    sums = te.compute((1, 2, 12, 12, 8), lambda *at: data(*at) + 1.0, name="sums")
    weight = te.placeholder(DirectGeometry(conv, config).packed_shape, "float32", "weight")
    result = compute(data, weight, conv, config)
    last = te.create_prim_func([data, weight, result, sums])
    first = unscheduled(block.members[0].workload, block.members[0].config)
    layers = [Layer(first), Layer(last, reads=0)]
    assert fused_function(block, layers, TARGET.cpu) is None
