"""DFT and STFT as products with a constant matrix, whose rows are the transforms of unit signals.

    DFT:   y[.., k, q] = sum over t, p of x[.., t, p] * M[t, p, k, q]     # p, q: real, imaginary
    STFT:  the same over frames of the signal: a 1-D convolution with the window in its weights

A product of n columns needs n / log2(n) times the arithmetic of an FFT; at the lengths of images
(up to some 512) a register-tiled product is no slower than that.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Array, Node

# Elements of the largest matrix: 64 MiB in float32, a complex signal of 2048.
MAX_ELEMENTS = 1 << 24


def dft(node: Node) -> relax.Expr:
    """``(.., signal, .., 1 or 2)`` -> ``(.., frequencies, .., 1 or 2)``, forward or inverse."""
    rank = node.rank
    axis = _axis(node, rank)
    parts, extent = node.extent(rank - 1), node.extent(axis)
    inverse, onesided = bool(node.attributes["inverse"]), bool(node.attributes["onesided"])
    if parts not in (1, 2):
        raise UnsupportedOperatorError(f"the last dimension of its input is {parts}, not 1 or 2")
    if onesided and not inverse and parts == 2:
        raise UnsupportedOperatorError("a one-sided transform of a complex signal")
    length = _scalar(node, 1)
    if length is None:
        length = 2 * (extent - 1) if onesided and inverse else extent
    matrix = _transform(node, extent, parts, length, inverse, onesided)
    frequencies, results = matrix.shape[2:]
    order = [*(place for place in range(rank) if place not in (axis, rank - 1)), axis, rank - 1]
    moved = node.data if order == list(range(rank)) else _permuted(node, node.data, order)
    outer = list(moved.ty.shape.values)[:-2]
    rows = node.emit(relax.op.reshape(moved, [*outer, extent * parts]))
    columns = matrix.reshape(extent * parts, frequencies * results).astype(node.dtype)
    product = node.emit(relax.op.matmul(rows, relax.const(columns, node.dtype)))
    result = node.emit(relax.op.reshape(product, [*outer, frequencies, results]))
    if order == list(range(rank)):
        return result
    return relax.op.permute_dims(result, [order.index(place) for place in range(rank)])


def stft(node: Node) -> relax.Expr:
    """``(N, signal[, 1 or 2])`` -> ``(N, frames, frequencies, 2)``."""
    extent, parts = node.extent(1), node.extent(2) if node.rank == 3 else 1
    step, window, given = _scalar(node, 1), node.constant(2), _scalar(node, 3)
    onesided = bool(node.attributes["onesided"]) and parts == 1
    length = given if given is not None else window.size if window is not None else extent
    if step is None or step < 1:
        raise UnsupportedOperatorError(f"a frame step of {step}")
    if not 0 < length <= extent or (window is not None and window.size != length):
        raise UnsupportedOperatorError(f"frames of {length} over a signal of {extent}")
    matrix = _transform(node, length, parts, length, False, onesided)
    if window is not None:
        matrix = matrix * window.reshape(length, 1, 1, 1)
    frequencies = matrix.shape[2]
    # (t, p, k, q) -> (k, q, p, t): filters of a convolution whose channels are p.
    weight = matrix.transpose(2, 3, 1, 0).reshape(2 * frequencies, parts, length)
    batch = node.data.ty.shape.values[0]
    signal = node.emit(relax.op.reshape(node.data, [batch, extent, parts]))
    if parts == 1:
        channels = node.emit(relax.op.reshape(signal, [batch, 1, extent]))
    else:
        channels = _permuted(node, signal, [0, 2, 1])
    constant = relax.const(weight.astype(node.dtype), node.dtype)
    frames = node.emit(relax.op.nn.conv1d(channels, constant, strides=step))
    count = (extent - length) // step + 1
    split = node.emit(relax.op.reshape(frames, [batch, frequencies, 2, count]))
    return relax.op.permute_dims(split, [0, 3, 1, 2])


def _axis(node: Node, rank: int) -> int:
    """The axis of the signal: an attribute up to opset 19, an input since."""
    if node.opset < 20:
        axis = int(node.attributes["axis"])
    else:
        given = _scalar(node, 2)
        axis = -2 if given is None else given
    if not -rank <= axis < rank or axis % rank == rank - 1:
        raise UnsupportedOperatorError(f"axis {axis} of rank {rank}")
    return axis % rank


def _scalar(node: Node, place: int) -> int | None:
    values = node.constant(place)
    return None if values is None else int(values.reshape(-1)[0])


def _transform(
    node: Node, extent: int, parts: int, length: int, inverse: bool, onesided: bool
) -> Array:
    """``(extent, parts, frequencies, results)``: the transform of each unit signal, in float64.

    A signal of ``extent`` is cut or padded with zeros to ``length``.
    """
    if node.dtype not in ("float32", "float64"):
        raise UnsupportedOperatorError(f"data of type {node.dtype}")
    if length < 1 or extent < 1:
        raise UnsupportedOperatorError(f"a transform of length {length}")
    real = inverse and onesided
    frequencies = length // 2 + 1 if onesided and not inverse else length
    results = 1 if real else 2
    if extent * parts * frequencies * results > MAX_ELEMENTS:
        raise UnsupportedOperatorError(
            f"a transform of length {length}: its matrix is larger than {MAX_ELEMENTS} elements"
        )
    units = np.eye(extent)[:, None, :] * np.array([1, 1j])[:parts, None]
    if real:
        return np.fft.irfft(units, length)[..., None]
    complex_ = np.fft.ifft(units, length) if inverse else np.fft.fft(units, length)
    return np.stack([complex_.real, complex_.imag], axis=-1)[:, :, :frequencies]


def _permuted(node: Node, data: relax.Expr, order: list[int]) -> relax.Var:
    return node.emit(relax.op.permute_dims(data, order))
