"""Det, and the grids that GridSample reads."""

from __future__ import annotations

import numpy as np
from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.compute.sampled_grid import sampled_grid
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of


def det(node: Node) -> relax.Expr:
    """``(.., n, n)`` -> ``(..)``, by elimination with the largest pivot of each column."""
    shape = static_shape_of(node.data.ty)
    if shape is None or len(shape) < 2 or shape[-1] != shape[-2]:
        raise UnsupportedOperatorError("its data are no square matrices of known extents")
    if node.dtype not in ("float32", "float64"):
        raise UnsupportedOperatorError(f"data of type {node.dtype}")
    n, outer = shape[-1], shape[:-2]
    number = int(np.prod(outer, dtype="int64"))

    def body(data, result, work, pivot) -> None:  # type: ignore[no-untyped-def]
        with T.serial(0, number * n * n) as i:
            work[i] = data[i]
        with T.serial(0, number) as m:
            result[m] = tirx.const(1, node.dtype)
            with T.serial(0, n) as k:
                base = m * (n * n)
                pivot[0] = k
                with T.serial(k + 1, n) as i:
                    better = tirx.abs(work[base + i * n + k]) > tirx.abs(
                        work[base + pivot[0] * n + k]
                    )
                    pivot[0] = tirx.Select(better, i, pivot[0])
                with T.If(pivot[0] != k), T.Then():
                    result[m] = -result[m]
                    with T.serial(0, n) as j:
                        _swap(work, base + k * n + j, base + pivot[0] * n + j, number * n * n)
                result[m] = result[m] * work[base + k * n + k]
                is_pivot = work[base + k * n + k] != tirx.const(0, node.dtype)
                with (
                    T.If(is_pivot),
                    T.Then(),
                    T.serial(k + 1, n) as i,
                    T.serial(k + 1, n) as j,
                ):
                    # The column's own elements stay: they are factors until the row is done.
                    factor = work[base + i * n + k] / work[base + k * n + k]
                    at = base + i * n + j
                    work[at] = work[at] - factor * work[base + k * n + j]

    # One element behind the matrices is the swap's temporary.
    outputs = [
        (outer, node.dtype),
        ((number * n * n + 1,), node.dtype),
        ((1,), "int32"),
    ]
    return emit_loops(node, "det", [node.data], outputs, body)[0]


def _swap(work: T.Buffer, one: tirx.Expr, other: tirx.Expr, spare: int) -> None:
    work[spare] = work[one]
    work[one] = work[other]
    work[other] = work[spare]


def affine_grid(node: Node) -> relax.Expr:
    """Matrices ``(N, d, d + 1)`` -> grids ``(N, .., d)``: places of ``[-1, 1]`` transformed."""
    values = node.constant(1)
    if values is None or values.size not in (4, 5):
        raise UnsupportedOperatorError("size must have 4 or 5 values")
    extents = [int(extent) for extent in values.ravel()[2:]]
    align = bool(node.attributes["align_corners"])
    axes = [_places(extent, align) for extent in extents]
    # The last axis of the image is the first coordinate.
    coordinates = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], axis=-1)
    points = np.concatenate([coordinates, np.ones([*extents, 1])], axis=-1)
    flat = points.reshape(1, -1, len(extents) + 1).astype(node.dtype)
    turned = node.emit(relax.op.permute_dims(node.data, [0, 2, 1]))
    moved = node.emit(relax.op.matmul(relax.const(flat, node.dtype), turned))
    return relax.op.reshape(moved, [node.extent(0), *extents, len(extents)])


def _places(extent: int, align_corners: bool) -> np.ndarray:
    if align_corners:
        return np.linspace(-1, 1, extent) if extent > 1 else np.array([-1.0])
    return (2 * np.arange(extent) + 1) / extent - 1


def grid_sample(node: Node) -> relax.Expr:
    """Linear over images in loops of ours; else TVM's own.

    Its reflection would divide by the length 0 of an axis of one pixel.
    """
    reflects = node.attributes["padding_mode"] == "reflection" and node.attributes["align_corners"]
    if reflects and any(node.extent(axis) == 1 for axis in range(2, node.rank)):
        raise UnsupportedOperatorError("reflection with align_corners of an axis of one pixel")
    grid, padding = node.required(1), node.attributes["padding_mode"]
    known = all(static_shape_of(each.ty) is not None for each in (node.data, grid))
    is_linear = node.attributes["mode"] in ("linear", "bilinear") and padding != "reflection"
    in_fp32 = node.dtype == str(grid.ty.dtype) == "float32"
    if not (is_linear and known and in_fp32) or node.rank != 4:
        return node.by_tvm()
    align = bool(node.attributes["align_corners"])
    return sampled_grid(node, node.data, grid, align_corners=align, border=padding == "border")
