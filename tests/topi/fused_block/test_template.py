"""A group's function computes what its layers compute one after the other, epilogues included."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.conv2d_direct.template import compute
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, Member
from tvm_neocpu.topi.fused_block.template import Layers, fused_function, layers_of
from tvm_neocpu.topi.kernel import kernel, unscheduled

TARGET = parse_target("llvm")
# (batch, channels, rows, columns, stride, padding, outputs, rows of a group)
CASES = [
    (1, 16, 12, 12, 1, (1, 1, 1, 1), 24, 4),
    (3, 16, 9, 7, 1, (1, 1, 1, 1), 8, 3),
    (2, 32, 13, 10, 2, (0, 1, 2, 1), 16, 7),
    (1, 8, 7, 7, 1, (1, 1, 1, 1), 8, 7),
    (1, 24, 11, 5, 2, (2, 2, 2, 2), 40, 1),
]


def block_of(case: tuple[int, int, int, int, int, tuple[int, ...], int, int]) -> FusedBlock:
    batch, channels, height, width, stride, padding, outputs, rows = case
    conv = ConvWorkload(
        batch, channels, height, width, channels, (3, 3), (stride,) * 2, padding, groups=channels
    )
    reader = ConvWorkload(batch, channels, conv.out_height, conv.out_width, outputs, (1, 1))
    depthwise = Member(conv, DepthwiseConfig(8, 8, reg_n=2))
    return FusedBlock(depthwise, Member(reader, ConvConfig(8, 8, conv.out_width)), rows)


def compiled(func: tirx.PrimFunc) -> tvm.runtime.Module:
    return tvm.compile(tvm.IRModule({"main": func}), TARGET.target)


@pytest.mark.parametrize("case", CASES)
def test_a_group_computes_what_its_layers_do(case: tuple[int, ...]) -> None:
    block = block_of(case)  # type: ignore[arg-type]
    members = (block.depthwise, block.project)
    first, last = (unscheduled(m.workload, m.config) for m in members)
    func = fused_function(block, Layers(first, last, reads=0), TARGET.cpu)
    assert func is not None
    assert layers_of(func) is not None
    rng = np.random.default_rng(0)

    def tensors(params: list[tirx.Var]) -> list[tvm.runtime.Tensor]:
        shapes = [[int(extent) for extent in param.shape] for param in params]
        return [tvm.runtime.tensor(rng.random(shape, "float32") - 0.5) for shape in shapes]

    given, between = tensors(first.params[:-1]), *tensors(first.params[-1:])
    others, expected, found = tensors(last.params[1:-1]), *tensors([last.params[-1]] * 2)
    apart = [compiled(kernel(m.workload, m.config, TARGET.cpu))["main"] for m in members]
    apart[0](*given, between)
    apart[1](between, *others, expected)
    compiled(func)["main"](*given, *others, found)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-6)


def test_a_layer_of_two_loop_nests_is_left_apart() -> None:
    """A stage that computes the input for all chunks at once has a loop nest of its own."""
    block = block_of(CASES[0])  # type: ignore[arg-type]
    conv, config = block.project.workload, block.project.config
    data = te.placeholder((1, 2, 12, 12, 8), "float32", "data")
    sums = te.compute((1, 2, 12, 12, 8), lambda *at: data(*at) + 1.0, name="sums")
    weight = te.placeholder(DirectGeometry(conv, config).packed_shape, "float32", "weight")
    result = compute(data, weight, conv, config)
    last = te.create_prim_func([data, weight, result, sums])
    first = unscheduled(block.depthwise.workload, block.depthwise.config)
    assert fused_function(block, Layers(first, last, reads=0), TARGET.cpu) is None
