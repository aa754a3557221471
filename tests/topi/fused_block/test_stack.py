"""Dense convolutions as one function: bands that fit, what is refused, the layers' own results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from samples import compiled
from tvm import tirx

from tvm_neocpu.core.network.layer_group import Bands
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, WinogradConfig
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, is_band, misfit
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.template import Layer, fused_function, layers_of
from tvm_neocpu.topi.kernel import kernel, unscheduled

CPU = parse_target("llvm").cpu
F2, F4 = WinogradConfig(8, 8, 2, 2), WinogradConfig(8, 8, 4, 2)
# 4 tiles in order: 4, 4, .. and what is left of a chunk.
ONE_AXIS = WinogradConfig(8, 8, 4, 4, FLAT, 2)
DIRECT = ConvConfig(8, 8, 3, reg_m=2)
STEM = ConvConfig(0, 8, 4)
SAME = (1, 1, 1, 1)


def stack(
    image: tuple[int, int], *layers: tuple[Any, int, int, tuple[int, ...]], batch: int = 1
) -> tuple[Member, ...]:
    """Layers of 16 channels as (config, kernel, stride, padding), one behind the other."""
    members: list[Member] = []
    for config, kernel_size, stride, padding in layers:
        channels = 16 if config.ic_bn else 3
        shape = (batch, channels, *image, 16)
        conv = ConvWorkload(*shape, (kernel_size,) * 2, (stride,) * 2, padding)  # type: ignore[arg-type]
        members.append(Member(conv, config))
        image = conv.out_height, conv.out_width
    return tuple(members)


PAIR = stack((15, 11), (F2, 3, 1, SAME), (F2, 3, 1, SAME))
# (layers, bands): rings in runs, halos computed anew, bands of two rows of tiles, runs of unequal
# length. Large tiles take three times as long to compile.
CASES = [
    (stack((13, 11), (F4, 3, 1, SAME), (F4, 3, 1, SAME)), Bands(4, 4)),
    (PAIR, Bands(2)),
    (PAIR, Bands(4, 4)),
    (stack((15, 11), *2 * ((replace(F2, oc_chunks=2), 3, 1, SAME),)), Bands(2, 8)),
    (stack((9, 9), (F2, 3, 1, SAME), (F2, 3, 1, SAME), batch=2), Bands(2, 3)),
    (stack((14, 10), (DIRECT, 3, 1, SAME), (F2, 3, 1, SAME)), Bands(2, 4)),
    (stack((15, 12), (F4, 3, 1, SAME), (DIRECT, 3, 2, (0, 1, 1, 0))), Bands(2, 4)),
    (stack((16, 9), (ONE_AXIS, 3, 1, SAME), (ONE_AXIS, 3, 1, (0, 1, 2, 1))), Bands(8, 2)),
    (stack((21, 18), (STEM, 3, 1, SAME), (F4, 3, 1, SAME)), Bands(4, 3)),
    (stack((24, 19), (replace(F4, ic_bn=0), 7, 2, (3, 2, 3, 2)), (F2, 3, 1, SAME)), Bands(2, 6)),
    (stack((13, 12), (F2, 3, 2, (1, 0, 1, 0)), (F4, 5, 1, (2, 2, 2, 2))), Bands(4, 2)),
    (
        stack((12, 9), (DIRECT, 1, 1, (0,) * 4), (F4, 3, 1, SAME), (DIRECT, 1, 1, (0,) * 4)),
        Bands(4, 3),
    ),
    (stack((12, 9), (F2, 3, 1, SAME), (F4, 3, 1, SAME), (F2, 3, 1, SAME), batch=2), Bands(4)),
    (stack((5, 5), (F4, 3, 1, (0,) * 4), (DIRECT, 3, 1, SAME)), Bands(2, 2)),
]


@cache
def alone(member: Member) -> Callable[..., None]:
    """A layer as a function of its own: most cases have one twice, or that of another case."""
    return compiled(kernel(member.workload, member.config, CPU))


def tensors(params: Sequence[tirx.Var], rng: np.random.Generator) -> list[tvm.runtime.Tensor]:
    shapes = [[int(extent) for extent in param.shape] for param in params]
    return [tvm.runtime.tensor(rng.random(shape, "float32") - 0.5) for shape in shapes]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_stack_computes_what_its_layers_do(case: tuple[tuple[Member, ...], Bands]) -> None:
    members, bands = case
    assert misfit(members) is None and is_band(members, bands)
    block = FusedBlock(members, bands)
    apart = [unscheduled(m.workload, m.config) for m in members]
    layers = [Layer(func, reads=0 if at else None) for at, func in enumerate(apart)]
    func = fused_function(block, layers, CPU)
    assert func is not None
    assert layers_of(func) == (
        " -> ".join(str(m.workload) for m in members),
        sum(m.workload.flops for m in members),
    )
    rng = np.random.default_rng(0)
    given: list[tvm.runtime.Tensor] = []
    between: list[tvm.runtime.Tensor] = []
    for member, layer in zip(members, apart, strict=True):
        others = tensors(layer.params[len(between) : -1], rng)
        result = tensors(layer.params[-1:], rng)
        alone(member)(*between, *others, *result)
        given, between = [*given, *others], result
    (found,) = tensors(apart[-1].params[-1:], rng)
    compiled(func)(*given, found)
    largest = float(np.abs(between[0].numpy()).max())
    np.testing.assert_allclose(found.numpy(), between[0].numpy(), rtol=0, atol=1e-5 * largest)
