"""A batched matrix product by its definition, and how its operands' elements are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import te, tirx

from tvm_neocpu.core.network.workload import Shape
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload


def transposed(tensor: te.Tensor, axes: Sequence[int]) -> Callable[..., tirx.Expr]:
    """Reads ``tensor`` at an index of the transposed one; longer indices broadcast."""
    shape: Shape = tuple(int(tensor.shape[axis]) for axis in axes)

    def read(*at: tirx.Expr) -> tirx.Expr:
        inside = at[len(at) - len(axes) :]
        index = [0] * len(axes)
        for axis, extent, place in zip(axes, shape, inside, strict=True):
            index[axis] = 0 if extent == 1 else place
        return tensor(*index)

    return read


def multiplied(left: te.Tensor, right: te.Tensor, product: MatmulWorkload) -> te.Tensor:
    """(.., M, N), for the general schedule."""
    types = product.types
    first, second = transposed(left, product.left_axes), transposed(right, product.right_axes)
    k = te.reduce_axis((0, product.inner), name="k")

    def element(*at):
        *outside, m, n = at
        one, other = first(*outside, m, k), second(*outside, k, n)
        return te.sum(one.astype(types.accumulator) * other.astype(types.accumulator), axis=[k])

    return te.compute(product.out_shape, element, name="matmul")
