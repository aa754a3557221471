"""Functions that take their workspace, and tensors that begin anywhere in their memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_neocpu.core.arena import ALIGNMENT
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.tir.functions.memory_params import (
    MIN_BYTES,
    takes_memory_params,
    with_memory_params,
)

TARGET = parse_target()
CONV = ConvWorkload(1, 32, 28, 28, 32, (3, 3), padding=(1, 1, 1, 1))
# Chunks of channels: padded and packed data are the function's, chunks of rows have their own.
WINOGRAD = WinogradConfig(16, 16, 4, 7, th_bn=7, parallel_oc=True)
DIRECT = ConvConfig(16, 16, 14, oh_bn=28, parallel_oc=True)
FIRST = ConvWorkload(1, 3, 128, 128, 16, (7, 7), (2, 2), (3, 3, 3, 3))
FIRST_WINOGRAD = WinogradConfig(0, 16, 4, 16, th_bn=16, parallel_oc=True)


def tensor_at(offset: int, values: np.ndarray) -> tvm.runtime.Tensor:
    """A tensor of these values that begins ``offset`` bytes behind the start of its memory."""
    memory = tvm.runtime.tensor(np.zeros(values.nbytes + offset, "uint8"))
    view = memory._create_view(values.shape, str(values.dtype), offset)
    view.copyfrom(values)
    return view


def compiled(func: tirx.PrimFunc) -> Callable[..., None]:
    return tvm.compile(func, target=TARGET.target).jit()["main"]


@pytest.mark.parametrize(
    ("conv", "config", "spaces"),
    [(CONV, WINOGRAD, 1), (CONV, DIRECT, 1), (FIRST, FIRST_WINOGRAD, 3)],
)
def test_the_result_is_the_same_at_any_offset(
    conv: ConvWorkload, config: Config, spaces: int
) -> None:
    func = kernel(conv, config, TARGET.cpu)
    rewritten, workspaces, _ = with_memory_params(func, [0, 3])
    assert len(workspaces) == spaces
    rng = np.random.default_rng(0)
    shapes = [[int(extent) for extent in param.shape] for param in func.params]
    data, weight, bias, out = (rng.normal(size=shape).astype("float32") for shape in shapes)
    plain = [tvm.runtime.tensor(values) for values in (data, weight, bias, out)]
    compiled(func)(*plain)
    garbage = [np.full(space.elements, np.nan, space.dtype) for space in workspaces]
    call = compiled(rewritten)
    for offset in (0, ALIGNMENT, 5 * ALIGNMENT):
        moved = [tensor_at(offset, data), *plain[1:3], tensor_at(offset, out)]
        call(*moved, *(tensor_at(offset, space) for space in garbage))
        np.testing.assert_array_equal(moved[3].numpy(), plain[3].numpy(), err_msg=str(offset))


def test_others_still_begin_where_their_memory_does() -> None:
    func, (space,), _ = with_memory_params(kernel(CONV, DIRECT, TARGET.cpu), [0])
    shapes = [[int(extent) for extent in param.shape] for param in func.params]
    tensors = [np.zeros(shape, "float32") for shape in shapes]
    assert tensors[-1].nbytes == space.size
    moved = [tensor_at(64 if at == 3 else 0, values) for at, values in enumerate(tensors)]
    with pytest.raises(ValueError, match="byte_offset"):
        compiled(func)(*moved)


def test_small_workspace_stays_inside() -> None:
    small = replace(CONV, height=14, width=14, in_channels=16)
    assert MIN_BYTES > 4 * 16 * 16 * 16
    func = kernel(small, DIRECT, TARGET.cpu)
    assert with_memory_params(func, []) == (func, (), None)


def test_symbolic_shapes_are_left_alone() -> None:
    rows = te.var("rows", "int64")
    x = te.placeholder((rows, 4), name="x")
    y = te.compute((rows, 4), lambda i, j: x[i, j] + 1, name="y")
    assert not takes_memory_params(te.create_prim_func([x, y]))
    assert takes_memory_params(kernel(CONV, DIRECT, TARGET.cpu))
